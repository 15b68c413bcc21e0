package decide

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/hived/hived/internal/sweep"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

var histories = flag.Int("histories", sweep.Of(sweep.Histories), "random histories of TestTaskModel, in threes")

// TestTaskModel runs random histories: commands of several agents with right and wrong
// epochs, time that passes, daemons that are restarted, that slept, or that died before
// their decisions were in the log, and clocks that are set. It checks that each answer,
// each transition and its time is what the model allows, that nothing due stays undone,
// and that the log folds to the same bytes. The histories are the same every time, so
// that nobody's change is judged by chance. The long form draws new ones:
//
//	go test ./router/decide -run TestTaskModel -timeout 0 -histories 2000
func TestTaskModel(t *testing.T) { // alone, because the flags of rapid are for all
	set := map[string]string{"rapid.checks": strconv.Itoa(3 * *histories), "rapid.steps": "60", "rapid.nofailfile": "true", "rapid.seed": "1"}
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "histories" || f.Name == "rapid.seed" {
			delete(set, "rapid.seed")
		}
	})
	setRapid(t, set)
	total := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		h := newTaskRun(rt, func([]Decision) {})
		h.live(rt)
		for k, n := range h.m.tally {
			total[k] += n
		}
	})
	if *histories >= 1000 {
		for row := range contractRows() {
			if total[row] == 0 && !slices.Contains(rare, row) {
				t.Errorf("no history had %q", row)
			}
		}
	}
	t.Log(total)
}

// setRapid sets flags of rapid for one test.
func setRapid(t *testing.T, values map[string]string) {
	t.Helper()
	for name, value := range values {
		f := flag.Lookup(name)
		was := f.Value.String()
		testenv.Must(t, f.Value.Set(value))
		t.Cleanup(func() {
			if err := f.Value.Set(was); err != nil {
				t.Error(err)
			}
		})
	}
}

// rare are rows of the contract that some thousand histories may not have.
var rare = []string{
	"completed step_ended", "completed unwind", "stalled step_ended", "retrying step_ended", "retrying effort",
	"blocked dependency_failed", "unassigned max_retries_exceeded", "unassigned poison",
}

// taskRun is one history: a Decider without a disk, its log, and the model.
type taskRun struct {
	d     *Decider
	seen  func([]Decision) // called with what was decided, in order
	m     *taskModel
	now   time.Time
	log   []protocol.Event
	beats map[protocol.AgentID]time.Time
	n     int
	set   protocol.Settings
}

func newTaskRun(t *rapid.T, seen func([]Decision)) *taskRun {
	h := &taskRun{seen: seen, now: time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC), beats: map[protocol.AgentID]time.Time{}, set: protocol.DefaultSettings()}
	h.set.Tasks.Retention, h.set.InboxCap = 2*time.Hour, 1<<20
	h.set.Tasks.MaxFree, h.set.Tasks.PoisonAfter = 2, 2
	h.set.Tasks.Generations, h.set.Tasks.CreatedPerHour = 1, 5
	oneClock(&h.set.Tasks)
	h.m = newTaskModel(h.set.Tasks)
	h.begin(t, ledger.New(h.set.Remember))
	for _, id := range modelTeam {
		role := ""
		if id == "bob" || id == "carol" {
			role = "writer"
		}
		h.d.recordAgent(h.now, &protocol.AgentEvent{Agent: id, Action: protocol.Joined, Role: role})
	}
	h.d.recordAgent(h.now, &protocol.AgentEvent{Agent: modelLead, Action: protocol.LeadSet})
	h.follow(t)
	return h
}

// live runs a random history.
func (h *taskRun) live(t *rapid.T) {
	t.Repeat(map[string]func(*rapid.T){
		"create": h.create, "begets": h.begets, "command": h.command, "command more": h.command, "work": h.work, "work more": h.work, "work still more": h.work,
		"fails": h.failsOften, "steps": h.worksInSteps, "crashes": h.crashesOften, "alive": h.staysAlive, "time": h.passes, "beat": h.beat, "restart": h.restart, "crash": h.crash, "clock": h.jump,
	})
	h.replays(t)
}

