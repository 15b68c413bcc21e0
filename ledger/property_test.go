package ledger

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// cast is who takes part in histories.
var cast = []protocol.AgentID{"alice", "bob", "carol", "dave", protocol.Human, protocol.Hive}

// histories draws what can happen to a hive, with few names, so that they occur
// again.
type histories struct {
	t   *rapid.T
	n   int // events
	now time.Time

	tasks *task.Book // lets most of the task events drawn be legal
}

// someTasks are the tasks that occur in histories.
var someTasks = []protocol.TaskID{"01M7YW2XY9P0EW1X9MFVTQ8901", "01M7YW2XY9P0EW1X9MFVTQ8902", "01M7YW2XY9P0EW1X9MFVTQ8903"}

func (h *histories) task() protocol.Body {
	id := rapid.SampledFrom(someTasks).Draw(h.t, "task")
	e := &protocol.TaskEvent{Task: id, Event: task.Create, To: task.Unassigned, By: h.agent("by"), Reason: h.pick("reason", "", "why")}
	now := h.tasks.Get(id)
	if now == nil {
		e.Spec = &protocol.TaskSpec{Title: "t", Approvals: 2, To: []protocol.Address{"@maker"}}
		e.Needs = rapid.SliceOfDistinct(rapid.SampledFrom(someTasks), rapid.ID).Draw(h.t, "needs")
		return e
	}
	e.From, e.Epoch, e.Attempt = now.State, now.Epoch, now.Attempt
	e.Event = rapid.SampledFrom(task.Events()).Filter(func(on task.Event) bool {
		_, ok := task.Next(now.State, on)
		return ok || task.Ended(now.State)
	}).Draw(h.t, "event")
	e.To, _ = task.Next(e.From, e.Event)
	switch e.Event {
	case task.Claim, task.Accept:
		e.Epoch++
	case task.Offer, task.OfferExpired:
		e.Agents = h.delivered()
	case task.BlockOnDependency:
		e.Needs = someTasks[:1]
	case task.Progress:
		e.Checkpoint = &protocol.Checkpoint{Milestone: h.pick("milestone", "", "half"), SHA256: h.pick("sum", "01", "0203")}
	case task.PauseForApproval:
		e.Until = h.now.Add(time.Hour)
	}
	return e
}

// aboutTasks draws one of the other events that concern tasks.
func (h *histories) aboutTasks() protocol.Body {
	view := protocol.TaskDir(rapid.SampledFrom(someTasks).Draw(h.t, "task")) + "/" + protocol.TaskView
	switch rapid.IntRange(0, 4).Draw(h.t, "about tasks") {
	case 0:
		return &protocol.FileEvent{Path: view, By: protocol.Hive, Content: &protocol.Content{Text: "{}"}}
	case 1:
		return &protocol.TaskRejectedEvent{Event: "start", By: h.agent("by"), Code: protocol.Code(h.pick("code", "fenced", "not-holder"))}
	case 2:
		return &protocol.HiveEvent{Action: protocol.ClockJumped, Jump: rapid.Int64Range(-1e8, 1e8).Draw(h.t, "jump")}
	case 3:
		return &protocol.HiveEvent{Action: protocol.Swept, Paths: []string{view}}
	}
	return &protocol.HiveEvent{Action: protocol.Started}
}

func (h *histories) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(h.t, label)
}

func (h *histories) agent(label string) protocol.AgentID {
	return rapid.SampledFrom(cast).Draw(h.t, label)
}

func (h *histories) id() protocol.MessageID {
	return protocol.MessageID(fmt.Sprint("m", rapid.IntRange(0, 40).Draw(h.t, "id")))
}

func (h *histories) conversation() protocol.ConversationID {
	n := rapid.IntRange(0, 12).Draw(h.t, "conversation")
	switch {
	case n < 6:
		return protocol.ConversationID(madeConversation + ulid.ULID{15: byte(n)}.String())
	case n == 6:
		return protocol.ConversationID(madeConversation + ulid.ULID(numbered(0)).String()) // collides with an id that is made
	}
	return protocol.ConversationID(fmt.Sprint("thread ", n))
}

func (h *histories) file() string {
	n := rapid.IntRange(1, 30).Draw(h.t, "file")
	if n%5 == 0 {
		return fmt.Sprintf("adopted-%d.json", n)
	}
	return ulid.ULID{15: byte(n)}.String() + messageEnding
}

func (h *histories) sent() string {
	return fmt.Sprintf("%d.json", rapid.IntRange(0, 30).Draw(h.t, "sent"))
}

