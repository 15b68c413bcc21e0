package router

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// taskAnswer is what became of a command.
type taskAnswer struct {
	task  protocol.TaskID
	epoch uint64
	code  protocol.Code // of the refusal; empty: carried out
}

// taskAnswers passes on to the senders of commands what the log says of them.
type taskAnswers struct {
	mu    sync.Mutex
	of    map[protocol.Seq]protocol.MessageID
	waits map[protocol.MessageID]chan taskAnswer
}

func (a *taskAnswers) wait(id protocol.MessageID) <-chan taskAnswer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits[id] = make(chan taskAnswer, 1)
	return a.waits[id]
}

func (a *taskAnswers) event(ev protocol.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var of protocol.Seq
	var is taskAnswer
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		a.of[ev.Seq] = e.ID
	case *protocol.TaskEvent:
		of, is = e.Of, taskAnswer{e.Task, e.Epoch, ""}
	case *protocol.TaskRejectedEvent:
		of, is.code = e.Of, e.Code
	}
	if asks := a.waits[a.of[of]]; asks != nil && of > 0 {
		asks <- is
		delete(a.waits, a.of[of])
	}
}

// TestTaskClaims has several agents claim the same tasks at once, and give back what they
// got. It checks that at most one agent has a task at each moment, that answers are true,
// and that no epoch is given out twice.
func TestTaskClaims(t *testing.T) {
	t.Parallel()
	const tasks, rounds = 3, 3
	agents := []string{"bob", "carol", "dave", "erin"}
	h := newHive(t, append([]string{"alice"}, agents...)...)
	h.settings.Settle, h.settings.Rescan = 5*time.Millisecond, 10*time.Millisecond
	answers := &taskAnswers{of: map[protocol.Seq]protocol.MessageID{}, waits: map[protocol.MessageID]chan taskAnswer{}}
	cfg := h.config()
	keep := cfg.OnEvent
	cfg.OnEvent = func(ev protocol.Event) { keep(ev); answers.event(ev) }
	h.upWith(cfg)
	r := record{began: time.Now()}
	sends := func(who string, id, event, rest string) taskAnswer {
		answer := answers.wait(protocol.MessageID(id))
		put(t, h.disk, protocol.OutboxDir(protocol.AgentID(who))+"/"+id+".json", fmt.Sprintf(`{"id":%q,"to":"hive","event":%q%s}`, id, event, rest))
		return wait.Receive(t, "an answer to "+id, answer, h.story)
	}
	var ids []protocol.TaskID
	for n := range tasks {
		from := r.now()
		is := sends("alice", fmt.Sprint("t", n), "create", fmt.Sprintf(`,"data":{"title":"t%d"}`, n))
		r.add(0, act{name: string(is.task), what: "deliver"}, "won", from, r.now())
		ids = append(ids, is.task)
	}
	var mu sync.Mutex
	var epochs []string
	var g sync.WaitGroup
	for who, name := range agents {
		g.Go(func() {
			for n := range rounds * tasks {
				id := ids[(who+n)%tasks]
				about := fmt.Sprintf(`,"task":%q`, id)
				from := r.now()
				is := sends(name, fmt.Sprintf("%s-%d", name, n), string(task.Claim), about)
				out := "won"
				if is.code != "" {
					out = "gone"
				}
				r.add(who+1, act{name: string(id), what: "claim"}, out, from, r.now())
				if is.code != "" {
					continue
				}
				mu.Lock()
				epochs = append(epochs, fmt.Sprint(id, is.epoch))
				mu.Unlock()
				from = r.now()
				if is = sends(name, fmt.Sprintf("%s-%d-back", name, n), string(task.Release), fmt.Sprintf(`%s,"epoch":%d,"data":{"checkpoint":{"by":"%s-%d"}}`, about, is.epoch, name, n)); is.code == "" {
					r.add(who+1, act{name: string(id), what: "reopen"}, "won", from, r.now())
				} else {
					t.Errorf("%s cannot give %s back: %s", name, id, is.code)
				}
			}
		})
	}
	g.Wait()
	h.down()
	judgeHistory(t, messageModel, r.ops)
	slices.Sort(epochs)
	if len(slices.Compact(slices.Clone(epochs))) != len(epochs) {
		t.Errorf("an epoch was given out twice: %v", epochs)
	}
}
