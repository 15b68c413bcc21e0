package decide

import (
	"slices"

	"github.com/hived/hived/protocol"
)

// newest returns the task of a chain that was created last.
func (m *taskModel) newest(t *oneTask) *oneTask {
	for _, o := range slices.Backward(m.sorted()) {
		if m.origin(o) == m.origin(t) {
			return o
		}
	}
	return t
}

// lastToUndo returns the last step of the chain of a task that is to be undone.
func (m *taskModel) lastToUndo(t *oneTask) *modelStep {
	for _, s := range slices.Backward(m.steps[m.origin(t)]) {
		if s.undo && slices.Contains([]string{"done", "executing", "undoing"}, s.status) {
			return s
		}
	}
	return nil
}

// toUnwind reports whether a task that has ended must be unwound and is not.
func (m *taskModel) toUnwind(t *oneTask) bool {
	return (t.state == "failed" || t.state == "cancelled") && t.unwinds == "" && m.newest(t) == t && m.lastToUndo(t) != nil
}

// unwinding returns the task that undoes what the chain of another did, unless that is
// settled.
func (m *taskModel) unwinding(t *oneTask) *oneTask {
	u := m.newest(t)
	unstarted := u.state == "cancelled" && u.attempt == 0 && u.resumes == ""
	if u.unwinds == "" || u.state == "completed" || u.ended() && (unstarted || m.lastToUndo(u) == nil) {
		return nil
	}
	return u
}

// creatorOf returns who counts as the creator of a task.
func (m *taskModel) creatorOf(t *oneTask) protocol.AgentID {
	if of := m.ever(t.unwinds); of != nil && t.creator == protocol.Hive {
		return of.creator
	}
	return t.creator
}

// badUnwinding returns what is wrong with a new task that undoes what another did.
func (m *taskModel) badUnwinding(e *protocol.TaskEvent) string {
	if e.Unwinds == "" {
		return ""
	}
	of, before := m.ever(e.Unwinds), m.ever(e.Resumes)
	switch {
	case of == nil || !of.ended():
		return "what it undoes has not ended"
	case before == nil && of.unwound != e.Task:
		return "no unwind led to it"
	case before != nil && before.unwinds != e.Unwinds:
		return "what it goes on from undid something else"
	}
	return ""
}

// unwinds judges an unwind.
func (v *ruling) unwinds() {
	t := v.t
	v.no(v.c.by != v.m.creatorOf(t) && v.c.by != protocol.Human, "not-allowed")
	if v.no(!t.ended(), "illegal-transition") {
		return
	}
	newest := v.m.newest(t)
	v.no(t.unwinds != "", "bad-command")
	v.no(v.m.unwinding(t) != nil, "unwinding")
	v.no(v.m.openInChain(t), "chain-open")
	v.no(newest.id != t.id && newest.unwinds != t.id, "illegal-transition")
	v.no(v.m.lastToUndo(t) == nil, "bad-command")
	v.steps = append(v.steps, "unwind", "create")
}

// thenUnwinds adds what follows from the end of a task that was not completed and has
// steps to undo.
func (v *ruling) thenUnwinds() {
	t := v.t
	if len(v.steps) == 0 || t.ended() || t.unwinds != "" || v.m.lastToUndo(t) == nil || v.m.newest(t) != t {
		return
	}
	last := v.steps[len(v.steps)-1]
	from := t.state
	if from == "stalled" && v.steps[0] == "recovered" {
		from = "in_progress"
	}
	if to := v.m.rows[from+" "+last]; to == "failed" || to == "cancelled" {
		v.steps = append(v.steps, "unwind", "create")
	}
}
