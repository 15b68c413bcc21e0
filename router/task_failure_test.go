package router

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestThreeRetries checks that a failing task is executed four times, with retries after
// 1, 2 and 4 s, also if the daemon is restarted between them.
func TestThreeRetries(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(map[bool]string{false: "one daemon", true: "a daemon for each"}[restart], func(t *testing.T) {
			scenario(t, "anna", func(h *crew) {
				id := h.create("human", `{"title": "call the service"}`)
				h.begin("anna", id)
				for range 4 {
					h.is(id, task.InProgress)
					h.does("anna", "failure", id, `{"category": "transient", "reason": "it is busy"}`)
					if restart {
						h.down()
						h.up()
					}
					h.pass(5 * time.Second)
				}
				v := h.is(id, task.Failed)
				if v.Attempt != 4 || v.Reason != "3 retries did not help: it is busy" || v.Category != protocol.TransientFailure {
					t.Errorf("attempt %d, failed because %q, %s", v.Attempt, v.Reason, v.Category)
				}
				failed, again := h.times(id, task.TransientError), h.times(id, task.Retry)
				var waits []time.Duration
				for i := range again {
					waits = append(waits, again[i].Sub(failed[i]).Round(100*time.Millisecond))
				}
				if d := cmp.Diff([]time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, waits); d != "" {
					t.Errorf("pauses before the retries (-want +got):\n%s", d)
				}
				h.wantTold("anna", protocol.CodeGoOn, 3, "epoch 1")
				h.wantTold("human", protocol.CodeTaskFailed, 1, "it is busy")
			})
		})
	}
}

// TestRetryWhileDown checks that a retry whose time came while the daemon was down is made
// once, at the start.
func TestRetryWhileDown(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "call the service"}`)
		h.begin("anna", id)
		h.does("anna", "transient_error", id, `{"reason": "busy"}`)
		h.down()
		h.pass(time.Hour)
		h.up()
		h.pass(time.Second)
		h.is(id, task.InProgress)
		h.pass(10 * time.Second)
		h.wantHistory(id, "create offer claim start transient_error retry")
	})
}

// TestFourStalls checks that a task whose holders go away again and again is given up, like
// one that fails again and again.
func TestFourStalls(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "a trap"}`)
		for range 3 {
			h.begin("anna", id)
			h.pass(3 * time.Minute)
			h.is(id, task.Offered)
		}
		h.begin("anna", id)
		h.pass(3 * time.Minute)
		if v := h.is(id, task.Failed); v.Attempt != 4 || !strings.Contains(v.Reason, "was not heard of") {
			t.Errorf("attempt %d, failed because %q", v.Attempt, v.Reason)
		}
		h.wantTold("human", protocol.CodeTaskFailed, 1, "was not heard of")
	})
}

// failing creates a task for which anna has just reported a failure.
func failing(h *crew, data string) protocol.TaskID {
	h.Helper()
	id := h.create("human", `{"title": "parse the file", "to": ["anna"]}`)
	h.begin("anna", id)
	h.does("anna", "failure", id, data)
	return id
}

// TestFailureIsRouted checks what each category of failure leads to.
func TestFailureIsRouted(t *testing.T) {
	tests := []struct {
		name  string
		data  string
		event task.Event
		state task.State
		to    protocol.AgentID
		code  protocol.Code
		text  string
		goOn  string // who lets the task go on, and how
	}{
		{"auth", `{"category": "auth", "reason": "the token is old"}`, task.PauseForApproval, task.Paused, "human", protocol.CodeApprovalAsked, "log in again", "human approval_granted"},
		{"ambiguity", `{"category": "ambiguity", "reason": "Which of the two files?"}`, task.PauseForApproval, task.Paused, "human", protocol.CodeApprovalAsked, "Which of the two files?", "human approval_granted"},
		{"schema", `{"category": "schema", "reason": "it has no column 7"}`, task.BlockOnDependency, task.Blocked, "boss", protocol.CodeSpecify, "it has no column 7\nTo answer, ", "boss dependency_resolved"},
		{"unknown", `{"category": "unknown", "reason": "the moon"}`, task.BlockOnDependency, task.Blocked, "boss", protocol.CodeSpecify, "in a way that no rule knows: the moon", "human dependency_resolved"},
		{"a new one", `{"category": "weather", "reason": "rain"}`, task.BlockOnDependency, task.Blocked, "boss", protocol.CodeSpecify, "in a way that no rule knows: rain", "boss dependency_resolved"},
		{"transient", `{"category": "transient"}`, task.TransientError, task.Retrying, "anna", protocol.CodeGoOn, "execution 2", ""},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			scenario(t, "anna boss", func(h *crew) {
				h.post("human", `{"to": "hive", "event": "agent-lead", "data": {"agent": "boss"}}`)
				h.collect()
				id := failing(h, x.data)
				v := h.is(id, x.state)
				if last := v.History[len(v.History)-1]; last.Event != x.event {
					t.Errorf("the failure led to %s", last.Event)
				}
				want := protocol.Category(x.name)
				if x.name == "a new one" {
					want = protocol.UnknownFailure
				}
				if v.Category != want {
					t.Errorf("the category is %s", v.Category)
				}
				if who, event, ok := strings.Cut(x.goOn, " "); ok {
					h.pass(20 * time.Minute) // the holder has no deadlines meanwhile
					h.is(id, x.state)
					h.does(protocol.AgentID(who), event, id, "")
				} else {
					h.pass(2 * time.Second)
				}
				h.is(id, task.InProgress)
				h.wantTold(x.to, x.code, 1, x.text)
				h.does("anna", "complete", id, "")
			})
		})
	}
}

