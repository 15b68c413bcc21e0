package task

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hived/hived/protocol"
)

// StepState is what is kept in memory about one step (spec §8.9). Its record, whole, is in
// the event At.
type StepState struct {
	N       int
	Name    string
	Status  protocol.StepStatus
	Round   int
	Try     int
	By      protocol.AgentID   // who reported the intent
	Epoch   uint64             // the same
	Command protocol.MessageID // the intent; empty: none stands, and the step may be begun again
	Ask     protocol.Seq       // the open question about it
	Undo    bool               // it has a command that undoes it
	At      protocol.Seq       // the last event that changed it
}

// chainSteps are the steps of one chain of tasks, in the order of their numbers, which
// begin with 1.
type chainSteps struct {
	list   []StepState
	byName map[string]int // their index
	until  Moment         // who runs a step said that it is silent so long
}

// Steps returns the steps of the chain that a task belongs to, in the order of their
// numbers. The caller must not change them.
func (b *Book) Steps(t *Task) []StepState {
	if c := b.steps[t.Origin()]; c != nil {
		return c.list
	}
	return nil
}

// Step returns the step of a name in the chain that a task belongs to; nil if it has
// none.
func (b *Book) Step(t *Task, name string) *StepState {
	c := b.steps[t.Origin()]
	if c == nil {
		return nil
	}
	if i, ok := c.byName[name]; ok {
		return &c.list[i]
	}
	return nil
}

// SilentUntil returns until when the holder of a task said that it is silent; zero if it
// did not.
func (b *Book) SilentUntil(t *Task) Moment {
	if c := b.steps[t.Origin()]; c != nil {
		return max(t.Expected, c.until)
	}
	return t.Expected
}

// stepAt returns the event that wrote the file of a step last, given the first task of
// its chain and the name of the file below the directory of that task; zero if there is
// no such step.
func (b *Book) stepAt(origin protocol.TaskID, name string) protocol.Seq {
	n, _, _ := strings.Cut(strings.TrimPrefix(name, protocol.TaskSteps+"/"), "-")
	i, err := strconv.Atoi(n)
	c := b.steps[origin]
	if err != nil || c == nil || i < 1 || i > len(c.list) {
		return 0
	}
	s := &c.list[i-1]
	if protocol.StepFile(origin, s.N, s.Name) != protocol.TaskDir(origin)+"/"+name {
		return 0
	}
	return s.At
}

// applyStep folds an event that a step was begun or has ended. Of the task it changes
// nothing that task.json shows, so that a step costs no new version of it.
func (b *Book) applyStep(ev protocol.Event, e *protocol.TaskEvent) error {
	t := b.tasks[e.Task]
	if t == nil || e.Step == nil || e.Epoch != t.Epoch || e.From != t.State || e.To != t.State {
		return fmt.Errorf("%w: %s of task %s", ErrIllegal, e.Event, e.Task)
	}
	if _, ok := Next(t.State, e.Event); !ok {
		return fmt.Errorf("%w: task %s is %s, and knows no %s", ErrIllegal, e.Task, t.State, e.Event)
	}
	at := b.Moment(ev.TS)
	if e.Of > 0 {
		delete(b.stopped, t.ID)
	}
	c := b.noteStep(ev, e)
	switch own := e.Step.Epoch == t.Epoch && !t.Spent; {
	case e.Event == StepStarted:
		c.until = momentOf(e.Expected, ev, at)
	case own && !e.Step.Underway():
		if c.until = 0; e.Step.Succeeded() {
			t.Progressed, t.Advanced = at, Held(t.State)
		}
	}
	b.Stats.Transitions[e.Event]++
	return nil
}

// noteStep keeps what the record of a step that an event has says, and returns the steps
// of its chain.
func (b *Book) noteStep(ev protocol.Event, e *protocol.TaskEvent) *chainSteps {
	r := e.Step
	origin := r.Origin()
	c := b.steps[origin]
	if c == nil {
		c = &chainSteps{byName: map[string]int{}}
		b.steps[origin] = c
	}
	s := StepState{
		N: r.N, Name: r.Name, Status: r.Status, Round: r.Round, Try: r.Try, By: r.By, Epoch: r.Epoch,
		Command: r.Command, Ask: r.Ask, Undo: r.Undo != "", At: ev.Seq,
	}
	if i, known := c.byName[r.Name]; known {
		c.list[i] = s
		return c
	}
	c.byName[r.Name] = len(c.list)
	c.list = append(c.list, s)
	return c
}

