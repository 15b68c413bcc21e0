package gitcommit

import (
	"fmt"
	"iter"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Commit is one commit of hived's own.
type Commit struct {
	ID          protocol.Blob
	First, Last protocol.Seq // the events that it holds
}

// Commits gives hived's own commits from the tip of the branch backwards, along
// the first parents of its branch. It reads beside the committer. The last pair may hold an
// error instead.
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
