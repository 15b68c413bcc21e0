package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

const taskID = "01M7YWEVEB97VS93BY45E8GWCS"

// stand writes the task.json of the task.
func stand(t *testing.T, disk durable.FS, text string) {
	t.Helper()
	testenv.Must(t, disk.MkdirAll(protocol.TaskDir(taskID), 0o755))
	put(t, disk, protocol.TaskDir(taskID)+"/"+protocol.TaskView, text)
}

// notify puts a notice of hive about a task into the inbox of alice.
func notify(t *testing.T, disk durable.FS, file string, seq int, data string) {
	t.Helper()
	put(t, disk, "agents/alice/inbox/"+file, fmt.Sprintf(`{"id":"n-%d","from":"hive","to":"alice","act":"propose","subject":"s","data":%s,"seq":%d,"received_at":"2026-11-21T09:00:00Z"}`, seq, data, seq))
}

// view returns a task.json whose last step is the event with that number. The task
// is unassigned unless its other members say more.
func view(seq int, more string) string {
	if !strings.Contains(more, `"state"`) {
		more += `"state":"unassigned",`
	}
	return fmt.Sprintf(`{"id":%q,%s"history":[{"seq":9,"event":"create","to":"unassigned","by":"human"},{"seq":12,"event":"reject","to":"offered","by":"bob"},{"seq":%d,"at":"2026-11-21T09:00:01Z","event":"offer","to":"offered","by":"hive"}]}`,
		taskID, more, seq)
}

func TestOver(t *testing.T) {
	const (
		offer    = `{"code":"task-offer","task":"` + taskID + `"}`
		question = `{"code":"approval-asked","task":"` + taskID + `","ask":10}`
	)
	asks := func(ask int, given string) string {
		return fmt.Sprintf(`"state":"paused","question":{"ask":%d,"question":"q","approvers":["alice"],"needed":2,"given":[%s]},`, ask, given)
	}
	answered := `"answers":["tasks/` + taskID + `/answers/10.json"],`
	for name, tt := range map[string]struct {
		data, view, want string
	}{
		"offered still":                  {offer, view(20, `"offered":["alice","bob"],`), ""},
		"no view":                        {offer, "", ""},
		"an empty view":                  {offer, " ", ""},
		"a view of nothing":              {offer, "{}", ""},
		"the view of another task":       {offer, strings.Replace(view(20, ""), taskID, "01M7YWEVEB97VS93BY45E8GWCT", 1), ""},
		"a view of before":               {offer, view(10, ""), ""},
		"a view of its own event":        {offer, view(11, ""), ""},
		"a view of another log":          {offer, strings.Replace(view(20, ""), "09:00:01", "08:59:59", 1), ""},
		"withdrawn":                      {offer, view(12, ""), "no longer offered to you"},
		"offered to others":              {offer, view(20, `"state":"offered","offered":["bob"],`), "no longer offered to you"},
		"taken by another":               {offer, view(20, `"state":"in_progress","holder":"bob",`), "bob has task"},
		"taken by its reader":            {offer, view(20, `"state":"in_progress","holder":"alice",`), ""},
		"rejected by its reader":         {offer, strings.Replace(view(20, ""), `"by":"bob"`, `"by":"alice"`, 1), "you rejected"},
		"rejected by another":            {offer, view(20, ""), "no longer offered to you"},
		"cancelled":                      {offer, view(20, `"state":"cancelled",`), "is cancelled"},
		"failed":                         {offer, view(20, `"state":"failed",`), "has failed"},
		"completed by its reader":        {offer, view(20, `"state":"completed","holder":"alice",`), "is completed"},
		"of no task":                     {`{"code":"task-offer","task":"../../agents/alice"}`, view(20, ""), ""},
		"another notice":                 {`{"code":"taken-away","task":"` + taskID + `"}`, view(20, ""), ""},
		"another notice with a question": {`{"code":"approved","task":"` + taskID + `","ask":10}`, view(20, ""), ""},
		"asked still":                    {question, view(20, asks(10, "")), ""},
		"answered by another, of two":    {question, view(20, asks(10, `"bob"`)), ""},
		"answered by its reader":         {question, view(20, asks(10, `"alice"`)), "you have answered question 10"},
		"answered":                       {question, view(20, `"state":"in_progress",`+answered), "question 10 of task " + taskID + " was answered, see tasks/" + taskID + "/answers/10.json"},
		"answered, and another asked":    {question, view(20, asks(15, "")+answered), "was answered"},
		"denied":                         {question, view(20, `"state":"failed",`+answered), "was answered"},
		"cancelled after an answer":      {question, view(20, `"state":"cancelled",`+answered), "is cancelled"},
		"timed out":                      {question, view(20, `"state":"failed",`), "has failed"},
		"not waited for":                 {question, view(20, `"state":"in_progress",`), "does not wait for an answer to question 10"},
		"a question not in the view yet": {question, view(10, ""), ""},
		"reminded of an answered one":    {strings.Replace(question, "approval-asked", "reminder", 1), view(20, answered), "was answered"},
		"specified":                      {strings.Replace(question, "approval-asked", "specify", 1), view(20, answered), "was answered"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newHive(t, "alice")
			if tt.view != "" {
				stand(t, disk, tt.view)
			}
			notify(t, disk, "01A.json", 11, tt.data)
			b := open(t, disk)
			list, err := b.Inbox()
			if err != nil || len(list) != 1 {
				t.Fatalf("Inbox = %+v, %v", list, err)
			}
			l, err := b.Read("n-11")
			if err != nil || l.Over != list[0].Over {
				t.Errorf("Inbox returned %q, Read %q, %v", list[0].Over, l.Over, err)
			}
			if got := l.Over; (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("over %q, want %q", got, tt.want)
			}
			if l, err = b.Done("n-11"); err != nil || !l.Moved {
				t.Errorf("Done = %+v, %v", l, err)
			}
		})
	}
}

