package router

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// family creates tasks that need each other, named by their titles, and returns their ids
// in order.
func (h *crew) family(specs ...string) []protocol.TaskID {
	h.Helper()
	before := len(h.created())
	h.does("human", "create", "", `{"tasks": [`+strings.Join(specs, ", ")+`]}`)
	return h.created()[before:]
}

func member(name string, needs ...string) string {
	list := "[]"
	if len(needs) > 0 {
		list = `["` + strings.Join(needs, `", "`) + `"]`
	}
	return fmt.Sprintf(`{"name": %q, "title": %q, "to": ["anna"], "needs": %s}`, name, name, list)
}

// heirs returns the tasks that resume others, by what they resume.
func (h *crew) heirs() map[protocol.TaskID]*protocol.TaskEvent {
	m := map[protocol.TaskID]*protocol.TaskEvent{}
	for _, e := range all[*protocol.TaskEvent](h) {
		if e.Event == task.Create && e.Resumes != "" {
			m[e.Resumes] = e
		}
	}
	return m
}

// TestResumeKeepsNeeds checks that a resumed task needs what it needed before. What has
// failed must be resumed first, and then the task that resumes it is needed.
func TestResumeKeepsNeeds(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		ids := h.family(member("plan"), member("build", "plan"), member("test", "build", "plan"))
		plan, build, test := ids[0], ids[1], ids[2]
		h.begin("anna", plan)
		h.does("anna", "complete", plan, "")
		h.does("human", "cancel", build, "") // and so test fails
		h.is(test, task.Failed)

		no := h.refused(protocol.CodeNeedsUnmet, "human", "resume", test, "")
		if !strings.Contains(no.Detail, "`hived task resume "+string(build)+"`") || !strings.Contains(no.Detail, "hived task resume --family "+string(test)) {
			t.Errorf("the refusal says: %s", no.Detail)
		}
		no = h.refused(protocol.CodeNeedsUnmet, "human", "create", "", `{"title": "x", "needs": ["`+string(build)+`"]}`)
		if !strings.Contains(no.Detail, "`hived task resume "+string(build)+"`") {
			t.Errorf("the refusal says: %s", no.Detail)
		}
		h.does("human", "resume", build, "")
		again := h.heirs()[build]
		if diff := cmp.Diff([]protocol.TaskID{plan}, again.Needs); diff != "" {
			t.Errorf("what resumes build needs (-want +got):\n%s", diff)
		}
		no = h.refused(protocol.CodeNeedsUnmet, "human", "create", "", `{"title": "x", "needs": ["`+string(build)+`"]}`)
		if !strings.Contains(no.Detail, string(again.Task)+" resumes it") {
			t.Errorf("the refusal says: %s", no.Detail)
		}
		h.does("human", "resume", test, "")
		last := h.heirs()[test]
		if diff := cmp.Diff([]protocol.TaskID{again.Task, plan}, last.Needs); diff != "" {
			t.Errorf("what resumes test needs (-want +got):\n%s", diff)
		}
		h.refused(protocol.CodeNeedsUnmet, "anna", "claim", last.Task, "")
		h.begin("anna", again.Task)
		h.does("anna", "complete", again.Task, "")
		h.begin("anna", last.Task)
	})
}

// TestResumeFamily checks that one command resumes all tasks that failed together,
// whichever it names: what the task needed, what needed it, and what else those needed.
// Tasks that were completed, or go on, stay as they are.
func TestResumeFamily(t *testing.T) {
	for _, named := range []int{1, 2, 3, 4} {
		t.Run(strconv.Itoa(named), func(t *testing.T) {
			scenario(t, "anna", func(h *crew) {
				ids := h.family(member("plan"), member("build", "plan"), member("test", "build"), member("ship", "build", "test"), member("tell", "ship", "plan"), member("else", "plan"))
				h.begin("anna", ids[0])
				h.does("anna", "complete", ids[0], "")
				h.begin("anna", ids[1])
				h.does("anna", "progress", ids[1], `{"milestone": "half", "checkpoint": {"n": 5}}`)
				h.does("anna", "fatal_error", ids[1], "")
				for _, id := range ids[1:5] {
					h.is(id, task.Failed)
				}
				h.refused(protocol.CodeIllegalTransition, "human", "resume", ids[0], `{"family": true}`) // was completed
				h.does("human", "resume", ids[named], `{"family": true}`)

				heirs := h.heirs()
				if len(heirs) != 4 {
					t.Fatalf("%d tasks were resumed: %v", len(heirs), heirs)
				}
				as := func(id protocol.TaskID) protocol.TaskID {
					if e := heirs[id]; e != nil {
						return e.Task
					}
					return id
				}
				for i, needs := range map[int][]int{1: {0}, 2: {1}, 3: {1, 2}, 4: {3, 0}} {
					var want []protocol.TaskID
					for _, n := range needs {
						want = append(want, as(ids[n]))
					}
					if diff := cmp.Diff(want, heirs[ids[i]].Needs); diff != "" {
						t.Errorf("what resumes task %d needs (-want +got):\n%s", i, diff)
					}
				}
				if h.view(as(ids[1])).Checkpoint == nil {
					t.Error("the resumed task does not go on from the checkpoint")
				}
				for _, i := range []int{2, 3, 4} {
					h.refused(protocol.CodeNeedsUnmet, "anna", "claim", as(ids[i]), "")
				}
				for _, i := range []int{1, 2, 3, 4} {
					h.begin("anna", as(ids[i]))
					h.does("anna", "complete", as(ids[i]), "")
				}
				no := h.refused(protocol.CodeIllegalTransition, "human", "resume", ids[named], `{"family": true}`)
				if !strings.Contains(no.Detail, string(as(ids[named]))) {
					t.Errorf("the refusal says: %s", no.Detail)
				}
			})
		})
	}
}

