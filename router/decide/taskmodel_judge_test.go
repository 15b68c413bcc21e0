package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// judge returns how a command may be answered: with any of codes, one for each fault
// that the command has, or without faults with the events of its task and of the tasks
// that it creates. An epoch that is over is a fault that comes before all others.
func (m *taskModel) judge(c *taskCommand, now time.Time) (codes []protocol.Code, steps []string) {
	v := &ruling{m: m, c: c, at: now.Add(-m.shift)}
	m.signs[c.by] = v.at // whoever sends anything is alive
	if c.Event == "create" {
		v.create()
		return v.codes, v.steps
	}
	if v.t = m.ever(protocol.TaskID(c.Task)); v.t != nil && m.tasks[v.t.id] == nil && c.Event != "resume" {
		return []protocol.Code{"illegal-transition"}, nil
	}
	if v.t == nil {
		if c.Event != "claim" || c.Task != "" {
			return []protocol.Code{"unknown-task"}, nil
		}
		v.claimAny()
		return v.codes, v.steps
	}
	if v.holders() && !v.effort() && !v.holder() {
		return v.codes, nil
	}
	v.decide()
	v.thenUnwinds()
	return v.codes, v.steps
}

// ruling is what the model finds about one command.
type ruling struct {
	m     *taskModel
	c     *taskCommand
	t     *oneTask
	at    time.Time
	codes []protocol.Code
	steps []string
}

// no adds a code if bad is true, and returns bad.
func (v *ruling) no(bad bool, code protocol.Code) bool {
	if bad {
		v.codes = append(v.codes, code)
	}
	return bad
}

// holders reports whether only the holder of the task may send the command.
func (v *ruling) holders() bool {
	if v.c.Event == "fatal_error" {
		return v.t.state != "blocked" || v.c.by == v.t.holder || !v.manages(true)
	}
	return slices.Contains([]string{"start", "progress", "pause_for_approval", "block_on_dependency", "transient_error", "failure", "release", "complete", "recovered", "cancelled", "step_started", "outcome"}, v.c.Event)
}

// holder reports whether the command has the epoch and the sender that the holder's have.
func (v *ruling) holder() bool {
	t, e := v.t, v.c.Epoch
	none := e == nil || *e == 0
	if !none && (*e < t.epoch || *e == t.epoch && t.spent) {
		return !v.no(true, "fenced")
	}
	v.no(none, "missing-epoch")
	v.no(!none && *e > t.epoch, "future-epoch")
	v.no(v.c.by != t.holder, "not-holder")
	return len(v.codes) == 0
}

// does adds an event if the contract has a row for it. A stalled task recovers first
// with whatever its holder reports; what its creator asks for or changes leaves it
// stalled.
func (v *ruling) does(event string) {
	from := v.t.state
	if from == "stalled" && v.m.rows["in_progress "+event] != "" && event != "cancelled" && event != "cancel" && event != "amend" {
		from = "in_progress"
		v.steps = append(v.steps, "recovered")
	}
	if _, row := v.m.rows[from+" "+event]; !v.no(!row, "illegal-transition") {
		v.steps = append(v.steps, event)
	}
}

// manages reports whether the sender may manage the task, where creator says whether
// its creator may.
func (v *ruling) manages(creator bool) bool {
	return v.c.by == modelLead || v.c.by == protocol.Human || creator && v.c.by == v.m.creatorOf(v.t)
}