func (h *histories) delivered() []protocol.AgentID {
	if rapid.IntRange(0, 9).Draw(h.t, "wide") == 0 {
		many := slices.Clone(cast)
		for i := range wideFrom {
			many = append(many, protocol.AgentID(fmt.Sprint("x", i)))
		}
		return many
	}
	return rapid.SliceOfNDistinct(rapid.SampledFrom(cast), 0, 3, rapid.ID).Draw(h.t, "delivered")
}

func (h *histories) message() protocol.Body {
	e := &protocol.MessageEvent{
		ID: h.id(), From: h.agent("from"), Conversation: h.conversation(), Hops: rapid.IntRange(0, 300).Draw(h.t, "hops"),
		Delivered: h.delivered(), File: h.file(), Sent: h.sent(),
		Blob: protocol.Blob{byte(h.n), byte(h.n >> 8)}, Size: rapid.IntRange(0, 1<<20).Draw(h.t, "size"),
	}
	e.Claimed = rapid.SampledFrom([]int{0, 0, 0, e.Hops / 2, e.Hops}).Draw(h.t, "claimed")
	e.Misspelt = rapid.SampledFrom([][]string{nil, nil, {"actt"}, {"in_replyto", "bdy"}}).Draw(h.t, "misspelt")
	if rapid.Bool().Draw(h.t, "chosen") {
		e.Content = fmt.Sprintf("%016x%016x", rapid.IntRange(0, 3).Draw(h.t, "content"), 0)
	}
	if rapid.IntRange(0, 3).Draw(h.t, "own") == 0 && len(e.File) == len("01M7YW2XY9P0EW1X9MFVTQ8900.json") {
		e.ID = protocol.MessageID(e.File[:ulid.EncodedSize])
	}
	return e
}

func (h *histories) body() protocol.Body {
	switch n := rapid.IntRange(0, 29).Draw(h.t, "kind"); {
	case n > 21:
		return h.task()
	case n > 19:
		return h.aboutTasks()
	case n < 10:
		return h.message()
	case n < 14:
		how := protocol.How(h.pick("how", string(protocol.HowDone), string(protocol.HowDeleted), string(protocol.HowReopened)))
		return &protocol.HandledEvent{Agent: h.agent("agent"), File: h.file(), How: how}
	case n < 15:
		dir := protocol.SentDir(h.agent("agent")) + "/" + h.sent()
		return &protocol.HiveEvent{Action: protocol.Swept, Paths: []string{dir, protocol.DoneDir(h.agent("other")) + "/" + h.file()}}
	case n < 17:
		reason := protocol.Reason(h.pick("reason", string(protocol.HopCap), string(protocol.PairCap)))
		return &protocol.DropEvent{From: h.agent("from"), To: []protocol.Address{protocol.Address(h.agent("to"))}, Conversation: h.conversation(), Reason: reason, Told: true}
	case n < 18:
		return &protocol.HiveEvent{Action: protocol.Continued, Conversation: h.conversation()}
	case n < 19:
		return &protocol.FileEvent{Path: "agents/alice/" + h.pick("own", "a", "b"), By: "alice", Content: &protocol.Content{Text: "x"}, Deleted: rapid.Bool().Draw(h.t, "deleted")}
	}
	action := protocol.AgentAction(h.pick("action", string(protocol.Changed), string(protocol.Held), string(protocol.Released), string(protocol.Archived), string(protocol.LeadSet)))
	return &protocol.AgentEvent{Agent: h.agent("agent"), Action: action, Role: h.pick("role", "", "maker"), Caps: []string{"go"}}
}

// event draws the next event. The first ones make everybody join.
func (h *histories) event() protocol.Event {
	h.n++
	h.now = h.now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Second, time.Second, time.Second, time.Minute, 50 * time.Minute, -time.Minute}).Draw(h.t, "pause"))
	ev := protocol.Event{Seq: protocol.Seq(h.n), TS: h.now}
	if h.n <= len(cast) {
		ev.Body = &protocol.AgentEvent{Agent: cast[h.n-1], Action: protocol.Joined}
	} else {
		ev.Body = h.body()
	}
	switch e := ev.Body.(type) {
	case *protocol.TaskEvent:
		_ = h.tasks.Apply(ev, e) // an event of a task that has ended is refused
	case *protocol.HiveEvent:
		for _, id := range someTasks {
			if slices.Contains(e.Paths, protocol.TaskDir(id)+"/"+protocol.TaskView) {
				h.tasks.Forget(id)
			}
		}
	}
	return ev
}