// TestOverIsOfHive checks that only notices of hive can be over: others take back
// themselves what they sent about a task, and a file that hived did not deliver has
// no number to compare with a view.
func TestOverIsOfHive(t *testing.T) {
	disk := newHive(t, "alice")
	stand(t, disk, view(20, ""))
	for file, text := range map[string]string{
		"01A.json": `{"id":"a","from":"bob","to":"alice","body":"b","data":{"code":"task-offer","task":"` + taskID + `"},"seq":11}`,
		"01B.json": `{"id":"b","from":"hive","to":"alice","body":"b","data":{"code":"task-offer","task":"` + taskID + `"}}`,
		"01C.json": `{"id":"c","from":"hive","to":"alice","body":"b","data":"task-offer","seq":11}`,
		"01D.json": `no message`,
	} {
		put(t, disk, protocol.InboxDir("alice")+"/"+file, text)
	}
	list, err := open(t, disk).Inbox()
	if err != nil || len(list) != 4 {
		t.Fatalf("Inbox = %+v, %v", list, err)
	}
	for _, l := range list {
		if l.Over != "" {
			t.Errorf("%s is over: %s", l.File, l.Over)
		}
	}
}

// TestWaitForWhatIsNotOver checks that offers that others took end no wait, however
// many there are, and that the next message does.
func TestWaitForWhatIsNotOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newHive(t, "alice")
		b := open(t, disk)
		for i := range 3 {
			notify(t, disk, fmt.Sprintf("01A%d.json", i), 11+i, `{"code":"task-offer","task":"`+taskID+`"}`)
		}
		stand(t, disk, view(20, `"offered":["bob"],`))
		ctx, cancel := context.WithTimeout(t.Context(), 10*waitPoll)
		defer cancel()
		if err := b.Wait(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for what is over ended with %v", err)
		}
		if names, err := b.Unread(); err != nil || len(names) != 3 {
			t.Errorf("unread are %q, %v: nothing may be moved", names, err)
		}
		notify(t, disk, "01B.json", 30, `{"code":"task-offer","task":"`+taskID+`"}`) // offered again, and its view does not exist yet
		if err := b.Wait(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}
