package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/view"
)

// demoStage shows what happens in the demo, and counts it.
type demoStage struct {
	a     *app
	tasks chan view.TaskStep // for who directs the second act

	mu    sync.Mutex
	start time.Time
	seen  demoSeen
}

// demoSeen is what the demo counts.
type demoSeen struct {
	Messages, Deliveries, Handled, Dropped, Kept, SetAside, Steps, Refused int
}

// follow shows events, one line an event that people care for.
func (s *demoStage) follow(events <-chan protocol.Event) {
	for ev := range events {
		s.see(ev)
		if e, ok := ev.Body.(*protocol.TaskEvent); ok {
			select {
			case s.tasks <- view.TaskStep{Seq: ev.Seq, Event: e}:
			default: // nobody is directing any more
			}
		}
	}
}

func (s *demoStage) see(ev protocol.Event) {
	s.mu.Lock()
	if s.start.IsZero() {
		s.start = ev.TS
	}
	s.seen.count(ev)
	s.mu.Unlock()
	if l, ok := trafficOf(ev); ok {
		s.show(ev.TS, l)
	}
}

func (c *demoSeen) count(ev protocol.Event) {
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		c.Messages++
		c.Deliveries += len(e.Delivered)
		if e.Kept != nil {
			c.Kept++
		}
	case *protocol.HandledEvent:
		c.Handled++
	case *protocol.DropEvent:
		c.Dropped++
	case *protocol.QuarantineEvent:
		c.SetAside++
	case *protocol.TaskEvent:
		c.Steps++
	case *protocol.TaskRejectedEvent:
		c.Refused++
	}
}

// traffic is a line of what the demo shows: who, to whom, what.
type traffic struct{ colour, who, whom, what string }

// trafficOf gives the line of an event, if people care for it. Commands about a
// task have none: what comes of them has.
func trafficOf(ev protocol.Event) (traffic, bool) {
	l := traffic{colour: kindColour(ev.Body.Kind())}
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		l.who, l.whom, l.what = string(e.From), list(e.To), string(e.Act)+"  "+protocol.Visible(e.Subject)
		switch {
		case e.From == protocol.Hive:
			l.colour = yellow
		case e.Kept != nil:
			l.colour, l.what = red, "kept: "+string(e.Kept.Reason)
		}
		return l, l.whom != string(protocol.Hive)
	case *protocol.HandledEvent:
		l.colour, l.who, l.what = dim, string(e.Agent), "handled "+shorten(string(e.ID))
	case *protocol.DropEvent:
		l.who, l.whom, l.what = string(e.From), list(e.To), "dropped: "+string(e.Reason)
	case *protocol.QuarantineEvent:
		l.who, l.what = string(e.Agent), "set aside: "+string(e.Code)
	case *protocol.TaskEvent:
		l.colour, l.who, l.whom, l.what = bold, string(e.By), list(e.Agents), "task  "+stepOf(e)
	case *protocol.TaskRejectedEvent:
		l.colour, l.who = red, string(e.By)
		l.what = fmt.Sprintf("task  %s refused: %s", protocol.Visible(e.Event), e.Code)
		if e.Epoch > 0 {
			l.what += fmt.Sprintf(", its epoch was %d", e.Epoch)
		}
	default:
		return l, false
	}
	return l, true
}

// stepOf says what happened to a task.
func stepOf(e *protocol.TaskEvent) string {
	text := string(e.Event)
	if e.From != e.To {
		text += " → " + string(e.To)
	}
	if e.Event == task.Accept || e.Event == task.Claim {
		text += fmt.Sprintf(", epoch %d", e.Epoch)
	}
	what := e.Reason
	switch {
	case e.Spec != nil:
		what = e.Spec.Title
	case e.Question != "":
		what = e.Question
	case e.Checkpoint != nil:
		what = e.Checkpoint.Milestone
	case e.Result != nil:
		what = string(e.Result.Value)
	}
	if what != "" {
		text += ": " + what
	}
	return protocol.Visible(text)
}

// show prints a line, with the time since the first event.
func (s *demoStage) show(at time.Time, l traffic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.a.json {
		return
	}
	if l.whom != "" {
		l.whom = "→ " + l.whom
	}
	columns := strings.TrimRight(fmt.Sprintf("%-8s %-15s %s", l.who, l.whom, l.what), " ")
	s.a.out.line("%s  %s", s.a.style.paint(dim, fmt.Sprintf("%6.2fs", at.Sub(s.start).Seconds())), s.a.style.paint(l.colour, columns))
}

func shorten(id string) string {
	if len(id) > 12 {
		return "…" + id[len(id)-8:]
	}
	return id
}