func drawHistory(t *rapid.T) (protocol.RememberSettings, []protocol.Event) {
	remember := protocol.RememberSettings{IDs: rapid.IntRange(1, 20).Draw(t, "ids"), Conversations: rapid.IntRange(1, 10).Draw(t, "conversations")}
	h := &histories{t: t, now: start, tasks: task.NewBook()}
	list := make([]protocol.Event, rapid.IntRange(0, 150).Draw(t, "events"))
	for i := range list {
		list[i] = h.event()
	}
	return remember, list
}

// TestRemembers checks that the packed windows and boxes answer as plain maps
// would.
func TestRemembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		remember, list := drawHistory(t)
		s, m := New(remember), newModel(remember)
		for i, ev := range list {
			s.Apply(ev)
			m.apply(ev)
			if i%5 == 0 {
				s.Compact()
			}
			if i%8 > 0 && i < len(list)-1 {
				continue
			}
			if want, got := m.answers(ev.TS), answers(s, ev.TS); !slices.Equal(want, got) {
				t.Fatalf("after event %d: %s", i, cmp.Diff(want, got))
			}
		}
		for _, a := range s.Roster() {
			for dir, box := range map[string]*Box{protocol.InboxDir(a.ID): &a.Inbox, protocol.DoneDir(a.ID): &a.Done, protocol.SentDir(a.ID): &a.Sent} {
				if diff := cmp.Diff(m.box(dir), maps.Collect(box.All())); diff != "" || box.Len() != len(m.box(dir)) {
					t.Fatalf("%s, of %d entries: %s", dir, box.Len(), diff)
				}
			}
		}
	})
}

// answer is a question that can be asked of a State, with its answer.
type answer struct {
	Asked  string
	Of     protocol.Seq
	Said   string
	Known  bool
	Thread Thread
}

// questions asks about every name that a history can have.
func questions(seen func(protocol.AgentID, protocol.MessageID) answer, thread func(protocol.AgentID, []protocol.AgentID, protocol.MessageID, protocol.ConversationID) Thread,
	talk func(protocol.ConversationID) answer,
) []answer {
	var out []answer
	ask := func(a answer, format string, args ...any) {
		a.Asked = fmt.Sprintf(format, args...)
		out = append(out, a)
	}
	convs := []protocol.ConversationID{protocol.ConversationID(madeConversation + ulid.ULID(numbered(0)).String())}
	for n := range 13 {
		convs = append(convs, protocol.ConversationID(madeConversation+ulid.ULID{15: byte(n)}.String()), protocol.ConversationID(fmt.Sprint("thread ", n)))
	}
	for _, conv := range convs {
		ask(talk(conv), "conversation %s", conv)
	}
	ids := make([]protocol.MessageID, 0, 72)
	for n := range 41 {
		ids = append(ids, protocol.MessageID(fmt.Sprint("m", n)))
	}
	for n := range 31 {
		ids = append(ids, protocol.MessageID(ulid.ULID{15: byte(n)}.String()))
	}
	for _, id := range ids {
		for _, to := range [][]protocol.AgentID{nil, {"bob"}, {"carol", "dave", protocol.Hive}, {protocol.Human}} {
			ask(answer{Thread: thread("alice", to, id, "")}, "reply to %s of %v", id, to)
		}
	}
	for _, a := range append(slices.Clone(cast), "x3", "nobody") {
		for _, id := range ids {
			ask(seen(a, id), "%s of %s", id, a)
		}
		for _, conv := range convs {
			ask(answer{Thread: thread(a, nil, "", conv)}, "%s in %s", a, conv)
		}
	}
	return out
}

func answers(s *State, now time.Time) []answer {
	return questions(func(from protocol.AgentID, id protocol.MessageID) answer {
		of, content, ok := s.Seen(from, id)
		if !ok {
			return answer{}
		}
		return answer{Of: of, Said: hex.EncodeToString(content[:]), Known: true}
	}, func(from protocol.AgentID, to []protocol.AgentID, reply protocol.MessageID, conv protocol.ConversationID) Thread {
		return s.Thread(now, from, to, reply, conv)
	}, func(conv protocol.ConversationID) answer {
		return answer{Known: s.KnowsConversation(conv)}
	})
}

func (m *model) answers(now time.Time) []answer {
	return questions(func(from protocol.AgentID, id protocol.MessageID) answer {
		a, ok := m.ids.values[modelName{from, id}]
		return answer{Of: a.of, Said: a.content, Known: ok}
	}, func(from protocol.AgentID, to []protocol.AgentID, reply protocol.MessageID, conv protocol.ConversationID) Thread {
		return m.follows(now, from, to, reply, conv)
	}, func(conv protocol.ConversationID) answer {
		return answer{Known: m.conversations.values[conv] != nil}
	})
}
