package decide

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// The most that a command may create, and a task may have (spec §8.2).
const (
	TasksMost    = 1000
	titleMost    = 200  // characters
	gateMost     = 4096 // the same
	addressMost  = 64
	needsMost    = 100
	priorityMost = 1000
	votesMost    = 16
)

// handleCreate makes one task, or many that may need each other.
func (d *Decider) handleCreate(r *report) error {
	specs, err := readSpecs(r)
	if err != nil {
		return err
	}
	order, err := orderByNeeds(r.by, specs)
	if err != nil {
		return err
	}
	for i := range specs {
		if err := checkAudience(r, specs, i); err != nil {
			return inSpecOf(specs, i, err)
		}
		if err := d.checkSpec(r.by, &specs[i]); err != nil {
			return inSpecOf(specs, i, err)
		}
	}
	if err := d.checkGeneration(r, len(specs)); err != nil {
		return err
	}
	named := map[string]protocol.TaskID{}
	r.created = make([]protocol.TaskID, len(specs))
	for _, i := range order {
		if err := d.createOne(r, i, &specs[i], named); err != nil {
			return err
		}
	}
	return nil
}

// createOne creates the i-th task of a command.
func (d *Decider) createOne(r *report, i int, s *protocol.TaskSpec, named map[string]protocol.TaskID) error {
	id, err := d.ids.next(r.now)
	if err != nil {
		return err
	}
	e := protocol.TaskEvent{By: r.by, Spec: s, Generation: r.generation}
	if s.Gate != "" {
		e.GateBy = r.by
	}
	for _, name := range s.Needs {
		need, local := named[name]
		if !local {
			need = protocol.TaskID(name)
		}
		if !slices.Contains(e.Needs, need) {
			e.Needs = append(e.Needs, need)
		}
	}
	r.created[i] = protocol.TaskID(id.String())
	if s.Name != "" {
		named[s.Name] = r.created[i]
	}
	return d.recordCreated(r, r.created[i], e)
}

// recordCreated records a new task of a command.
func (d *Decider) recordCreated(r *report, id protocol.TaskID, e protocol.TaskEvent) error {
	e.Of = r.of
	t := d.newTask(r.now, id, e)
	if r.t == nil {
		r.t = t
	}
	if len(t.To) > 0 && d.nobodyEligible(t.To) {
		r.unassignable = append(r.unassignable, t)
	}
	return nil
}

// newTask records a new task, puts it into the plan, and returns it.
func (d *Decider) newTask(now time.Time, id protocol.TaskID, e protocol.TaskEvent) *task.Task {
	e.Task, e.Event, e.To = id, task.Create, task.Unassigned
	d.emit(now, &e)
	t := d.state.Tasks.Get(id)
	d.plan.update(t, holding{})
	d.replan(t, d.state.Tasks.Moment(now))
	return t
}

// nobodyEligible reports whether a list of addresses means no agent that could take a
// task.
func (d *Decider) nobodyEligible(list []protocol.Address) bool {
	return !slices.ContainsFunc(list, func(to protocol.Address) bool {
		if role, ok := to.Role(); ok {
			return d.expandRole(role, &recipients{}) == nil
		}
		a := d.state.Agents[protocol.AgentID(to)]
		return a != nil && a.Status != ledger.Archived
	})
}

// tellNobodyEligible tells the creator of tasks which of them nobody can take.
func (d *Decider) tellNobodyEligible(r *report, e *protocol.MessageEvent) error {
	if len(r.unassignable) == 0 {
		return nil
	}
	first := r.unassignable[0]
	why, remedy := d.whyNobodyEligible(first.To)
	text := "Task " + string(first.ID) + ", " + first.Title + ", waits, and nobody can take it: " + why + fullStop(why)
	if more := len(r.unassignable) - 1; more > 0 {
		text += fmt.Sprintf(" The same holds for %d more of these tasks.", more)
	}
	var ids []protocol.TaskID
	for _, t := range r.unassignable {
		ids = append(ids, t.ID)
	}
	text += " Cancel it and create it for others, or let a person put such an agent on the roster"
	if r.by == protocol.Human {
		text += ": " + howTo(r.by, remedy, "")
	}
	return d.notice(r.now, notice{
		to: r.by, act: protocol.Inform, reply: e.ID, conversation: protocol.TaskConversation(first.ID), code: protocol.CodeNobodyEligible,
		subject: "nobody can take: " + first.Title, body: text + ".", data: map[string]any{"task": first.ID, "tasks": ids},
	})
}