// TestBlockedIsGivenUp checks that the lead can end a task that waits for it, and others
// cannot.
func TestBlockedIsGivenUp(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := failing(h, `{"category": "schema", "reason": "no"}`)
		h.wantTold("human", protocol.CodeSpecify, 1) // there is no lead
		h.refused(protocol.CodeNotHolder, "berta", "fatal_error", id, "")
		h.refused(protocol.CodeNotAllowed, "berta", "dependency_resolved", id, "")
		h.refused(protocol.CodeNotAllowed, "anna", "dependency_resolved", id, "")
		h.does("human", "fatal_error", id, `{"reason": "it is not worth it"}`)
		if v := h.is(id, task.Failed); v.Reason != "it is not worth it" {
			t.Errorf("the task failed because %q", v.Reason)
		}
		h.wantTold("anna", protocol.CodeTaskFailed, 1, "it is not worth it")
	})
}

// TestRepair checks that a failure in the logic creates a task to repair it, and that the
// first goes on when that is done. A repair may have one repair of its own, not more.
func TestRepair(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := failing(h, `{"category": "logic", "reason": "the parser loops"}`)
		first := h.created()[1]
		if v := h.is(id, task.Blocked); len(v.BlockedOn) != 1 || v.BlockedOn[0] != first {
			t.Fatalf("the task waits for %v", v.BlockedOn)
		}
		if v := h.is(first, task.Offered); v.Repairs != id || !strings.Contains(h.file(first, protocol.TaskBrief), "the parser loops") {
			t.Errorf("the repair is %+v", v)
		}
		h.begin("anna", first)
		h.does("anna", "failure", first, `{"category": "logic", "reason": "the test is wrong"}`)
		second := h.created()[2]
		h.begin("anna", second)
		h.does("anna", "complete", second, "")
		h.is(first, task.InProgress)
		h.is(id, task.Blocked)
		h.does("anna", "complete", first, "")
		h.is(id, task.InProgress)
		h.wantTold("anna", protocol.CodeGoOn, 2, "is done. Go on, with epoch 1")
		h.does("anna", "complete", id, "")
	})
}

func TestRepairDepth(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := failing(h, `{"category": "logic", "reason": "one"}`)
		first := h.created()[1]
		h.begin("anna", first)
		h.does("anna", "failure", first, `{"category": "logic", "reason": "two"}`)
		second := h.created()[2]
		h.begin("anna", second)
		h.does("anna", "failure", second, `{"category": "logic", "reason": "three"}`)
		if n := len(h.created()); n != 3 {
			t.Errorf("there are %d tasks", n)
		}
		h.is(second, task.Failed)
		h.is(first, task.Failed)
		if v := h.is(id, task.Failed); !strings.Contains(v.Reason, "three") {
			t.Errorf("the task failed because %q", v.Reason)
		}
	})
}

// TestParentStalls checks that tasks that wait for one that stalls and comes back go on
// waiting.
func TestParentStalls(t *testing.T) {
	scenario(t, "anna berta carla dora", func(h *crew) {
		h.create("human", `{"tasks": [{"title": "parent", "name": "p"}, {"title": "child", "needs": ["p"]}, {"title": "grandchild", "needs": ["c"]}, {"title": "another child", "name": "c", "needs": ["p"]}]}`)
		ids := h.created()
		parent := ids[0]
		h.begin("anna", parent)
		h.pass(2*time.Minute + time.Second)
		h.is(parent, task.Stalled)
		for _, id := range ids[1:] {
			h.is(id, task.Unassigned)
		}
		h.does("anna", "recovered", parent, "")
		h.does("anna", "complete", parent, "")
		children := 0
		for _, id := range ids[1:] {
			if h.view(id).State == task.Offered {
				children++
			}
		}
		if children != 2 {
			t.Errorf("%d children were offered", children)
		}
	})
}

