package ledger

import (
	"fmt"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// TestPlacements checks what each kind of event does to the work tree.
func TestPlacements(t *testing.T) {
	hello := protocol.Content{Text: "hello"}
	found := &protocol.Original{Name: "x.json", Ino: 7}
	message := &protocol.MessageEvent{
		ID: "m", From: "a", Delivered: []protocol.AgentID{"b", "hive", "c"}, File: "f.json", Sent: "x.json", Original: found,
		Raw: `{"to":"b","body":"x"}`, Set: []byte(`{"id":"m","from":"a"}`),
	}
	notice := *message
	notice.From, notice.Sent, notice.Original = protocol.Hive, "", nil
	aside := "agents/a/inbox/.done/" + protocol.AsidePrefix + ulid.ULID{}.String() + "-f.json"
	tests := []struct {
		name string
		body protocol.Body
		want []string
	}{
		{"a message", message, []string{"delivery of 7: put agents/b/inbox/f.json", "delivery of 7: put agents/c/inbox/f.json", "original of 7: put agents/a/outbox/.sent/x.json, from x.json"}},
		{"a notice", &notice, []string{"delivery of 7: put agents/b/inbox/f.json", "delivery of 7: put agents/c/inbox/f.json"}},
		{"a message that was kept", &protocol.DeliveredEvent{Of: 3, To: []protocol.AgentID{"b"}, File: "f.json", Content: hello}, []string{"delivery of 7: put agents/b/inbox/f.json"}},
		{"a duplicate", &protocol.DuplicateEvent{Agent: "a", Sent: "x.json", Raw: "{}", Original: found}, []string{"original of 7: put agents/a/outbox/.sent/x.json, from x.json"}},
		{"no message", &protocol.QuarantineEvent{Agent: "a", Path: "agents/a/outbox/.sent/bad-x", Content: &hello, Original: found}, []string{"original of 7: put agents/a/outbox/.sent/bad-x, from x.json"}},
		{"a FIFO", &protocol.QuarantineEvent{Agent: "a", Path: "agents/a/outbox/.sent/bad-x", Original: found}, []string{"original of 7: put agents/a/outbox/.sent/bad-x, no bytes, from x.json"}},
		{"an altered message", &protocol.QuarantineEvent{Agent: "a", Code: protocol.CodeAltered, Path: aside, Content: &hello}, []string{"aside of 7: put " + aside + ", from agents/a/inbox/f.json"}},
		{"its alert", &protocol.AlertEvent{Code: protocol.CodeAltered, Agent: "a", Path: "agents/a/inbox/f.json"}, []string{"redelivery of 0: put agents/a/inbox/f.json, no bytes"}},
		{"an altered view", &protocol.AlertEvent{Code: protocol.CodeAltered, Path: protocol.PathRegistry}, nil},
		{"another alert", &protocol.AlertEvent{Code: protocol.CodeMassDeletion, Agent: "a", Path: "agents/a/inbox"}, nil},
		{"handled", &protocol.HandledEvent{Of: 3, Agent: "a", File: "f", How: protocol.HowDone}, []string{"handled of 3: move agents/a/inbox/.done/f, from agents/a/inbox/f"}},
		{"deleted", &protocol.HandledEvent{Of: 3, Agent: "a", File: "f", How: protocol.HowDeleted}, []string{"handled of 3: delete agents/a/inbox/f"}},
		{"reopened", &protocol.HandledEvent{Of: 3, Agent: "a", File: "f", How: protocol.HowReopened}, []string{"handled of 3: move agents/a/inbox/f, from agents/a/inbox/.done/f"}},
		{"undeleted", &protocol.HandledEvent{Of: 3, Agent: "a", File: "f", How: protocol.HowUndeleted, Content: &hello}, []string{"delivery of 3: put agents/a/inbox/f"}},
		{"swept", &protocol.HiveEvent{Action: protocol.Swept, Paths: []string{"agents/a/inbox/.done/f", "tasks/t/task.json"}}, []string{"swept of 7: delete agents/a/inbox/.done/f", "swept of 7: delete tasks/t/task.json"}},
		{"sealed", &protocol.HiveEvent{Action: protocol.Sealed, Segment: &protocol.Segment{Name: "n"}}, nil},
		{"adopted unread", adopted("agents/a/inbox/f"), []string{"delivery of 7: put agents/a/inbox/f"}},
		{"adopted handled", adopted("agents/a/inbox/.done/f"), []string{"handled of 7: put agents/a/inbox/.done/f"}},
		{"adopted sent", adopted("agents/a/outbox/.sent/f"), []string{"original of 7: put agents/a/outbox/.sent/f"}},
		{"adopted without a file", &protocol.HiveEvent{Action: protocol.Adopted}, nil},
		{"an agent's own file", &protocol.FileEvent{Path: "agents/a/notes.md", By: "a", Content: &hello}, nil},
		{"board.md", &protocol.FileEvent{Path: "board.md", Content: &hello}, nil},
		{"hived's own file", &protocol.FileEvent{Path: protocol.PathProtocol, By: protocol.Hive, Content: &hello}, []string{"own of 7: put PROTOCOL.md"}},
		{"a task", &protocol.TaskEvent{Task: "t", Event: task.Create, Spec: &protocol.TaskSpec{Title: "t"}}, []string{"own of 7: put tasks/t/brief.json", "view of 0: put tasks/t/task.json, no bytes"}},
		{"a patch", &protocol.TaskEvent{Task: "t", Event: task.Progress, Checkpoint: &protocol.Checkpoint{Patch: []byte("{}"), Blob: protocol.Blob{1}}}, []string{"own of 7: put tasks/t/checkpoint.json, by its id", "view of 0: put tasks/t/task.json, no bytes"}},
		{"an agent", &protocol.AgentEvent{Agent: "a", Action: protocol.Joined}, []string{"view of 0: put registry.json, no bytes"}},
		{"a drop", &protocol.DropEvent{}, nil},
		{"a refused command", &protocol.TaskRejectedEvent{}, nil},
	}
	kinds := map[protocol.Kind]bool{}
	for _, tt := range tests {
		kinds[tt.body.Kind()] = true
		t.Run(tt.name, func(t *testing.T) {
			ev := protocol.Event{Seq: 7, TS: start, Body: tt.body}
			changes, err := Changes(ev)
			testenv.Must(t, err)
			var got []string
			for _, p := range Placements(ev, changes) {
				got = append(got, described(p))
				if want := ownerOf(p.Path); p.Agent != want {
					t.Errorf("placement of %s has the agent %q", p.Path, p.Agent)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, k := range protocol.Kinds() {
		if !kinds[k] {
			t.Errorf("no row has an event of kind %s", k)
		}
	}
}

func adopted(p string) protocol.Body {
	return &protocol.HiveEvent{Action: protocol.Adopted, Adopted: &protocol.AdoptedFile{Path: p, Content: protocol.Content{Text: "older"}}}
}

func described(p Placement) string {
	class := [...]string{Delivery: "delivery", Redelivery: "redelivery", Original: "original", Aside: "aside", Handled: "handled", Swept: "swept", Own: "own", View: "view"}[p.Class]
	text := fmt.Sprintf("%s of %d: %s %s", class, p.Of, [...]string{protocol.Put: "put", protocol.Move: "move", protocol.Delete: "delete"}[p.Op], p.Path)
	switch {
	case p.Op != protocol.Put || p.Data != nil:
	case p.Blob.IsZero():
		text += ", no bytes"
	default:
		text += ", by its id"
	}
	if p.From != "" {
		text += ", from " + p.From
	}
	if p.Original != nil {
		text += ", from " + p.Original.Name
	}
	return text
}

// tree is a work tree in memory, in which everything succeeds.
type tree map[string]string

// place carries out a placement.
func (w tree) place(s *State, p Placement) {
	switch data, there := w[p.From]; {
	case p.Class == Redelivery:
	case p.Class == View:
		if doc, ok := s.View(p.Path); ok {
			w[p.Path] = string(doc)
		}
	case p.Op == protocol.Move && there:
		delete(w, p.From)
		w[p.Path] = data
	case p.Op == protocol.Delete:
		delete(w, p.Path)
	case p.Op == protocol.Put:
		w[p.Path] = string(p.Data)
	}
}

// restored returns the work tree that belongs to a state, made from everything that
// was ever placed.
func restored(s *State, all []Placement) (tree, error) {
	w := tree{}
	for _, p := range all {
		at := s.Belongs(p)
		data := string(p.Data)
		switch {
		case at == "" || p.Op != protocol.Put || p.Class == Redelivery:
			continue
		case p.Class == View:
			doc, ok := s.View(at)
			if !ok {
				return nil, fmt.Errorf("there is no view for %s", at)
			}
			data = string(doc)
		}
		if was, twice := w[at]; twice && was != data {
			return nil, fmt.Errorf("%s should hold both %q and %q", at, was, data)
		}
		w[at] = data
	}
	return w, nil
}

// TestPlacementsAndBelongsAgree checks that all placements, carried out one after
// the other, lead to what [State.Belongs] returns at the end, and, except for what
// agents write themselves, to what the versioned tree has.
func TestPlacementsAndBelongsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(protocol.RememberSettings{IDs: 20, Conversations: 10})
		s.setFormat(rapid.SampledFrom([]int{1, 2, protocol.LogFormat}).Draw(t, "format"), 1)
		h := newPossibleHistories(t, s)
		disk, git := tree{}, tree{}
		var all []Placement
		for range rapid.IntRange(len(cast), 200).Draw(t, "events") {
			ev := h.next()
			s.Apply(ev)
			changes := changesOf(t, ev)
			views := []protocol.Change{}
			for _, p := range Placements(ev, changes) {
				disk.place(s, p)
				all = append(all, p)
				if doc, ok := s.View(p.Path); ok && p.Class == View {
					views = append(views, put(p.Path, doc))
				}
			}
			for _, c := range append(changes, views...) {
				git.place(s, Placement{Change: c})
			}
		}
		want, err := restored(s, all)
		testenv.Must(t, err)
		if diff := cmp.Diff(want, disk); diff != "" {
			t.Fatalf("work tree (-from Belongs +from placements):\n%s", diff)
		}
		for _, p := range all {
			if p.Op == protocol.Put && p.Class != Redelivery {
				continue
			}
			at := s.Belongs(p)
			if _, there := disk[at]; there != (at != "") {
				t.Fatalf("%s: Belongs returned %q, want the file there, or no path", described(p), at)
			}
			if _, there := disk[p.Path]; there && at == "" {
				t.Fatalf("%s: %s is there, and Belongs returned no path", described(p), p.Path)
			}
		}
		for p, data := range disk {
			if data != "" && git[p] != data { // an empty file is not in the versioned tree
				t.Fatalf("%s holds %q, and in the versioned tree %q", p, data, git[p])
			}
			delete(git, p)
		}
		for p := range git {
			if path.Base(path.Dir(p)) != "alice" { // her own files
				t.Fatalf("%s is only in the versioned tree", p)
			}
		}
	})
}

// changesOf returns the [Changes] of an event; a message gets made-up bytes.
func changesOf(t *rapid.T, ev protocol.Event) []protocol.Change {
	if e, ok := ev.Body.(*protocol.MessageEvent); ok {
		return MessageChanges(e, fmt.Append(nil, "message ", ev.Seq))
	}
	changes, err := Changes(ev)
	testenv.Must(t, err)
	return changes
}

// possibleHistories draws histories that a hive could have logged: everything that
// they name exists.
type possibleHistories struct {
	histories
	state   *State
	brought map[protocol.Seq]string                                // what deliveries hold
	deleted map[protocol.AgentID]map[string]*protocol.HandledEvent // the last of each name
	gone    map[protocol.TaskID]bool                               // swept
}

func newPossibleHistories(t *rapid.T, s *State) *possibleHistories {
	return &possibleHistories{
		histories: histories{t: t, now: start, tasks: task.NewBook()}, state: s,
		brought: map[protocol.Seq]string{}, gone: map[protocol.TaskID]bool{}, deleted: map[protocol.AgentID]map[string]*protocol.HandledEvent{},
	}
}

func (h *possibleHistories) next() protocol.Event {
	ev := h.event()
	if h.n > len(cast) && rapid.IntRange(0, 2).Draw(h.t, "rare") == 0 {
		ev.Body = h.rare()
	}
	if !h.possible(ev) {
		ev.Body = &protocol.HiveEvent{Action: protocol.Started}
	}
	return ev
}

// rare draws events that the other histories do not have.
func (h *possibleHistories) rare() protocol.Body {
	content := protocol.Content{Text: fmt.Sprint("content ", h.n)}
	id := h.agent("agent")
	switch rapid.IntRange(0, 8).Draw(h.t, "rare event") {
	case 0:
		return &protocol.DeliveredEvent{To: h.delivered(), File: h.file(), Content: content}
	case 1:
		return &protocol.DuplicateEvent{Agent: id, Sent: h.sent(), Raw: content.Text, Original: &protocol.Original{}}
	case 2:
		return &protocol.QuarantineEvent{Agent: id, Path: protocol.SentDir(id) + "/" + h.sent(), Content: &content, Original: &protocol.Original{}}
	case 3:
		return &protocol.QuarantineEvent{Agent: id, Path: fmt.Sprint(protocol.SentDir(id), "/bad-", h.n), Original: &protocol.Original{}}
	case 4:
		name := protocol.AsidePrefix + ulid.ULID{14: byte(h.n >> 8), 15: byte(h.n)}.String() + "-" + h.file()
		return &protocol.QuarantineEvent{Agent: id, Code: protocol.CodeAltered, Path: protocol.DoneDir(id) + "/" + name, Content: &content}
	case 5:
		dir := h.pick("dir", protocol.InboxDir(id), protocol.DoneDir(id), protocol.SentDir(id))
		return &protocol.HiveEvent{Action: protocol.Adopted, Adopted: &protocol.AdoptedFile{Path: dir + "/" + h.file(), Content: content}}
	case 6:
		return &protocol.FileEvent{Path: h.pick("own", protocol.PathProtocol, protocol.PathRegistry), By: protocol.Hive, Content: &content}
	case 7:
		return &protocol.HandledEvent{Agent: id, File: h.file(), How: protocol.HowUndeleted}
	}
	return &protocol.HiveEvent{Action: protocol.Sealed, Format: min(h.state.Format+1, protocol.LogFormat)}
}

// possible makes an event fit the state, or returns false if it cannot be.
func (h *possibleHistories) possible(ev protocol.Event) bool {
	free := func(id protocol.AgentID, file string) bool { return h.state.inMailbox(id, file, 0) == "" }
	taken := func(file string) func(protocol.AgentID) bool {
		return func(id protocol.AgentID) bool {
			return id == protocol.Hive || h.state.Agents[id] == nil || !free(id, file)
		}
	}
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		e.Delivered = slices.DeleteFunc(e.Delivered, taken(e.File))
		e.Raw = fmt.Sprint("raw ", ev.Seq)
		h.brought[ev.Seq] = fmt.Sprint("message ", ev.Seq)
	case *protocol.DeliveredEvent:
		e.To = slices.DeleteFunc(e.To, taken(e.File))
		h.brought[ev.Seq] = e.Content.Text
	case *protocol.HandledEvent:
		return h.handles(e, free)
	case *protocol.TaskEvent:
		t := h.state.Tasks.Get(e.Task)
		if e.Event == task.Create {
			return t == nil && !h.gone[e.Task] // an id is used once
		}
		if t == nil || t.State != e.From {
			return false
		}
		_, ok := task.Next(e.From, e.Event)
		return ok
	case *protocol.FileEvent:
		id, _ := taskFile(e.Path)
		return e.By != protocol.Hive || e.Path == protocol.PathProtocol || h.state.ViewsAreFiles() && (id == "" || h.state.Tasks.Get(id) != nil)
	case *protocol.HiveEvent:
		if f := e.Adopted; f != nil {
			h.brought[ev.Seq] = f.Content.Text
			return !taken(path.Base(f.Path))(ownerOf(f.Path)) || path.Base(path.Dir(f.Path)) == ".sent"
		}
		h.sweeps(e)
	}
	return true
}

func (h *possibleHistories) handles(e *protocol.HandledEvent, free func(protocol.AgentID, string) bool) bool {
	dir := protocol.InboxDir(e.Agent)
	if e.How == protocol.HowReopened {
		dir = protocol.DoneDir(e.Agent)
	}
	l, there := h.state.BoxFile(dir + "/" + e.File)
	e.Of = l.Of
	if h.deleted[e.Agent] == nil {
		h.deleted[e.Agent] = map[string]*protocol.HandledEvent{}
	}
	switch was := h.deleted[e.Agent][e.File]; {
	case e.How == protocol.HowUndeleted && was != nil && free(e.Agent, e.File):
		e.Of, e.Content = was.Of, &protocol.Content{Text: h.brought[was.Of]}
		return e.Content.Text != "" // no delivery has the content of a file that was set aside
	case e.How == protocol.HowUndeleted:
		return false
	case e.How == protocol.HowDeleted && there:
		h.deleted[e.Agent][e.File] = e
	}
	return there
}

// sweeps makes a sweep remove files that exist, and all files of a task, as
// retention does.
func (h *possibleHistories) sweeps(e *protocol.HiveEvent) {
	var paths []string
	for _, p := range e.Paths {
		id, _ := taskFile(p)
		t := h.state.Tasks.Get(id)
		switch {
		case id == "":
			paths = append(paths, p)
			continue
		case t == nil:
			continue
		}
		for _, f := range h.state.Tasks.Leaving(t) {
			paths = append(paths, f.Path)
		}
		h.gone[id] = true
	}
	e.Paths = paths
}
