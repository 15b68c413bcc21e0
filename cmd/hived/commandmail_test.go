package main

import (
	"fmt"
	"testing"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/view"
)

// An agent that may not read the log finds the answer in its inbox, and marks it as
// handled.
// What hive adds to a command that it carries out is no answer, and stays unread.
func TestWaitMail(t *testing.T) {
	t.Parallel()
	letter := func(from, to, data string) string {
		return fmt.Sprintf(`{"id":"n","from":%q,"to":"bob","subject":"s","body":"do this","in_reply_to":%q,"data":%s,"seq":9,"received_at":"2026-11-21T09:00:00Z"}`, from, to, data)
	}
	ok := fmt.Sprintf(`{"code":"ok","of":7,"task":%q,"state":"pending","epoch":3,"attempt":2}`, one)
	many := fmt.Sprintf(`{"code":"ok","of":7,"tasks":[%q,%q],"state":"unassigned"}`, two, one)
	for name, tt := range map[string]struct {
		event, data string
		want        taskAnswer
	}{
		"done":    {"accept", ok, taskAnswer{ID: one, State: task.Pending, Epoch: 3, Attempt: 2, Event: task.Accept, Seq: 7, Message: "m"}},
		"created": {"create", many, taskAnswer{ID: two, State: task.Unassigned, Event: task.Create, Seq: 7, Message: "m", Tasks: []createdTask{{ID: two}, {ID: one}}}},
		"resumed": {"resume", many, taskAnswer{ID: two, State: task.Unassigned, Event: task.Create, Seq: 7, Message: "m", Tasks: []createdTask{{ID: two}, {ID: one}}}},
		"refused": {"accept", `{"code":"race-lost"}`, taskAnswer{Event: task.Accept, Seq: 9, Message: "m", Code: "race-lost", Detail: "do this"}},
	} {
		disk := faultfs.New()
		for _, dir := range []string{protocol.DoneDir("bob"), protocol.OutboxDir("bob")} {
			testenv.Must(t, disk.MkdirAll(dir, 0o755))
		}
		for file, text := range map[string]string{"1": letter("zoe", "m", ok), "2": letter("hive", "other", ok), "2-a": letter("hive", "m", `{"code":"large-checkpoint"}`), "2-b": letter("hive", "m", `{"code":"nobody-eligible"}`), "3": letter("hive", "m", tt.data), "4": "{}"} {
			testenv.Must(t, durable.Publish(disk, protocol.InboxDir("bob")+"/"+file+".json", []byte(text), 0o644, false))
		}
		box, err := agent.Open(disk, "bob")
		testenv.Must(t, err)
		c, _ := view.NewCommand(view.Sent{By: "bob", ID: "m"}, tt.event)
		if err := waitMail(t.Context(), box, c, 0); err != nil {
			t.Fatal(name, err)
		}
		got := answerOf(agent.Command{Event: protocol.TaskAction(tt.event)}, c)
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
		if unread, err := box.Unread(); err != nil || fmt.Sprint(unread) != "[1.json 2-a.json 2-b.json 2.json 4.json]" {
			t.Errorf("%s: unread %v, %v", name, unread, err)
		}
		if err := waitMail(t.Context(), box, c, 1); exitStatus(err) != protocol.ExitTimedOut {
			t.Errorf("%s: without an answer: %v", name, err)
		}
	}
}
