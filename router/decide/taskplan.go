package decide

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// plan is an index of the tasks and the roster: when each task is due, which tasks wait
// for somebody to take them, and which agents have room for one. It is built from the
// state and kept up to date, so that no decision iterates over all tasks.
type plan struct {
	state      *ledger.State
	wakes      wakes
	waits      queues                           // wait for somebody, and nobody has room
	resting    queues                           // wait for the next offer, and may be claimed meanwhile
	asked      queues                           // are offered to some agents, and may be claimed by others
	open       openTasks                        // counted by why nobody can have them
	holders    holders                          // who has which tasks, in hand or not
	hands      map[protocol.AgentID]*hand       // what each agent has in hand
	free       []*hand                          // agents that have room, the least loaded first
	lastHeard  map[protocol.AgentID]task.Moment // when an agent was last heard of
	lastProbed map[protocol.AgentID]task.Moment // when its alive file was probed last
	lastAlive  map[protocol.AgentID]time.Time   // the time of that file then
	beats      map[protocol.AgentID]task.Moment // a moment before its last heartbeat was seen
	held       map[*task.Task]bool              // tasks in somebody's hand
	next       map[*task.Task]task.Moment       // when it is due, of the tasks that are scheduled
	nextMost   int                              // the largest size of next since that map was made
	taken      map[*task.Task]task.Moment       // when it was seen to be taken, of those that have not ended
	freed      []protocol.AgentID               // agents that got room since the last dispatch
	unable     []protocol.AgentID               // agents that cannot take their offers, since then
	ready      []*task.Task                     // tasks that became ready to be offered since then
	stale      []*task.Task                     // tasks whose view is out of date
	pauses     []pause                          // of tasks that none of the agents with room wanted, in the order they began
	lastPause  uint64                           // the number of the last pause
	pausesKept int                              // how many pauses were left when ended ones were last removed
	unheard    []*task.Task                     // tasks that are due, but whose agents' outboxes were not read up to then
}

// OffersWaiting is how many unanswered offers an agent has at most. It never has more
// than it could take.
const OffersWaiting = 3

// hand is what an agent has in hand.
type hand struct {
	id        protocol.AgentID
	tasks     []*task.Task
	offers    []*task.Task
	slots     int
	lastPause uint64 // the last pause that began while it had room, or that it was asked about
	listed    int    // one more than its load when it was put into plan.free; zero if it is not there
}

func (h *hand) load() int { return len(h.tasks) + len(h.offers) }

func (h *hand) hasRoom() bool { return len(h.offers) < min(OffersWaiting, h.slots-len(h.tasks)) }

func newPlan(state *ledger.State) *plan {
	return &plan{
		state: state, waits: newQueues(task.Best), resting: newQueues(task.Best), asked: newQueues(task.Best), open: newOpenTasks(state.Tasks), holders: holders{},
		hands: map[protocol.AgentID]*hand{}, lastHeard: map[protocol.AgentID]task.Moment{}, lastProbed: map[protocol.AgentID]task.Moment{},
		lastAlive: map[protocol.AgentID]time.Time{}, beats: map[protocol.AgentID]task.Moment{},
		held: map[*task.Task]bool{}, next: map[*task.Task]task.Moment{}, taken: map[*task.Task]task.Moment{},
	}
}

// holding is what the plan tracks of a task: who is busy with it, and whom it is
// offered to.
type holding struct {
	busy    protocol.AgentID
	offered []protocol.AgentID
}

func holdingOf(t *task.Task) holding { return holding{t.Busy(), t.Offered} }

// update brings the plan up to date with a task that changed; before is its holding
// until then.
func (p *plan) update(t *task.Task, before holding) {
	after := holdingOf(t)
	if before.busy != after.busy {
		p.removeTask(before.busy, t)
		p.addTask(after.busy, t)
		if after.busy != "" {
			p.held[t] = true
		} else {
			delete(p.held, t)
		}
	}
	for _, id := range before.offered {
		if !slices.Contains(after.offered, id) {
			p.removeOffer(id, t)
		}
	}
	for _, id := range after.offered {
		if !slices.Contains(before.offered, id) {
			p.addOffer(id, t)
		}
	}
	if t.Changed > t.Viewed && (len(p.stale) == 0 || p.stale[len(p.stale)-1] != t) {
		p.stale = append(p.stale, t)
	}
}