// readSpecs decodes the data of a create.
func readSpecs(r *report) ([]protocol.TaskSpec, error) {
	m := r.m
	bad := func(text string) error {
		return &refusal{protocol.CodeBadCommand, endSentence(text) + " For example, " + howToCreate(r.by, `--to @writer`, `, "to": ["@writer"]`)}
	}
	var many struct {
		Tasks []protocol.TaskSpec `json:"tasks"`
	}
	if m.Data.Kind() != '{' {
		return nil, bad("it does not say what is to be done")
	}
	var has map[string]any
	if err := json.Unmarshal(m.Data, &has); err != nil {
		return nil, bad("its data does not fit: " + dataFault(err, specMembers))
	}
	if _, list := has["tasks"]; !list {
		var one protocol.TaskSpec
		if err := json.Unmarshal(m.Data, &one, strictOptions); err != nil {
			return nil, bad("its data does not fit: " + dataFault(err, specMembers))
		}
		return []protocol.TaskSpec{one}, nil
	}
	if err := json.Unmarshal(m.Data, &many, strictOptions); err != nil {
		return nil, bad("its data does not fit: " + dataFault(err, specMembers))
	}
	switch n := len(many.Tasks); {
	case n == 0:
		return nil, bad("it has no tasks")
	case n > TasksMost:
		return nil, &refusal{protocol.CodeTooMany, fmt.Sprintf("it has %d tasks, and one command creates %d at most; send several", n, TasksMost)}
	}
	return many.Tasks, nil
}

// inSpecOf adds to a refusal which of several tasks it is about.
func inSpecOf(specs []protocol.TaskSpec, i int, err error) error {
	if x, is := errors.AsType[*refusal](err); is && len(specs) > 1 {
		x.text = fmt.Sprintf("task %d, %s: %s", i+1, protocol.Quote(protocol.Fit(specs[i].Title, 60)), x.text)
	}
	return err
}

// orderByNeeds returns an order in which each task comes after those of the same
// command that it needs.
func orderByNeeds(by protocol.AgentID, specs []protocol.TaskSpec) ([]int, error) {
	x := needsOrder{by: by, specs: specs, byName: map[string]int{}, marks: make([]visitState, len(specs))}
	for i, s := range specs {
		if s.Name == "" {
			continue
		}
		if _, twice := x.byName[s.Name]; twice {
			return nil, inSpecOf(specs, i, &refusal{protocol.CodeBadCommand, "the name " + protocol.Quote(protocol.Fit(s.Name, 64)) + " is used twice; give each task its own"})
		}
		x.byName[s.Name] = i
	}
	for i := range specs {
		if err := x.visit(i); err != nil {
			return nil, err
		}
	}
	return x.order, nil
}

// needsOrder sorts tasks topologically for orderByNeeds, by depth-first search.
type needsOrder struct {
	by     protocol.AgentID
	specs  []protocol.TaskSpec
	byName map[string]int
	marks  []visitState
	order  []int
}

// visitState is how far the search is with a task.
type visitState int

const (
	unvisited visitState = iota
	visiting             // the tasks that it needs are being visited
	visited
)

func (x *needsOrder) visit(i int) error {
	switch x.marks[i] {
	case visited:
		return nil
	case visiting:
		return inSpecOf(x.specs, i, &refusal{protocol.CodeCycle, "it needs itself, directly or through others; take one of these needs out"})
	case unvisited:
	}
	x.marks[i] = visiting
	for _, name := range x.specs[i].Needs {
		if j, local := x.byName[name]; local {
			if err := x.visit(j); err != nil {
				return err
			}
		} else if _, err := protocol.ParseTaskID(name); err != nil {
			return inSpecOf(x.specs, i, refuseUnknownNeed(x.by, name))
		}
	}
	x.marks[i] = visited
	x.order = append(x.order, i)
	return nil
}

