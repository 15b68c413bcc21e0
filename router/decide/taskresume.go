package decide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// findTask returns a task, even one that ended and was swept; nil if none is known. A
// swept task has only what can be read again: who created it, how it ended, and where
// the log has its brief and its checkpoint.
func (d *Decider) findTask(id protocol.TaskID) *task.Task {
	if t := d.state.Tasks.Get(id); t != nil {
		return t
	}
	p, known := d.state.Tasks.Past(id)
	if !known {
		return nil
	}
	t := &task.Task{ID: p.ID, State: p.State, BriefAt: p.BriefAt, CheckpointAt: p.CheckpointAt}
	if brief, err := d.taskEvent(p.BriefAt); err == nil {
		t.Creator = brief.By
		t.SetTerms(task.Terms{Resumes: brief.Resumes, Origin: cmp.Or(brief.Origin, brief.Resumes, brief.Unwinds), Unwinds: brief.Unwinds, Generation: int32(brief.Generation)}) //nolint:gosec // as it was folded
		if brief.Amends != nil {
			t.Creator = brief.Amends.Creator
		}
	}
	return t
}

// handleResume creates a task that goes on where an ended one stopped, or one for each
// of the tasks that failed with it (spec §8.1). It needs what the ended one needed, or,
// if that has failed too, the task that resumes it.
func (d *Decider) handleResume(r *report) error {
	if !task.Ended(r.t.State) {
		return &refusal{protocol.CodeIllegalTransition, "it is " + string(r.t.State) + " and goes on by itself; only a task that has ended is resumed"}
	}
	if err := d.mayResume(r, r.t); err != nil {
		return err
	}
	list := []*task.Task{r.t}
	if r.Family {
		var err error
		if list, err = d.family(r); err != nil {
			return err
		}
	}
	fresh := map[protocol.TaskID]protocol.TaskID{}
	events := make([]protocol.TaskEvent, len(list))
	for i, t := range list {
		id, err := d.ids.next(r.now)
		if err != nil {
			return err
		}
		e, err := d.resumption(r, t, fresh)
		if err != nil {
			return err
		}
		events[i], fresh[t.ID] = e, protocol.TaskID(id.String())
	}
	r.t = nil
	for i, e := range events {
		r.created = append(r.created, fresh[list[i].ID])
		if err := d.recordCreated(r, r.created[i], e); err != nil {
			return err
		}
	}
	return nil
}

func (d *Decider) mayResume(r *report, t *task.Task) error {
	if r.by == d.creatorOf(t) || d.manages(r) {
		return nil
	}
	return &refusal{protocol.CodeNotAllowed, string(t.ID) + ": " + d.onlyManagersText(t)}
}

// resumption returns the event that creates a task going on from an ended one. fresh
// maps the tasks that the same command resumes before it to their new ids.
func (d *Decider) resumption(r *report, t *task.Task, fresh map[protocol.TaskID]protocol.TaskID) (e protocol.TaskEvent, err error) {
	if err := d.checkUnwinding(r.by, t); err != nil {
		return e, err
	}
	if other := d.state.Tasks.OpenInChain(t); other != nil {
		return e, refuseOpenChain(r.by, other)
	}
	brief, err := d.taskEvent(t.BriefAt)
	if err != nil || brief.Spec == nil {
		return e, &refusal{protocol.CodeBadCommand, "what was to be done cannot be read from the log: create the task again"}
	}
	spec := *brief.Spec
	spec.Name, spec.Needs = "", nil
	e = protocol.TaskEvent{By: r.by, Spec: &spec, Resumes: t.ID, Unwinds: t.Terms().Unwinds, Generation: int(t.Terms().Generation), Reason: r.limitText(r.Reason), GateBy: gateBy(brief)}
	if d.state.Format >= stepsSince {
		e.Origin = t.Origin()
	}
	for _, need := range brief.Needs {
		heir, live := d.state.Tasks.Heir(need)
		if as, now := fresh[heir]; now {
			heir, live = as, true
		}
		if !live {
			return e, d.resumeFirst(r.by, t, heir)
		}
		if !slices.Contains(e.Needs, heir) {
			e.Needs = append(e.Needs, heir)
		}
	}
	if t.CheckpointAt > 0 {
		last, err := d.wholeCheckpoint(t)
		if err != nil {
			return e, &refusal{protocol.CodeBadCommand, "its checkpoint cannot be read from the log: create the task again"}
		}
		e.Checkpoint = last
	}
	return e, nil
}

