package router

import (
	"time"

	"github.com/hived/hived/protocol"
)

// holdBack leaves a file in its outbox if the breaker has it wait.
func (r *Router) holdBack(now time.Time, x protocol.Arrival) (waits bool, err error) {
	waits, people, err := r.decider.Waits(now, x, r.heldBack[x.Agent] && r.boxes.Marked(x.Agent))
	if waits && err == nil {
		r.boxes.Hold(x, people)
		r.heldBack[x.Agent] = true
	}
	return waits, err
}

// letOut has outboxes looked at anew in which something was held, once it may go.
func (r *Router) letOut() {
	for id := range r.heldBack {
		if a := r.state.Agents[id]; a == nil || !a.Stopped {
			delete(r.heldBack, id)
			r.boxes.Forget(id)
			r.lookAt(id)
		}
	}
}
