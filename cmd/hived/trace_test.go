package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/mermaid"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/view"
)

// thread is a small story: a request, its answer, a message that nobody gets.
func thread() *view.Thread {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.Local)
	t, f := view.NewTrace(view.Target{Threads: []protocol.ConversationID{"c"}})
	for i, body := range bodies(
		&protocol.MessageEvent{ID: "m1", From: "alice", To: to("bob"), Act: protocol.Request, Subject: "a;b\x1b", Delivered: []protocol.AgentID{"bob"}, Conversation: "c"},
		&protocol.MessageEvent{ID: "x", From: "zed", To: to("bob"), Act: protocol.Inform, Delivered: []protocol.AgentID{"bob"}, Conversation: "other"},
		&protocol.HandledEvent{Of: 1, Agent: "bob", How: protocol.HowDone},
		&protocol.MessageEvent{ID: "m2", From: "bob", To: to("alice", "nobody"), Act: protocol.Done, InReplyTo: "m1", Delivered: []protocol.AgentID{"alice"}, Conversation: "c", Hops: 1},
		&protocol.DropEvent{Of: 4, ID: "m2", From: "bob", To: to("nobody"), Reason: protocol.NoInbox, Detail: "there is no agent", Conversation: "c"},
		&protocol.DuplicateEvent{Of: 1, Agent: "alice", ID: "m1"},
	) {
		f.See(protocol.Event{Seq: protocol.Seq(i + 1), TS: at.Add(time.Duration(i) * time.Second), Body: body})
	}
	return t.Thread
}

func TestTraceTree(t *testing.T) {
	var b strings.Builder
	a := &app{}
	p := &printer{w: &b}
	for _, m := range thread().Roots {
		a.printTree(p, m, "", "")
	}
	want := `alice → bob: request "a;b\x1b"
├ 2026-11-21 09:00:00.000       1  accepted as m1, 0 hops
├ 2026-11-21 09:00:00.000       1  delivered to bob
├ 2026-11-21 09:00:02.000       3  handled by bob
├ 2026-11-21 09:00:05.000       6  sent again, and not delivered again
└─ bob → alice, nobody: done
   ├ 2026-11-21 09:00:03.000       4  accepted as m2, 1 hops
   ├ 2026-11-21 09:00:03.000       4  delivered to alice, unread
   └ 2026-11-21 09:00:04.000       5  not delivered to nobody: no-inbox: there is no agent
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func TestTraceMermaid(t *testing.T) {
	want := `sequenceDiagram
    participant p1 as alice
    participant p2 as bob
    p1->>p2: request a#59;b#92;x1b
    Note over p2: done a#59;b#92;x1b
    p2->>p1: done
    Note over p2: not delivered to nobody, no-inbox
`
	if diff := cmp.Diff(want, mermaid.Sequence(thread().Messages)); diff != "" {
		t.Errorf("diagram (-want +got):\n%s", diff)
	}
}

// oneTask is a task that was done, and what was refused of it.
func oneTask() *view.Task {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.Local)
	const id, other = "01M7YWEVEB97VS93BY45E8GWCS", "01M7YWEVEB97VS93BY45E8GWCT"
	t, f := view.NewTrace(view.Target{Task: id})
	for i, body := range bodies(
		&protocol.TaskEvent{Task: id, Event: task.Create, To: task.Unassigned, By: "human", Spec: &protocol.TaskSpec{Title: "a\x1b"}},
		&protocol.TaskEvent{Task: other, Event: task.Create, To: task.Unassigned, By: "human"},
		&protocol.TaskEvent{Task: id, Event: task.Offer, From: task.Unassigned, To: task.Offered, By: "hive", Agents: []protocol.AgentID{"bob", "zoe"}},
		&protocol.TaskEvent{Task: id, Event: task.Accept, From: task.Offered, To: task.Pending, By: "bob", Epoch: 1},
		&protocol.TaskRejectedEvent{Task: id, Event: "com\x1bplete", By: "zoe", Code: protocol.CodeNotHolder, Detail: "it is bob's"},
		&protocol.TaskEvent{Task: id, Event: task.Progress, From: task.InProgress, To: task.InProgress, By: "bob", Epoch: 1, Checkpoint: &protocol.Checkpoint{Milestone: "half"}},
	) {
		f.See(protocol.Event{Seq: protocol.Seq(i + 1), TS: at.Add(time.Duration(i) * time.Second), Body: body})
	}
	return t.Task
}

func TestTraceTask(t *testing.T) {
	var b strings.Builder
	l := oneTask()
	l.Events[2].Commit = "0123456789abcdef"
	testenv.Must(t, (&app{out: &printer{w: &b}}).showTaskLife(l))
	want := `task 01M7YWEVEB97VS93BY45E8GWCS "a\x1b"
├ 2026-11-21 09:00:00.000       1  create by human: unassigned
├ 2026-11-21 09:00:02.000       3  offer by hive: unassigned → offered, to bob, zoe
├ 2026-11-21 09:00:03.000       4  accept by bob: offered → pending, epoch 1, commit 0123456789ab
├ 2026-11-21 09:00:04.000       5  refused com\x1bplete by zoe: not-holder: it is bob's
└ 2026-11-21 09:00:05.000       6  progress by bob: in_progress, epoch 1, "half"
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("life (-want +got):\n%s", diff)
	}
}

func TestTraceTaskMermaid(t *testing.T) {
	want := `stateDiagram-v2
    [*] --> unassigned: 1 create by human
    unassigned --> offered: 3 offer by hive
    offered --> pending: 4 accept by bob
    in_progress --> in_progress: 6 progress by bob
`
	if diff := cmp.Diff(want, mermaid.States(oneTask())); diff != "" {
		t.Errorf("diagram (-want +got):\n%s", diff)
	}
}
