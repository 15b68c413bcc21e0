package main

import (
	"slices"

	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// commits finds the commit in which each event stands, reading history from its
// newest end only as far as it must. One that no commit holds yet is not among
// them. The numbers go up.
func commits(disk durable.FS, of []protocol.Seq) (map[protocol.Seq]string, error) {
	missing := slices.Clone(of)
	slices.Reverse(missing)
	found := map[protocol.Seq]string{}
	for c, err := range gitcommit.Commits(disk) {
		if err != nil {
			return found, err
		}
		for len(missing) > 0 && missing[0] >= c.First {
			if missing[0] <= c.Last { // else git is behind the log
				found[missing[0]] = c.ID.String()
			}
			missing = missing[1:]
		}
		if len(missing) == 0 {
			break
		}
	}
	return found, nil
}
