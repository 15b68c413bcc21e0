package router

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/protocol"
)

// A commit takes more at once where the directories are large that it writes, and
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
		c := &committer{settings: protocol.GitSettings{CommitBatch: tt.batch}, head: 7, dirs: tt.directories}
		for i := range waiting {
			c.queue = append(c.queue, entry{seq: protocol.Seq(8 + i)})
		}
		c.last = protocol.Seq(7 + waiting)
		if b, _ := c.next(t.Context(), regardless); b == nil || int(b.Last-b.First)+1 != tt.want {
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
			c := &committer{settings: protocol.GitSettings{CommitBatch: 1 << 16, CommitDelay: 200 * time.Millisecond}, dirs: tt.dirs}
			if got := c.early([]entry{{at: time.Now()}}, ifWorth); got != tt.want {
				t.Errorf("after %d bytes: it waits %s, want %s", tt.dirs, got, tt.want)
			}
			full := make([]entry, c.full())
			full[0].at = time.Now()
			if got := c.early(full, ifWorth); got != 0 {
				t.Errorf("after %d bytes: a full one waits %s", tt.dirs, got)
			}
		}
	})
}
