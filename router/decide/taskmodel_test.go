package decide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/protocol"
)

// contract is the table of spec §8.1, and the events that leave the state as it is.
const contract = `
unassigned offer offered
unassigned,offered claim pending
unassigned,blocked dependency_failed failed
unassigned max_retries_exceeded failed
unassigned poison failed
offered accept pending
offered reject offered
offered offer_exhausted unassigned
offered offer_expired unassigned
offered offer_withdrawn offered
pending start in_progress
pending lease_expired unassigned
pending,in_progress,retrying release unassigned
in_progress progress in_progress
in_progress pause_for_approval paused
in_progress block_on_dependency blocked
in_progress transient_error retrying
in_progress fatal_error failed
in_progress complete completed
in_progress heartbeat_lost stalled
in_progress progress_stalled stalled
paused approval_vote paused
paused approval_granted in_progress
paused approval_denied failed
paused timeout failed
blocked dependency_resolved in_progress
blocked answer in_progress
blocked fatal_error failed
retrying retry in_progress
retrying max_retries_exceeded failed
retrying fatal_error failed
stalled recovered in_progress
stalled release unassigned
stalled max_retries_exceeded failed
unassigned,offered,pending cancel cancelled
in_progress,paused,blocked,retrying,stalled cancel =
in_progress,paused,blocked,retrying,stalled cancelled cancelled
pending,paused remind =
unassigned,offered,pending,in_progress,paused,blocked,retrying,stalled amend =
in_progress step_started in_progress
unassigned,offered,pending,in_progress,paused,blocked,retrying,stalled,completed,failed,cancelled step_ended =
completed,failed,cancelled unwind =
paused,blocked,retrying,completed,failed,cancelled effort =
`

// contractRows returns the state that each state and event lead to.
func contractRows() map[string]string {
	rows := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(contract)) {
		f := strings.Fields(line)
		for from := range strings.SplitSeq(f[0], ",") {
			if rows[from+" "+f[1]] = f[2]; f[2] == "=" {
				rows[from+" "+f[1]] = from
			}
		}
	}
	return rows
}

// oneTask is a task in the model.
type oneTask struct {
	id      protocol.TaskID
	creator protocol.AgentID
	to      []protocol.Address
	needs   []protocol.TaskID
	resumes protocol.TaskID
	repairs protocol.TaskID
	unwinds protocol.TaskID
	unwound protocol.TaskID // by this one
	needed  int
	depth   int
	gen     int // of what holders create

	state           string
	epoch           uint64
	spent           bool
	holder          protocol.AgentID
	attempt         int
	retries         int
	free, row       int // executions that count as free, and the last of them one after the other
	crashes         int
	last            protocol.AgentID // who took it last
	offered, voted  []protocol.AgentID
	declined        []protocol.AgentID // asked in this round
	ignored         int                // offers that nobody answered
	fruitless       int                // executions in a row that reached nothing new
	advanced        bool
	blockedOn       []protocol.TaskID
	ask             protocol.Seq // the number of the question that is open
	choices         []string     // that it offers
	chosen          map[protocol.AgentID]string
	endless         bool      // it has no time limit
	remindedAt      time.Time // of one without a time limit
	reminded        bool
	reached         string // the last checkpoint
	number          string // what its data says
	since, moved    time.Time
	expected, until time.Time
	stepUntil       time.Time // a step is silent so long
	notBefore       time.Time
	cancelling      time.Time
}

func (t *oneTask) ended() bool {
	return t.state == "completed" || t.state == "failed" || t.state == "cancelled"
}

func (t *oneTask) busy() bool {
	return slices.Contains([]string{"pending", "in_progress", "retrying", "stalled"}, t.state)
}

// taskModel is what tasks must do, kept in plain maps. Times are those of a clock
// that nobody sets.
type taskModel struct {
	rows   map[string]string
	set    protocol.TaskSettings
	tasks  map[protocol.TaskID]*oneTask
	gone   map[protocol.TaskID]*oneTask // tasks that were let go
	done   map[protocol.TaskID]bool     // completed tasks, also those let go since
	shift  time.Duration                // by which the clock of the machine was set
	clocks time.Time                    // when hived started or last saw its clock set
	signs  map[protocol.AgentID]time.Time
	missed map[protocol.AgentID]int // offers that ran out since the last sign of the agent
	tally  map[string]int
	steps  map[protocol.TaskID][]*modelStep // by the first task of a chain
	made   map[protocol.AgentID][]time.Time // when it created tasks while it held one
}

