package torture

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// worker is the part of an agent that works on tasks. It is a bad worker: it is
// slow, leaves in the middle, and comes back with results that nobody waits for
// any more.
type worker struct {
	offers []protocol.TaskID
	task   protocol.TaskID // that it holds; empty if none
	epoch  uint64
	step   int // how many steps it has reported

	asked protocol.MessageID // the command whose answer it waits for; empty if none
	about protocol.TaskID    // of that command
	event string             // the same
	key   string             // the same
}

// steps is what the holder of a task reports, in order. It waits for the answer to
// the last step.
var steps = []string{"start", "progress", "progress", "complete"}

// offersKept is how many offers an agent remembers.
const offersKept = 8

// workOnTask sends at most one command about a task.
func (m *member) workOnTask() error {
	l := m.worker
	key := m.key()
	switch {
	case l.asked != "":
		return nil
	case l.task != "" && m.random.IntN(10) == 0: // it goes away, and perhaps it comes back
		l.step = len(steps) - 1
		if m.random.IntN(2) == 0 {
			l.task = ""
		}
		return nil
	case l.task != "":
		event := steps[l.step]
		l.step++
		switch event {
		case "progress":
			return m.command(key, agent.Draft{Event: event, Task: l.task, Epoch: l.epoch, Data: fmt.Appendf(nil, `{"checkpoint":{"by":%q,"at":%q}}`, m.id, key)})
		case "complete":
			return m.request(key, agent.Draft{Event: event, Task: l.task, Epoch: l.epoch, Data: fmt.Appendf(nil, `{"result":{"key":%q}}`, key)})
		}
		return m.command(key, agent.Draft{Event: event, Task: l.task, Epoch: l.epoch})
	case len(l.offers) > 0:
		last := len(l.offers) - 1
		id := l.offers[last]
		l.offers = l.offers[:last]
		return m.request(key, agent.Draft{Event: []string{"accept", "claim"}[m.random.IntN(2)], Task: id})
	}
	m.known.creates(key)
	return m.command(key, agent.Draft{Event: "create", Data: fmt.Appendf(nil, `{"title":%q,"to":%s}`, key, quoted(m.names))})
}

// command sends a command to hived.
func (m *member) command(key string, d agent.Draft) error {
	d.ID, d.To, d.Body = protocol.MessageID("id-"+key), []protocol.Address{protocol.Address(protocol.Hive)}, agent.Text(key+" ")
	return m.sends(key, d, nil)
}

// request sends a command and remembers to wait for its answer.
func (m *member) request(key string, d agent.Draft) error {
	reply := true
	d.RequiresReply = &reply
	l := m.worker
	l.asked, l.about, l.event, l.key = protocol.MessageID("id-"+key), d.Task, d.Event, key
	return m.command(key, d)
}

// stops are the codes by which hived tells an agent that it is stopped.
var stops = []protocol.Code{protocol.CodeEchoCap, protocol.Code(protocol.HopCap), protocol.Code(protocol.InboxFull)}

// hears acts on a message from hived about tasks, which may come again.
func (m *member) hears(data []byte) error {
	var msg struct {
		InReplyTo protocol.MessageID `json:"in_reply_to"`
		Data      struct {
			Code  protocol.Code   `json:"code"`
			Task  protocol.TaskID `json:"task"`
			Epoch uint64          `json:"epoch"`
		} `json:"data"`
	}
	if err := json.Unmarshal(data, &msg); err != nil {
		return fmt.Errorf("parse a message from hived: %w", err)
	}
	l, about := m.worker, msg.Data
	switch {
	case slices.Contains(stops, about.Code):
		m.known.wrong("%s, which does no harm, was told %s", m.id, about.Code)
	case about.Code == protocol.CodeTaskOffer && !slices.Contains(l.offers, about.Task):
		l.offers = append(l.offers[max(0, len(l.offers)+1-offersKept):], about.Task)
	case l.asked == "" || msg.InReplyTo != l.asked:
	case l.event == "complete":
		if about.Code == protocol.CodeOK {
			m.known.finishes(finished{about.Task, m.id, l.key})
		}
		l.task, l.asked = "", ""
	default:
		if l.asked = ""; about.Code == protocol.CodeOK {
			m.known.takes(taken{l.about, about.Epoch, m.id})
			l.task, l.epoch, l.step = l.about, about.Epoch, 0
		}
	}
	return nil
}

// taken is a task with its holder.
type taken struct {
	task  protocol.TaskID
	epoch uint64
	by    protocol.AgentID
}

// finished is a completed task with who completed it and the key of its result.
type finished struct {
	task protocol.TaskID
	by   protocol.AgentID
	key  string
}

// tasksOf is what the log says about the crowd's tasks.
type tasksOf struct {
	created  map[string]int  // by title
	refused  map[string]bool // the same: whoever holds tasks may create so many, and no deeper
	taken    map[taken]int
	epochs   map[string]int // how often each epoch of a task began
	finished map[finished]int
	ended    map[protocol.TaskID]int
	asks     map[protocol.TaskID]protocol.Seq // the question that was asked last
	granted  map[question]bool
	timedOut map[question]bool
}

func newTasksOf() tasksOf {
	return tasksOf{map[string]int{}, map[string]bool{}, map[taken]int{}, map[string]int{}, map[finished]int{}, map[protocol.TaskID]int{}, map[protocol.TaskID]protocol.Seq{}, map[question]bool{}, map[question]bool{}}
}

func (t *tasksOf) note(seq protocol.Seq, e *protocol.TaskEvent) {
	switch e.Event {
	case task.PauseForApproval:
		t.asks[e.Task] = seq
	case task.ApprovalGranted:
		t.granted[question{e.Task, t.asks[e.Task]}] = true
	case task.Timeout:
		t.timedOut[question{e.Task, t.asks[e.Task]}] = true
	case task.Create:
		if ours(e.By) {
			t.created[e.Spec.Title]++
		}
	case task.Accept, task.Claim:
		t.taken[taken{e.Task, e.Epoch, e.By}]++
		t.epochs[fmt.Sprintf("%s, epoch %d", e.Task, e.Epoch)]++
	case task.Complete:
		var result struct {
			Key string `json:"key"`
		}
		if e.Result != nil && json.Unmarshal(e.Result.Value, &result) == nil {
			t.finished[finished{e.Task, e.By, result.Key}]++
		}
	}
	if task.Ended(e.To) {
		t.ended[e.Task]++
	}
}

// holds reports what must not be in the log: a task that was created twice, an epoch
// with two holders, a task that ended twice.
func (t *tasksOf) holds(r *Report) {
	twice("the task %s was created %d times", t.created, r)
	twice("%s began %d times", t.epochs, r)
	twice("task %s ended %d times", t.ended, r)
}

func twice[K ~string](what string, counts map[K]int, r *Report) {
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[key]; n > 1 {
			r.problem(what, key, n)
		}
	}
}