// TestParentFails checks that tasks that wait for one that failed or was cancelled fail,
// and those that wait for them.
func TestParentFails(t *testing.T) {
	tests := []struct {
		name string
		end  func(h *crew, id protocol.TaskID)
		why  string
	}{
		{"failed", func(h *crew, id protocol.TaskID) {
			h.begin("anna", id)
			h.does("anna", "fatal_error", id, `{"reason": "no disk"}`)
		}, "was failed: no disk"},
		{"cancelled", func(h *crew, id protocol.TaskID) { h.does("human", "cancel", id, `{"reason": "no need"}`) }, "was cancelled: no need"},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			scenario(t, "anna berta", func(h *crew) {
				h.create("berta", `{"tasks": [{"title": "parent", "name": "p"}, {"title": "child", "name": "c", "needs": ["p"]}, {"title": "grandchild", "needs": ["c"]}]}`)
				ids := h.created()
				blocked := h.create("berta", `{"title": "one that blocks on it"}`)
				h.begin("berta", blocked)
				h.does("berta", "block_on_dependency", blocked, `{"needs": ["`+string(ids[1])+`"]}`)
				x.end(h, ids[0])
				for i, id := range append(ids[1:], blocked) {
					v := h.is(id, task.Failed)
					if i == 0 && !strings.Contains(v.Reason, string(ids[0])+", which "+x.why) || i > 0 && !strings.Contains(v.Reason, x.why) {
						t.Errorf("%s failed because %q", v.Title, v.Reason)
					}
				}
				h.wantTold("berta", protocol.CodeParentFailed, 3, strings.TrimPrefix(x.why, "was "))
			})
		})
	}
}

// TestBlockOnTasks checks that a holder that waits for other tasks goes on when all are
// done, and at once if they are done already.
func TestBlockOnTasks(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		h.create("human", `{"tasks": [{"title": "main"}, {"title": "one"}, {"title": "two"}]}`)
		ids := h.created()
		h.begin("anna", ids[0])
		h.begin("berta", ids[1])
		h.does("anna", "block_on_dependency", ids[0], `{"needs": ["`+string(ids[1])+`", "`+string(ids[2])+`"]}`)
		no := h.refused(protocol.CodeCycle, "berta", "block_on_dependency", ids[1], `{"needs": ["`+string(ids[0])+`"]}`)
		if !strings.Contains(no.Detail, "waits for this task itself") {
			t.Errorf("the refusal says: %s", no.Detail)
		}
		h.does("berta", "complete", ids[1], "")
		h.is(ids[0], task.Blocked)
		h.begin("berta", ids[2])
		h.does("berta", "complete", ids[2], "")
		h.is(ids[0], task.InProgress)
		h.does("anna", "block_on_dependency", ids[0], `{"needs": ["`+string(ids[2])+`"]}`)
		h.is(ids[0], task.InProgress)
	})
}

// TestRepairEndsWithItsCause checks that a repair is cancelled when the task that waited
// for it has ended or goes on without it, and that its holder is asked to stop. A repair
// that others wait for stays.
func TestRepairEndsWithItsCause(t *testing.T) {
	ends := []struct {
		name string
		does func(h *crew, id protocol.TaskID)
		why  string
	}{
		{"cancelled", func(h *crew, id protocol.TaskID) {
			h.does("human", "cancel", id, "")
			h.does("anna", "cancelled", id, "")
		}, "was cancelled"},
		{"cancelled by hive", func(h *crew, id protocol.TaskID) {
			h.does("human", "cancel", id, "")
			h.passAlive(61*time.Second, "anna", "berta")
		}, "was cancelled"},
		{"given up", func(h *crew, id protocol.TaskID) { h.does("human", "fatal_error", id, `{"reason": "no need"}`) }, "has failed: no need"},
		{"goes on", func(h *crew, id protocol.TaskID) { h.does("human", "dependency_resolved", id, "") }, "goes on without it"},
	}
	for _, end := range ends {
		t.Run(end.name, func(t *testing.T) {
			for _, at := range []task.State{task.Offered, task.InProgress} {
				scenarioNow(t, "anna berta", func(h *crew) {
					id := h.create("human", `{"title": "sum up", "to": ["anna", "berta"]}`)
					h.begin("anna", id)
					h.does("anna", "failure", id, `{"category": "logic", "reason": "the parser is wrong"}`)
					repair := h.created()[1]
					if at == task.InProgress {
						h.begin("berta", repair)
					}
					h.is(repair, at)
					end.does(h, id)
					v := h.view(repair)
					switch at {
					case task.Offered:
						if v.State != task.Cancelled || !strings.Contains(v.Reason, end.why) {
							t.Errorf("the repair is %s: %s", v.State, v.Reason)
						}
					default:
						if !v.CancelRequested {
							t.Errorf("the repair is %s, and its holder was not asked to stop", v.State)
						}
						h.wantTold("berta", protocol.CodeCancelRequested, 1, end.why)
						h.does("berta", "cancelled", repair, "")
					}
					h.wantTold("human", protocol.CodeCancelled, strings.Count(h.happenedTo(id), "cancelled"))
				})
			}
		})
	}
	t.Run("others wait for it", func(t *testing.T) {
		scenario(t, "anna berta", func(h *crew) {
			id := h.create("human", `{"title": "sum up", "to": ["anna"]}`)
			h.begin("anna", id)
			h.does("anna", "failure", id, `{"category": "logic", "reason": "the parser is wrong"}`)
			repair := h.created()[1]
			h.create("human", `{"title": "print it", "needs": ["`+string(repair)+`"]}`)
			h.does("human", "fatal_error", id, "")
			h.is(repair, task.Offered)
		})
	})
}
