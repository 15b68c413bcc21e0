package ledger

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

var someSum = protocol.Sum{1, 2, 3}

func encoded(t rapid.TB, s *State) []byte {
	t.Helper()
	var b bytes.Buffer
	testenv.Must(t, s.Encode(&b, someSum))
	return b.Bytes()
}

// settingsOf returns the settings that a State was made with.
func settingsOf(s *State) protocol.RememberSettings {
	return protocol.RememberSettings{IDs: s.ids.most, Conversations: s.conversations.most}
}

func decoded(t rapid.TB, data []byte, r protocol.RememberSettings) *State {
	t.Helper()
	s, sum, err := Decode(bytes.NewReader(data), r)
	testenv.Must(t, err)
	if sum != someSum {
		t.Fatalf("the sum is %s", sum)
	}
	return s
}

// TestSnapshotGoesOn checks that the fold from a snapshot at any event comes to the
// same State as the fold from the beginning.
func TestSnapshotGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		remember, list := drawHistory(t)
		at := rapid.IntRange(0, len(list)).Draw(t, "snapshot")
		whole := New(remember)
		for _, ev := range list[:at] {
			whole.Apply(ev)
		}
		s := decoded(t, encoded(t, whole), remember)
		for _, ev := range list[at:] {
			whole.Apply(ev)
			s.Apply(ev)
		}
		if !bytes.Equal(encoded(t, whole), encoded(t, s)) {
			t.Error("a snapshot of the decoded State has other bytes")
		}
		if diff := cmp.Diff(answers(whole, whole.TS), answers(s, whole.TS)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(whole.Tasks.Report(whole.TS), s.Tasks.Report(whole.TS)); diff != "" {
			t.Error(diff)
		}
		for want := range whole.Tasks.All() {
			got := s.Tasks.Get(want.ID)
			if diff := cmp.Diff(task.ViewOf(want), task.ViewOf(got)); diff != "" {
				t.Error(diff)
			}
			if !slices.Equal(whole.Tasks.Children(want.ID), s.Tasks.Children(want.ID)) || !slices.Equal(whole.Tasks.Unmet(want), s.Tasks.Unmet(got)) {
				t.Errorf("for %s wait %v, want %v", want.ID, s.Tasks.Children(want.ID), whole.Tasks.Children(want.ID))
			}
		}
		if !bytes.Equal(whole.Registry(), s.Registry()) || whole.Counts != s.Counts || whole.Newest != s.Newest {
			t.Errorf("%s\n%+v %s, want\n%s\n%+v %s", s.Registry(), s.Counts, s.Newest, whole.Registry(), whole.Counts, whole.Newest)
		}
	})
}

// TestFoldIsPure checks that the same events lead to the same State, and that the
// fold does not change the events.
func TestFoldIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		remember, list := drawHistory(t)
		fold := func() []byte {
			s := New(remember)
			for _, ev := range list {
				s.Apply(ev)
			}
			return encoded(t, s)
		}
		if !bytes.Equal(fold(), fold()) {
			t.Error("the same events led to another State")
		}
	})
}

// sample returns a small State that has something of everything.
func sample() *State {
	s := story(append(joined("alice", "bob"), // it remembers three of everything
		message(1, "alice", "c", 4, "bob"),
		message(2, "bob", "conv-01M7YW2XY9P0EW1X9MFVTQ8900", 5, "alice"),
		message(3, "alice", "c", 6, "bob"),
		message(4, "alice", "d", 6, "bob"),
		&protocol.HandledEvent{Agent: "bob", File: message(1, "", "", 0).File, How: protocol.HowDone},
		&protocol.FileEvent{Path: "agents/alice/x", By: "alice", Content: &protocol.Content{Text: "12345"}},
		&protocol.AgentEvent{Agent: "bob", Action: protocol.Changed, Role: "maker", Caps: []string{"go", "sql"}},
		&protocol.DropEvent{From: "alice", To: []protocol.Address{"bob"}, Conversation: "c", Reason: protocol.HopCap, Told: true},
		&protocol.HiveEvent{Action: protocol.Started},
		&protocol.HiveEvent{Action: protocol.Settled, Through: 4},
		&protocol.TaskEvent{Task: someTasks[0], Event: task.Create, To: task.Unassigned, By: "alice", Spec: &protocol.TaskSpec{Title: "mend"}},
		&protocol.TaskEvent{Task: someTasks[1], Event: task.Create, To: task.Unassigned, By: "alice", Needs: someTasks[:1]},
		&protocol.TaskEvent{Task: someTasks[0], Event: task.Claim, From: task.Unassigned, To: task.Pending, By: "bob", Epoch: 1},
		&protocol.FileEvent{Path: "tasks/01M7YW2XY9P0EW1X9MFVTQ8901/task.json", By: protocol.Hive, Content: &protocol.Content{Text: "{}"}},
		&protocol.HiveEvent{Action: protocol.ClockJumped, Jump: -86_400_000},
	)...)
	return s
}