func (v *ruling) decide() {
	t, by := v.t, v.c.by
	switch e := v.c.Event; e {
	case "claim", "accept":
		v.takes(e)
	case "reject":
		v.no(t.state == "offered" && !slices.Contains(t.offered, by), "not-offered")
		v.does(e)
	case "cancel":
		v.no(!v.manages(true), "not-allowed")
		v.does(e)
	case "dependency_resolved":
		v.no(!v.manages(false), "not-allowed")
		v.does(e)
	case "answer":
		v.no(!v.manages(true), "not-allowed")
		v.no(t.state == "blocked" && (t.ask == 0 || v.c.Data["comment"] == nil), "bad-command")
		v.no(t.state == "blocked" && v.c.Data["ask"] != t.ask, "stale-approval")
		v.does(e)
	case "amend":
		v.no(by != v.m.creatorOf(t) && by != protocol.Human, "not-allowed")
		v.no(v.c.Data["body"] == nil, "bad-command")
		v.does(e)
	case "approval_granted", "approval_denied":
		v.votes(e)
	case "resume":
		v.no(!v.manages(true), "not-allowed")
		if !v.no(!t.ended(), "illegal-transition") {
			u := v.m.unwinding(t)
			v.no(u != nil && u.id != t.id, "unwinding")
			v.no(t.unwinds != "" && (v.m.newest(t).id != t.id || v.m.lastToUndo(t) == nil), "illegal-transition")
			v.no(v.m.openInChain(t), "chain-open")
			v.no(slices.ContainsFunc(t.needs, v.m.hopeless), "needs-unmet")
			v.steps = append(v.steps, "create")
		}
	case "progress":
		until, _ := v.c.Data["expected_until"].(time.Time)
		v.no(until.Add(-v.m.shift).Sub(v.at) > time.Hour, "bad-command")
		v.does(e)
	case "pause_for_approval":
		if v.c.Data["step"] != nil {
			v.asksAboutStep()
		} else {
			v.no(v.c.Data["question"] == nil, "bad-command")
		}
		v.no(len(v.m.approvers(v.t)) < v.t.needed, "bad-command")
		v.does(e)
	case "block_on_dependency":
		v.blocks()
		v.does(e)
	case "failure":
		v.fails()
	case "release":
		v.givesBack()
	case "outcome":
		v.outcome()
	case "step_started":
		v.beginsStep()
	case "step_ended":
		v.endsStep()
	case "unwind":
		v.unwinds()
	case "complete":
		if t.unwinds != "" {
			v.no(v.m.lastToUndo(t) != nil, "steps-left")
		} else {
			v.no(slices.ContainsFunc(v.m.steps[v.m.origin(t)], (*modelStep).underway), "steps-left")
		}
		v.does(e)
	case "cancelled":
		v.no(t.cancelling.IsZero(), "illegal-transition")
		v.does(e)
	default:
		v.does(e)
	}
}

func (v *ruling) takes(event string) {
	t, by := v.t, v.c.by
	switch {
	case t.ended() || t.holder == by && t.state != "unassigned" && t.state != "offered":
		v.no(true, "illegal-transition")
	case t.state != "unassigned" && t.state != "offered":
		v.no(true, "race-lost")
	case event == "accept":
		v.no(t.may(by) && v.m.full(by), "no-room")
		v.no(t.state == "unassigned", "illegal-transition")
		v.no(t.state == "offered" && !slices.Contains(t.offered, by), "not-offered")
	default:
		v.no(!t.may(by), "not-eligible")
		v.no(v.m.unmet(t.needs), "needs-unmet")
		v.no(t.notBefore.After(v.at), "not-yet")
		v.no(v.m.full(by), "no-room")
	}
	v.starts(event)
}

// starts adds the events of a task that is taken, and perhaps started.
func (v *ruling) starts(event string) {
	until, silent := v.c.Data["expected_until"].(time.Time)
	ahead := until.Add(-v.m.shift).Sub(v.at)
	v.no(ahead > time.Hour, "bad-command")
	if v.steps = append(v.steps, event); v.c.Data["start"] != true {
		v.no(silent, "bad-command")
		return
	}
	if v.steps = append(v.steps, "start"); silent && ahead > 0 {
		v.steps = append(v.steps, "progress")
	}
}

// claimAny is for a claim that names no task: there must be one that the sender may take.
func (v *ruling) claimAny() {
	if v.no(v.m.full(v.c.by), "no-room") {
		v.starts("claim")
		return
	}
	for _, t := range v.m.tasks {
		if (v.m.free(t, v.at) || t.state == "offered") && t.may(v.c.by) || slices.Contains(t.offered, v.c.by) {
			v.starts("claim")
			return
		}
	}
	v.no(true, "no-task")
	v.starts("claim")
}

