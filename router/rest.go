package router

import (
	"math/bits"
	"runtime/debug"
	"sync"

	"github.com/hived/hived/protocol"
)

// restAfter is how many rescans without an event make a hive quiet.
const restAfter = 5

// rest tells when memory that a busy time took is to be given back: a hive is
// quiet most of its life, and its machine has other things to do. What was put
// off until then, in git above all, takes some again, so it is done anew after
// twice the time, and so on.
type rest struct {
	seq    protocol.Seq // of the last event when it was looked
	quiet  int          // rescans since then
	beside sync.WaitGroup
}

// due looks again.
func (x *rest) due(seq protocol.Seq) bool {
	if seq != x.seq {
		x.seq, x.quiet = seq, 0
		return false
	}
	x.quiet++
	return x.quiet%restAfter == 0 && bits.OnesCount(uint(x.quiet/restAfter)) == 1
}

// giveBack gives memory back in a quiet hive. The committer does it last, when
// it has nothing else to do.
func (r *Router) giveBack() {
	r.collector.quiet()
	r.state.Compact()
	if r.git != nil {
		r.git.rest()
		return
	}
	r.rest.beside.Go(debug.FreeOSMemory)
}