// begin starts a daemon with a state.
func (h *taskRun) begin(t *rapid.T, s *ledger.State) {
	h.d = New(s, h.set, zeros{}, recalls(func(seq protocol.Seq) (protocol.Event, error) { return h.log[seq-1], nil }))
	h.d.Record(h.now, &protocol.HiveEvent{Action: protocol.Started})
	h.m.clocks = h.now.Add(-h.m.shift)
	h.follow(t)
}

// follow adds what was decided to the log and to the model, and compares the two.
func (h *taskRun) follow(t *rapid.T) []protocol.Event {
	var list []protocol.Event
	decided := h.d.Drain(h.now)
	h.seen(decided)
	for _, x := range decided {
		list = append(list, x.Event)
		h.log = append(h.log, x.Event)
		switch e := x.Event.Body.(type) {
		case *protocol.TaskEvent:
			if err := h.m.event(x.Event, e); err != nil {
				t.Fatalf("event %s: %v", x.Event.Seq, err)
			}
		case *protocol.MessageEvent:
			h.m.missed[e.From] = 0
		case *protocol.HiveEvent:
			for _, p := range e.Paths {
				h.letGo(t, p)
			}
		}
	}
	h.same(t)
	return list
}

// letGo removes the task of a view from the model, and fails if it is too early.
func (h *taskRun) letGo(t *rapid.T, p string) {
	id, view := strings.CutSuffix(strings.TrimPrefix(p, protocol.PathTasks+"/"), "/"+protocol.TaskView)
	if x := h.m.tasks[protocol.TaskID(id)]; view {
		if !x.ended() || h.now.Add(-h.m.shift).Before(x.since.Add(h.set.Tasks.Retention)) {
			t.Fatalf("task %s was let go too early", id)
		}
		delete(h.m.tasks, x.id)
		h.m.gone[x.id] = x
		h.m.forgetSteps(h.m.origin(x))
	}
}

// same compares what hived knows of each task with the model.
func (h *taskRun) same(t *rapid.T) {
	if h.d.state.Tasks.Len() != len(h.m.tasks) {
		t.Fatalf("hived has %d tasks, and the model %d", h.d.state.Tasks.Len(), len(h.m.tasks))
	}
	for _, want := range h.m.sorted() {
		is := h.d.state.Tasks.Get(want.id)
		got := fmt.Sprintln(is.State, is.Epoch, is.Holder, is.Attempt, is.Retries, is.Efforts().Free, is.Efforts().Row, is.Efforts().Crashes, is.Offered, is.Questions.Votes(), is.BlockedOn, is.Cancelling > 0)
		if want := fmt.Sprintln(want.state, want.epoch, want.holder, want.attempt, want.retries, want.free, want.row, want.crashes, want.offered, want.voted, want.blockedOn, !want.cancelling.IsZero()); got != want {
			t.Fatalf("task %s is %s; the model has %s", is.ID, got, want)
		}
	}
	h.counts(t)
}

// settle has hived do what is due, and fails if something stays undone.
func (h *taskRun) settle(t *rapid.T) {
	for more := true; more; {
		var err error
		more, err = h.d.Tasks(h.now, Senses{Pulse: func(id protocol.AgentID) Pulse { return Pulse{Touched: h.beats[id]} }})
		testenv.Must(t, err)
		h.follow(t)
	}
	testenv.Must(t, h.m.overdue(h.now))
}

// passes lets time go by, with hived waking at each time that it planned for.
func (h *taskRun) passes(t *rapid.T) {
	h.until(t, h.now.Add(rapid.SampledFrom([]time.Duration{300 * time.Millisecond, time.Second, time.Second, 3 * time.Second, 3 * time.Second, 20 * time.Second, 31 * time.Second, 70 * time.Second, 125 * time.Second, 6 * time.Minute, 31 * time.Minute, 3 * time.Hour}).Draw(t, "time")))
}