// TestSnapshotIsExact checks that a snapshot has all that a State knows of agents
// and files.
func TestSnapshotIsExact(t *testing.T) {
	want := sample()
	got := decoded(t, encoded(t, want), settingsOf(want))
	// The windows and boxes may have other capacities; their bytes are the same.
	if diff := cmp.Diff(want.Roster(), got.Roster(), cmp.AllowUnexported(Agent{}), cmp.Comparer(func(a, b Box) bool { return sameBox(&a, &b) })); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.Files, got.Files); diff != "" {
		t.Error(diff)
	}
	type rest struct {
		Seq, Settled      protocol.Seq
		Lead              protocol.AgentID
		GitPaused, Runs   bool
		Onto, TS, Newest  string
		IDs, Told, Chosen int
	}
	flat := func(s *State) rest {
		return rest{s.Seq, s.Settled, s.Lead, s.GitPaused, s.Running, s.Onto, s.TS.String(), s.Newest.String(), s.ids.live, len(s.names.numbers), s.parents.live}
	}
	if diff := cmp.Diff(flat(want), flat(got)); diff != "" {
		t.Error(diff)
	}
}

func sameBox(a, b *Box) bool {
	return bytes.Equal(bytes.Join(a.pages, nil), bytes.Join(b.pages, nil)) && a.count == b.count
}

// TestSnapshotRefused checks that a snapshot that was cut, was changed in one bit,
// or has bytes after it is refused.
func TestSnapshotRefused(t *testing.T) {
	s := sample()
	data := encoded(t, s)
	refused := func(what string, at int, data []byte) {
		t.Helper()
		if got, sum, err := Decode(bytes.NewReader(data), settingsOf(s)); err == nil || got != nil || !sum.IsZero() {
			t.Errorf("%s %d: %v, %v", what, at, sum, err)
		}
	}
	for i := range data {
		refused("cut to", i, data[:i])
		for bit := range 8 {
			data[i] ^= 1 << bit
			refused("bit", 8*i+bit, data)
			data[i] ^= 1 << bit
		}
	}
	refused("bytes more", 1, append(bytes.Clone(data), 0))
	if _, _, err := Decode(iotest.ErrReader(io.ErrNoProgress), settingsOf(s)); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a disk that cannot be read: %v", err)
	}
	for _, other := range []protocol.RememberSettings{{IDs: 2, Conversations: 3}, {IDs: 3, Conversations: 4}} {
		if _, _, err := Decode(bytes.NewReader(data), other); err == nil {
			t.Errorf("with the settings %+v it is accepted", other)
		}
	}
	// It is accepted in whatever pieces it is read.
	if _, _, err := Decode(iotest.OneByteReader(bytes.NewReader(data)), settingsOf(s)); err != nil {
		t.Error(err)
	}
}

