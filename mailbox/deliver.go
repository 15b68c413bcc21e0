package mailbox

import (
	"sync"

	"github.com/hived/hived/protocol"
)

// Delivery is one message for one inbox, see [Boxes.Deliver].
type Delivery struct {
	Agent protocol.AgentID
	File  string
	Data  []byte
}

// How [Boxes.DeliverAll] shares its work out.
const (
	deliverLanes = 2
	deliverFew   = 16 // deliveries that are done before another goroutine has begun
)

// DeliverAll is [Boxes.Deliver] of many messages. Several inboxes are written
// at the same time, each in the order of the list. It gives an error, or nil,
// for each of them.
func (b *Boxes) DeliverAll(list []Delivery) []error {
	errs := make([]error, len(list))
	lanes := map[protocol.AgentID]int{}
	for _, x := range list {
		if _, known := lanes[x.Agent]; !known {
			lanes[x.Agent] = len(lanes) % deliverLanes
			b.box(x.Agent) // from here on the boxes are only looked up
		}
	}
	work := func(lane int) {
		for i, x := range list {
			if lane < 0 || lanes[x.Agent] == lane {
				errs[i] = b.Deliver(x.Agent, x.File, x.Data)
			}
		}
	}
	if len(list) <= deliverFew {
		work(-1)
		return errs
	}
	var g sync.WaitGroup
	for lane := range deliverLanes {
		g.Go(func() { work(lane) })
	}
	g.Wait()
	return errs
}
