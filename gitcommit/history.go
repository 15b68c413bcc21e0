package gitcommit

import (
	"fmt"
	"iter"
	"slices"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Commit is one commit by hived.
type Commit struct {
	ID          protocol.Blob
	First, Last protocol.Seq // the events that it holds
}

// Commits returns the commits by hived, newest first, along the first parents of its
// branch. It may run beside the committer. The last pair may hold an error instead.
func Commits(disk durable.FS) iter.Seq2[Commit, error] {
	return func(yield func(Commit, error) bool) {
		m, err := readMarker(disk)
		var id protocol.Blob
		if err == nil {
			id, err = readBranch(disk, m.branch)
		}
		s := newStore(disk)
		for err == nil && !id.IsZero() {
			var c *commit
			if c, err = s.commit(id); err != nil {
				break
			}
			if c.byHived() && !yield(Commit{id, c.first, c.last}, nil) {
				return
			}
			id = c.parent
		}
		if err != nil {
			yield(Commit{}, fmt.Errorf("read the history: %w", err))
		}
	}
}

// CommitsOf returns the commit that holds each of the events, whose numbers are
// ascending. An event that no commit holds yet is missing from the result. It reads
// history from its newest end only as far as needed.
func CommitsOf(disk durable.FS, of []protocol.Seq) (map[protocol.Seq]string, error) {
	missing := slices.Clone(of)
	slices.Reverse(missing)
	found := map[protocol.Seq]string{}
	for c, err := range Commits(disk) {
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
