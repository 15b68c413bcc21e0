package task

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
)

// ErrIllegal means that the table has no row for an event in a task's state.
var ErrIllegal = errors.New("illegal transition")

// Moment is a time of the hive's clock in nanoseconds, zero for none: the machine's
// clock minus what it was set by while hived ran, so that a jump of that clock ends no
// wait (spec §8.3). See [Book.Moment].
type Moment int64

// Add returns the moment m+d.
func (m Moment) Add(d time.Duration) Moment { return m + Moment(d) }

// Sub returns the duration m-o.
func (m Moment) Sub(o Moment) time.Duration { return time.Duration(m - o) }

// Task is what is kept in memory about one task.
type Task struct {
	ID      protocol.TaskID
	Title   string // at most titleMost characters
	Creator protocol.AgentID
	To      []protocol.Address // who may have it; none: any agent
	needs   []protocol.TaskID  // as created; see Needs and Lacked
	terms   *Terms             // nil: its brief says nothing of them

	Priority  int32
	Version   int32 // of the brief; zero: it is as it was created
	Fruitless int32 // executions in a row that reached nothing new
	Retries   int32 // executions that failed, or stalled and were ended: another follows while there are not too many

	State   State
	Since   Moment // in this state
	Epoch   uint64
	Attempt int // executions, and leases that expired before one

	Holder   protocol.AgentID
	Offered  []protocol.AgentID // who has neither accepted nor rejected
	Declined []protocol.AgentID // who rejected it, let an offer pass or lost it: not asked again in this round

	NotBefore  Moment // neither offered, claimed nor retried earlier
	Until      Moment // an approval is waited for so long (zero: without limit), or the next offer
	Expected   Moment // the holder said that it is silent so long
	Progressed Moment // it reached something new, or a wait was over
	Cancelling Moment // since it was asked to cancel; zero: it was not
	BlockedOn  []protocol.TaskID
	Category   protocol.Category // of the failure that led here
	Reason     string            // why it is where it is, whole

	Questions *Questions // nil: it asked nothing in its life
	Left      *Leaving   // what its last holder said when he gave it back; nil: nothing

	Milestone     string
	CheckpointSum [8]byte      // the first bytes of its SHA-256
	CheckpointAt  protocol.Seq // the event that brought it; zero: there is none
	Broken        Moment       // since it cannot go on, for the statistics; zero: it can
	ResultAt      protocol.Seq
	BriefAt       protocol.Seq
	Changed       protocol.Seq // the last event
	Viewed        protocol.Seq // the event as of which task.json shows it

	links   int32              // patches since a checkpoint was logged whole
	patched int32              // their size in bytes
	takers  []protocol.AgentID // the last that took it, takersMost at most; each raised the epoch by one
	created int64              // when it was created, in nanoseconds on the clock of the machine
	shift   time.Duration      // what the clock had been set by at the last event, for the view
	efforts *Efforts           // nil: no worker reported an outcome
	history history

	Rounds   int32  // of asking without a taker, one after the other
	Ignored  int32  // offers that nobody answered in time, since somebody took it
	Pause    Moment // the end of the last pause between two rounds
	Advanced bool   // there is a checkpoint since the last of them
	Gated    bool   // its brief has a gate
	Stranded bool   // hived took it from its holder and nobody has had it since; of a failed one: it was tried in vain
	Spent    bool   // the epoch's holder may report nothing any more
	Reminded bool
}

// Terms are the parts of a brief that few briefs have. They are never changed: an
// amended brief gets new ones, so that a copy of the task from before keeps its own.
type Terms struct {
	Resumes   protocol.TaskID
	Origin    protocol.TaskID // the first of the tasks that resume each other, if that is another one
	Derived   bool            // no event has the origin, and task.json does not show it
	Repairs   protocol.TaskID
	Unwinds   protocol.TaskID    // whose steps it undoes
	UnwoundBy protocol.TaskID    // the last task that undoes, or undid, its own
	Depth     int32              // of repairs
	Needed    int32              // approvals
	Approvers []protocol.Address // none: human, see package router

	// Generation is one more than that of the task which its creator held then; zero if he
	// held none.
	Generation int32
}

