package ledger

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// story returns a fresh State into which bodies were folded, one a second.
func story(bodies ...protocol.Body) *State {
	s := New(protocol.RememberSettings{IDs: 3, Conversations: 3})
	tell(s, bodies...)
	return s
}

func tell(s *State, bodies ...protocol.Body) {
	for _, b := range bodies {
		s.Apply(protocol.Event{Seq: s.Seq + 1, TS: start.Add(time.Duration(s.Seq) * time.Second), Body: b})
	}
}

func joined(ids ...protocol.AgentID) []protocol.Body {
	var out []protocol.Body
	for _, id := range ids {
		out = append(out, &protocol.AgentEvent{Agent: id, Action: protocol.Joined})
	}
	return out
}

func message(n int, from protocol.AgentID, conv protocol.ConversationID, hops int, to ...protocol.AgentID) *protocol.MessageEvent {
	return &protocol.MessageEvent{
		ID: protocol.MessageID(fmt.Sprint("m", n)), From: from, Conversation: conv, Hops: hops, Delivered: to,
		File: fmt.Sprintf("01M7YW2XY9P0EW1X9MFVTQ89%02d.json", n), Sent: fmt.Sprintf("%d.json", n),
		Content: fmt.Sprintf("%032x", n), Size: n,
	}
}

func TestMailboxes(t *testing.T) {
	s := story(append(joined("alice", "bob"),
		message(1, "alice", "c", 0, "bob", "alice"),
		message(2, "alice", "c", 0, "bob"),
		message(3, "alice", "c", 0, "bob"),
	)...)
	file := func(n int) string { return message(n, "", "", 0).File }
	tell(s,
		&protocol.HandledEvent{Agent: "bob", File: file(1), How: protocol.HowDone},
		&protocol.HandledEvent{Agent: "bob", File: file(2), How: protocol.HowDeleted},
		&protocol.HandledEvent{Agent: "bob", File: file(9), How: protocol.HowDone}, // an unknown file
	)
	bob := s.Agents["bob"]
	count := func() [4]int { return [4]int{bob.Inbox.Len(), bob.Done.Len(), int(bob.Handled), int(bob.Delivered)} }
	if got := count(); got != [4]int{1, 1, 2, 3} {
		t.Errorf("unread, done, handled, delivered: %v", got)
	}
	tell(s, &protocol.HandledEvent{Agent: "bob", File: file(1), How: protocol.HowReopened})
	if got := count(); got != [4]int{2, 0, 1, 3} {
		t.Errorf("after taking one back: %v", got)
	}
	tell(s,
		&protocol.HandledEvent{Agent: "bob", File: file(1), How: protocol.HowDone},
		&protocol.HiveEvent{Action: protocol.Swept, Paths: []string{"agents/bob/inbox/.done/" + file(1), "agents/alice/outbox/.sent/1.json", "board.md"}},
	)
	if got := count(); got != [4]int{1, 0, 2, 3} {
		t.Errorf("after the sweep: %v", got)
	}
	if _, kept := s.Agents["alice"].Sent.Get("1.json"); kept || s.Agents["alice"].Sent.Len() != 2 {
		t.Errorf("alice's .sent: %v", maps.Collect(s.Agents["alice"].Sent.All()))
	}
	want := Counts{Messages: 3, Deliveries: 4, Handled: 2}
	if diff := cmp.Diff(want, s.Counts); diff != "" {
		t.Error(diff)
	}
	if got := s.Newest.String() + ".json"; got != file(3) {
		t.Errorf("the newest id is %s, want that of %s", got, file(3))
	}
}

// TestWindows checks that what is remembered is bounded by count.
func TestWindows(t *testing.T) {
	s := story(joined("alice", "bob")...)
	for n := range 5 {
		tell(s, message(n, "alice", protocol.ConversationID(fmt.Sprint("c", n)), 7, "bob"))
	}
	for n := range 5 {
		_, _, seen := s.Seen("alice", protocol.MessageID(fmt.Sprint("m", n)))
		byConversation := s.Thread(start, "bob", nil, "", protocol.ConversationID(fmt.Sprint("c", n))).Known
		byParent := s.Thread(start, "bob", nil, protocol.MessageID(fmt.Sprint("m", n)), "").Known
		if want := n >= 2; seen != want || byConversation != want || byParent != want {
			t.Errorf("message %d: seen %v, its conversation %v, as a parent %v; want %v", n, seen, byConversation, byParent, want)
		}
	}
	if _, _, seen := s.Seen("bob", "m4"); seen {
		t.Error("an id of another sender is taken")
	}
}

