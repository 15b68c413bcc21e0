package view

import (
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Command is what became of a command to hived, as far as the log was read
// (spec §8).
type Command struct {
	Event  string             `json:"event"`
	ID     protocol.MessageID `json:"id"`
	State  State              `json:"state"`           // Queued, Done or Refused
	Seq    protocol.Seq       `json:"seq,omitzero"`    // the last event that it caused
	Code   protocol.Code      `json:"code,omitzero"`   // of a refusal
	Detail string             `json:"detail,omitzero"` // of the same: what is wrong and what to do

	Agent    *protocol.AgentEvent        `json:"-"` // what it did to the roster
	Tasks    []TaskStep                  `json:"-"` // what it did to tasks: the last event of each, in the order of their first
	Created  []*protocol.TaskEvent       `json:"-"` // the tasks that it made
	Rejected *protocol.TaskRejectedEvent `json:"-"` // why a task did not change
	Numbers  *protocol.TaskNumbers       `json:"-"` // of a claim that found no task: those that are open
	Warning  string                      `json:"-"` // a warning about it, although it was carried out
	Answers  []string                    `json:"-"` // the files in its sender's inbox that answer it
}

// TaskStep is an event of a task, with its place in the log.
type TaskStep struct {
	Seq   protocol.Seq
	Event *protocol.TaskEvent
}

// commandFolder keeps a Command up to date.
type commandFolder struct {
	*Command

	sent Sent
	of   protocol.Seq // the event that accepted it; 0: none yet
}

// NewCommand returns what becomes of a command, and the folder that keeps it up
// to date. The folder is done when the command is carried out or refused, with
// all that was decided on it.
func NewCommand(sent Sent, event string) (*Command, Folder) {
	c := &Command{Event: event, ID: sent.ID, State: Queued}
	return c, &commandFolder{Command: c, sent: sent}
}

// See implements [Folder].
func (f *commandFolder) See(ev protocol.Event) (done bool) {
	switch e := ev.Body.(type) {
	case *protocol.QuarantineEvent:
		if f.sent.is(e.Agent, e.Original) {
			f.refuse(ev.Seq, e.Code, e.Detail)
		}
	case *protocol.DropEvent:
		if f.caused(e.Of) {
			f.refuse(ev.Seq, protocol.Code(e.Reason), e.Detail)
		}
	case *protocol.AgentEvent:
		if f.carriedOut(ev.Seq, e.Of) {
			f.Agent = e
		}
	case *protocol.HiveEvent:
		f.carriedOut(ev.Seq, e.Of)
	case *protocol.AlertEvent:
		f.carriedOut(ev.Seq, e.Of)
	case *protocol.TaskEvent:
		if f.carriedOut(ev.Seq, e.Of) {
			f.step(TaskStep{ev.Seq, e})
		}
	case *protocol.TaskRejectedEvent:
		if f.caused(e.Of) {
			f.refuse(ev.Seq, e.Code, e.Detail)
			f.Rejected = e
		}
	case *protocol.MessageEvent:
		f.message(ev.Seq, e)
	case *protocol.DuplicateEvent, *protocol.HandledEvent, *protocol.DeliveredEvent, *protocol.FileEvent:
	}
	return f.State != Queued && !ev.More
}

// caused reports whether the command caused an event with that Of.
func (f *commandFolder) caused(of protocol.Seq) bool { return f.of > 0 && of == f.of }

// carriedOut notes an event with that Of where the command caused it, and reports
// whether it did.
func (f *commandFolder) carriedOut(seq, of protocol.Seq) bool {
	if !f.caused(of) {
		return false
	}
	f.State, f.Seq = Done, seq
	return true
}

// message handles an accepted message, which may be the command itself, or a notice
// about it that comes before any other event of it.
func (f *commandFolder) message(seq protocol.Seq, e *protocol.MessageEvent) {
	if f.sent.is(e.From, e.Original) {
		f.of = seq
		return
	}
	if f.of == 0 || e.From != protocol.Hive || e.InReplyTo != f.ID {
		return
	}
	m, err := protocol.DecodeMessage([]byte(e.Raw))
	if err != nil {
		return
	}
	code := noticeCode(m)
	warns := code == protocol.CodeNobodyEligible
	switch {
	case warns:
		f.Warning = m.Text()
	case f.State == Queued && code != protocol.CodeOK:
		f.refuse(seq, code, m.Text())
	}
	if n := protocol.NumbersIn(m); n != nil {
		f.Numbers = n
	}
	if (warns || code == protocol.CodeOK || code == f.Code) && slices.Contains(e.Delivered, f.sent.By) {
		f.Answers = append(f.Answers, e.File)
	}
}

// step keeps the last event of each task, and the tasks in the order of their first
// events.
func (c *Command) step(s TaskStep) {
	if s.Event.Event == task.Create {
		c.Created = append(c.Created, s.Event)
	}
	i := slices.IndexFunc(c.Tasks, func(before TaskStep) bool { return before.Event.Task == s.Event.Task })
	if i < 0 {
		c.Tasks = append(c.Tasks, s)
		return
	}
	c.Tasks[i] = s
}

func (c *Command) refuse(seq protocol.Seq, code protocol.Code, detail string) {
	c.State, c.Seq, c.Code, c.Detail = Refused, seq, code, detail
}

// noticeCode returns the `data.code` of a notice, none where it has no data (spec
// §4.6).
func noticeCode(m *protocol.Message) protocol.Code {
	var data struct {
		Code protocol.Code `json:"code"`
	}
	if json.Unmarshal(m.Data, &data) != nil {
		return ""
	}
	return data.Code
}
