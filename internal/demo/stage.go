package demo

import (
	"fmt"
	"sync"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/view"
)

// stage shows what happens in the demo, and counts it.
type stage struct {
	tell  func(Line)
	tasks chan view.TaskStep // for the director of the second act

	mu    sync.Mutex
	start time.Time
	seen  Seen
}

// Seen is what the demo counts.
type Seen struct {
	Messages   int `json:"messages"`
	Deliveries int `json:"deliveries"`
	Handled    int `json:"handled"`
	Dropped    int `json:"dropped"`
	Kept       int `json:"kept"`
	SetAside   int `json:"set_aside"`
	Steps      int `json:"task_steps"`
	Refused    int `json:"refused"`
}

// follow shows events, one line an event that people care for.
func (s *stage) follow(events <-chan protocol.Event) {
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

func (s *stage) see(ev protocol.Event) {
	s.mu.Lock()
	if s.start.IsZero() {
		s.start = ev.TS
	}
	s.seen.count(ev)
	s.mu.Unlock()
	if l, ok := lineOf(ev); ok {
		s.show(ev.TS, l)
	}
}

func (c *Seen) count(ev protocol.Event) {
	counts := map[protocol.Kind]*int{
		protocol.KindMessage: &c.Messages, protocol.KindHandled: &c.Handled, protocol.KindDrop: &c.Dropped,
		protocol.KindQuarantine: &c.SetAside, protocol.KindTask: &c.Steps, protocol.KindTaskRejected: &c.Refused,
	}
	if n := counts[ev.Body.Kind()]; n != nil {
		*n++
	}
	if e, ok := ev.Body.(*protocol.MessageEvent); ok {
		c.Deliveries += len(e.Delivered)
		if e.Kept != nil {
			c.Kept++
		}
	}
}

// Line is a line of what the demo shows: who did what, and to whom.
type Line struct {
	Since time.Duration // the first event
	Kind  protocol.Kind // of the event; none: it is no event
	Tone  Tone
	Who   string
	Whom  string // nobody: empty
	What  string
}

// Tone says how important a line is to people.
type Tone int

// The tones.
const (
	Usual   Tone = iota // as usual for its kind
	Quiet               // it happens all the time
	Notice              // of the hive
	Trouble             // somebody did not get what they wanted
	Step                // of a task
)

// lineOf returns the line of an event, if it is of interest to people. Commands about a
// task have none: their results have.
func lineOf(ev protocol.Event) (Line, bool) {
	l := Line{Kind: ev.Body.Kind()}
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		l.Who, l.Whom, l.What = string(e.From), list(e.To), string(e.Act)+"  "+protocol.Visible(e.Subject)
		switch {
		case e.From == protocol.Hive:
			l.Tone = Notice
		case e.Kept != nil:
			l.Tone, l.What = Trouble, "kept: "+string(e.Kept.Reason)
		}
		return l, l.Whom != string(protocol.Hive)
	case *protocol.HandledEvent:
		l.Tone, l.Who, l.What = Quiet, string(e.Agent), "handled "+shorten(string(e.ID))
	case *protocol.DropEvent:
		l.Who, l.Whom, l.What = string(e.From), list(e.To), "dropped: "+string(e.Reason)
	case *protocol.QuarantineEvent:
		l.Who, l.What = string(e.Agent), "set aside: "+string(e.Code)
	case *protocol.TaskEvent:
		l.Tone, l.Who, l.Whom, l.What = Step, string(e.By), list(e.Agents), "task  "+stepOf(e)
	case *protocol.TaskRejectedEvent:
		l.Tone, l.Who = Trouble, string(e.By)
		l.What = fmt.Sprintf("task  %s refused: %s", protocol.Visible(e.Event), e.Code)
		if e.Epoch > 0 {
			l.What += fmt.Sprintf(", its epoch was %d", e.Epoch)
		}
	case *protocol.HiveEvent, *protocol.AgentEvent, *protocol.DuplicateEvent, *protocol.DeliveredEvent, *protocol.FileEvent, *protocol.AlertEvent:
		return l, false
	}
	return l, true
}

// stepOf returns what happened to a task.
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
	case e.Step != nil:
		what = e.Step.Name
	case e.Result != nil:
		what = string(e.Result.Value)
	}
	if what != "" {
		text += ": " + what
	}
	return protocol.Visible(text)
}

// show passes on a line, with the time since the first event.
func (s *stage) show(at time.Time, l Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.Since = at.Sub(s.start)
	s.tell(l)
}

// list joins names with commas.
func list[S ~string](names []S) string { return protocol.Few(names, len(names), protocol.Visible) }

func shorten(id string) string {
	if len(id) > 12 {
		return "…" + id[len(id)-8:]
	}
	return id
}
