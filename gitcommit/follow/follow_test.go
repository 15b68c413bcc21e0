package follow

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/protocol"
)

// A commit takes more events where the directories that it writes are large, and
// never more than allowed.
func TestCommitGrowsWithDirectories(t *testing.T) {
	for _, tt := range []struct {
		batch       int
		directories int64
		want        int
	}{
		{512, 0, 512},
		{512, 2*worthBatch - 1, 512},
		{512, 3 * worthBatch, 3 * 512},
		{512, 1 << 30, mostBatches * 512},
		{1, 1 << 30, mostBatches},
		{65536, 1 << 20, 1 << 17},
	} {
		const waiting = 1 << 17
		f := &Follower{cfg: Config{Settings: protocol.GitSettings{CommitBatch: tt.batch}}, head: 7, dirs: tt.directories}
		for i := range waiting {
			f.queue = append(f.queue, Entry{seq: protocol.Seq(8 + i)})
		}
		f.last = protocol.Seq(7 + waiting)
		if b, _ := f.nextBatch(t.Context(), regardless); b == nil || int(b.Last-b.First)+1 != tt.want {
			t.Errorf("batches of %d, %d bytes of directories: the commit holds %+v, want %d", tt.batch, tt.directories, b, tt.want)
		}
	}
}

// Where the last commit wrote large directories, the next small one waits longer;
// a full one does not.
func TestCommitWaitsAfterLargeDirectories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			dirs int64
			want time.Duration
		}{
			{0, 200 * time.Millisecond},
			{2 << 20, 200 * time.Millisecond},
			{6 << 20, 600 * time.Millisecond},
			{1 << 40, restMost},
		} {
			f := &Follower{cfg: Config{Settings: protocol.GitSettings{CommitBatch: 1 << 16, CommitDelay: 200 * time.Millisecond}}, dirs: tt.dirs}
			if got := f.waitForMore([]Entry{{at: time.Now()}}, ifWorth); got != tt.want {
				t.Errorf("after %d bytes: it waits %s, want %s", tt.dirs, got, tt.want)
			}
			full := make([]Entry, f.batchLimit())
			full[0].at = time.Now()
			if got := f.waitForMore(full, ifWorth); got != 0 {
				t.Errorf("after %d bytes: a full one waits %s", tt.dirs, got)
			}
		}
	})
}

// Git's index is updated at once when a hive was quiet, and takes at most a fiftieth
// of the time otherwise.
func TestIndexRests(t *testing.T) {
	const ms = time.Millisecond
	const hour = time.Hour
	for _, tt := range []struct {
		what  string
		x     indexer
		since time.Duration // since the last time
		wait  time.Duration // for the next commit
		want  time.Duration
	}{
		{"nothing to do", indexer{took: ms}, hour, forever, forever},
		{"after a silence", indexer{stale: true, fresh: true, took: 54 * ms}, hour, forever, 0},
		{"after a silence, more comes", indexer{stale: true, fresh: true, took: 54 * ms}, hour, committed, 0},
		{"idle, small hive", indexer{stale: true, fresh: true, took: ms}, 0, forever, 50 * ms},
		{"idle, large hive", indexer{stale: true, fresh: true, took: 54 * ms}, 700 * ms, forever, 2 * time.Second},
		{"idle, what is left", indexer{stale: true, took: ms}, 0, forever, time.Second},
		{"idle, what is left, large hive", indexer{stale: true, took: 54 * ms}, 0, forever, 2700 * ms},
		{"busy, small hive", indexer{stale: true, fresh: true, took: ms}, 100 * ms, committed, 900 * ms},
		{"busy, large hive", indexer{stale: true, fresh: true, took: 54 * ms}, 0, committed, 2700 * ms},
		{"a batch fills", indexer{stale: true, fresh: true, took: ms}, 0, 100 * ms, time.Second},
		{"the disk stood still", indexer{stale: true, fresh: true, took: hour}, 0, committed, 30 * time.Second},
		{"in no time", indexer{stale: true, fresh: true}, 0, forever, 0},
	} {
		now := time.Now()
		tt.x.at = now.Add(-tt.since)
		if got := tt.x.due(now, tt.wait); got != tt.want {
			t.Errorf("%s: due in %s, want %s", tt.what, got, tt.want)
		}
	}
	if x := (indexer{stale: true, fresh: true}); x.due(time.Now(), committed) != 0 {
		t.Error("a daemon that just started leaves the index as it is")
	}
}
