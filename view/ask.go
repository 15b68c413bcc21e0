package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// Question is what can be asked of a state: [Agents], [Tasks], [Inbox] or
// [Conversations]. Equal questions have the same answer while the log has nothing new.
type Question[T any] interface {
	answer(s *ledger.State) T
}

// Ask returns the answer to a question. Callers that ask the same at the same time
// may get the same value, so nothing that it points to may be changed.
func Ask[T any](ctx context.Context, src Source, q Question[T]) (T, error) {
	var out T
	many, ok := src.(*shared)
	if !ok {
		err := src.Read(ctx, func(s *ledger.State) { out = q.answer(s) })
		return out, err
	}
	value, err := many.ask(ctx, q, func(s *ledger.State) any { return q.answer(s) })
	if err == nil {
		out = value.(T) //nolint:forcetypeassert // the question returned it
	}
	return out, err
}

// pageMost is how many items a page holds at most.
const pageMost = 500

// pageOf returns the length of a page of at most so many items; zero asks for the
// longest.
func pageOf(most int) int {
	if most <= 0 {
		return pageMost
	}
	return min(most, pageMost)
}

// Agents asks for the roster, in name order.
type Agents struct{}

// Agent is the state of one agent.
type Agent struct {
	ID      protocol.AgentID `json:"id"`
	Role    string           `json:"role"`
	Status  ledger.Status    `json:"status"`
	Lead    bool             `json:"lead"`
	Pending int              `json:"pending"` // files in the outbox, which the log does not have; see [Roster]
	Unread  int              `json:"unread"`
	Handled uint64           `json:"handled"`
	Sent    uint64           `json:"sent"`
	Stopped bool             `json:"stopped,omitzero"` // by the breaker: what it sends to agents waits in its outbox
	Silent  bool             `json:"silent,omitzero"`  // it let offers of tasks expire, and gets no more until it gives a sign of life

	Caps   []string  `json:"-"`
	Slots  int       `json:"-"` // tasks that it may have in hand at once; zero: one
	Joined time.Time `json:"-"`
}

// Roster returns the agents of a state, with how many files wait in the outbox of
// each where pending is not nil.
func Roster(s *ledger.State, pending func(protocol.AgentID) int) []Agent {
	list := make([]Agent, 0, len(s.Agents))
	for _, a := range s.Roster() {
		x := Agent{
			ID: a.ID, Role: a.Role, Status: a.Status, Lead: s.Lead == a.ID,
			Unread: a.Inbox.Len(), Handled: a.Handled, Sent: a.Accepted, Stopped: a.Stopped, Silent: a.Silent(),
			Caps: slices.Clone(a.Caps), Slots: a.Slots, Joined: a.Joined,
		}
		if pending != nil {
			x.Pending = pending(a.ID)
		}
		list = append(list, x)
	}
	return list
}

func (Agents) answer(s *ledger.State) []Agent { return Roster(s, nil) }

// Tasks asks for tasks, in the order of their creation.
type Tasks struct {
	State protocol.TaskState // of those that are wanted; empty: of any
	After protocol.TaskID    // the last of the page before
	Most  int                // of this page; zero: 500, which is the most
}

func (q Tasks) answer(s *ledger.State) []task.View {
	list := []task.View{}
	for _, t := range s.Tasks.Page(q.After, pageOf(q.Most), func(t *task.Task) bool { return q.State == "" || t.State == q.State }) {
		list = append(list, task.ViewOf(t))
	}
	return list
}

// Inbox asks for the messages that an agent has not handled, in the order of
// acceptance. For an unknown agent there are none.
type Inbox struct {
	Agent protocol.AgentID
	After protocol.Seq // the event of the last of the page before
	Most  int          // of this page; zero: 500, which is the most
}

// Unread is a message in an inbox.
type Unread struct {
	File string             `json:"file"`
	Seq  protocol.Seq       `json:"seq"` // the event that put it there
	ID   protocol.MessageID `json:"id"`
	Size int                `json:"size"` // in bytes
	At   time.Time          `json:"at"`
}

func (q Inbox) answer(s *ledger.State) []Unread {
	list := []Unread{}
	if a := s.Agents[q.Agent]; a != nil {
		for file, l := range a.Inbox.All() {
			if l.Of > q.After {
				list = append(list, Unread{file, l.Of, l.ID, l.Size, l.At})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Unread) int { return cmp.Compare(a.Seq, b.Seq) })
	return list[:min(len(list), pageOf(q.Most))]
}

// Conversations asks for the threads that hived remembers, the newest first.
type Conversations struct {
	Skip int // how many the pages before had
	Most int // of this page; zero: 500, which is the most
}

func (q Conversations) answer(s *ledger.State) []ledger.Talk {
	list := []ledger.Talk{}
	at := 0
	for t := range s.Talks() {
		if at++; at > q.Skip {
			list = append(list, t)
		}
		if len(list) == pageOf(q.Most) {
			break
		}
	}
	return list
}
