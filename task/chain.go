package task

import (
	"cmp"

	"github.com/hived/hived/protocol"
)

// Origin returns the first task of the chain that a task belongs to: itself, unless it
// resumes or unwinds another. A chain shares its steps (spec §8.9).
func (t *Task) Origin() protocol.TaskID {
	if origin := t.Terms().Origin; origin != "" {
		return origin
	}
	return t.ID
}

// chained sets the origin of a new task that resumes or unwinds another, where its event does not
// have it: in a log of an earlier format.
func (b *Book) chained(t *Task) {
	terms := t.Terms()
	before := cmp.Or(terms.Resumes, terms.Unwinds)
	if before == "" || terms.Origin != "" {
		return
	}
	terms.Origin, terms.Derived = before, true
	if was := b.tasks[before]; was != nil {
		terms.Origin = was.Origin()
	}
	t.SetTerms(terms)
}

// chain returns the other tasks that are known of the chain that a task belongs to.
func (b *Book) chain(t *Task) (others []*Task) {
	origin := t.Origin()
	if first := b.tasks[origin]; first != nil && first != t {
		others = append(others, first)
	}
	for _, id := range b.line.chains[origin] {
		if o := b.tasks[id]; o != nil && o != t && id != t.ID {
			others = append(others, o)
		}
	}
	return others
}

// OpenInChain returns a task that has not ended among the others of the chain that a
// task belongs to; nil if there is none. A chain has one open task at most.
func (b *Book) OpenInChain(t *Task) *Task {
	for _, o := range b.chain(t) {
		if !Ended(o.State) {
			return o
		}
	}
	return nil
}

func (b *Book) lastOfChain(t *Task) bool { return len(b.chain(t)) == 0 }