func newTaskModel(set protocol.TaskSettings) *taskModel {
	return &taskModel{
		rows: contractRows(), set: set, tasks: map[protocol.TaskID]*oneTask{}, gone: map[protocol.TaskID]*oneTask{}, done: map[protocol.TaskID]bool{},
		signs: map[protocol.AgentID]time.Time{}, missed: map[protocol.AgentID]int{}, tally: map[string]int{},
		steps: map[protocol.TaskID][]*modelStep{}, made: map[protocol.AgentID][]time.Time{},
	}
}

var (
	modelLead = protocol.AgentID("alice")
	modelTeam = []protocol.AgentID{"alice", "bob", "carol", "dave", protocol.Human}
)

// may reports whether a task is for an agent; bob and carol are writers.
func (t *oneTask) may(id protocol.AgentID) bool {
	writer := id == "bob" || id == "carol"
	return len(t.to) == 0 && id != protocol.Human || slices.Contains(t.to, protocol.Address(id)) || writer && slices.Contains(t.to, "@writer")
}

func (m *taskModel) approvers(t *oneTask) []protocol.AgentID {
	if t.needed > 1 && t.holder != modelLead { // the holder asks, and may not answer
		return []protocol.AgentID{protocol.Human, modelLead}
	}
	return []protocol.AgentID{protocol.Human}
}

// unmet reports whether any of the tasks is not completed.
func (m *taskModel) unmet(list []protocol.TaskID) bool {
	return slices.ContainsFunc(list, func(id protocol.TaskID) bool { return !m.done[id] })
}

func (m *taskModel) sorted() []*oneTask {
	var list []*oneTask
	for _, id := range slices.Sorted(maps.Keys(m.tasks)) {
		list = append(list, m.tasks[id])
	}
	return list
}