func (h *taskRun) until(t *rapid.T, end time.Time) {
	for {
		next := h.d.state.Tasks.Time(h.d.nextTask())
		if next.IsZero() || next.After(end) {
			break
		}
		h.now = latest(h.now, next)
		h.settle(t)
	}
	h.now = end
	h.settle(t)
}

// beat has an agent touch its alive file.
func (h *taskRun) beat(t *rapid.T) {
	id := rapid.SampledFrom(modelTeam).Draw(t, "agent")
	h.beats[id] = h.beats[id].Add(time.Second)
	h.m.signs[id] = h.now.Add(-h.m.shift)
}

// fold returns the state of the log, half of the time through a snapshot.
func (h *taskRun) fold(t *rapid.T) *ledger.State {
	s := ledger.New(h.set.Remember)
	cut := rapid.IntRange(0, 2*len(h.log)).Draw(t, "snapshot")
	for i, ev := range h.log {
		if i == cut {
			b, err := stateBytes(s)
			if err == nil {
				s, _, err = ledger.Decode(strings.NewReader(b), h.set.Remember)
			}
			testenv.Must(t, err)
		}
		s.Apply(ev)
	}
	return s
}

// restart ends a daemon and starts one some time later.
func (h *taskRun) restart(t *rapid.T) {
	h.d.Record(h.now, &protocol.HiveEvent{Action: protocol.Stopped})
	h.follow(t)
	h.now = h.now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(t, "asleep"))
	h.begin(t, h.fold(t))
	h.settle(t)
}

// crash has a daemon die before its last decision was in the log, and another decide it
// again.
func (h *taskRun) crash(t *rapid.T) {
	c := h.any(t)
	testenv.Must(t, h.d.takeIn(h.now, h.arrival(t, c)))
	h.begin(t, h.fold(t))
	h.settle(t)
	h.carry(t, c)
}

// jump has somebody set the clock of the machine by a day.
func (h *taskRun) jump(t *rapid.T) {
	by := rapid.SampledFrom([]time.Duration{-24 * time.Hour, 24 * time.Hour}).Draw(t, "by")
	h.now = h.now.Add(by)
	h.d.Record(h.now, &protocol.HiveEvent{Action: protocol.ClockJumped, Jump: by.Milliseconds()})
	h.m.shift += by
	h.m.clocks = h.now.Add(-h.m.shift)
	h.follow(t)
	h.settle(t)
}

// replays folds the log again, and checks that the state and each view have the same
// bytes.
func (h *taskRun) replays(t *rapid.T) {
	s := h.fold(t)
	want, err := stateBytes(h.d.state)
	is, failed := stateBytes(s)
	if err = errors.Join(err, failed); err != nil || is != want {
		t.Fatalf("the log folds to a different state, %v", err)
	}
	for x := range h.d.state.Tasks.All() {
		want, err := task.Document(x)
		is, failed := task.Document(s.Tasks.Get(x.ID))
		if err = errors.Join(err, failed); err != nil || !bytes.Equal(is, want) {
			t.Fatalf("after folding again the view of task %s differs, %v; was:\n%s\nis:\n%s", x.ID, err, want, is)
		}
	}
}

// taskCommand is what an agent sends.
type taskCommand struct {
	ID    string         `json:"id"`
	To    string         `json:"to"`
	Event string         `json:"event"`
	Task  string         `json:"task,omitzero"`
	Epoch *uint64        `json:"epoch,omitzero"`
	Data  map[string]any `json:"data"`
	by    protocol.AgentID
}

func (h *taskRun) arrival(t *rapid.T, c *taskCommand) protocol.Arrival {
	text, err := json.Marshal(c, json.Deterministic(true))
	testenv.Must(t, err)
	msg, err := protocol.DecodeMessage(text)
	testenv.Must(t, err)
	name := c.ID + ".json"
	return protocol.Arrival{Agent: c.by, Name: name, Original: protocol.Original{Name: name}, ModTime: h.now, Raw: text, Size: int64(len(text)), Message: msg}
}