// refuseOpenChain refuses a second open task of a chain.
func refuseOpenChain(by protocol.AgentID, open *task.Task) error {
	return &refusal{protocol.CodeChainOpen, string(open.ID) + " goes on from the same task and is " + string(open.State) + ", and of the tasks that resume each other one is open at a time; wait until it ends, or " + howToTask(by, task.Cancel, open.ID, 0, "", "") + " first"}
}

// gateBy returns who wrote the gate of a brief; empty if there is none, or if the task
// was resumed before that was recorded.
func gateBy(brief *protocol.TaskEvent) protocol.AgentID {
	if brief.GateBy == "" && brief.Event == task.Create && brief.Resumes == "" && brief.Spec.Gate != "" {
		return brief.By
	}
	return brief.GateBy
}

// resumeFirst refuses to resume a task before another that it needs.
func (d *Decider) resumeFirst(by protocol.AgentID, t *task.Task, need protocol.TaskID) error {
	state, known := d.state.Tasks.StateOf(need)
	if !known {
		return refuseUnknownNeed(by, string(need))
	}
	return &refusal{protocol.CodeNeedsUnmet, fmt.Sprintf("it needs %s, which was %s; to resume that first, %s; to resume all that failed with it, %s", need, state, howToResume(by, need), howToResumeFamily(by, t.ID))}
}

// family returns the tasks that failed together, each after those that it needs: what
// one of them needed, and what needed it, unless it was completed or resumed.
func (d *Decider) family(r *report) ([]*task.Task, error) {
	book := d.state.Tasks
	all, needs := map[protocol.TaskID]*task.Task{}, map[protocol.TaskID][]protocol.TaskID{}
	find := []protocol.TaskID{r.t.ID}
	for len(find) > 0 {
		id, live := book.Heir(find[0])
		find = find[1:]
		if live || all[id] != nil {
			continue
		}
		t := d.findTask(id)
		if t == nil {
			return nil, refuseUnknownNeed(r.by, string(id))
		}
		if err := d.mayResume(r, t); err != nil {
			return nil, err
		}
		if all[id] = t; len(all) > TasksMost {
			return nil, &refusal{protocol.CodeTooMany, fmt.Sprintf("more than %d tasks failed with it; resume some of them first", TasksMost)}
		}
		if brief, err := d.taskEvent(t.BriefAt); err == nil {
			needs[id] = brief.Needs
		}
		find = append(find, needs[id]...)
		for was := t; was != nil; was = d.findTask(was.Terms().Resumes) {
			find = append(find, book.Kin(was.ID)...)
		}
	}
	if len(all) == 0 {
		heir, _ := book.Heir(r.t.ID)
		if heir == r.t.ID {
			return nil, &refusal{protocol.CodeIllegalTransition, "it was completed, and no family failed with it; without `family` it is resumed alone"}
		}
		return nil, &refusal{protocol.CodeIllegalTransition, "it was resumed already: " + string(heir) + " goes on from it"}
	}
	return d.needsFirst(all, needs), nil
}

// needsFirst orders tasks so that each comes after those that it needs.
func (d *Decider) needsFirst(all map[protocol.TaskID]*task.Task, needs map[protocol.TaskID][]protocol.TaskID) (list []*task.Task) {
	placed := map[protocol.TaskID]bool{}
	var place func(id protocol.TaskID)
	place = func(id protocol.TaskID) {
		if placed[id] || all[id] == nil {
			return
		}
		placed[id] = true
		for _, need := range needs[id] {
			heir, _ := d.state.Tasks.Heir(need)
			place(heir)
		}
		list = append(list, all[id])
	}
	for _, t := range sortedByID(all) {
		place(t.ID)
	}
	return list
}

// sortedByID returns tasks in the order of their ids.
func sortedByID(all map[protocol.TaskID]*task.Task) []*task.Task {
	list := slices.Collect(maps.Values(all))
	slices.SortFunc(list, func(a, b *task.Task) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
