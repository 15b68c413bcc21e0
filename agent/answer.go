package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
)

// Answer is hive's answer to a command (spec §8.6).
type Answer struct {
	Code protocol.Code // [protocol.CodeOK], or why it was not carried out
	Text string        // the same in words; of a refusal with what its sender can do
	Of   protocol.Seq  // the event that accepted the command

	// For a command about a task: the task that was named, taken or created, or all
	// that were created, in the order of the command; and its state.
	Task    protocol.TaskID
	Tasks   []protocol.TaskID
	State   protocol.TaskState
	Epoch   uint64 // under which its holder reports from now on
	Attempt int

	Record  *protocol.StepRecord  // of a refusal about a step: its record as the log has it
	Numbers *protocol.TaskNumbers // of a refusal no-task: the tasks that are open, and why the sender can have none

	Seq protocol.Seq // the event that accepted the answer
}

// Answer waits for hive's answer to a command that was sent with RequiresReply nil,
// returns it as soon as it is in the inbox, and marks the message as handled. A
// refusal is no error: see [Answer.Code]. When ctx ends, the error is its cause; the
// command may be carried out later, unless it expires (see [Command.Within]).
func (b *Box) Answer(ctx context.Context, command protocol.MessageID) (Answer, error) {
	b.noteAlive()
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	seen := map[string]bool{}
	for {
		if x, found, err := b.TryAnswer(command, seen); found || err != nil {
			return x, err
		}
		select {
		case <-ctx.Done():
			return Answer{}, fmt.Errorf("wait for the answer to %s: %w", command, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// TryAnswer returns hive's answer to a command if it is in the inbox by now, and marks
// it as handled. It looks at no file that is in seen, and adds those that it has looked
// at: a caller that looks again and again keeps it.
func (b *Box) TryAnswer(command protocol.MessageID, seen map[string]bool) (x Answer, found bool, err error) {
	names, err := b.Unread()
	if err != nil {
		return Answer{}, false, err
	}
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		l, err := b.readFile(protocol.InboxDir(b.id), name)
		if err != nil || !answers(l.Message, command) {
			continue // gone by now, or about something else
		}
		_, err = b.Done(name)
		x = decodeAnswer(l.Message)
		x.Seq = l.Seq
		return x, true, err
	}
	return Answer{}, false, nil
}

// answers reports whether a message says what became of a command, which a warning
// about a command that hive carries out does not.
func answers(m *protocol.Message, command protocol.MessageID) bool {
	if m == nil || m.From != string(protocol.Hive) || m.InReplyTo != command {
		return false
	}
	code := decodeAnswer(m).Code
	return code != protocol.CodeLargeCheckpoint && code != protocol.CodeNobodyEligible
}

// Said returns what hive says in a message of its own, and the command that it settles;
// empty for a notice, and for a warning about a command that hive carries out. It is for
// programs that read the whole inbox and wait for several answers at once.
func (l Delivery) Said() (a Answer, of protocol.MessageID, is bool) {
	if l.Message == nil || l.Message.From != string(protocol.Hive) {
		return Answer{}, "", false
	}
	a = decodeAnswer(l.Message)
	a.Seq = l.Seq
	if answers(l.Message, l.Message.InReplyTo) {
		of = l.Message.InReplyTo
	}
	return a, of, true
}

// decodeAnswer decodes an answer. Where its data has another form, only the text is
// set.
func decodeAnswer(m *protocol.Message) Answer {
	var data struct {
		Code    protocol.Code      `json:"code"`
		Of      protocol.Seq       `json:"of"`
		Task    protocol.TaskID    `json:"task"`
		Tasks   []protocol.TaskID  `json:"tasks"`
		State   protocol.TaskState `json:"state"`
		Epoch   uint64             `json:"epoch"`
		Attempt int                `json:"attempt"`

		Record *protocol.StepRecord `json:"record"`
	}
	if json.Unmarshal(m.Data, &data) != nil {
		return Answer{Text: m.Text()}
	}
	return Answer{Code: data.Code, Text: m.Text(), Of: data.Of, Task: data.Task, Tasks: data.Tasks, State: data.State, Epoch: data.Epoch, Attempt: data.Attempt, Record: data.Record, Numbers: protocol.NumbersIn(m)}
}