// addTask adds a task to those that an agent is busy with; it does nothing for an empty
// id.
func (p *plan) addTask(id protocol.AgentID, t *task.Task) {
	if id == "" {
		return
	}
	h := p.hand(id)
	h.tasks = append(h.tasks, t)
	p.updateAgent(id)
}

// removeTask removes a task from those that an agent is busy with; it does nothing for
// an empty id.
func (p *plan) removeTask(id protocol.AgentID, t *task.Task) {
	if id == "" {
		return
	}
	h := p.hand(id)
	h.tasks = removed(h.tasks, t)
	p.updateAgent(id)
}

// addOffer adds a task to those that an agent is offered.
func (p *plan) addOffer(id protocol.AgentID, t *task.Task) {
	h := p.hand(id)
	h.offers = append(h.offers, t)
	p.updateAgent(id)
}

// removeOffer removes a task from those that an agent is offered.
func (p *plan) removeOffer(id protocol.AgentID, t *task.Task) {
	h := p.hand(id)
	h.offers = removed(h.offers, t)
	p.updateAgent(id)
}

func removed(list []*task.Task, t *task.Task) []*task.Task {
	return slices.DeleteFunc(list, func(o *task.Task) bool { return o == t })
}

func (p *plan) hand(id protocol.AgentID) *hand {
	h := p.hands[id]
	if h == nil {
		h = &hand{id: id}
		p.hands[id] = h
	}
	return h
}

// updateAgent puts an agent into its place in plan.free, or removes it, after it or
// what it has in hand changed.
func (p *plan) updateAgent(id protocol.AgentID) {
	h := p.hand(id)
	if h.listed > 0 {
		i, _ := slices.BinarySearchFunc(p.free, h, byLoad)
		p.free = slices.Delete(p.free, i, i+1)
		h.listed, h.lastPause = 0, p.lastPause
	}
	a := p.state.Agents[id]
	if p.cannotTake(h, a) != "" {
		p.unable = append(p.unable, id)
	}
	if a == nil || a.Status != ledger.Active {
		return
	}
	if h.slots = a.SlotsNow(); a.Silent() || !h.hasRoom() {
		return
	}
	h.listed = h.load() + 1
	i, _ := slices.BinarySearchFunc(p.free, h, byLoad)
	p.free = slices.Insert(p.free, i, h)
	p.freed = append(p.freed, id)
}

// cannotTake returns why an agent can take none of its offers; empty if it can, or has
// none.
func (p *plan) cannotTake(h *hand, a *ledger.Agent) string {
	switch {
	case len(h.offers) == 0:
	case a == nil:
		return string(h.id) + " is no agent any more"
	case a.Status == ledger.OnHold:
		return string(h.id) + " is on hold"
	case a.Status == ledger.Archived:
		return string(h.id) + " is archived"
	case len(h.tasks) >= a.SlotsNow():
		return string(h.id) + " has no room for more"
	}
	return ""
}

// markResponsive marks an agent responsive, so that it gets offers again.
func (p *plan) markResponsive(id protocol.AgentID) {
	if h := p.hands[id]; h != nil && h.listed == 0 {
		p.updateAgent(id)
	}
}

// byLoad compares agents by the load that they are listed under.
func byLoad(a, b *hand) int { return cmp.Or(cmp.Compare(a.listed, b.listed), cmp.Compare(a.id, b.id)) }

// forAnyone is the address of tasks that any agent may have.
const forAnyone protocol.Address = ""

// eligible reports whether an agent may have a task, whatever it has in hand.
func eligible(t *task.Task, a *ledger.Agent) bool {
	if len(t.To) == 0 {
		return a.ID != protocol.Human
	}
	for _, to := range t.To {
		if role, ok := to.Role(); ok && a.Has(role) || protocol.AgentID(to) == a.ID {
			return true
		}
	}
	return false
}

// addresses returns the addresses by which a task can mean an agent.
func addresses(a *ledger.Agent) []protocol.Address {
	list := []protocol.Address{protocol.Address(a.ID)}
	if a.ID != protocol.Human {
		list = append(list, forAnyone)
	}
	for _, role := range append([]string{a.Role}, a.Caps...) {
		if role != "" {
			list = append(list, protocol.Address("@"+role))
		}
	}
	return list
}

