package torture

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// accepted is what the log says about the agents' messages. Each read continues where
// the last one ended.
type accepted struct {
	at     eventlog.Position
	times  map[string]int // by key: how often it was accepted
	aside  map[string]int // outbox files that were set aside, as owner/name
	starts int            // of daemons
	tasks  tasksOf
	last   sentAs // the last message of the crowd
	// settled is the event up to which everything is on the disk; from is how many
	// messages of each agent were accepted.
	settled protocol.Seq
	from    map[protocol.AgentID]int
	// stopped has the agents of which a message was stopped, and the reason.
	stopped map[protocol.AgentID]string
	after   map[protocol.AgentID]int // those accepted since everything that it sends has to wait
}

// sentAs is the event that accepted a message, and the message's key.
type sentAs struct {
	seq protocol.Seq
	key string
}

func newAccepted() *accepted {
	return &accepted{times: map[string]int{}, aside: map[string]int{}, tasks: newTasksOf(), from: map[protocol.AgentID]int{}, stopped: map[protocol.AgentID]string{}, after: map[protocol.AgentID]int{}}
}

// read reads what is new in the log, which may grow meanwhile. If a crash removed
// what was already read, before anybody was told of it, read starts from the
// beginning.
func (a *accepted) read(dir string) error {
	disk, err := durable.Open(dir)
	if err != nil {
		return fmt.Errorf("open the hive: %w", err)
	}
	defer disk.Close() //nolint:errcheck // only read
	err = a.readOn(disk)
	if _, removed := errors.AsType[*eventlog.Mismatch](err); removed {
		*a = *newAccepted()
		err = a.readOn(disk)
	}
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	return nil
}

func (a *accepted) readOn(disk durable.FS) error {
	for rec, err := range eventlog.Read(disk, a.at) {
		if err != nil {
			return err
		}
		a.at = eventlog.Position{Seq: rec.Event.Seq, Sum: rec.Sum}
		a.note(rec.Event)
	}
	return nil
}

func (a *accepted) note(ev protocol.Event) { protocol.Handle[none](ev, notes{a}) }

// notes records what each kind of event says.
type notes struct{ *accepted }

type none = struct{}

func (a notes) OnHive(_ protocol.Event, e *protocol.HiveEvent) none {
	if e.Action == protocol.Started {
		a.starts++
	}
	a.settled = max(a.settled, e.Through)
	return none{}
}

func (a notes) OnMessage(ev protocol.Event, e *protocol.MessageEvent) none {
	a.from[e.From]++
	if a.stopped[e.From] == string(protocol.CodeEchoCap) {
		a.after[e.From]++
	}
	if e.Kept != nil {
		a.stopped[e.From] = string(e.Kept.Reason)
	}
	if key := keyIn([]byte(e.Raw)); ours(e.From) && key != "" {
		a.times[key]++
		a.last = sentAs{ev.Seq, key}
	}
	return none{}
}

// OnTaskRejected notes the tasks that an agent may not create, because it holds one.
func (a notes) OnTaskRejected(_ protocol.Event, e *protocol.TaskRejectedEvent) none {
	if (e.Code == protocol.CodeTooDeep || e.Code == protocol.CodeTooMany) && ours(e.By) && e.Of == a.last.seq {
		a.tasks.refused[a.last.key] = true
	}
	return none{}
}

func (a notes) OnQuarantine(_ protocol.Event, e *protocol.QuarantineEvent) none {
	if e.Original != nil {
		a.aside[string(e.Agent)+"/"+path.Base(e.Original.Name)]++
	}
	return none{}
}

func (a notes) OnTask(ev protocol.Event, e *protocol.TaskEvent) none {
	a.tasks.note(ev.Seq, e)
	return none{}
}

func (a notes) OnDrop(_ protocol.Event, e *protocol.DropEvent) none {
	a.stopped[e.From] = string(e.Reason)
	return none{}
}

func (a notes) OnAlert(_ protocol.Event, e *protocol.AlertEvent) none {
	if e.Code == protocol.CodeEchoCap {
		a.stopped[e.Agent] = string(e.Code)
	}
	return none{}
}

func (notes) OnAgent(protocol.Event, *protocol.AgentEvent) none         { return none{} }
func (notes) OnDuplicate(protocol.Event, *protocol.DuplicateEvent) none { return none{} }
func (notes) OnHandled(protocol.Event, *protocol.HandledEvent) none     { return none{} }
func (notes) OnDelivered(protocol.Event, *protocol.DeliveredEvent) none { return none{} }
func (notes) OnFile(protocol.Event, *protocol.FileEvent) none           { return none{} }

// holds checks that each of the messages is in the log, and that nothing was accepted
// twice.
func (a *accepted) holds(want []string, r *Report) {
	for _, key := range want {
		if a.times[key] == 0 {
			r.problem("%s is neither in its outbox nor in the log", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.times)) {
		if n := a.times[key]; n > 1 {
			r.problem("%s is in the log %d times", key, n)
		}
	}
	a.tasks.holds(r)
}

// ours reports whether an agent is one of the crowd.
func ours(id protocol.AgentID) bool { return strings.HasPrefix(string(id), crowdNames) }

// keyIn returns the key at the start of a message's body, or "" if there is none.
func keyIn(data []byte) string {
	var msg struct {
		Body any `json:"body"`
	}
	if json.Unmarshal(data, &msg) != nil {
		return ""
	}
	text, _ := msg.Body.(string)
	key, _, _ := strings.Cut(text, " ")
	return key
}
