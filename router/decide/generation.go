package decide

import (
	"cmp"
	"fmt"
	"time"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// holders are the tasks that agents have, also those that wait and so are in nobody's
// hand.
type holders map[protocol.AgentID]map[*task.Task]bool

func (h holders) leave(t *task.Task) {
	if !task.Held(t.State) {
		return
	}
	delete(h[t.Holder], t)
	if len(h[t.Holder]) == 0 {
		delete(h, t.Holder)
	}
}

func (h holders) enter(t *task.Task) {
	if !task.Held(t.State) {
		return
	}
	if h[t.Holder] == nil {
		h[t.Holder] = map[*task.Task]bool{}
	}
	h[t.Holder][t] = true
}

// leave removes a task, if there is one, from what is known of who has it and of why
// nobody can, before an event changes it.
func (p *plan) leave(t *task.Task) {
	if t != nil {
		p.open.leave(t)
		p.holders.leave(t)
	}
}

// enter adds a task as it is now to the same.
func (p *plan) enter(t *task.Task) {
	p.open.enter(t)
	p.holders.enter(t)
}

// changed adds the task of an event that was folded.
func (p *plan) changed(e *protocol.TaskEvent) {
	if t := p.state.Tasks.Get(e.Task); t != nil {
		p.enter(t)
		p.open.released(t, e)
	}
}

// highest returns the task of the highest generation that an agent has; nil if it has
// none.
func (h holders) highest(id protocol.AgentID) (best *task.Task) {
	for t := range h[id] {
		if best == nil || cmp.Or(cmp.Compare(t.Terms().Generation, best.Terms().Generation), cmp.Compare(best.ID, t.ID)) > 0 {
			best = t
		}
	}
	return best
}

// generationFor returns the generation of what an agent creates now: one more than that
// of what it holds, or zero for who holds nothing, and for people.
func (d *Decider) generationFor(id protocol.AgentID) int {
	if id == protocol.Human {
		return 0
	}
	held := d.plan.holders.highest(id)
	if held == nil {
		return 0
	}
	return int(held.Terms().Generation) + 1
}

// checkGeneration sets the generation of the tasks that a report creates. It refuses
// them where work begets work too deep, or too fast (spec §8.2).
func (d *Decider) checkGeneration(r *report, tasks int) error {
	set := &d.settings.Tasks
	r.generation = d.generationFor(r.by)
	if r.generation == 0 {
		return nil
	}
	held := d.plan.holders.highest(r.by)
	if r.generation > set.Generations {
		return &refusal{protocol.CodeTooDeep, fmt.Sprintf("you hold %s, and what you create meanwhile is of generation %d, where the hive allows %d (tasks.generations). Report what is left to do as the result of your task, `%s`, or ask %s to create it",
			held.ID, r.generation, set.Generations, taskMessage(task.Complete, held.ID, held.Epoch, `{"result": "what is left to do"}`), listNames(d.whoElse(r.by, held)))}
	}
	n, again := d.state.Tasks.Made(r.by, d.state.Tasks.Moment(r.now), tasks, set.CreatedPerHour)
	switch {
	case tasks > set.CreatedPerHour:
		return &refusal{protocol.CodeTooMany, fmt.Sprintf("it has %d tasks, and who holds a task creates at most %d in an hour (tasks.created_per_hour); send fewer", tasks, set.CreatedPerHour)}
	case again > 0:
		return &refusal{protocol.CodeTooMany, fmt.Sprintf("you created %d tasks within the last hour while you held one, and may create %d (tasks.created_per_hour); send it again from %s on, or put the work into fewer tasks",
			n, set.CreatedPerHour, wholeSecond(d.state.Tasks.Time(again)).Format(time.RFC3339))}
	}
	return nil
}

// whoElse returns whom the holder of a task can ask to create another one: the creator of
// the task, or the lead, or else human.
func (d *Decider) whoElse(by protocol.AgentID, held *task.Task) []protocol.AgentID {
	for _, id := range []protocol.AgentID{d.creatorOf(held), d.state.Lead} {
		if a := d.state.Agents[id]; a != nil && id != by {
			return []protocol.AgentID{id}
		}
	}
	return []protocol.AgentID{protocol.Human}
}