// endSilence forgets until when a task's holder is silent because of a step, as its
// state changed.
func (b *Book) endSilence(t *Task) {
	if c := b.steps[t.Origin()]; c != nil {
		c.until = 0
	}
}

// AllFiles returns an iterator over the files of all tasks, those of the steps last.
func (b *Book) AllFiles() iter.Seq[File] {
	return func(yield func(File) bool) {
		for t := range b.All() {
			for _, f := range t.files() {
				if !yield(f) {
					return
				}
			}
		}
		for _, origin := range slices.Sorted(maps.Keys(b.steps)) {
			for _, f := range b.stepFiles(origin) {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// Leaving returns the files that go when a task is forgotten: its own, and those of the
// steps of its chain if no other task of the chain is left. task.json is the last.
func (b *Book) Leaving(t *Task) []File {
	if b.lastOfChain(t) {
		return append(b.stepFiles(t.Origin()), t.files()...)
	}
	return t.files()
}

// Has reports whether an event wrote a file of a task last, given the path below tasks/.
func (b *Book) Has(id protocol.TaskID, name string, seq protocol.Seq) bool {
	if strings.HasPrefix(name, protocol.TaskSteps+"/") {
		return seq > 0 && b.stepAt(id, name) == seq
	}
	t := b.tasks[id]
	return t != nil && slices.Contains(t.files(), File{protocol.TaskDir(id) + "/" + name, seq})
}

// HasLock reports whether there is a step with a lock of this name, given the first task
// of its chain and the path of the lock below tasks/.
func (b *Book) HasLock(origin protocol.TaskID, name string) bool {
	n, is := strings.CutSuffix(strings.TrimPrefix(name, protocol.TaskSteps+"/"), ".lock")
	i, err := strconv.Atoi(n)
	c := b.steps[origin]
	return is && err == nil && c != nil && i >= 1 && i <= len(c.list)
}

func (b *Book) stepFiles(origin protocol.TaskID) (list []File) {
	c := b.steps[origin]
	if c == nil {
		return nil
	}
	for _, s := range c.list {
		list = append(list, File{protocol.StepFile(origin, s.N, s.Name), s.At})
	}
	return list
}

// encodeSteps writes the steps of all chains for a snapshot.
func (b *Book) encodeSteps(w *writer) {
	w.uvarint(uint64(len(b.steps)))
	for _, origin := range slices.Sorted(maps.Keys(b.steps)) {
		w.text(string(origin))
		w.varint(int64(b.steps[origin].until))
		list := b.steps[origin].list
		w.uvarint(uint64(len(list)))
		for i := range list {
			s := &list[i]
			for _, text := range []string{s.Name, string(s.Status), string(s.By), string(s.Command)} {
				w.text(text)
			}
			for _, n := range []uint64{uint64(s.N), uint64(s.Round), uint64(s.Try), s.Epoch, uint64(s.Ask), uint64(s.At)} { //nolint:gosec // not negative
				w.uvarint(n)
			}
			w.flag(s.Undo)
		}
	}
}

func (b *Book) decodeSteps(r *reader) {
	for n := r.uvarint(); n > 0 && !r.short; n-- {
		origin, c := protocol.TaskID(r.text()), &chainSteps{byName: map[string]int{}, until: Moment(r.varint())}
		for m := r.uvarint(); m > 0 && !r.short; m-- {
			s := StepState{Name: r.text(), Status: protocol.StepStatus(r.text()), By: protocol.AgentID(r.text()), Command: protocol.MessageID(r.text())}
			s.N, s.Round, s.Try = int(r.uvarint()), int(r.uvarint()), int(r.uvarint()) //nolint:gosec // refused where it is not the same
			s.Epoch, s.Ask, s.At = r.uvarint(), protocol.Seq(r.uvarint()), protocol.Seq(r.uvarint())
			s.Undo = r.uvarint() == 1
			c.byName[s.Name] = len(c.list)
			c.list = append(c.list, s)
		}
		b.steps[origin] = c
	}
}
