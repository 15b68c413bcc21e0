package view

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

func moment(seq protocol.Seq) Moment { return Moment{seq, at(int(seq) - 1)} }

// story returns the events of two threads: a request with an answer and an answer
// to that, of which one is kept at first, and another message. It ends with the
// first id used again.
func story() []protocol.Body {
	return bodies(
		&protocol.MessageEvent{ID: "m1", From: "alice", To: to("bob"), Act: protocol.Request, Subject: "s", Delivered: ids("bob"), Conversation: "c"},
		&protocol.MessageEvent{ID: "x", From: "zed", To: to("bob"), Act: protocol.Inform, Delivered: ids("bob"), Conversation: "other"},
		&protocol.HandledEvent{Of: 1, Agent: "bob", How: protocol.HowDone},
		&protocol.MessageEvent{ID: "m2", From: "bob", To: to("alice", "nobody"), Act: protocol.Done, InReplyTo: "m1", Delivered: ids("alice"), Conversation: "c", Hops: 1},
		&protocol.DropEvent{Of: 4, ID: "m2", From: "bob", To: to("nobody"), Reason: protocol.NoInbox, Detail: "there is no agent", Conversation: "c"},
		&protocol.MessageEvent{ID: "m3", From: "alice", To: to("bob"), Act: protocol.Query, InReplyTo: "m2", Conversation: "c", Kept: &protocol.Kept{To: ids("bob"), Reason: protocol.HopCap}},
		&protocol.DuplicateEvent{Of: 1, Agent: "alice", ID: "m1"},
		&protocol.DeliveredEvent{Of: 6, To: ids("bob"), Conversation: "c"},
		&protocol.HandledEvent{Of: 8, Agent: "bob", How: protocol.HowDeleted},
		&protocol.HandledEvent{Of: 1, Agent: "bob", How: protocol.HowReopened},
		&protocol.HandledEvent{Of: 2, Agent: "bob", How: protocol.HowDone},
		&protocol.MessageEvent{ID: "m1", From: "zoe", To: to("bob"), Act: protocol.Inform, Delivered: ids("bob"), Conversation: "c"},
	)
}

// messages returns those of the story's first thread.
func messages() (m1, m2, m3, again *ThreadMessage) {
	seventh := moment(8)
	m3 = &ThreadMessage{
		ID: "m3", Seq: 6, At: at(5), From: "alice", To: to("bob"), Act: protocol.Query, Conversation: "c", InReplyTo: "m2", Kept: ids("bob"),
		Delivered: []*Delivery{{To: "bob", After: &seventh, Handled: []Handling{{moment(9), protocol.HowDeleted}}}},
	}
	m2 = &ThreadMessage{
		ID: "m2", Seq: 4, At: at(3), From: "bob", To: to("alice", "nobody"), Act: protocol.Done, Conversation: "c", InReplyTo: "m1", Hops: 1,
		Delivered: []*Delivery{{To: "alice"}}, Replies: []*ThreadMessage{m3},
		Dropped: []ThreadDrop{{moment(5), Drop{To: to("nobody"), Reason: protocol.NoInbox, Detail: "there is no agent"}}},
	}
	m1 = &ThreadMessage{
		ID: "m1", Seq: 1, At: at(0), From: "alice", To: to("bob"), Act: protocol.Request, Subject: "s", Conversation: "c",
		Delivered: []*Delivery{{To: "bob", Handled: []Handling{{moment(3), protocol.HowDone}, {moment(10), protocol.HowReopened}}}},
		Again:     []Moment{moment(7)}, Replies: []*ThreadMessage{m2},
	}
	again = &ThreadMessage{
		ID: "m1", Seq: 12, At: at(11), From: "zoe", To: to("bob"), Act: protocol.Inform, Conversation: "c", Delivered: []*Delivery{{To: "bob"}},
	}
	return m1, m2, m3, again
}