// candidates returns the agents that a task is offered to next: at most so many that
// have room and were not asked before, the least loaded first.
func (p *plan) candidates(t *task.Task, most int, before ...protocol.AgentID) []protocol.AgentID {
	var list []protocol.AgentID
	for _, h := range p.free {
		if len(list) == most {
			break
		}
		if eligible(t, p.state.Agents[h.id]) && !slices.Contains(before, h.id) {
			list = append(list, h.id)
		}
	}
	return list
}

// pause is a task that nobody is asked about for a while, because none of the agents
// with room wanted it. Pauses are numbered in the order they begin.
type pause struct {
	n uint64
	t *task.Task
}

// paused reports whether a task could be taken but is not offered yet.
func (p *plan) paused(t *task.Task, at task.Moment) bool {
	return t.State == task.Unassigned && t.Until > at && t.NotBefore <= at && p.claimable(t, at)
}

// pausesMost is how many pauses are kept before ended ones are removed.
const pausesMost = 64

// pause records a task's pause for agents that get room before it is over.
func (p *plan) pause(t *task.Task, at task.Moment) {
	if len(p.pauses) >= max(2*p.pausesKept, pausesMost) {
		p.pauses = slices.DeleteFunc(p.pauses, func(x pause) bool { return !p.paused(x.t, at) })
		p.pausesKept = len(p.pauses)
	}
	p.lastPause++
	p.pauses = append(p.pauses, pause{p.lastPause, t})
}

// unasked returns the tasks that began to pause while an agent had no room, and that
// it was not asked about, the best first. So an agent that gets room costs only the
// pauses that began meanwhile, not all of them.
func (p *plan) unasked(h *hand, a *ledger.Agent, at task.Moment) []*task.Task {
	i, _ := slices.BinarySearchFunc(p.pauses, h.lastPause+1, func(x pause, n uint64) int { return cmp.Compare(x.n, n) })
	h.lastPause = p.lastPause
	var list []*task.Task
	for _, x := range p.pauses[i:] {
		if p.paused(x.t, at) && !p.state.Tasks.Stopped(x.t.ID) && eligible(x.t, a) && !slices.Contains(x.t.Declined, h.id) {
			list = append(list, x.t)
		}
	}
	slices.SortFunc(list, task.Best)
	return slices.Compact(list)
}

// queues hold tasks that nobody has, in one queue for each audience, so that only the
// queues that an agent may take from are searched. No queue is empty.
type queues struct {
	all       map[string]*queue
	byAddress map[protocol.Address][]*queue // the queues whose audience includes an address
	order     func(a, b *task.Task) int     // never changes between two tasks while they are in a queue
}

func newQueues(order func(a, b *task.Task) int) queues {
	return queues{map[string]*queue{}, map[protocol.Address][]*queue{}, order}
}

// queue holds the tasks of one audience in their order. A task that no longer belongs there is removed when it comes first, or when
// it ends.
type queue struct {
	key  string
	to   []protocol.Address
	list []*task.Task
}

// keyOf returns the key of a task's audience.
func keyOf(t *task.Task) string {
	switch len(t.To) {
	case 0:
		return ""
	case 1:
		return string(t.To[0])
	}
	parts := make([]string, len(t.To))
	for i, to := range t.To {
		parts[i] = string(to)
	}
	return strings.Join(parts, " ")
}

func (s *queues) add(t *task.Task) {
	key := keyOf(t)
	q := s.all[key]
	if q == nil {
		q = &queue{key: key, to: t.To}
		if len(q.to) == 0 {
			q.to = []protocol.Address{forAnyone}
		}
		s.all[key] = q
		for _, to := range q.to {
			s.byAddress[to] = append(s.byAddress[to], q)
		}
	}
	if i, in := slices.BinarySearchFunc(q.list, t, s.order); !in {
		q.list = slices.Insert(q.list, i, t)
	}
}

// remove removes a task, if it is in a queue.
func (s *queues) remove(t *task.Task) {
	q := s.all[keyOf(t)]
	if q == nil {
		return
	}
	if i, in := slices.BinarySearchFunc(q.list, t, s.order); in {
		s.removeAt(q, i)
	}
}

// without returns a list without the task at index i. It moves the others on the
// shorter side.
func without(list []*task.Task, i int) []*task.Task {
	if i >= len(list)/2 {
		return slices.Delete(list, i, i+1)
	}
	copy(list[1:], list[:i])
	list[0] = nil
	return list[1:]
}

