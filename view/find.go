package view

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/protocol"
)

var (
	// ErrNotFound says that the log has nothing of that name.
	ErrNotFound = protocol.NewError(protocol.CodeNoMessage, "the log has no message, conversation or task")
	// ErrAmbiguous says that a name is the beginning of several ids.
	ErrAmbiguous = protocol.NewError(protocol.CodeAmbiguous, "fits several ids")
)

// Target is what a name means: messages of some threads, or a task.
type Target struct {
	Threads  []protocol.ConversationID
	Messages []protocol.Seq  // the messages that are meant, in the order of the log; none: the whole threads
	Task     protocol.TaskID // set where a task is meant, and nothing else
}

// has reports whether a thread is one of the target's.
func (t Target) has(thread protocol.ConversationID) bool { return slices.Contains(t.Threads, thread) }

// Trace is what the log says about a target: a thread or a task; the other is nil.
type Trace struct {
	Thread *Thread
	Task   *Task
}

// NewTrace returns the trace of a target, and the folder that keeps it up to date.
// The folder is never done: a thread may always go on, a task that has ended may be
// resumed, and what is refused about it belongs to its trace.
func NewTrace(of Target) (*Trace, Folder) {
	if of.Task != "" {
		t, f := newTask(of.Task)
		return &Trace{Task: t}, f
	}
	t, f := newThread(of)
	return &Trace{Thread: t}, f
}

// Find reads the records to their end and returns what a name means: a
// conversation, else the messages with that id or file, else the one message or task
// whose id begins with it or, for a task, ends with it. The error is [ErrNotFound],
// [ErrAmbiguous], or that of the records or of ctx.
func Find(ctx context.Context, records iter.Seq2[eventlog.Record, error], name string) (Target, error) {
	f := &finder{name: name, tasks: map[protocol.TaskID]bool{}, begin: map[protocol.MessageID]protocol.ConversationID{}}
	if err := Wait(ctx, records, f); err != nil {
		return Target{}, err
	}
	return f.target()
}

// finder collects what a name may mean.
type finder struct {
	name   string
	thread bool   // it is a conversation, whatever else it is
	exact  Target // messages of just that name

	// Ids that begin with the name; two messages, or two tasks, are enough to know that
	// it is ambiguous.
	begin map[protocol.MessageID]protocol.ConversationID
	seqs  []protocol.Seq // of begin
	tasks map[protocol.TaskID]bool
}

// See implements [Folder].
func (f *finder) See(ev protocol.Event) (done bool) {
	if e, ok := ev.Body.(*protocol.MessageEvent); ok {
		f.message(ev.Seq, e)
	}
	if e, ok := ev.Body.(*protocol.TaskEvent); ok && e.From == "" && len(f.tasks) < 2 && e.Task.Matches(f.name) {
		f.tasks[e.Task] = true
	}
	return f.thread
}

func (f *finder) message(seq protocol.Seq, e *protocol.MessageEvent) {
	switch {
	case string(e.Conversation) == f.name:
		f.thread = true
	case string(e.ID) == f.name || e.File == f.name+".json" || e.File == f.name:
		if !f.exact.has(e.Conversation) {
			f.exact.Threads = append(f.exact.Threads, e.Conversation)
		}
		f.exact.Messages = append(f.exact.Messages, seq)
	case len(f.begin) < 2 && f.name != "" && strings.HasPrefix(string(e.ID), f.name):
		f.begin[e.ID] = e.Conversation
		f.seqs = append(f.seqs, seq)
	}
}

// target returns what the name means.
func (f *finder) target() (Target, error) {
	switch {
	case f.thread:
		return Target{Threads: []protocol.ConversationID{protocol.ConversationID(f.name)}}, nil
	case len(f.exact.Messages) > 0:
		return f.exact, nil
	case len(f.begin)+len(f.tasks) > 1:
		return Target{}, fmt.Errorf("%s %w; write more of it", protocol.Quote(f.name), ErrAmbiguous)
	}
	for _, thread := range f.begin {
		return Target{Threads: []protocol.ConversationID{thread}, Messages: f.seqs}, nil
	}
	for id := range f.tasks {
		return Target{Task: id}, nil
	}
	return Target{}, fmt.Errorf("%w %s", ErrNotFound, protocol.Quote(f.name))
}
