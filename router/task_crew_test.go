package router

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/proofread"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// crew is a hive of agents with a running daemon, on a disk in memory and in a synctest
// bubble where hours pass at once. Scenarios of tasks are written with it: who does what,
// how much time passes, and what can be seen then.
type crew struct {
	*testing.T
	disk     *faultfs.Mem
	settings protocol.Settings
	router   *Router
	hints    chan []mailbox.Hint
	stop     context.CancelFunc
	ended    chan error
	mu       sync.Mutex
	events   []protocol.Event        // all durable events, of all daemons; guarded by mu
	onEvent  func(ev protocol.Event) // called by the daemon unless nil; guarded by mu
	epochs   map[string]uint64       // with which each agent got each task; guarded by mu
	ahead    atomic.Int64            // how far the clock of the machine is ahead
	sent     int
}

// hintWatcher is a watcher that watches everything, and whose hints the test sends.
type hintWatcher struct {
	noWatcher
	hints chan []mailbox.Hint
}

func (e hintWatcher) Hints() <-chan []mailbox.Hint { return e.hints }
func (hintWatcher) Watched(protocol.AgentID) bool  { return true }

// scenario runs tell on a hive with default settings and the agents that one text names,
// separated by spaces.
func scenario(t *testing.T, agents string, tell func(h *crew)) {
	t.Helper()
	scenarioWith(t, agents, func(*protocol.Settings) {}, tell)
}

func scenarioWith(t *testing.T, agents string, set func(s *protocol.Settings), tell func(h *crew)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { tell(newCrew(t, agents, set)) })
}

// scenarioNow is scenario for a test that runs several: it is not parallel.
func scenarioNow(t *testing.T, agents string, tell func(h *crew)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { tell(newCrew(t, agents, func(*protocol.Settings) {})) })
}

// newCrew makes the hive, inside a bubble, and starts its daemon.
func newCrew(t *testing.T, agents string, set func(s *protocol.Settings)) *crew {
	t.Helper()
	h := &crew{T: t, disk: faultfs.New(), settings: memSettings(), epochs: map[string]uint64{}}
	h.settings.Rescan, h.settings.Git.CommitDelay = time.Hour, time.Minute
	set(&h.settings)
	h.disk.SetClock(time.Now)
	for id := range strings.FieldsSeq(agents) {
		h.must(h.disk.MkdirAll(protocol.OutboxDir(protocol.AgentID(id)), 0o755))
	}
	h.must(MakeHive(h.disk, h.settings, false, nil))
	h.up()
	t.Cleanup(func() {
		h.down()
		for _, e := range all[*protocol.MessageEvent](h) {
			proofread.Notice(t, e)
		}
	})
	return h
}

func (h *crew) must(err error) {
	h.Helper()
	testenv.Must(h, err)
}

// up starts a daemon.
func (h *crew) up() {
	h.Helper()
	h.hints, h.ended = make(chan []mailbox.Hint, 16), make(chan error, 1)
	r, err := open(h.disk, Config{Settings: h.settings, Entropy: zeros{}, OnEvent: h.happened}, hintWatcher{hints: h.hints})
	h.must(err)
	r.clock.Now = func() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }
	r.clock.Begin()
	ctx, stop := context.WithCancel(context.Background())
	h.router, h.stop = r, stop
	go func() { h.ended <- r.Run(ctx) }()
	synctest.Wait()
}

// slowStep has the daemon stand still for a while after it read the clock for its next
// step, and then calls then; what that does is still read in the same step.
func (h *crew) slowStep(d time.Duration, then func()) {
	r, once := h.router, sync.Once{}
	clock := r.clock.Now
	r.clock.Now = func() time.Time {
		at := clock()
		once.Do(func() {
			<-time.After(d)
			then()
		})
		return at
	}
}

// down stops the daemon.
func (h *crew) down() {
	h.Helper()
	if h.router == nil {
		return
	}
	h.stop()
	if err := <-h.ended; err != nil {
		h.Errorf("the daemon ended with %v", err)
	}
	h.router = nil
}

func (h *crew) happened(ev protocol.Event) {
	h.mu.Lock()
	h.events = append(h.events, ev)
	if e, ok := ev.Body.(*protocol.TaskEvent); ok && (e.Event == task.Claim || e.Event == task.Accept) {
		h.epochs[string(e.By)+" "+string(e.Task)] = e.Epoch
	}
	then := h.onEvent
	h.mu.Unlock()
	if then != nil {
		then(ev)
	}
}

// callOnEvents has the daemon call a function at each event from now on.
func (h *crew) callOnEvents(onEvent func(ev protocol.Event)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onEvent = onEvent
}

// durable returns all durable events so far.
func (h *crew) durable() []protocol.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// epochOf returns the epoch with which an agent last got a task, or zero if it never did.
func (h *crew) epochOf(who protocol.AgentID, id protocol.TaskID) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.epochs[string(who)+" "+string(id)]
}