// running returns when a timer began to count: at the latest of times, or when hived
// started.
func (m *taskModel) running(times ...time.Time) time.Time {
	return latest(append(times, m.clocks)...)
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

func (m *taskModel) stuckAt(t *oneTask) time.Time {
	return latest(m.running(t.since, t.moved), t.expected, t.stepUntil).Add(m.set.ProgressTimeout)
}

func (m *taskModel) goneAt(t *oneTask) time.Time {
	return latest(m.running(t.since, m.signs[t.holder]), t.expected, t.stepUntil).Add(m.set.HeartbeatTimeout)
}

// room reports whether an agent could be offered one more task.
func (m *taskModel) room(id protocol.AgentID) bool {
	for _, t := range m.tasks {
		if slices.Contains(t.offered, id) {
			return false
		}
	}
	return !m.full(id) && m.missed[id] < 9
}

// full reports whether an agent works on as many tasks as it may, which is one.
func (m *taskModel) full(id protocol.AgentID) bool {
	for _, t := range m.tasks {
		if t.busy() && t.holder == id {
			return true
		}
	}
	return false
}

func (m *taskModel) free(t *oneTask, at time.Time) bool {
	return t.state == "unassigned" && !m.unmet(t.needs) && !t.notBefore.After(at)
}

// ever returns a task, also one that was let go.
func (m *taskModel) ever(id protocol.TaskID) *oneTask {
	if t := m.tasks[id]; t != nil {
		return t
	}
	return m.gone[id]
}

// hopeless reports whether neither a task nor one that resumes it can be completed.
func (m *taskModel) hopeless(id protocol.TaskID) bool {
	if t := m.ever(id); t == nil || t.state != "failed" && t.state != "cancelled" {
		return t == nil
	}
	for _, t := range m.tasks {
		if t.resumes == id && !m.hopeless(t.id) {
			return false
		}
	}
	return true
}

// origin returns the first task of the chain that a task belongs to.
func (m *taskModel) origin(t *oneTask) protocol.TaskID {
	for m.ever(cmp.Or(t.resumes, t.unwinds)) != nil {
		t = m.ever(cmp.Or(t.resumes, t.unwinds))
	}
	return t.id
}

// openInChain reports whether another task of the chain of one has not ended.
func (m *taskModel) openInChain(t *oneTask) bool {
	for _, o := range m.tasks {
		if o != t && !o.ended() && m.origin(o) == m.origin(t) {
			return true
		}
	}
	return false
}

// event applies one event, and returns what is wrong with it.
func (m *taskModel) event(ev protocol.Event, e *protocol.TaskEvent) error {
	at := ev.TS.Add(-m.shift)
	t := m.tasks[e.Task]
	if t == nil {
		t = &oneTask{id: e.Task, creator: e.By, needs: e.Needs, resumes: e.Resumes, repairs: e.Repairs, unwinds: e.Unwinds, depth: e.Depth, gen: e.Generation, state: "unassigned", since: at}
		if e.Event != "create" || e.From != "" || e.To != "unassigned" || e.Spec == nil {
			return fmt.Errorf("%s of a task that does not exist, or a bad create", e.Event)
		}
		if why := m.badGeneration(e, at); why != "" {
			return fmt.Errorf("task %s is created: %s", e.Task, why)
		}
		if why := m.badUnwinding(e); why != "" {
			return fmt.Errorf("task %s is created: %s", e.Task, why)
		}
		t.to, t.needed = e.Spec.To, e.Spec.Approvals
		if e.Checkpoint != nil {
			t.reached, t.number = e.Checkpoint.SHA256, string(e.Checkpoint.Data)
		}
		m.tasks[e.Task] = t
		return nil
	}
	to, row := m.rows[t.state+" "+string(e.Event)]
	if !row || string(e.From) != t.state || string(e.To) != to {
		return fmt.Errorf("task %s is %s, and %s leads from %s to %s", t.id, t.state, e.Event, e.From, e.To)
	}
	if e.Of == 0 {
		if why := m.untimely(t, e, at); why != "" {
			return fmt.Errorf("task %s: %s by %s: %s", t.id, e.Event, e.By, why)
		}
	}
	if e.Event == "progress" && e.Checkpoint != nil && e.Checkpoint.SHA256 == t.reached {
		return fmt.Errorf("task %s: the same checkpoint counts as progress", t.id)
	}
	m.tally[t.state+" "+string(e.Event)]++
	m.take(t, e, at)
	if e.Step != nil {
		if err := m.takeStep(t, e, at); err != nil {
			return fmt.Errorf("task %s: %w", t.id, err)
		}
	}
	if e.Event == "pause_for_approval" || e.Event == "block_on_dependency" && len(e.Needs) == 0 {
		t.ask = ev.Seq
	}
	if t.state != to {
		t.state, t.since = to, at
	}
	if e.Epoch != t.epoch || e.Attempt != t.attempt {
		return fmt.Errorf("task %s: %s leads to epoch %d, attempt %d, and not to %d, %d", t.id, e.Event, e.Epoch, e.Attempt, t.epoch, t.attempt)
	}
	if to == "completed" {
		m.done[t.id] = true
	}
	return nil
}

// untimely returns why hived may not do what it did by itself, or nothing.
func (m *taskModel) untimely(t *oneTask, e *protocol.TaskEvent, at time.Time) string {
	from := func(when time.Time) string {
		if at.Before(when) {
			return "it is due at " + when.String() + ", and it is " + at.String()
		}
		return ""
	}
	must := func(ok bool, why string) string {
		if ok {
			return ""
		}
		return why
	}
	switch e.Event {
	case "offer":
		return m.badOffer(t, e, at)
	case "offer_expired":
		return m.badPause(t, e) + from(m.running(t.since).Add(m.set.Lease))
	case "offer_exhausted":
		return m.badPause(t, e) + must(!slices.ContainsFunc(t.offered, func(id protocol.AgentID) bool { return !m.full(id) }), "somebody may still take it")
	case "offer_withdrawn":
		return must(len(e.Agents) == 1 && len(t.offered) > 1 && slices.Contains(t.offered, e.Agents[0]) && m.full(e.Agents[0]), "it may still take it")
	case "lease_expired":
		return from(m.running(t.since).Add(m.set.Lease))
	case "heartbeat_lost":
		return from(m.goneAt(t))
	case "progress_stalled":
		return from(m.stuckAt(t))
	case "recovered":
		return must(e.By == t.holder && m.signs[t.holder].After(t.since.Add(-m.set.HeartbeatTimeout/4)) && m.stuckAt(t).After(at), "its holder showed no life")
	case "release":
		return must(t.state == "stalled" && t.cancelling.IsZero() && t.retries < m.set.MaxRetries, "it is not stalled, is to be cancelled, or was retried often enough") + from(m.running(t.since).Add(m.set.StallGrace))
	case "max_retries_exceeded":
		if t.state == "retrying" {
			return must(t.retries > m.set.MaxRetries, "it may be retried")
		}
		if t.state == "unassigned" {
			return must(t.fruitless >= m.set.MaxExecutions || t.retries > m.set.MaxRetries, "it may be taken again")
		}
		return must(t.retries >= m.set.MaxRetries, "it may be retried") + from(m.running(t.since).Add(m.set.StallGrace))
	case "retry":
		return from(t.notBefore)
	case "poison":
		return must(t.crashes >= m.set.PoisonAfter, "it has not crashed so often")
	case "timeout":
		return must(!t.endless, "the question has no time limit") + from(t.until)
	case "cancelled":
		return must(!t.cancelling.IsZero(), "nobody asked for it") + from(m.running(t.cancelling).Add(m.set.CancelGrace))
	case "remind":
		if t.endless {
			return from(latest(t.since, t.remindedAt).Add(24 * time.Hour))
		}
		return must(!t.reminded, "once is enough")
	case "cancel":
		of := m.ever(t.repairs)
		return must(e.By == protocol.Hive && of != nil && !slices.Contains(of.blockedOn, t.id), "it is no repair, or is still waited for")
	case "unwind":
		return must(m.toUnwind(t) && e.By == protocol.Hive, "it was completed, has nothing to undo, or is unwound already")
	case "dependency_resolved":
		return must(len(t.blockedOn) > 0 && !m.unmet(t.blockedOn), "it still waits for tasks")
	case "dependency_failed":
		lost := func(id protocol.TaskID) bool {
			n := m.tasks[id]
			return n != nil && n.ended() && n.state != "completed"
		}
		return must(slices.ContainsFunc(t.needs, lost) || slices.ContainsFunc(t.blockedOn, lost), "all that it needs may still be completed")
	}
	return "hived does no such thing"
}

func (m *taskModel) badOffer(t *oneTask, e *protocol.TaskEvent, at time.Time) string {
	asked := t.declined
	if e.Round > 0 {
		if len(m.able(t, asked)) > 0 {
			return "a new round of offers begins, and not all were asked in the last"
		}
		asked = nil
	}
	able := m.able(t, asked)
	for _, id := range e.Agents {
		if !slices.Contains(able, id) {
			return string(id) + " may not have it, was asked already, or has no room"
		}
	}
	want := min(len(able), m.set.Offers<<t.ignored)
	if t.until.After(at) { // one that got room is asked in spite of the pause
		want = 1
	}
	if !m.free(t, at) || len(e.Agents) != want {
		return fmt.Sprintf("offered to %v at %s: it is not free, or should be offered to %d of %v", e.Agents, at, want, able)
	}
	return ""
}

// able returns the agents that could be offered a task and were not asked before.
func (m *taskModel) able(t *oneTask, asked []protocol.AgentID) (list []protocol.AgentID) {
	for _, id := range modelTeam {
		if t.may(id) && m.room(id) && !slices.Contains(asked, id) {
			list = append(list, id)
		}
	}
	return list
}

// badPause returns what is wrong with a pause between offers: there is one though
// somebody was not asked, or none though all were.
func (m *taskModel) badPause(t *oneTask, e *protocol.TaskEvent) string {
	asked := slices.Concat(t.declined, e.Agents)
	if left := m.able(t, asked); e.Until.IsZero() != (len(left) > 0 || len(asked) == 0) {
		return fmt.Sprintf("it pauses until %s, with %v not asked", e.Until, left)
	}
	return ""
}

// take applies what an event does beside changing the state.
func (m *taskModel) take(t *oneTask, e *protocol.TaskEvent, at time.Time) {
	own := func(when time.Time) time.Time {
		if when.IsZero() {
			return when
		}
		return when.Add(-m.shift)
	}
	if e.From != e.To {
		t.offered, t.voted, t.blockedOn, t.reminded, t.ask = nil, nil, nil, false, 0
		t.until, t.expected, t.notBefore, t.stepUntil = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		t.choices, t.chosen, t.endless, t.remindedAt = nil, nil, false, time.Time{}
	}
	m.count(t, e)
	switch e.Event {
	case "offer":
		if t.offered = slices.Clone(e.Agents); e.Round > 0 {
			t.declined = nil
		}
	case "reject":
		t.declined = append(t.declined, e.By)
		t.offered = slices.DeleteFunc(slices.Clone(t.offered), func(id protocol.AgentID) bool { return id == e.By })
	case "offer_withdrawn":
		t.offered = slices.DeleteFunc(slices.Clone(t.offered), func(id protocol.AgentID) bool { return id == e.Agents[0] })
	case "offer_exhausted", "offer_expired":
		t.until = own(e.Until)
		t.declined = append(t.declined, e.Agents...)
		for _, id := range e.Agents {
			m.missed[id]++
		}
		if e.Event == "offer_expired" {
			t.ignored++
		}
	case "claim", "accept":
		t.holder, t.last, t.spent, t.ignored = e.By, e.By, false, 0
		t.epoch++
	case "start", "retry":
		t.attempt++
		t.moved = at
	case "lease_expired":
		m.lose(t, e)
		t.holder, t.spent, t.notBefore = "", true, own(e.NotBefore)
		t.attempt++
	case "release":
		m.lose(t, e)
		t.until = own(e.Until)
		t.holder, t.spent, t.notBefore = "", true, own(e.NotBefore)
	case "progress":
		if t.expected = own(e.Expected); e.Checkpoint != nil {
			t.moved, t.reached, t.number = at, e.Checkpoint.SHA256, string(e.Checkpoint.Data)
			t.fruitless, t.advanced = 0, true
		}
	case "pause_for_approval":
		t.choices, t.chosen, t.endless = slices.Clone(e.Choices), map[protocol.AgentID]string{}, e.Step != nil || isFree(e)
		if !t.endless {
			t.until = at.Add(m.set.ApprovalTimeout)
		}
	case "approval_vote":
		if !slices.Contains(t.voted, e.By) { // else it replaces what he chose before
			t.voted = append(t.voted, e.By)
		}
		t.chosen[e.By] = e.Choice
	case "block_on_dependency":
		t.blockedOn = slices.Clone(e.Needs)
	case "transient_error":
		before := t.retries
		if !isFree(e) {
			before--
		}
		t.notBefore = latest(own(e.NotBefore), at.Add(min(m.set.Backoff.Base<<before, m.set.Backoff.Max)))
	case "approval_granted", "answer", "dependency_resolved", "recovered":
		t.moved = at
	case "cancel":
		if t.cancelling.IsZero() && e.To != "cancelled" {
			t.cancelling = at
		}
	case "remind":
		t.reminded, t.remindedAt = true, at
	case "unwind":
		t.unwound = e.UnwoundBy
	}
	if e.From != e.To && slices.Contains([]string{"completed", "failed", "cancelled"}, string(e.To)) && e.By != t.holder {
		t.spent = true // it was ended by somebody else
	}
}

// lose notes that the holder lost the task, and counts executions that reached nothing
// new.
func (m *taskModel) lose(t *oneTask, e *protocol.TaskEvent) {
	t.declined = append(t.declined, t.holder)
	if !isFree(e) {
		t.fruitless++
	}
	if t.advanced || e.Checkpoint != nil && e.Checkpoint.SHA256 != t.reached {
		t.fruitless = 0
	}
	t.advanced = false
}

// overdue returns an error for what hived should have done by now.
func (m *taskModel) overdue(now time.Time) error {
	at := now.Add(-m.shift)
	slack := m.set.HeartbeatTimeout/4 + time.Millisecond // alive files are checked so often
	for _, t := range m.sorted() {
		late := func(when time.Time) bool { return !when.After(at) }
		var is bool
		switch t.state {
		case "unassigned":
			is = m.idle(t, at) || t.retries > m.set.MaxRetries || t.crashes >= m.set.PoisonAfter
		case "offered":
			is = late(m.running(t.since).Add(m.set.Lease)) || len(t.offered) == 0 || slices.ContainsFunc(t.offered, m.full)
		case "pending":
			is = late(m.running(t.since).Add(m.set.Lease))
		case "in_progress":
			is = late(m.goneAt(t).Add(slack)) || late(m.stuckAt(t).Add(slack))
		case "stalled":
			is = t.cancelling.IsZero() && late(m.running(t.since).Add(m.set.StallGrace))
		case "paused":
			is = !t.endless && (late(t.until) || !t.reminded && late(t.since.Add(m.set.ApprovalTimeout/2)))
			is = is || t.endless && late(latest(t.since, t.remindedAt).Add(24*time.Hour))
		case "retrying":
			is = late(t.notBefore) || t.retries > m.set.MaxRetries
		case "blocked":
			is = len(t.blockedOn) > 0 && !m.unmet(t.blockedOn)
		}
		if is || !t.ended() && !t.cancelling.IsZero() && late(m.running(t.cancelling).Add(m.set.CancelGrace)) {
			return fmt.Errorf("at %s something is overdue for %s", at, t)
		}
		if m.toUnwind(t) {
			return fmt.Errorf("task %s is not unwound", t)
		}
		for _, id := range slices.Concat(t.needs, t.blockedOn) {
			if n := m.tasks[id]; n != nil && n.ended() && n.state != "completed" && (t.state == "unassigned" || t.state == "blocked") {
				return fmt.Errorf("task %s still waits for %s, which was %s", t.id, id, n.state)
			}
		}
	}
	return nil
}

// idle reports whether a task could be offered to somebody and is not.
func (m *taskModel) idle(t *oneTask, at time.Time) bool {
	return m.free(t, at) && !t.until.After(at) && slices.ContainsFunc(modelTeam, func(id protocol.AgentID) bool { return t.may(id) && m.room(id) })
}
