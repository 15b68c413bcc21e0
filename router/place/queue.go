package place

import (
	"cmp"
	"iter"
	"slices"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// item is a placement that waits: the disk refused it, or its bytes are still to be
// read from the log.
type item struct {
	class   ledger.Class
	of      protocol.Seq // the event that has its bytes
	path    string
	from    string // where a file that is set aside was found
	data    []byte // nil: they are in the log alone
	refused bool   // by the disk; else it was not tried yet
	aside   string // where the file that has taken the name goes, once that is logged
}

// queue is the retry queue, with one item for each path. All of it is tried in
// passes, each in the order of the events, so that what has to be read again is read
// in one pass over the log.
type queue struct {
	items  map[string]*item
	fresh  int                      // how many were not tried yet
	of     map[protocol.AgentID]int // how many there are of each agent
	pass   []*item                  // those still to be tried in this pass
	passes int                      // the number of this pass, or of the last one
	fill   map[protocol.AgentID]int // inboxes that vanished, and the pass that fills them
	log    cursor
}

func newQueue() queue {
	return queue{items: map[string]*item{}, of: map[protocol.AgentID]int{}, fill: map[protocol.AgentID]int{}}
}

// add puts an item in the place of the one that waits for the same path.
func (q *queue) add(x *item) {
	q.drop(x.path)
	q.items[x.path] = x
	q.of[protocol.OwnerOf(x.path)]++
	if !x.refused {
		q.fresh++
	}
}

// drop removes the item that waits for a path.
func (q *queue) drop(path string) {
	x := q.items[path]
	if x == nil {
		return
	}
	delete(q.items, path)
	if id := protocol.OwnerOf(path); q.of[id] > 1 {
		q.of[id]--
	} else {
		delete(q.of, id)
	}
	if !x.refused {
		q.fresh--
	}
}

// refuse notes that the disk refused an item, and reports whether that is new.
func (q *queue) refuse(x *item) (first bool) {
	was := q.items[x.path]
	first = was == nil || !was.refused
	if was != nil {
		x.aside = cmp.Or(x.aside, was.aside)
	}
	q.drop(x.path)
	x.refused = true
	q.add(x)
	return first
}

// begin starts a pass over all that waits.
func (q *queue) begin() {
	if len(q.items) == 0 {
		return
	}
	q.passes++
	q.pass = make([]*item, 0, len(q.items))
	for _, x := range q.items {
		q.pass = append(q.pass, x)
	}
	slices.SortFunc(q.pass, func(a, b *item) int {
		return cmp.Or(cmp.Compare(a.of, b.of), cmp.Compare(a.path, b.path))
	})
}

// end ends a pass, and returns the agents whose inboxes are full again. Of those
// that the disk refused to fill, the rescan sees when they are.
func (q *queue) end() (filled []protocol.AgentID) {
	q.log.close()
	for id, pass := range q.fill {
		if pass > q.passes {
			continue
		}
		delete(q.fill, id)
		if q.of[id] == 0 {
			filled = append(filled, id)
		}
	}
	slices.Sort(filled)
	return filled
}

// cursor reads events again, mostly one after the other.
type cursor struct {
	next   func() (eventlog.Record, error, bool)
	stop   func() // closes the log; nil if it is not open
	at     protocol.Seq
	places []ledger.Placement // of the event at that number
}

// jump is how many events are read through to reach one; one further on is sought.
const jump = 4096

// seek opens the log at an event, unless reading on reaches it soon. It reports
// whether it opened the log.
func (c *cursor) seek(pl *Placer, of protocol.Seq) bool {
	if c.stop != nil && of >= c.at && of-c.at <= jump {
		return false
	}
	c.close()
	c.next, c.stop = iter.Pull2(eventlog.Read(pl.disk, eventlog.Position{Seq: of - 1}))
	return true
}

// read reads the next event, and what it placed if it is the one wanted. It returns
// the length of its line.
func (c *cursor) read(pl *Placer, of protocol.Seq) (bytes int, err error) {
	rec, err, ok := c.next()
	if err == nil && (!ok || rec.Event.Seq > of) {
		err = ledger.ErrNoEvent
	}
	if err != nil {
		return 0, err
	}
	c.at, c.places = rec.Event.Seq, nil
	if c.at == of {
		c.places, err = pl.placements(rec.Event)
	}
	return len(rec.Line), err
}

// close closes the log.
func (c *cursor) close() {
	if c.stop != nil {
		c.stop()
	}
	*c = cursor{}
}