func TestThread(t *testing.T) {
	m1, m2, m3, again := messages()
	type list = []*ThreadMessage
	for name, tt := range map[string]struct {
		of   Target
		want Thread
	}{
		"the whole thread": {Target{Threads: []protocol.ConversationID{"c"}}, Thread{list{m1, again}, list{m1, m2, m3, again}}},
		"an answer":        {Target{Threads: []protocol.ConversationID{"c"}, Messages: []protocol.Seq{4}}, Thread{list{m2}, list{m2, m3}}},
		"two messages":     {Target{Threads: []protocol.ConversationID{"c"}, Messages: []protocol.Seq{1, 4}}, Thread{list{m1, m2}, list{m1, m2, m3}}},
		"another id":       {Target{Threads: []protocol.ConversationID{"c"}, Messages: []protocol.Seq{12}}, Thread{list{again}, list{again}}},
		"no thread":        {Target{Threads: []protocol.ConversationID{"d"}}, Thread{}},
	} {
		got, f := newThread(tt.of)
		if done := seen(f, story()); done != 0 {
			t.Errorf("%s: done after event %d", name, done)
		}
		if diff := cmp.Diff(&tt.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestThreadSoFar checks that a thread is shown as it is so far: replies are below
// what they answer as soon as they are seen.
func TestThreadSoFar(t *testing.T) {
	got, f := newThread(Target{Threads: []protocol.ConversationID{"c"}})
	var sizes []string
	for i, body := range story() {
		f.See(protocol.Event{Seq: protocol.Seq(i + 1), TS: at(i), Body: body})
		sizes = append(sizes, fmt.Sprintf("%d/%d", len(got.Roots), len(got.Messages)))
	}
	want := []string{"1/1", "1/1", "1/1", "1/2", "1/2", "1/3", "1/3", "1/3", "1/3", "1/3", "1/3", "2/4"}
	if diff := cmp.Diff(want, sizes); diff != "" {
		t.Errorf("roots and messages (-want +got):\n%s", diff)
	}
}

func TestTask(t *testing.T) {
	const id, other = "01M7YWEVEB97VS93BY45E8GWCS", "01M7YWEVEB97VS93BY45E8GWCT"
	events := bodies(
		&protocol.TaskEvent{Task: id, Event: task.Create, To: task.Unassigned, By: "human", Spec: &protocol.TaskSpec{Title: "T"}},
		&protocol.TaskEvent{Task: other, Event: task.Create, To: task.Unassigned, By: "human", Spec: &protocol.TaskSpec{Title: "U"}},
		&protocol.TaskEvent{Task: id, Event: task.Offer, From: task.Unassigned, To: task.Offered, By: "hive", Agents: ids("bob", "zoe")},
		&protocol.TaskEvent{Task: id, Event: task.Accept, From: task.Offered, To: task.Pending, By: "bob", Epoch: 1, Attempt: 1},
		&protocol.TaskRejectedEvent{Task: id, Event: "complete", By: "zoe", Epoch: 9, State: task.Pending, Code: protocol.CodeNotHolder, Detail: "it is bob's"},
		&protocol.TaskRejectedEvent{Task: other, Event: "complete", By: "zoe", Code: protocol.CodeNotHolder},
		&protocol.TaskEvent{Task: id, Event: task.Progress, From: task.InProgress, To: task.InProgress, By: "bob", Epoch: 1, Checkpoint: &protocol.Checkpoint{Milestone: "half"}},
		&protocol.TaskEvent{Task: id, Event: task.PauseForApproval, From: task.InProgress, To: task.Paused, By: "bob", Epoch: 1, Question: "may I?"},
		&protocol.TaskEvent{Task: id, Event: task.Cancel, From: task.Paused, To: task.Cancelled, By: "human", Reason: "no"},
		&protocol.TaskEvent{Task: id, Event: "amend", From: task.Cancelled, To: task.Cancelled, By: "human", Spec: &protocol.TaskSpec{Title: "V"}},
	)
	want := &Task{ID: id, Title: "V", Events: []TaskMoment{
		{Moment: moment(1), Event: "create", To: task.Unassigned, By: "human"},
		{Moment: moment(3), Event: "offer", From: task.Unassigned, To: task.Offered, By: "hive", Agents: ids("bob", "zoe")},
		{Moment: moment(4), Event: "accept", From: task.Offered, To: task.Pending, By: "bob", Epoch: 1, Attempt: 1},
		{Moment: moment(5), Event: "complete", From: task.Pending, By: "zoe", Epoch: 9, Code: "not-holder", Detail: "it is bob's"},
		{Moment: moment(7), Event: "progress", From: task.InProgress, To: task.InProgress, By: "bob", Epoch: 1, Note: "half"},
		{Moment: moment(8), Event: "pause_for_approval", From: task.InProgress, To: task.Paused, By: "bob", Epoch: 1, Note: "may I?"},
		{Moment: moment(9), Event: "cancel", From: task.Paused, To: task.Cancelled, By: "human", Note: "no"},
		{Moment: moment(10), Event: "amend", From: task.Cancelled, To: task.Cancelled, By: "human"},
	}}
	got, f := newTask(id)
	if done := seen(f, events); done != 0 {
		t.Errorf("done after event %d", done)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
}

// TestFind checks that a name may mean a message, a thread or a task, and that one
// that means two is refused.
func TestFind(t *testing.T) {
	const first, second = "01M7YWEVEB97VS93BY45E8GWCS", "01M7YWEVEB97VS93BY45E8AAAA"
	type threads = []protocol.ConversationID
	events := bodies(
		&protocol.MessageEvent{ID: "m-1", Conversation: "c", File: "f.json"},
		&protocol.MessageEvent{ID: "m-2", Conversation: "d", File: "g.json"},
		&protocol.TaskEvent{Task: first, Event: task.Create, To: task.Unassigned},
		&protocol.TaskEvent{Task: second, Event: task.Create, To: task.Unassigned},
		&protocol.TaskEvent{Task: first, Event: task.Offer, From: task.Unassigned, To: task.Offered},
		&protocol.MessageEvent{ID: "m-1", Conversation: "e", File: "h.json"},
		&protocol.MessageEvent{ID: "m-1", Conversation: "e", File: "i.json"},
		&protocol.MessageEvent{ID: "c-1", Conversation: "c", File: "j.json"},
		&protocol.MessageEvent{ID: "k-1", Conversation: "c-", File: "k.json"},
	)
	for name, tt := range map[string]struct {
		want Target
		err  error
	}{
		first:                     {Target{Task: first}, nil},
		"8gwcs":                   {Target{Task: first}, nil},
		"aaaa":                    {Target{Task: second}, nil},
		"01M7YWEVEB97VS93BY45E8G": {Target{Task: first}, nil},
		"01M7":                    {Target{}, ErrAmbiguous},
		"m-":                      {Target{}, ErrAmbiguous},
		"nothing":                 {Target{}, ErrNotFound},
		"":                        {Target{}, ErrNotFound},
		"task-" + first:           {Target{}, ErrNotFound},
		"m-1":                     {Target{Threads: threads{"c", "e"}, Messages: []protocol.Seq{1, 6, 7}}, nil},
		"m-2":                     {Target{Threads: threads{"d"}, Messages: []protocol.Seq{2}}, nil},
		"g":                       {Target{Threads: threads{"d"}, Messages: []protocol.Seq{2}}, nil},
		"g.json":                  {Target{Threads: threads{"d"}, Messages: []protocol.Seq{2}}, nil},
		"k":                       {Target{Threads: threads{"c-"}, Messages: []protocol.Seq{9}}, nil},
		"c":                       {Target{Threads: threads{"c"}}, nil},
		"c-":                      {Target{Threads: threads{"c-"}}, nil},
	} {
		got, err := Find(t.Context(), recordsOf(events, nil), name)
		if !errors.Is(err, tt.err) {
			t.Errorf("%q: %v, want %v", name, err, tt.err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", name, diff)
		}
	}
	broken := errors.New("broken")
	if _, err := Find(t.Context(), recordsOf(events, broken), "m-1"); !errors.Is(err, broken) {
		t.Errorf("of a log that cannot be read: %v", err)
	}
}