// carry has a command decided, and compares the answer with the model's.
func (h *taskRun) carry(t *rapid.T, c *taskCommand) {
	codes, steps := h.m.judge(c, h.now)
	testenv.Must(t, h.d.takeIn(h.now, h.arrival(t, c)))
	list := h.follow(t)
	var did []string
	var no protocol.Code
	for _, ev := range list {
		switch e := ev.Body.(type) {
		case *protocol.TaskEvent:
			if e.Of == list[0].Seq {
				did = append(did, string(e.Event))
			}
		case *protocol.TaskRejectedEvent:
			no = e.Code
			h.m.tally["refused "+string(no)]++
		}
	}
	said := fmt.Sprintf("%s of %s by %s, epoch %v, %v", c.Event, c.Task, c.by, value(c.Epoch), c.Data)
	switch {
	case len(codes) > 0 && (!slices.Contains(codes, no) || len(did) > 0):
		t.Fatalf("%s was answered %q, %v; the model refuses it with one of %v", said, no, did, codes)
	case len(codes) == 0 && (no != "" || !slices.Equal(did, steps)):
		t.Fatalf("%s was answered %q, %v; the model does %v", said, no, did, steps)
	}
	h.settle(t)
}

func value(p *uint64) any {
	if p == nil {
		return "none"
	}
	return *p
}

func (h *taskRun) next(by protocol.AgentID, event string) *taskCommand {
	h.n++
	return &taskCommand{ID: fmt.Sprint("m", h.n), To: "hive", Event: event, Data: map[string]any{}, by: by}
}

// create has anybody make tasks.
func (h *taskRun) create(t *rapid.T) { h.creates(t, rapid.SampledFrom(modelTeam).Draw(t, "by")) }

// begets has the holder of a task make tasks.
func (h *taskRun) begets(t *rapid.T) {
	held := slices.DeleteFunc(h.m.sorted(), func(x *oneTask) bool { return h.m.generation(x.holder) == 0 })
	if len(held) > 0 {
		h.creates(t, held[rapid.IntRange(0, len(held)-1).Draw(t, "task")].holder)
	}
}

// creates has somebody make one to three tasks.
func (h *taskRun) creates(t *rapid.T, by protocol.AgentID) {
	c := h.next(by, "create")
	var list []map[string]any
	for i := range rapid.IntRange(1, 3).Draw(t, "tasks") {
		s := map[string]any{"name": fmt.Sprint("n", i), "title": fmt.Sprint("task ", h.n, " ", i)}
		if to := rapid.SampledFrom([][]string{nil, nil, {"bob"}, {"@writer"}, {"carol", "dave"}, {"human"}}).Draw(t, "to"); to != nil {
			s["to"] = to
		}
		s["priority"] = rapid.IntRange(0, 1).Draw(t, "priority")
		s["approvals"] = rapid.IntRange(0, 2).Draw(t, "approvals")
		if needs := h.needs(t, i); needs != nil {
			s["needs"] = needs
		}
		list = append(list, s)
	}
	c.Data["tasks"] = list
	h.carry(t, c)
}

// needs returns names of tasks: of existing ones, of ones in the same command, and now
// and then one that does not exist.
func (h *taskRun) needs(t *rapid.T, i int) (list []string) {
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "needs") {
		switch rapid.IntRange(0, 9).Draw(t, "need") {
		case 0:
			list = append(list, "nobody")
		case 1:
			list = append(list, fmt.Sprint("n", i))
		case 2, 3, 4, 5:
			if i > 0 {
				list = append(list, fmt.Sprint("n", i-1))
			}
		default:
			if x := h.some(t); x != nil {
				list = append(list, string(x.id))
			}
		}
	}
	return list
}

// some returns a random task, or nil if there is none.
func (h *taskRun) some(t *rapid.T) *oneTask {
	list := h.m.sorted()
	if len(list) == 0 {
		return nil
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(t, "task")]
}

// command has any agent send any command.
func (h *taskRun) command(t *rapid.T) { h.carry(t, h.any(t)) }

