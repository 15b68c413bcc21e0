package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Command is a command about a task before it is drafted (spec §8.2). The
// coordinator decides who may give it, and whether the task's state allows it.
type Command struct {
	// Event is the event that the command asks for: a row of the table that is not
	// hived's own, such as task.Claim or task.Complete, or task.Create, task.Failure or
	// task.Resume.
	Event protocol.TaskAction
	Task  protocol.TaskID // empty for create, and for a claim of the best task
	Epoch uint64          // of the holder that reports, see [NeedsEpoch]; 0: none
	Data  Payload         // nil: none

	// Within is how long the sender waits for the answer. A command that would be
	// wrong if it were carried out later expires then; a report about work is true
	// later too, and does not expire. 0: it never expires.
	Within time.Duration
}

// Payload is the `data` of a command: a [Report], or of a create [NewTask] or
// [NewTasks], or of an amend [BriefChange].
type Payload interface {
	fits(event protocol.TaskAction) bool
}

// Report is the data of every command but create and amend. Spec §8.2 says which of
// its members each command takes; hived ignores the others and says so.
type Report protocol.TaskReport

// NewTask is the data of a create of one task.
type NewTask protocol.TaskSpec

// NewTasks is the data of a create of several tasks, of which hived creates all or
// none. A task may name others of them in its needs.
type NewTasks struct {
	Tasks []protocol.TaskSpec `json:"tasks"`
}

// BriefChange is the data of an amend: the members of a brief that change. A nil
// pointer, or an empty member of another kind, leaves the brief's member as it is.
type BriefChange struct {
	Title     string             `json:"title,omitzero"`
	Body      *string            `json:"body,omitzero"`
	Gate      *string            `json:"gate,omitzero"` // empty: none from now on
	Approvals *int               `json:"approvals,omitzero"`
	Approvers []protocol.Address `json:"approvers,omitempty"`
	Data      jsontext.Value     `json:"data,omitzero"`
	Reason    string             `json:"reason,omitzero"`
}

func (Report) fits(on protocol.TaskAction) bool      { return on != task.Create && on != task.Amend }
func (NewTask) fits(on protocol.TaskAction) bool     { return on == task.Create }
func (NewTasks) fits(on protocol.TaskAction) bool    { return on == task.Create }
func (BriefChange) fits(on protocol.TaskAction) bool { return on == task.Amend }

// expiring are the commands that would be wrong if they were carried out when their
// sender waits no longer (spec §8.2).
var expiring = []protocol.TaskAction{
	task.Create, task.Claim, task.Accept, task.Start, task.ApprovalGranted, task.ApprovalDenied, task.Answer, task.Amend, task.StepStarted,
}

// NeedsEpoch reports whether only a task's holder gives a command, which then
// carries the epoch under which it has the task (spec §8.3). A fatal_error carries
// one only where the holder gives it: others may end a blocked task.
func NeedsEpoch(event protocol.TaskAction) bool {
	if event == task.Failure || event == task.ReportOutcome { // its category, or kind, decides the row, and all of these rows are the holder's
		return true
	}
	holders := false
	for _, row := range task.Rules() {
		if row.On != event {
			continue
		}
		for _, who := range row.Who {
			if who != task.ByHolder && who != task.ByHive {
				return false
			}
			holders = holders || who == task.ByHolder
		}
	}
	return holders
}

// Draft returns the message that gives the command, for [Box.Send]. hive answers
// it, and says why where it refuses. Data of another command is a
// *[protocol.Malformed]; any other error says why it cannot be written as JSON.
func (c Command) Draft(now time.Time) (Draft, error) {
	d := Draft{
		To: []protocol.Address{protocol.Address(protocol.Hive)}, Act: protocol.Request, Subject: string(c.Event),
		Event: string(c.Event), Task: c.Task, Epoch: c.Epoch,
	}
	if c.Data != nil {
		if !c.Data.fits(c.Event) {
			return Draft{}, &protocol.Malformed{Reason: fmt.Sprintf("the command %s takes no %T", protocol.Quote(string(c.Event)), c.Data), Remedy: "spec §8.2 has what each command takes"}
		}
		value, err := json.Marshal(c.Data)
		if err != nil {
			return Draft{}, fmt.Errorf("write the command %s: %w", c.Event, err)
		}
		if string(value) != "{}" {
			d.Data = value
		}
	}
	if c.Within > 0 && slices.Contains(expiring, c.Event) {
		d.ExpiresAt = now.Add(c.Within).UTC()
	}
	return d, nil
}