// pass lets time pass.
func (h *crew) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// beat touches an agent's alive file.
func (h *crew) beat(who protocol.AgentID) {
	h.Helper()
	h.must(durable.Publish(h.disk, protocol.AgentDir(who)+"/alive", nil, 0o644, true))
}

// passAlive lets time pass, in which some agents touch their alive files every half minute.
func (h *crew) passAlive(d time.Duration, who ...protocol.AgentID) {
	h.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		for _, id := range who {
			h.beat(id)
		}
		h.pass(min(30*time.Second, time.Until(end)))
	}
}

// post puts a message into an outbox without a hint.
func (h *crew) post(from protocol.AgentID, text string) {
	h.Helper()
	h.sent++
	h.must(durable.Publish(h.disk, fmt.Sprintf("%s/%06d.json", protocol.OutboxDir(from), h.sent), []byte(text), 0o644, true))
}

// collect has the daemon read all that was posted.
func (h *crew) collect() {
	h.hints <- []mailbox.Hint{{Overflow: true}}
	synctest.Wait()
}

// command returns the text and the id of a command about a task, with the epoch that its
// sender got, if any.
func (h *crew) command(who protocol.AgentID, event string, id protocol.TaskID, data string) (text, message string) {
	h.Helper()
	message = fmt.Sprintf("command-%d", h.sent)
	m := map[string]any{"to": "hive", "event": event, "id": message}
	if id != "" {
		m["task"] = id
	}
	if answers(event) && id != "" && !strings.Contains(data, `"ask"`) {
		if q := h.view(id).Question; q != nil {
			data = withAsk(data, q.Ask)
		}
	}
	if data != "" {
		m["data"] = jsontext.Value(data)
	}
	if epoch := h.epochOf(who, id); epoch > 0 && taskCommands[event] || epoch > 0 && event == "fatal_error" {
		m["epoch"] = epoch
	}
	raw, err := json.Marshal(m, json.Deterministic(true))
	h.must(err)
	return string(raw), message
}

// taskCommands has the commands about tasks, and whether a holder sends them, with its
// epoch.
var taskCommands = map[string]bool{
	"create": false, "resume": false, "claim": false, "accept": false, "reject": false,
	"start": true, "progress": true, "pause_for_approval": true, "block_on_dependency": true, "transient_error": true, "failure": true,
	"release": true, "complete": true, "step_started": true, "step_ended": true, "recovered": true, "cancelled": true, "fatal_error": false,
	"approval_granted": false, "approval_denied": false, "answer": false, "amend": false, "cancel": false, "dependency_resolved": false, "unwind": false, "outcome": true,
}

// answers reports whether a command answers a question, and so has to carry its number.
func answers(event string) bool {
	return event == "approval_granted" || event == "approval_denied" || event == "answer"
}

// withAsk returns the data of a command with the number of a question.
func withAsk(data string, ask protocol.Seq) string {
	more := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(data), "{"))
	if more == "" {
		more = "}"
	}
	if more != "}" {
		more = ", " + more
	}
	return `{"ask": ` + ask.String() + more
}

// posts posts a command and returns its id.
func (h *crew) posts(who protocol.AgentID, event string, id protocol.TaskID, data string) (message string) {
	h.Helper()
	text, message := h.command(who, event, id, data)
	h.post(who, text)
	return message
}

// does has somebody send a command about a task that must be carried out.
func (h *crew) does(who protocol.AgentID, event string, id protocol.TaskID, data string) {
	h.Helper()
	message := h.posts(who, event, id, data)
	h.collect()
	if no := h.answer(who, message); no != nil {
		h.Fatalf("%s %s was refused: %s, %s", who, event, no.Code, no.Detail)
	}
}

// refused has somebody send a command that must be refused and change nothing, and
// returns the refusal.
func (h *crew) refused(code protocol.Code, who protocol.AgentID, event string, id protocol.TaskID, data string) *protocol.TaskRejectedEvent {
	h.Helper()
	text, message := h.command(who, event, id, data)
	return h.refusedText(code, who, id, message, text)
}

func (h *crew) refusedText(code protocol.Code, who protocol.AgentID, id protocol.TaskID, message, text string) *protocol.TaskRejectedEvent {
	h.Helper()
	before, steps := h.file(id, protocol.TaskView), len(all[*protocol.TaskEvent](h))
	h.post(who, text)
	h.collect()
	no := h.answer(who, message)
	if no == nil {
		h.Fatalf("%s of %s was not refused", text, who)
	}
	if no.Code != code || no.Detail == "" {
		h.Errorf("%s of %s was refused with %s, not with %s: %s", text, who, no.Code, code, no.Detail)
	}
	if got := h.told(who, code); len(got) == 0 || !strings.Contains(got[len(got)-1].Body, no.Detail) {
		h.Errorf("%s was not told of %s: %v", who, code, got)
	}
	if after := h.file(id, protocol.TaskView); after != before || len(all[*protocol.TaskEvent](h)) != steps {
		h.Errorf("%s of %s changed something:\n%s\n%s", text, who, before, after)
	}
	return no
}

