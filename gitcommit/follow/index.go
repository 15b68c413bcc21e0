package follow

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hived/hived/gitcommit"
)

// indexer is how far git's index is behind history.
type indexer struct {
	stale bool          // there is something to bring up to date
	fresh bool          // and it is new since the last time
	at    time.Time     // when the last time ended
	took  time.Duration // what it took
	read  time.Time     // the last time with stat data
}

// The index is one file, written whole however little changed. So that it takes
// no more than one part in indexShare of the committer's time, it then rests for
// so many times what it took, but no longer than indexRestMost: a disk that stood
// still says nothing of what the index costs.
const (
	indexShare    = 50
	indexRestMost = 30 * time.Second
	// It is not brought up to date more often than this while there are commits to
	// make, or while what is left waits for files to grow old or for a lock.
	indexBusy = time.Second
)

// due returns how long it is until the index is to be brought up to date, when
// the next commit waits for so long.
func (x *indexer) due(now time.Time, wait time.Duration) time.Duration {
	if !x.stale {
		return forever
	}
	if x.at.IsZero() {
		return 0
	}
	rest := min(x.took, indexRestMost/indexShare) * indexShare
	if wait < forever || !x.fresh {
		rest = max(rest, indexBusy)
	}
	return max(0, rest-now.Sub(x.at))
}

// updateIndex brings the index up to date if it is time for that.
func (f *Follower) updateIndex(ctx context.Context, x *indexer, wait time.Duration) {
	begin := time.Now()
	if x.due(begin, wait) > 0 {
		return
	}
	x.fresh = false
	if wait == committed && begin.Sub(x.read) < indexReads {
		f.indexError(ctx, f.repo.SyncNames(ctx)) // and it stays stale
	} else {
		x.stale = f.syncIndex(ctx)
		x.read = time.Now()
	}
	x.at = time.Now()
	x.took = x.at.Sub(begin)
}

// indexReads is how long the index goes without stat data of new files while
// there are commits to make.
const indexReads = 10 * time.Second

// syncIndex brings git's index up to date and tells whether it is still stale.
func (f *Follower) syncIndex(ctx context.Context) bool {
	more, err := f.repo.SyncIndex(ctx)
	f.indexError(ctx, err)
	return more || err != nil
}

func (f *Follower) indexError(ctx context.Context, err error) {
	if err != nil && !errors.Is(err, gitcommit.ErrLocked) && ctx.Err() == nil {
		f.cfg.Log.WarnContext(ctx, "git index is behind", slog.String("error", err.Error()))
	}
}
