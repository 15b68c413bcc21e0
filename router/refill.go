package router

import (
	"cmp"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// How much of a refill one step does: what is sent meanwhile waits for no more.
const (
	refillLetters = 32
	refillBytes   = 1 << 19 // of the log
	refillJump    = 4096    // events that are read through; over more the next one is sought
)

// lost is a message that an inbox is to hold again.
type lost struct {
	of    protocol.Seq // the event that delivered it
	agent protocol.AgentID
	file  string
}

// refill fills inboxes that vanished, in one pass over the log for all that is
// unread there, a portion in each step (spec §4.7).
type refill struct {
	waiting map[protocol.AgentID]bool // they are in the next pass
	filling map[protocol.AgentID]bool // they are in this one
	left    []lost                    // of this pass, by event
	next    func() (eventlog.Record, error, bool)
	stop    func() // gives back what reading took; nil where nothing is open
	at      protocol.Seq
}

// refillFor has an inbox filled again, unless that is being done.
func (r *Router) refillFor(id protocol.AgentID) {
	if !r.refill.filling[id] {
		r.refill.waiting[id] = true
	}
}

// refillSome goes on with a pass, or begins one. It tells whether there is more
// to do.
func (r *Router) refillSome(now time.Time) (more bool) {
	f := &r.refill
	if len(f.filling) == 0 {
		r.refillBegin()
	}
	for letters, bytes := 0, 0; len(f.left) > 0 && letters < refillLetters && bytes < refillBytes; {
		jumped := r.refillSeek()
		rec, err, ok := f.next()
		if !ok || err != nil {
			r.refillBroken(err)
			continue
		}
		bytes += len(rec.Line)
		f.at = rec.Event.Seq
		for len(f.left) > 0 && f.left[0].of <= f.at {
			x := f.left[0]
			f.left = f.left[1:]
			r.refillOne(rec.Event, x)
			letters++
		}
		if jumped {
			break // to find the place cost as much as a portion
		}
	}
	if len(f.left) > 0 {
		return true
	}
	f.close()
	for _, id := range r.order {
		if f.filling[id] && !r.owed(id) { // else the rescan sees whether the disk has taken it
			r.wantInbox(now, r.agents[id])
		}
	}
	clear(f.filling)
	return len(f.waiting) > 0
}

// refillBegin lists what the inboxes that wait are to hold.
func (r *Router) refillBegin() {
	f := &r.refill
	f.filling, f.waiting = f.waiting, f.filling
	for id := range f.filling {
		if a := r.state.Agents[id]; a != nil {
			for file, l := range a.Inbox.All() {
				f.left = append(f.left, lost{l.Of, id, file})
			}
		}
	}
	slices.SortFunc(f.left, func(a, b lost) int {
		return cmp.Or(cmp.Compare(a.of, b.of), cmp.Compare(a.agent, b.agent))
	})
}

// refillSeek opens the log where the next message is, unless reading on comes
// to it soon. It tells whether it did.
func (r *Router) refillSeek() bool {
	f := &r.refill
	of := f.left[0].of
	if f.stop != nil && of-f.at <= refillJump {
		return false
	}
	f.close()
	f.next, f.stop = iter.Pull2(eventlog.Read(r.disk, eventlog.Position{Seq: of - 1}))
	return true
}

// refillBroken passes by a message that the log does not give back.
func (r *Router) refillBroken(err error) {
	x := r.refill.left[0]
	r.refill.left = r.refill.left[1:]
	r.refill.close()
	r.cfg.Log.Error("cannot read a delivered message again", slog.String("seq", x.of.String()), slog.Any("error", cmp.Or(err, ledger.ErrNoEvent)))
}

// refillOne delivers a message again, unless it was handled meanwhile.
func (r *Router) refillOne(ev protocol.Event, x lost) {
	if l, unread := r.letter(x.agent, x.file); !unread || l.Of != x.of {
		return
	}
	data, err := ledger.DeliveredBytes(ev)
	if err != nil {
		r.cfg.Log.Error("cannot read a delivered message again", slog.String("seq", x.of.String()), slog.String("error", err.Error()))
		return
	}
	r.deliver(debt{seq: x.of, agent: x.agent, file: x.file, data: data}, protocol.InboxDir(x.agent)+"/"+x.file)
}

// close gives back what reading took. What is left is filled after the next
// start, which finds the inbox without its marker.
func (f *refill) close() {
	if f.stop != nil {
		f.stop()
	}
	f.next, f.stop = nil, nil
}