func (h *taskRun) any(t *rapid.T) *taskCommand {
	var names []string
	for name := range taskHandlers {
		if name != "create" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	c := h.next(rapid.SampledFrom(modelTeam).Draw(t, "by"), rapid.SampledFrom(names).Draw(t, "event"))
	x := h.some(t)
	switch {
	case x == nil || rapid.IntRange(0, 15).Draw(t, "unknown") == 0:
		if c.Event != "claim" {
			c.Task = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
		}
		return h.fill(t, c)
	case rapid.IntRange(0, 3).Draw(t, "holder") > 0 && x.holder != "":
		c.by = x.holder
	}
	c.Task = string(x.id)
	if rapid.IntRange(0, 9).Draw(t, "said") > 0 {
		epoch := uint64(max(0, int(x.epoch)+rapid.SampledFrom([]int{0, 0, 0, 0, -1, 1}).Draw(t, "epoch")))
		c.Epoch = &epoch
	}
	return h.fill(t, c)
}

// work has a task sent a command that it waits for, by an agent that may send it.
func (h *taskRun) work(t *rapid.T) {
	x := h.some(t)
	if held := slices.DeleteFunc(h.m.sorted(), func(x *oneTask) bool { return x.holder == "" || x.ended() }); len(held) > 0 && rapid.IntRange(0, 3).Draw(t, "held") > 0 {
		x = held[rapid.IntRange(0, len(held)-1).Draw(t, "task")]
	}
	if x == nil {
		return
	}
	able := slices.DeleteFunc(slices.Clone(modelTeam), func(id protocol.AgentID) bool { return !x.may(id) })
	by, event := x.holder, ""
	pick := func(events ...string) { event = rapid.SampledFrom(events).Draw(t, "event") }
	switch x.state {
	case "unassigned":
		by = rapid.SampledFrom(able).Draw(t, "by")
		pick("claim")
	case "offered":
		by = rapid.SampledFrom(append(slices.Clone(x.offered), able[0])).Draw(t, "by")
		pick("accept", "accept", "reject", "reject", "claim")
	case "pending":
		pick("start", "start", "start", "release")
	case "in_progress", "stalled":
		pick("progress", "progress", "progress", "step_started", "step_started", "step_ended", "step_ended", "pause_for_approval", "block_on_dependency", "failure", "transient_error", "complete", "complete", "recovered", "cancelled", "release", "fatal_error", "outcome", "outcome", "outcome", "outcome")
	case "paused":
		if x.endless && rapid.IntRange(0, 3).Draw(t, "a day passes") == 0 {
			h.until(t, h.now.Add(25*time.Hour))
		}
		by = rapid.SampledFrom(append(h.m.approvers(x), "bob")).Draw(t, "by")
		pick("approval_granted", "approval_granted", "approval_denied")
	case "blocked":
		by = modelLead
		pick("dependency_resolved", "answer", "answer", "fatal_error")
	case "retrying":
		pick("fatal_error", "release", "cancelled")
	default:
		by = h.m.creatorOf(x)
		pick("resume", "resume", "unwind")
	}
	if x.last != "" && rapid.IntRange(0, 7).Draw(t, "effort") == 0 {
		by, event = x.last, "outcome"
	}
	if rapid.IntRange(0, 11).Draw(t, "cancel") == 0 {
		by, event = x.creator, "cancel"
	} else if rapid.IntRange(0, 19).Draw(t, "amend") == 0 {
		by, event = x.creator, "amend"
	}
	c := h.next(by, event)
	epoch := x.epoch
	c.Task, c.Epoch = string(x.id), &epoch
	h.carry(t, h.fill(t, c))
}

// failsOften has the holder of each task in progress fail several times in short order.
func (h *taskRun) failsOften(t *rapid.T) {
	for _, x := range h.m.sorted() {
		for n := rapid.IntRange(3, 5).Draw(t, "times"); n > 0 && x.state == "in_progress"; n-- {
			c, epoch := h.next(x.holder, "transient_error"), x.epoch
			c.Task, c.Epoch = string(x.id), &epoch
			h.carry(t, c)
			h.until(t, h.now.Add(9*time.Second))
		}
	}
}

// staysAlive has all agents touch their alive files, and do nothing more.
func (h *taskRun) staysAlive(t *rapid.T) {
	for range rapid.IntRange(1, 9).Draw(t, "times") {
		for _, id := range modelTeam {
			h.beats[id] = h.beats[id].Add(time.Second)
			h.m.signs[id] = h.now.Add(-h.m.shift)
		}
		h.until(t, h.now.Add(40*time.Second))
	}
}

// fill adds the data that a command takes.
func (h *taskRun) fill(t *rapid.T, c *taskCommand) *taskCommand {
	switch c.Event {
	case "progress":
		switch rapid.IntRange(0, 4).Draw(t, "with") {
		case 0:
			c.Data["patch"] = map[string]any{"n": rapid.IntRange(0, 2).Draw(t, "n")}
		case 1:
			c.Data["expected_until"] = h.now.Add(rapid.SampledFrom([]time.Duration{-time.Hour, time.Minute, 10 * time.Minute, 50 * time.Minute, 2 * time.Hour}).Draw(t, "silent")).UTC()
		default:
			c.Data["checkpoint"] = map[string]any{"n": rapid.IntRange(0, 2).Draw(t, "n")}
		}
	case "pause_for_approval":
		if rapid.IntRange(0, 9).Draw(t, "asks") > 0 {
			c.Data["question"] = "may I?"
		}
		if rapid.IntRange(0, 3).Draw(t, "offers choices") == 0 {
			c.Data["choices"] = []string{"red", "blue"}
		}
		h.fillQuestion(t, c)
	case "amend":
		if rapid.IntRange(0, 9).Draw(t, "says what") > 0 {
			c.Data["body"] = fmt.Sprint("what is to be done, ", h.n)
		}
	case "approval_granted", "approval_denied", "answer":
		if c.Event == "answer" && rapid.IntRange(0, 9).Draw(t, "says something") > 0 {
			c.Data["comment"] = "so do it"
		}
		if x := h.m.tasks[protocol.TaskID(c.Task)]; x != nil && x.ask > 0 && rapid.IntRange(0, 9).Draw(t, "means it") > 0 {
			c.Data["ask"] = max(1, x.ask-protocol.Seq(rapid.SampledFrom([]uint64{0, 0, 0, 0, 0, 0, 0, 9}).Draw(t, "of another question")))
			if list := append(slices.Clone(x.choices), ""); c.Event == "approval_granted" && rapid.IntRange(0, 9).Draw(t, "chooses") > 0 {
				if choice := rapid.SampledFrom(list[:max(1, len(x.choices))]).Draw(t, "choice"); choice != "" {
					c.Data["choice"] = choice
				}
			}
		}
	case "block_on_dependency":
		if needs := h.needs(t, 0); needs != nil {
			c.Data["needs"] = needs
		} else if rapid.Bool().Draw(t, "with a reason") {
			c.Data["reason"] = "which of them?"
		}
	case "failure":
		c.Data["category"] = rapid.SampledFrom([]string{"transient", "auth", "ambiguity", "schema", "logic", "other"}).Draw(t, "category")
		c.Data["reason"] = "so it is"
	case "claim", "accept":
		if rapid.IntRange(0, 2).Draw(t, "starts") == 0 {
			c.Data["start"] = true
		}
		if rapid.IntRange(0, 5).Draw(t, "is silent") == 0 {
			c.Data["expected_until"] = h.now.Add(rapid.SampledFrom([]time.Duration{-time.Hour, 10 * time.Minute, 2 * time.Hour}).Draw(t, "until")).UTC()
		}
	case "step_started", "step_ended":
		h.fillStep(t, c)
	case "outcome":
		h.fillOutcome(t, c)
	case "release", "transient_error":
		if rapid.IntRange(0, 3).Draw(t, "later") == 0 {
			c.Data["not_before"] = h.now.Add(rapid.SampledFrom([]time.Duration{-time.Hour, 10 * time.Second, 10 * time.Minute}).Draw(t, "not before")).UTC()
		}
	}
	return c
}