// Terms returns the terms of the brief; the zero value if it has none.
func (t *Task) Terms() Terms {
	if t.terms == nil {
		return Terms{}
	}
	return *t.terms
}

// SetTerms replaces the terms of the brief.
func (t *Task) SetTerms(x Terms) {
	if t.terms = nil; x.Resumes != "" || x.Unwinds != "" || x.UnwoundBy != "" || x.Repairs != "" || x.Depth != 0 || x.Generation != 0 || x.Needed != 0 || x.Approvers != nil {
		t.terms = &x
	}
}

// Needs returns the tasks that a task that has not ended waits for, or waited for, as
// created.
func (t *Task) Needs() []protocol.TaskID {
	if Ended(t.State) {
		return nil
	}
	return t.needs
}

// Lacked returns the tasks that a failed or cancelled task needed.
func (t *Task) Lacked() []protocol.TaskID {
	if Ended(t.State) {
		return t.needs
	}
	return nil
}

// titleMost is the longest title and milestone that is kept in memory, in
// characters. The log has them whole.
const titleMost = 120

// takersMost is how many of those who took a task are remembered.
const takersMost = 32

// declinedMost is how many of those who did not want a task are remembered.
const declinedMost = 1024

// Apply folds an event at a moment of the hive. If the table has no row for it, or its
// epoch is neither the same nor the next, the error is [ErrIllegal] and nothing
// changes.
func (t *Task) Apply(ev protocol.Event, e *protocol.TaskEvent, at Moment) error {
	if e.Event == Adopted {
		return t.adopt(ev, e, at)
	}
	to, ok := Next(t.State, e.Event)
	if !ok || e.From != t.State || e.To != to {
		return fmt.Errorf("%w: task %s is %s, and %s leads from %s to %s", ErrIllegal, e.Task, cmp.Or(t.State, "not there"), e.Event, cmp.Or(e.From, "nowhere"), e.To)
	}
	if taken := e.Event == Claim || e.Event == Accept; e.Epoch < t.Epoch || taken != (e.Epoch > t.Epoch) {
		return fmt.Errorf("%w: task %s is at epoch %d, and %s has epoch %d", ErrIllegal, e.Task, t.Epoch, e.Event, e.Epoch)
	}
	if e.From != e.To {
		t.leave()
		t.Since = at
		t.Reason, t.Category = Said(e), e.Category
	}
	t.State, t.Epoch, t.Attempt, t.Changed = to, e.Epoch, e.Attempt, ev.Seq
	if !e.NotBefore.IsZero() {
		t.NotBefore = momentOf(e.NotBefore, ev, at)
	}
	t.take(ev, e, at)
	t.charge(ev, e)
	if e.Answered != nil {
		t.Questions = t.Questions.answered(e.Answered.Ask, ev.Seq)
	}
	if Ended(to) && e.From != to {
		t.end(e)
	}
	t.history = t.history.with(stepOf(ev, e))
	return nil
}

// farthest is how far ahead a moment can be: a Moment cannot hold every time that can
// be written.
const farthest = 100 * 365 * 24 * time.Hour

// momentOf returns the moment of a time that an event names, given the moment of the
// event; zero for the zero time.
func momentOf(when time.Time, ev protocol.Event, at Moment) Moment {
	if when.IsZero() {
		return 0
	}
	ahead := when.Round(0).Sub(ev.TS) // by what the log says, and by no clock beside it
	return at.Add(min(ahead, farthest))
}

// leave clears what belongs to one state only.
func (t *Task) leave() {
	t.Offered, t.BlockedOn = nil, nil
	t.Questions = t.Questions.closed()
	t.NotBefore, t.Until, t.Expected = 0, 0, 0
	t.Reminded = false
}