// TestSnapshotOfNoState checks that bytes that no fold leads to are refused though
// their checksum is right, and that a number may be written in one way only.
func TestSnapshotOfNoState(t *testing.T) {
	tests := []struct {
		name string
		harm func(*State)
	}{
		{"twice the same id", func(s *State) { s.ids.at(s.ids.first).key = s.ids.at(s.ids.first + 1).key }},
		{"more than is remembered", func(s *State) { s.parents.append(1, parent{}) }},
		{"a pair of nobody", func(s *State) { s.pairs.put(pairOf(1, 99)) }},
		{"a pair in the wrong order", func(s *State) { s.pairs.put(2<<32 | 1) }},
		{"nobody heard it", func(s *State) { s.thread("c").give(heard{agent: 99}) }},
		{"negative hops", func(s *State) { s.parents.get(keyOf("m4")).hops[3] = 0x80 }},
		{"an agent twice", func(s *State) { s.Agents["zed"] = s.Agents["alice"] }},
		{"an agent that is numbered twice", func(s *State) { s.roll.list = append(s.roll.list, s.roll.list[0]) }},
		{"no status", func(s *State) { s.Agents["bob"].Status = "" }},
		{"a box in no order", func(s *State) {
			slices.Reverse(s.Agents["alice"].Sent.pages)
			b := &s.Agents["alice"].Sent
			b.pages = append(b.pages, b.pages[0])
			b.count *= 2
		}},
		{"a name in a form that is not its own", func(s *State) {
			b := &s.Agents["alice"].Sent
			b.pages[0], b.count = withLength(nil, pack(nil, boxName{text: message(1, "", "", 0).File}, BoxFile{})), 1
		}},
		{"a task in a state that there is not", func(s *State) { s.Tasks.Get(someTasks[0]).State = "lost" }},
		{"a task twice", func(s *State) { s.Tasks.Get(someTasks[1]).ID = someTasks[0] }},
		{"a task without an id", func(s *State) { s.Tasks.Get(someTasks[0]).ID = "" }},
		{"one conversation with two names", func(s *State) {
			for i := range s.names.list {
				s.names.list[i].name = "the same"
			}
		}},
	}
	for _, tt := range tests {
		s := sample()
		tell(s, message(5, "bob", "e", 0, "alice"))
		tt.harm(s)
		if _, _, err := Decode(bytes.NewReader(encoded(t, s)), settingsOf(s)); err == nil {
			t.Errorf("%s: it is accepted", tt.name)
		}
	}
	data := encoded(t, sample())
	data = append([]byte{data[0] | 0x80, 0}, data[1:len(data)-sha256.Size]...) // the same number in two bytes
	sum := sha256.Sum256(data)
	if _, _, err := Decode(bytes.NewReader(append(data, sum[:]...)), settingsOf(sample())); !errors.Is(err, errNumber) {
		t.Errorf("a number in more bytes than it needs: %v", err)
	}
}

// full is a disk with room for a number of bytes.
type full struct{ room int }

var errFull = errors.New("no room")

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// TestSnapshotNotWritten checks that Encode returns an error when the disk refuses
// the bytes.
func TestSnapshotNotWritten(t *testing.T) {
	s := sample()
	for _, room := range []int{0, len(encoded(t, s)) - 1} {
		if err := s.Encode(&full{room}, someSum); !errors.Is(err, errFull) {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
	}
	s.Onto = string(make([]byte, buffered+1))
	if err := s.Encode(io.Discard, someSum); !errors.Is(err, errTooLong) {
		t.Errorf("a text that could not be read again: %v", err)
	}
}

// FuzzDecode checks that arbitrary bytes with the right checksum are refused or are
// what Encode writes.
func FuzzDecode(f *testing.F) {
	for _, s := range []*State{New(protocol.RememberSettings{IDs: 3, Conversations: 3}), sample()} {
		data := encoded(f, s)
		f.Add(data[:len(data)-sha256.Size])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := protocol.RememberSettings{IDs: 3, Conversations: 3}
		if s, _, err := Decode(bytes.NewReader(data), r); err == nil || s != nil {
			t.Skip("it has its checksum already")
		}
		sum := sha256.Sum256(data)
		data = append(data, sum[:]...)
		s, at, err := Decode(bytes.NewReader(data), r)
		if err != nil {
			return
		}
		var b bytes.Buffer
		testenv.Must(t, s.Encode(&b, at))
		if !bytes.Equal(b.Bytes(), data) {
			t.Fatalf("%x is written as %x", data, b.Bytes())
		}
		// A State from made-up bytes can still fold on.
		s.Apply(protocol.Event{Seq: s.Seq + 1, TS: start, Body: message(1, protocol.Human, "c", 1, "alice", "bob")})
	})
}