// TestResumeFamilyOfOthers checks that all tasks are resumed or none, and that the sender
// must be allowed to resume each.
func TestResumeFamilyOfOthers(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		plan := h.create("human", member("plan"))
		build := h.create("berta", `{"title": "build", "needs": ["`+string(plan)+`"]}`)
		h.does("human", "cancel", plan, "")
		h.is(build, task.Failed)
		no := h.refused(protocol.CodeNotAllowed, "berta", "resume", build, `{"family": true}`)
		if !strings.Contains(no.Detail, string(plan)) {
			t.Errorf("the refusal says: %s", no.Detail)
		}
		h.does("human", "resume", build, `{"family": true}`)
		if n := len(h.heirs()); n != 2 {
			t.Errorf("%d tasks were resumed", n)
		}
	})
}

// TestPastIsBounded checks that hived knows how the last tasks that it let go ended, as
// many as the settings say.
func TestPastIsBounded(t *testing.T) {
	scenarioWith(t, "anna", func(s *protocol.Settings) { s.Remember.Conversations = 2 }, func(h *crew) {
		var ids []protocol.TaskID
		for range 4 {
			id := h.create("human", `{"title": "x", "to": ["anna"]}`)
			h.does("human", "cancel", id, "")
			h.pass(time.Minute)
			ids = append(ids, id)
		}
		h.pass(9 * 24 * time.Hour)
		for range 2 { // the second time after a start from the snapshot, or the log
			for i, id := range ids {
				if _, known := h.router.state.Tasks.Past(id); known != (i >= 2) {
					t.Errorf("task %d of %d: the end is known: %v", i+1, len(ids), known)
				}
			}
			h.down()
			h.up()
		}
	})
}

// TestAfterRetention checks that a task that has left memory can still be resumed, and
// needed if it was completed.
func TestAfterRetention(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		ids := h.family(member("plan"), member("build", "plan"), member("test", "build"))
		h.begin("anna", ids[0])
		h.does("anna", "complete", ids[0], "")
		h.begin("anna", ids[1])
		h.does("anna", "progress", ids[1], `{"milestone": "half", "checkpoint": {"n": 5}}`)
		h.does("anna", "fatal_error", ids[1], "")
		h.pass(9 * 24 * time.Hour)
		for _, again := range []bool{false, true} {
			if again { // start from the snapshot, or the log
				h.down()
				h.up()
			}
			if n := h.router.state.Tasks.Len(); n != 0 {
				t.Fatalf("%d tasks are still there", n)
			}
			no := h.refused(protocol.CodeNeedsUnmet, "human", "create", "", `{"title": "x", "needs": ["`+string(ids[1])+`"]}`)
			if !strings.Contains(no.Detail, "was failed") {
				t.Errorf("the refusal says: %s", no.Detail)
			}
		}
		h.refused(protocol.CodeNotAllowed, "anna", "resume", ids[1], "")
		h.refused(protocol.CodeIllegalTransition, "human", "cancel", ids[1], "")
		h.refused(protocol.CodeIllegalTransition, "anna", "complete", ids[1], "")
		more := h.create("human", `{"title": "more", "to": ["anna"], "needs": ["`+string(ids[0])+`"]}`)
		h.does("anna", "claim", more, "")

		h.does("human", "resume", ids[2], `{"family": true}`)
		heirs := h.heirs()
		if len(heirs) != 2 {
			t.Fatalf("%d tasks were resumed", len(heirs))
		}
		if diff := cmp.Diff([]protocol.TaskID{heirs[ids[1]].Task}, heirs[ids[2]].Needs); diff != "" {
			t.Errorf("what resumes test needs (-want +got):\n%s", diff)
		}
		if c := h.file(heirs[ids[1]].Task, protocol.TaskCheckpoint); !strings.Contains(c, `"n": 5`) {
			t.Errorf("the resumed task goes on from %q", c)
		}
	})
}