// take applies the effects of an event besides the new state.
func (t *Task) take(ev protocol.Event, e *protocol.TaskEvent, at Moment) {
	t.assign(ev, e, at)
	switch e.Event {
	case Create:
		t.create(ev, e)
	case Progress:
		t.Expected = momentOf(e.Expected, ev, at)
	case Amend:
		t.amend(ev, e)
	case Start, Retry, ApprovalGranted, Answer, DependencyResolved, Recovered:
		t.Progressed = at // whoever begins, or goes on after a wait, has the full time
	case PauseForApproval:
		t.Until = momentOf(e.Until, ev, at)
		if t.Reason == "" {
			t.Reason = e.Question
		}
		t.Questions = t.Questions.ask(ev.Seq, e)
	case ApprovalVote:
		t.Questions = t.Questions.approved(e.By, e.Choice)
	case Remind:
		if t.Reminded = true; t.Endless() {
			t.Questions = t.Questions.reminded(at)
		}
	case BlockOnDependency:
		t.BlockedOn = own(e.Needs)
		if len(e.Needs) == 0 {
			t.Questions = t.Questions.ask(ev.Seq, e)
		}
	case Complete:
		if e.Result != nil {
			t.ResultAt = ev.Seq
		}
	case Unwind:
		terms := t.Terms()
		terms.UnwoundBy = e.UnwoundBy
		t.SetTerms(terms)
	case Cancel:
		if t.Cancelling == 0 && !Ended(e.To) {
			t.Cancelling = at
		}
	}
	if e.Checkpoint != nil {
		t.checkpoint(ev, e, at)
	}
	if e.Spec != nil {
		t.Gated = e.Spec.Gate != ""
	}
}

// assign records who is offered the task, who has it, and who declined it.
func (t *Task) assign(ev protocol.Event, e *protocol.TaskEvent, at Moment) {
	switch e.Event {
	case Offer:
		if t.Offered = own(e.Agents); e.Round > 0 {
			t.Declined = nil
		}
	case Reject:
		t.Offered = own(slices.DeleteFunc(slices.Clone(t.Offered), func(id protocol.AgentID) bool { return id == e.By }))
		t.decline(e.By)
	case OfferWithdrawn:
		t.Offered = own(slices.DeleteFunc(slices.Clone(t.Offered), func(id protocol.AgentID) bool { return slices.Contains(e.Agents, id) }))
	case OfferExhausted, OfferExpired:
		t.pause(momentOf(e.Until, ev, at))
		t.decline(e.Agents...)
		if e.Event == OfferExpired {
			t.Ignored++
		}
	case Claim, Accept:
		t.Stranded = false
		t.Holder, t.Spent, t.Rounds, t.Ignored, t.Pause = e.By, false, 0, 0, 0
		t.takers = append(slices.Clone(t.takers[max(0, len(t.takers)+1-takersMost):]), e.By)
	case LeaseExpired, Release:
		t.lose(ev, e)
		t.pause(momentOf(e.Until, ev, at))
	}
}

// pause keeps the task from being offered until a moment, if there is one. A pause
// that goes on is no new round.
func (t *Task) pause(until Moment) {
	if t.Until = until; until > t.Pause {
		t.Pause = until
		t.Rounds++
	}
}

// lose takes the task from its holder, whose epoch ends with that (spec §8.3).
func (t *Task) lose(ev protocol.Event, e *protocol.TaskEvent) {
	t.decline(t.Holder)
	t.Holder, t.Spent, t.Stranded = "", true, e.By == protocol.Hive
	t.Fruitless, t.Advanced = short(e.Fruitless), false
	if e.Event == Release && e.By != protocol.Hive && e.Reason != "" {
		t.Left = &Leaving{By: e.By, Seq: ev.Seq, Reason: e.Reason}
	}
}

// end clears what an ended task does not need. An end that the holder did not report
// itself takes the task from it and ends its epoch.
func (t *Task) end(e *protocol.TaskEvent) {
	t.Stranded = e.From == Unassigned && (e.Event == MaxRetriesExceeded || e.Event == Poison)
	if t.Declined = nil; t.State == Completed {
		t.needs = nil
	}
	t.Spent = t.Spent || e.By != t.Holder
}