func TestThread(t *testing.T) {
	s := New(protocol.DefaultSettings().Remember)
	tell(s, joined("alice", "bob", "carol")...)
	tell(s, message(1, "alice", "c", 4, "bob"), message(2, "bob", "c", 5, "carol"))
	tests := []struct {
		name  string
		from  protocol.AgentID
		to    []protocol.AgentID
		reply protocol.MessageID
		conv  protocol.ConversationID
		want  Thread
	}{
		{"by reply", "bob", nil, "m1", "", Thread{true, "c", 4}},
		{"by conversation, what it was given", "bob", nil, "", "c", Thread{true, "c", 4}},
		{"by conversation, another", "carol", nil, "", "c", Thread{true, "c", 5}},
		{"given nothing", "alice", nil, "", "c", Thread{}},
		{"an unknown parent falls back to the conversation", "bob", nil, "nowhere", "c", Thread{true, "c", 4}},
		{"nothing known", "bob", nil, "nowhere", "", Thread{}},
	}
	for _, tt := range tests {
		if got := s.Thread(start, tt.from, tt.to, tt.reply, tt.conv); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	tell(s, &protocol.HiveEvent{Action: protocol.Continued, Conversation: "c"})
	if got := s.Thread(start, "bob", nil, "m1", ""); got.Hops != 0 {
		t.Errorf("after continue the parent counts %d hops", got.Hops)
	}
	var many []protocol.AgentID
	for i := range wideFrom + 1 {
		many = append(many, protocol.AgentID(fmt.Sprint("x", i)))
	}
	tell(s, message(3, "alice", "c", 6, many...))
	if got := s.Thread(start, "x3", nil, "", "c"); got.Hops != 6 {
		t.Errorf("a message to many counts %d hops for one of them", got.Hops)
	}
	if got := s.Thread(start, "alice", nil, "", "c"); got.Known {
		t.Error("its sender got it too")
	}
}

// TestThreadOfAReply checks that a reply belongs to the message that its sender
// means, though several senders use the id 1.
func TestThreadOfAReply(t *testing.T) {
	one := func(from protocol.AgentID, conv protocol.ConversationID, to ...protocol.AgentID) *protocol.MessageEvent {
		m := message(1, from, conv, 0, to...)
		m.ID = "1"
		return m
	}
	s := New(protocol.DefaultSettings().Remember)
	tell(s, joined("alice", "bob", "carol", "dave", "erin")...)
	tell(s, one("alice", "a", "bob"), one("carol", "c", "dave"), one("dave", "d", "carol", "erin"))
	tests := []struct {
		name string
		from protocol.AgentID
		to   []protocol.AgentID
		want protocol.ConversationID
	}{
		{"to its sender", "bob", []protocol.AgentID{"alice"}, "a"},
		{"to its sender, who used the id last", "carol", []protocol.AgentID{"dave"}, "d"},
		{"to its sender and others", "dave", []protocol.AgentID{"bob", "carol", protocol.Hive, "nobody"}, "c"},
		{"to several who used it: the newest", "bob", []protocol.AgentID{"alice", "carol"}, "c"},
		{"to somebody else: one's own", "alice", []protocol.AgentID{"bob"}, "a"},
		{"to somebody else, of what one was given", "bob", []protocol.AgentID{"erin"}, "a"},
		{"to somebody else, of what one was given last", "erin", []protocol.AgentID{"bob"}, "d"},
		{"of strangers", "stranger", []protocol.AgentID{"bob"}, ""},
	}
	for _, tt := range tests {
		if got := s.Thread(start, tt.from, tt.to, "1", ""); got.Conversation != tt.want || got.Known != (tt.want != "") {
			t.Errorf("%s: %+v, want conversation %q", tt.name, got, tt.want)
		}
	}
}

// TestNamesAreGivenBack checks that names of conversations take memory only while a
// message of the conversation is remembered, and that no two are confused.
func TestNamesAreGivenBack(t *testing.T) {
	s := story(joined("alice", "bob")...)
	for n := range 50 {
		tell(s, message(n%7, "alice", protocol.ConversationID(fmt.Sprint("c", n)), 0, "bob"))
		if len(s.names.list) > 4 || len(s.names.numbers) > 3 {
			t.Fatalf("3 messages are in conversations %v", s.names.list)
		}
		for back := range min(n+1, 3) {
			id, want := protocol.MessageID(fmt.Sprint("m", (n-back)%7)), protocol.ConversationID(fmt.Sprint("c", n-back))
			if got := s.Thread(start, "bob", nil, id, "").Conversation; got != want {
				t.Fatalf("after %d: %s is in %s, not in %s", n, id, got, want)
			}
		}
	}
}

// TestNamesOfOneMessage checks that an id that is used again releases its
// conversation.
func TestNamesOfOneMessage(t *testing.T) {
	s := story(joined("alice", "bob")...)
	for n := range 50 {
		tell(s, message(n*n%5, "alice", protocol.ConversationID(fmt.Sprint("c", n%9)), 0, "bob"))
	}
	uses := 0
	for _, n := range s.names.list {
		uses += int(n.uses)
	}
	if uses != s.parents.live || len(s.names.numbers) > uses {
		t.Errorf("%d messages are in conversations %v", s.parents.live, s.names.list)
	}
}

// TestNoticesCountNoHops checks that a notice is the parent of no message.
func TestNoticesCountNoHops(t *testing.T) {
	s := New(protocol.DefaultSettings().Remember)
	tell(s, append(joined("bob"), message(1, protocol.Hive, "c", 0, "bob"))...)
	if got := s.Thread(start, "bob", nil, "m1", "c"); got.Known {
		t.Errorf("a notice is a parent: %+v", got)
	}
}

func TestChanges(t *testing.T) {
	hello := &protocol.Content{Text: "hello"}
	tests := []struct {
		name string
		body protocol.Body
		want []string
	}{
		{"a file", &protocol.FileEvent{Path: "board.md", Content: hello}, []string{"put board.md hello"}},
		{"a file that is gone", &protocol.FileEvent{Path: "board.md", Deleted: true}, []string{"delete board.md"}},
		{"handled", &protocol.HandledEvent{Agent: "a", File: "f", How: protocol.HowDone}, []string{"move agents/a/inbox/f agents/a/inbox/.done/f"}},
		{"deleted", &protocol.HandledEvent{Agent: "a", File: "f", How: protocol.HowDeleted}, []string{"delete agents/a/inbox/f"}},
		{"reopened", &protocol.HandledEvent{Agent: "a", File: "f", How: protocol.HowReopened}, []string{"move agents/a/inbox/.done/f agents/a/inbox/f"}},
		{"quarantined", &protocol.QuarantineEvent{Path: "agents/a/outbox/.sent/bad-x", Content: hello}, []string{"put agents/a/outbox/.sent/bad-x hello"}},
		{"a FIFO", &protocol.QuarantineEvent{Path: "agents/a/outbox/.sent/bad-x"}, nil},
		{"duplicate", &protocol.DuplicateEvent{Agent: "a", Sent: "x", Raw: "hello"}, []string{"put agents/a/outbox/.sent/x hello"}},
		{"swept", &protocol.HiveEvent{Action: protocol.Swept, Paths: []string{"p", "q"}}, []string{"delete p", "delete q"}},
		{"sealed", &protocol.HiveEvent{Action: protocol.Sealed, Segment: &protocol.Segment{Name: "n"}}, []string{"file log/n"}},
		{"adopted", &protocol.HiveEvent{Action: protocol.Adopted, Adopted: &protocol.AdoptedFile{Path: "p", Content: *hello}}, []string{"put p hello"}},
		{"settled", &protocol.HiveEvent{Action: protocol.Settled}, nil},
		{"an agent", &protocol.AgentEvent{Agent: "a", Action: protocol.Joined}, nil},
		{"a drop", &protocol.DropEvent{}, nil},
		{"an alert", &protocol.AlertEvent{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, err := Changes(protocol.Event{Seq: 1, Body: tt.body})
			testenv.Must(t, err)
			var got []string
			for _, c := range list {
				switch c.Op {
				case protocol.Put:
					got = append(got, "put "+c.Path+" "+string(c.Data))
				case protocol.PutFile:
					got = append(got, "file "+c.Path)
				case protocol.Move:
					got = append(got, "move "+c.From+" "+c.Path)
				case protocol.Delete:
					got = append(got, "delete "+c.Path)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestChangesOfAMessage checks that deliveries are made from the event alone, and
// that no directory is made for a recipient who is not an agent.
func TestChangesOfAMessage(t *testing.T) {
	e := &protocol.MessageEvent{
		ID: "m", From: "a", Delivered: []protocol.AgentID{"b", "hive"}, File: "f.json", Sent: "x.json",
		Raw: `{"to":"b","body":"x"}`, Set: []byte(`{"id":"m","from":"a"}`),
	}
	list, err := Changes(protocol.Event{Seq: 7, TS: start, Body: e})
	testenv.Must(t, err)
	if len(list) != 2 || list[0].Path != "agents/b/inbox/f.json" || list[1].Path != "agents/a/outbox/.sent/x.json" || string(list[1].Data) != e.Raw {
		t.Fatalf("changes: %+v", list)
	}
	want := "{\n  \"id\": \"m\",\n  \"from\": \"a\",\n  \"to\": \"b\",\n  \"body\": \"x\",\n  \"seq\": 7,\n  \"received_at\": \"2026-11-21T09:00:00.000000000Z\"\n}\n"
	if diff := cmp.Diff(want, string(list[0].Data)); diff != "" {
		t.Error(diff)
	}
	e.Raw = "{"
	if _, err := Changes(protocol.Event{Seq: 7, Body: e}); err == nil {
		t.Error("a damaged message has changes")
	}
}

// TestNoContentIsNotSwept checks that a file whose content is not in the log is not
// swept: it is nowhere else.
func TestNoContentIsNotSwept(t *testing.T) {
	s := story(append(joined("a"),
		&protocol.QuarantineEvent{Agent: "a", Path: "agents/a/outbox/.sent/bad-dir.json"},
		&protocol.QuarantineEvent{Agent: "a", Path: "agents/a/outbox/.sent/bad-text.json", Content: &protocol.Content{Text: "x"}},
	)...)
	want := map[string]BoxFile{"bad-text.json": {Of: 3, At: start.Add(2 * time.Second)}}
	if diff := cmp.Diff(want, maps.Collect(s.Agents["a"].Sent.All())); diff != "" {
		t.Error(diff)
	}
}

// TestOutOfOrder checks that Apply panics at a gap in the events: that is a bug of
// the caller.
func TestOutOfOrder(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("event 2 was folded into an empty state")
		}
	}()
	New(protocol.DefaultSettings().Remember).Apply(protocol.Event{Seq: 2, Body: &protocol.AlertEvent{}})
}

func TestQuotaIsADay(t *testing.T) {
	s := story(append(joined("a"), &protocol.FileEvent{Path: "agents/a/x", By: "a", Content: &protocol.Content{Text: "12345"}})...)
	if got := s.Agents["a"].Spent(start); got != 5 {
		t.Errorf("%d bytes spent, want 5", got)
	}
	if got := s.Agents["a"].Spent(start.Add(24 * time.Hour)); got != 0 {
		t.Errorf("%d bytes spent the day after", got)
	}
}

// TestTasks checks that task events go to the tasks, that their ids count as used,
// and that files of tasks are not among the hive's files.
func TestTasks(t *testing.T) {
	s := sample()
	one := s.Tasks.Get(someTasks[0])
	if one.State != task.Pending || one.Holder != "bob" || one.Viewed == 0 || s.Tasks.Len() != 2 || s.Newest.String() < string(someTasks[1]) {
		t.Errorf("%+v, newest %s", one, s.Newest)
	}
	for path := range s.Files {
		if strings.HasPrefix(path, "tasks/") {
			t.Errorf("%s is among the hive's files", path)
		}
	}
	if want := one.Since.Add(24 * time.Hour); s.Tasks.Moment(s.TS).Sub(want).Abs() > time.Minute {
		t.Errorf("the clock was set back by a day: %v, and it began at %v", s.Tasks.Moment(s.TS), one.Since)
	}
	before := s.Tasks.Moment(s.TS)
	tell(s,
		&protocol.HiveEvent{Action: protocol.Started},
		&protocol.TaskRejectedEvent{Code: protocol.CodeFenced},
		&protocol.TaskEvent{Task: someTasks[0], Event: task.Complete, From: task.Pending, To: task.Completed, By: "bob", Epoch: 1}, // no row
		&protocol.HiveEvent{Action: protocol.Swept, Paths: []string{"tasks/" + string(someTasks[1]) + "/brief.json", "tasks/" + string(someTasks[1]) + "/task.json"}},
		&protocol.HiveEvent{Action: protocol.Swept, Paths: []string{"tasks/" + string(someTasks[0]) + "/brief.json", "tasks/x"}},
	)
	if s.Tasks.Len() != 1 || one.State != task.Pending || s.Tasks.Stats.Rejected[protocol.CodeFenced] != 1 || s.Tasks.Running(one.Since) <= before {
		t.Errorf("%d tasks, %+v", s.Tasks.Len(), one)
	}
}
