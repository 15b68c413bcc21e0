package main

import (
	"slices"

	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
)

// commits finds the commit in which each message was delivered, reading
// history from its newest end only as far as it must.
func (t *trace) commits(disk durable.FS) error {
	missing := all(t.roots)
	slices.Reverse(missing)
	for c, err := range gitcommit.Commits(disk) {
		if err != nil {
			return err
		}
		for len(missing) > 0 && missing[0].Seq >= c.First {
			if missing[0].Seq <= c.Last { // else git is behind the log
				missing[0].Commit = c.ID.String()
			}
			missing = missing[1:]
		}
		if len(missing) == 0 {
			return nil
		}
	}
	return nil
}