// answer returns the refusal of a message, or nil if it was carried out.
func (h *crew) answer(from protocol.AgentID, message string) *protocol.TaskRejectedEvent {
	h.Helper()
	var of protocol.Seq
	for _, ev := range h.durable() {
		switch e := ev.Body.(type) {
		case *protocol.MessageEvent:
			if e.From == from && string(e.ID) == message {
				of = ev.Seq
			}
		case *protocol.TaskRejectedEvent:
			if of > 0 && e.Of == of {
				return e
			}
		}
	}
	if of == 0 {
		h.Fatalf("message %s of %s did not arrive", message, from)
	}
	return nil
}

// create creates a task, or several, and returns the id of the last one.
func (h *crew) create(who protocol.AgentID, data string) protocol.TaskID {
	h.Helper()
	h.does(who, "create", "", data)
	list := h.created()
	return list[len(list)-1]
}

// created returns the ids of all tasks, the oldest first.
func (h *crew) created() (list []protocol.TaskID) {
	for _, e := range all[*protocol.TaskEvent](h) {
		if e.Event == task.Create {
			list = append(list, e.Task)
		}
	}
	return list
}

// begin has somebody claim and start a task.
func (h *crew) begin(who protocol.AgentID, id protocol.TaskID) {
	h.Helper()
	h.does(who, "claim", id, "")
	h.does(who, "start", id, "")
}

// slots sets how many tasks an agent may have at once.
func (h *crew) slots(who protocol.AgentID, n int) {
	h.Helper()
	h.post("human", fmt.Sprintf(`{"to": "hive", "event": "agent-add", "data": {"agent": %q, "slots": %d}}`, who, n))
	h.collect()
}

// file returns what a task's file holds, or nothing if there is none.
func (h *crew) file(id protocol.TaskID, name string) string {
	data, _, err := durable.ReadFile(h.disk, protocol.TaskDir(id)+"/"+name, -1)
	if err != nil {
		return ""
	}
	return string(data)
}

// view returns a task's task.json.
func (h *crew) view(id protocol.TaskID) (v task.View) {
	h.Helper()
	h.must(json.Unmarshal([]byte(h.file(id, protocol.TaskView)), &v))
	return v
}

// is fails unless a task is in a state, and returns its view.
func (h *crew) is(id protocol.TaskID, state task.State) task.View {
	h.Helper()
	v := h.view(id)
	if v.State != state {
		h.Fatalf("the task is %s, not %s: %s", v.State, state, h.file(id, protocol.TaskView))
	}
	return v
}

// all returns the events of one kind, the oldest first.
func all[T protocol.Body](h *crew) (list []T) {
	for _, ev := range h.durable() {
		if e, ok := ev.Body.(T); ok {
			list = append(list, e)
		}
	}
	return list
}

// times returns when something happened to a task.
func (h *crew) times(id protocol.TaskID, on task.Event) (list []time.Time) {
	for _, ev := range h.durable() {
		if e, ok := ev.Body.(*protocol.TaskEvent); ok && e.Task == id && e.Event == on {
			list = append(list, ev.TS)
		}
	}
	return list
}

// happenedTo returns the names of what happened to a task, in order.
func (h *crew) happenedTo(id protocol.TaskID) string {
	var list []string
	for _, e := range all[*protocol.TaskEvent](h) {
		if e.Task == id {
			list = append(list, string(e.Event))
		}
	}
	return strings.Join(list, " ")
}

func (h *crew) wantHistory(id protocol.TaskID, want string) {
	h.Helper()
	if got := h.happenedTo(id); got != want {
		h.Errorf("what happened to the task:\n got %s\nwant %s", got, want)
	}
}

// said is a notice, as its reader has it.
type said struct {
	ID           string `json:"-"`
	Body         string
	Conversation string
	Data         struct {
		Code     protocol.Code
		Task     protocol.TaskID
		Epoch    uint64
		Ask      protocol.Seq
		Question string
	}
}

// told returns the notices of one code that somebody got.
func (h *crew) told(who protocol.AgentID, code protocol.Code) (list []said) {
	h.Helper()
	for _, e := range all[*protocol.MessageEvent](h) {
		if e.From != protocol.Hive || !slices.Contains(e.Delivered, who) {
			continue
		}
		var n said
		h.must(json.Unmarshal([]byte(e.Raw), &n, json.MatchCaseInsensitiveNames(true)))
		if n.ID = string(e.ID); n.Data.Code == code {
			list = append(list, n)
		}
	}
	return list
}

// wantTold fails unless somebody got so many notices of a code, each with the texts.
func (h *crew) wantTold(who protocol.AgentID, code protocol.Code, n int, texts ...string) {
	h.Helper()
	list := h.told(who, code)
	if len(list) != n {
		h.Errorf("%s was told %s %d times, not %d: %v", who, code, len(list), n, list)
	}
	for _, x := range list {
		for _, text := range texts {
			if !strings.Contains(x.Body, text) {
				h.Errorf("%s was told %s without %q: %s", who, code, text, x.Body)
			}
		}
	}
}