// removeAt removes the task at index i from its queue. An empty queue is deleted, since
// its audience may be that of a single task.
func (s *queues) removeAt(q *queue, i int) {
	q.list = without(q.list, i)
	if len(q.list) > 0 {
		return
	}
	delete(s.all, q.key)
	for _, to := range q.to {
		s.byAddress[to] = slices.DeleteFunc(s.byAddress[to], func(o *queue) bool { return o == q })
		if len(s.byAddress[to]) == 0 {
			delete(s.byAddress, to)
		}
	}
}

// best returns the best task that an agent may have and that still belongs there, as
// still reports; nil if there is none.
func (s *queues) best(a *ledger.Agent, still func(*task.Task) bool) *task.Task {
	var best *task.Task
	for _, to := range addresses(a) {
		for _, q := range slices.Clone(s.byAddress[to]) {
			for len(q.list) > 0 && !still(q.list[0]) {
				s.removeAt(q, 0)
			}
			if len(q.list) > 0 && (best == nil || task.Best(q.list[0], best) < 0) {
				best = q.list[0]
			}
		}
	}
	return best
}

// remove removes a task that has ended from the plan, except from its schedule: it is
// still due when it is swept.
func (p *plan) remove(t *task.Task) {
	for _, q := range []*queues{&p.waits, &p.resting, &p.asked} {
		q.remove(t)
	}
	delete(p.taken, t)
}

// claimable reports whether a task that is offered to nobody may be taken now.
func (p *plan) claimable(t *task.Task, at task.Moment) bool {
	return t.State == task.Unassigned && t.NotBefore <= at && len(p.state.Tasks.Unmet(t)) == 0 && p.state.Tasks.Get(t.ID) == t
}

// isOffered reports whether a task is offered to somebody now.
func (p *plan) isOffered(t *task.Task) bool {
	return t.State == task.Offered && p.state.Tasks.Get(t.ID) == t
}

// waiting reports whether a task is claimable and it is time to offer it.
func (p *plan) waiting(t *task.Task, at task.Moment) bool {
	return t.Until <= at && p.claimable(t, at) && !p.state.Tasks.Stopped(t.ID)
}

// wakes is a heap of tasks by when they are due.
type wakes []wake

type wake struct {
	at task.Moment
	t  *task.Task
}

func (w *wakes) Len() int           { return len(*w) }
func (w *wakes) Less(i, j int) bool { return (*w)[i].at < (*w)[j].at }
func (w *wakes) Swap(i, j int)      { (*w)[i], (*w)[j] = (*w)[j], (*w)[i] }

// Push is for package heap.
func (w *wakes) Push(x any) { *w = append(*w, x.(wake)) } //nolint:forcetypeassert // nothing else is put in

// Pop is for package heap.
func (w *wakes) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	(*w)[last] = wake{}
	if *w = (*w)[:last]; last >= roomKept && 4*last <= cap(*w) {
		*w = slices.Clone(*w)
	}
	return x
}

// roomKept is for how many tasks the plan keeps unused memory.
const roomKept = 256

// schedule makes a task due no later than at a moment. If it is scheduled earlier that
// stays, and nothing is done then if nothing is due.
func (p *plan) schedule(t *task.Task, at task.Moment) {
	if next := p.next[t]; at == 0 || next != 0 && next <= at {
		return
	}
	p.next[t] = at
	heap.Push(&p.wakes, wake{at, t})
}

// clearNext removes a task's entry from next. When few are left of many it makes a new
// map, since a map does not shrink.
func (p *plan) clearNext(t *task.Task) {
	p.nextMost = max(p.nextMost, len(p.next))
	if delete(p.next, t); len(p.next) >= roomKept && 4*len(p.next) <= p.nextMost {
		next := make(map[*task.Task]task.Moment, len(p.next))
		maps.Copy(next, p.next)
		p.next, p.nextMost = next, 0
	}
}

// due removes and returns the task that is due first; nil if none is due at a moment.
func (p *plan) due(at task.Moment) *task.Task {
	for len(p.wakes) > 0 && p.wakes[0].at <= at {
		w := heap.Pop(&p.wakes).(wake) //nolint:forcetypeassert // nothing else is in it
		if p.next[w.t] != w.at {
			continue // it was rescheduled to an earlier moment, which is over
		}
		p.clearNext(w.t)
		if p.state.Tasks.Get(w.t.ID) == w.t {
			return w.t
		}
	}
	return nil
}