// checkSpec refuses a task that is beyond a limit, or that nobody could take or
// approve of.
func (d *Decider) checkSpec(by protocol.AgentID, s *protocol.TaskSpec) error {
	bad := func(format string, args ...any) error {
		return &refusal{protocol.CodeBadCommand, fmt.Sprintf(format, args...)}
	}
	s.Title = strings.TrimSpace(s.Title)
	switch {
	case s.Title == "" || len([]rune(s.Title)) > titleMost:
		return bad("a task has a title of 1 to %d characters", titleMost)
	case len([]rune(s.Gate)) > gateMost:
		return bad("its gate has more than %d characters; put them into a script", gateMost)
	case len(s.To) > addressMost || len(s.Approvers) > addressMost:
		return bad("it names more than %d agents; use a role", addressMost)
	case len(s.Needs) > needsMost:
		return bad("it needs more than %d others; put one between them", needsMost)
	case s.Priority < -priorityMost || s.Priority > priorityMost:
		return bad("its priority is %d; allowed is %d to %d", s.Priority, -priorityMost, priorityMost)
	case s.Approvals < 0 || s.Approvals > votesMost:
		return bad("it asks for %d approvals; allowed is 0 to %d", s.Approvals, votesMost)
	}
	for _, list := range [][]protocol.Address{s.To, s.Approvers} {
		for i, to := range list {
			if to != protocol.Address(protocol.Lead) && to != protocol.Address(protocol.God) {
				continue
			}
			if d.state.Lead == "" {
				return bad("no lead is set, and it names the lead; %s", d.howToSetLead(by))
			}
			list[i] = protocol.Address(d.state.Lead)
		}
	}
	for _, to := range slices.Concat(s.To, s.Approvers) {
		if err := d.checkAddress(to); err != nil {
			return err
		}
	}
	if who := d.approversOf(s.Approvers, s.Approvals); len(who) < s.Approvals {
		return &refusal{protocol.CodeBadCommand, fmt.Sprintf("it asks for %d approvals, and only %s could give one; name the others as approvers", s.Approvals, listNames(who))}
	}
	return d.checkNeeds(by, s)
}

func (d *Decider) checkAddress(to protocol.Address) error {
	if role, ok := to.Role(); ok {
		if bad := protocol.BadRoles([]string{role}); bad != "" || role == "" {
			return &refusal{protocol.CodeBadCommand, "@ is followed by a role or capability, not by " + protocol.Quote(protocol.Fit(role, 64))}
		}
		return nil
	}
	if d.state.Agents[protocol.AgentID(to)] == nil {
		return &refusal{protocol.CodeUnknownAgent, d.unknownAgentOf(protocol.Fit(string(to), 64), d.agentNames(protocol.Lead))}
	}
	return nil
}

// checkNeeds checks the needed tasks that exist already.
func (d *Decider) checkNeeds(by protocol.AgentID, s *protocol.TaskSpec) error {
	for _, name := range s.Needs {
		id, err := protocol.ParseTaskID(name)
		if err != nil {
			continue // of the same command, or refused by now
		}
		if err := d.checkNeed(by, id); err != nil {
			return err
		}
	}
	return nil
}

// checkNeed refuses to wait for a task that does not exist or will never be completed.
func (d *Decider) checkNeed(by protocol.AgentID, id protocol.TaskID) error {
	state, known := d.state.Tasks.StateOf(id)
	switch {
	case !known:
		return refuseUnknownNeed(by, string(id))
	case state != task.Failed && state != task.Cancelled:
		return nil
	}
	heir, live := d.state.Tasks.Heir(id)
	if live {
		return &refusal{protocol.CodeNeedsUnmet, string(id) + " was " + string(state) + ", and " + string(heir) + " resumes it; need that one"}
	}
	return &refusal{protocol.CodeNeedsUnmet, string(id) + " was " + string(state) + "; to go on from it with a new task, " + howToResume(by, heir)}
}

// whyNobodyEligible returns why nobody may have a task for these addresses, and the
// command with which a person can change that.
func (d *Decider) whyNobodyEligible(list []protocol.Address) (why, remedy string) {
	var hints []string
	for _, to := range list[:min(len(list), 5)] {
		role, ok := to.Role()
		if !ok {
			hints = append(hints, string(to)+" is archived")
			remedy = cmp.Or(remedy, hiveLine("agent-restore", string(to)))
			continue
		}
		if hint := d.expandRole(role, &recipients{}); hint != nil {
			hints = append(hints, hint())
			remedy = cmp.Or(remedy, hiveLine("agent-add", "ID --role "+role))
		}
	}
	return strings.Join(hints, "; "), remedy
}