func (v *ruling) votes(event string) {
	t := v.t
	v.no(!slices.Contains(v.m.approvers(t), v.c.by), "not-approver")
	if v.no(t.state != "paused", "illegal-transition") {
		return
	}
	v.no(v.c.Data["ask"] != t.ask, "stale-approval")
	with := len(t.voted) + 1
	twice := slices.Contains(t.voted, v.c.by)
	choice, _ := v.c.Data["choice"].(string)
	if event == "approval_granted" {
		v.no(len(t.choices) == 0 && choice != "", "bad-command")
	}
	if event == "approval_granted" && len(t.choices) > 0 {
		v.no(!slices.Contains(t.choices, choice), "choose")
		with, twice = 1, t.chosen[v.c.by] == choice
		for by, c := range t.chosen {
			if by != v.c.by && c == choice {
				with++
			}
		}
	}
	v.no(event == "approval_granted" && twice, "voted-twice")
	if event == "approval_granted" && with < t.needed {
		event = "approval_vote"
	}
	v.steps = append(v.steps, event)
}

// waitsFor reports whether a task waits for another, directly or through others.
func (m *taskModel) waitsFor(t *oneTask, other protocol.TaskID) bool {
	var list []protocol.TaskID
	switch t.state {
	case "unassigned":
		list = t.needs
	case "blocked":
		list = t.blockedOn
	}
	return slices.ContainsFunc(list, func(id protocol.TaskID) bool {
		n := m.tasks[id]
		return id == other || n != nil && !m.done[id] && m.waitsFor(n, other)
	})
}

func (v *ruling) blocks() {
	needs, _ := v.c.Data["needs"].([]string)
	v.no(len(needs) == 0 && v.c.Data["reason"] == nil, "bad-command")
	for _, name := range needs {
		n := v.m.ever(protocol.TaskID(name))
		if v.no(n == nil, "unknown-need") {
			continue
		}
		v.no(n.state == "failed" || n.state == "cancelled", "needs-unmet")
		v.no(n == v.t || v.m.waitsFor(n, v.t.id), "dependency-cycle")
	}
}

func (v *ruling) fails() {
	if v.no(v.t.state != "in_progress" && v.t.state != "stalled", "illegal-transition") {
		return
	}
	switch v.c.Data["category"] {
	case "transient":
		v.does("transient_error")
	case "auth", "ambiguity":
		v.no(len(v.m.approvers(v.t)) < v.t.needed, "bad-command")
		v.does("pause_for_approval")
	case "logic":
		if v.t.depth >= v.m.set.RepairDepth {
			v.does("fatal_error")
			return
		}
		v.does("block_on_dependency")
		v.steps = slices.Insert(v.steps, len(v.steps)-1, "create")
	default:
		v.does("block_on_dependency")
	}
}

// create checks each task of a command: one that needs itself, directly or through
// others, is in a cycle.
func (v *ruling) create() {
	list, _ := v.c.Data["tasks"].([]map[string]any)
	needs := map[string][]string{}
	if gen := v.m.generation(v.c.by); gen > 0 {
		v.no(gen > v.m.set.Generations, "too-deep")
		v.no(v.m.lately(v.c.by, v.at)+len(list) > v.m.set.CreatedPerHour, "too-many")
	}
	for _, s := range list {
		name, _ := s["name"].(string)
		needs[name], _ = s["needs"].([]string)
		v.steps = append(v.steps, "create")
	}
	var reaches func(from, to string, far int) bool
	reaches = func(from, to string, far int) bool {
		return far > 0 && slices.ContainsFunc(needs[from], func(n string) bool { return n == to || reaches(n, to, far-1) })
	}
	for name, list := range needs {
		v.no(reaches(name, name, len(needs)), "dependency-cycle")
		for _, need := range list {
			if _, local := needs[need]; local {
				continue
			}
			n := v.m.ever(protocol.TaskID(need))
			if !v.no(n == nil, "unknown-need") {
				v.no(n.state == "failed" || n.state == "cancelled", "needs-unmet")
			}
		}
	}
}

func (t *oneTask) String() string {
	return fmt.Sprintf("%s %s, epoch %d of %q since %s", t.id, t.state, t.epoch, t.holder, t.since)
}