func (t *Task) create(ev protocol.Event, e *protocol.TaskEvent) {
	t.ID, t.Creator, t.BriefAt, t.created = e.Task, e.By, ev.Seq, ev.TS.UnixNano()
	t.needs = own(e.Needs)
	terms := Terms{Resumes: e.Resumes, Origin: e.Origin, Repairs: e.Repairs, Unwinds: e.Unwinds, UnwoundBy: e.UnwoundBy, Depth: short(e.Depth), Generation: short(e.Generation)}
	if s := e.Spec; s != nil {
		t.Title, t.Priority = protocol.Cut(s.Title, titleMost), int32(min(max(s.Priority, math.MinInt32), math.MaxInt32))
		t.To, terms.Approvers, terms.Needed = own(s.To), own(s.Approvers), short(s.Approvals)
	}
	t.SetTerms(terms)
}

// amend applies an amended brief.
func (t *Task) amend(ev protocol.Event, e *protocol.TaskEvent) {
	s, v := e.Spec, e.Amends
	if s == nil || v == nil {
		return
	}
	t.Title, t.BriefAt, t.Version = protocol.Cut(s.Title, titleMost), ev.Seq, short(v.Version)
	terms := t.Terms()
	terms.Approvers, terms.Needed = own(s.Approvers), short(s.Approvals)
	t.SetTerms(terms)
}

// own copies a list. An empty one becomes nil, as after a snapshot: the view of a task
// must not differ.
func own[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return slices.Clone(list)
}

func short(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

func (t *Task) decline(ids ...protocol.AgentID) {
	list := slices.Clone(t.Declined)
	for _, id := range ids {
		if id != "" && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	t.Declined = own(list[max(0, len(list)-declinedMost):])
}

// checkpoint applies a checkpoint, which any report can bring. It counts as progress
// unless it is the last one again.
func (t *Task) checkpoint(ev protocol.Event, e *protocol.TaskEvent, at Moment) {
	c := e.Checkpoint
	if e.Event != Create && !t.Reached(c) {
		t.Progressed = at
		t.Fruitless, t.Advanced = 0, Held(t.State)
	}
	t.Milestone, t.CheckpointAt = protocol.Cut(c.Milestone, titleMost), ev.Seq
	t.CheckpointSum = sumOf(c.SHA256)
	if c.Patch == nil {
		t.links, t.patched = 0, 0
		return
	}
	t.links, t.patched = t.links+1, short(c.Patched)
}

// linksMost is how many patches follow each other before a checkpoint is logged whole
// again: at most so many events are read to restore one.
const linksMost = 64

// MayPatch reports whether a new checkpoint may be logged as a patch of the last one,
// and not whole: there are not too many patches since a whole one, and together they
// are no larger than the new one. It returns their size in bytes.
func (t *Task) MayPatch(patch, whole jsontext.Value) (patched int, may bool) {
	patched = int(t.patched) + len(patch)
	return patched, t.CheckpointAt > 0 && t.links < linksMost && patched <= len(whole)
}

func sumOf(text string) (sum [8]byte) {
	if b, err := hex.DecodeString(text); err == nil {
		copy(sum[:], b)
	}
	return sum
}

// Reached reports whether a checkpoint is the last one again.
func (t *Task) Reached(c *protocol.Checkpoint) bool {
	return t.CheckpointAt > 0 && t.CheckpointSum == sumOf(c.SHA256)
}

// Fenced reports whether a report under an epoch comes too late: the epoch has moved
// on, or its holder lost the task.
func (t *Task) Fenced(epoch uint64) bool { return epoch < t.Epoch || epoch == t.Epoch && t.Spent }

// Last returns who has the task, or had it last; empty if nobody had it.
func (t *Task) Last() protocol.AgentID {
	if len(t.takers) == 0 {
		return ""
	}
	return t.takers[len(t.takers)-1]
}

// Busy returns who has the task in hand; empty if nobody has, or it waits for others.
func (t *Task) Busy() protocol.AgentID {
	if InHand(t.State) {
		return t.Holder
	}
	return ""
}
