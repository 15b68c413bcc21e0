package router

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/protocol"
)

// A commit takes more at once while much waits, and never more than allowed.
func TestCommitGrowsWithWhatWaits(t *testing.T) {
	for _, tt := range []struct{ batch, waiting, want int }{
		{512, 0, 512},
		{512, manyWaiting, 512},
		{512, manyWaiting + 400, 612},
		{512, 1 << 20, mostBatches * 512},
		{1, manyWaiting + 1, mostBatches},
		{65536, 1 << 17, 65536},
	} {
		c := &committer{settings: protocol.GitSettings{CommitBatch: tt.batch}, head: 7}
		list := make([]entry, tt.waiting)
		for i := range list {
			list[i] = entry{seq: protocol.Seq(8 + i)}
		}
		c.queue, c.last = list, protocol.Seq(7+tt.waiting)
		if got := c.most(c.head, c.last); got != tt.want {
			t.Errorf("%d wait, of batches of %d: %d, want %d", tt.waiting, tt.batch, got, tt.want)
		}
		b, _ := c.next(t.Context(), true)
		if want := min(tt.want, tt.waiting); want > 0 && (b == nil || int(b.Last-b.First)+1 != want) {
			t.Errorf("%d wait, of batches of %d: the commit holds %+v", tt.waiting, tt.batch, b)
		}
	}
}

// Where a commit took long, the next small one waits longer; a full one does not.
func TestCommitWaitsAfterALongOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct{ took, want time.Duration }{
			{0, 200 * time.Millisecond},
			{40 * time.Millisecond, 200 * time.Millisecond},
			{100 * time.Millisecond, 400 * time.Millisecond},
			{time.Hour, restMost},
		} {
			c := &committer{settings: protocol.GitSettings{CommitBatch: 2, CommitDelay: 200 * time.Millisecond}, took: tt.took}
			if got := c.early([]entry{{at: time.Now()}}, false); got != tt.want {
				t.Errorf("after %s: it waits %s, want %s", tt.took, got, tt.want)
			}
			if got := c.early([]entry{{at: time.Now()}, {at: time.Now()}}, false); got != 0 {
				t.Errorf("after %s: a full one waits %s", tt.took, got)
			}
		}
	})
}
