package ledger

import (
	"maps"
	"slices"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// A view is a file that shows the result of many events: registry.json, and the
// task.json of each task. From format 2 on it has no events of its own. It is a
// function of the state at one event, and is rendered wherever it is needed:
// for the disk and a commit after a batch, for a replay at its end (spec §5.8).
// What a view shows, and in which form, belongs to the log's format: another form
// would differ from what older commits hold.

// View renders the view at a path as of the last event folded. It returns false if
// there is none: no view has that path, a task is gone, or a log from before
// format 2 has the file's own events and nothing has changed it since.
func (s *State) View(path string) ([]byte, bool) {
	if !s.hasView(path) {
		return nil, false
	}
	id, _ := taskFile(path)
	if id == "" {
		return s.Registry(), true
	}
	doc, err := task.Document(s.Tasks.Get(id))
	if err != nil {
		panic(err) // texts and numbers always encode
	}
	return doc, true
}

// hasView reports whether there is a view at a path.
func (s *State) hasView(path string) bool {
	if path == protocol.PathRegistry {
		return s.rosterAt > 0
	}
	id, name := taskFile(path)
	t := s.Tasks.Get(id)
	return name == protocol.TaskView && t != nil && s.Tasks.HasView(t)
}

// ChangesView returns the path of the view that an event may change; empty if it
// changes none.
func ChangesView(ev protocol.Event) string {
	if e, ok := ev.Body.(*protocol.TaskEvent); ok {
		if e.Event == task.StepStarted || e.Event == task.StepEnded || e.Event == task.Effort {
			return "" // it has a file of its own
		}
		return protocol.TaskDir(e.Task) + "/" + protocol.TaskView
	}
	if ev.Body.Kind() == protocol.KindAgent {
		return protocol.PathRegistry
	}
	return ""
}

// viewsSince is the format from which on views have no events.
const viewsSince = 2

// setFormat notes the log's format from an event on.
func (s *State) setFormat(format int, from protocol.Seq) {
	s.Format = format
	if format < viewsSince {
		from = 0
	}
	s.Tasks.ViewsFrom(from)
}

// ViewsAreFiles reports whether views have events of their own in the log's format.
func (s *State) ViewsAreFiles() bool { return s.Format < viewsSince }

// AllViews yields the paths of all views; it is an [iter.Seq].
func (s *State) AllViews(yield func(path string) bool) {
	if s.rosterAt > 0 && !yield(protocol.PathRegistry) {
		return
	}
	for t := range s.Tasks.All() {
		if s.Tasks.HasView(t) && !yield(protocol.TaskDir(t.ID)+"/"+protocol.TaskView) {
			return
		}
	}
}

// Views records which views change, and renders them as of the last event folded.
type Views struct {
	state   *State
	changed map[string]bool
}

// NewViews returns the Views of a state that its owner folds.
func NewViews(s *State) *Views { return &Views{s, map[string]bool{}} }

// Note records an event that was just folded. Its memory is bounded by the number
// of tasks: one that is gone has no view.
func (v *Views) Note(ev protocol.Event) {
	if p := ChangesView(ev); p != "" {
		v.changed[p] = true
	}
	if e, ok := ev.Body.(*protocol.HiveEvent); ok && e.Action == protocol.Swept {
		for _, p := range e.Paths {
			delete(v.changed, p)
		}
	}
}

// Fold folds the next event of a log into a state that nobody else folds, as far
// as views depend on it, and records it. Messages, which most of a log is, cost
// nothing.
func (v *Views) Fold(ev protocol.Event) {
	switch ev.Body.Kind() {
	case protocol.KindAgent, protocol.KindTask, protocol.KindHive, protocol.KindFile:
		v.state.Apply(ev)
	case protocol.KindMessage, protocol.KindDelivered, protocol.KindDrop, protocol.KindQuarantine, protocol.KindDuplicate,
		protocol.KindHandled, protocol.KindTaskRejected, protocol.KindAlert:
		v.state.Seq, v.state.TS = ev.Seq, ev.TS
	}
	v.Note(ev)
}

// Drain returns the views that changed since the last call, as of the last event
// folded, sorted by path.
func (v *Views) Drain() []protocol.Change {
	if len(v.changed) == 0 {
		return nil
	}
	list := make([]protocol.Change, 0, len(v.changed))
	for _, p := range slices.Sorted(maps.Keys(v.changed)) {
		if data, ok := v.state.View(p); ok {
			list = append(list, put(p, data))
		}
	}
	clear(v.changed)
	return list
}
