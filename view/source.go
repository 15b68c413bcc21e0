package view

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/internal/snapshot"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// Source is a state that can be read: that of a running daemon, or [Stored]. Read
// calls fn once, with the state after all that the log holds at that moment, unless
// it returns an error. While fn runs the state does not change, and whoever needs it
// waits: fn copies what it wants and keeps nothing else.
type Source interface {
	Read(ctx context.Context, fn func(*ledger.State)) error
}

// stored reads the state from the disk.
type stored struct {
	disk     durable.FS
	remember protocol.RememberSettings

	turn  chan struct{}     // has room for the one reader that has the turn
	state *ledger.State     // guarded by turn; nil: nothing was read yet
	at    eventlog.Position // of the state; guarded by turn
}

// Stored returns a source that reads snapshot and log, for a hive without a daemon.
// Each Read folds what was appended since the last.
func Stored(disk durable.FS, remember protocol.RememberSettings) Source {
	return &stored{disk: disk, remember: remember, turn: make(chan struct{}, 1)}
}

// Read implements [Source].
func (s *stored) Read(ctx context.Context, fn func(*ledger.State)) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.state == nil {
		var err error
		if s.state, s.at, _, err = snapshot.Read(s.disk, s.remember); err != nil { // then the log alone says all
			s.state, s.at = ledger.New(s.remember), eventlog.Position{}
		}
	}
	err := s.fold(ctx)
	if other := (*eventlog.Mismatch)(nil); errors.As(err, &other) { // this is another log
		s.state, s.at = ledger.New(s.remember), eventlog.Position{}
		err = s.fold(ctx)
	}
	if err != nil {
		return fmt.Errorf("read the state: %w", err)
	}
	fn(s.state)
	return nil
}

// fold folds the events after the state.
func (s *stored) fold(ctx context.Context) error {
	for rec, err := range eventlog.Read(s.disk, s.at) {
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		s.state.Apply(rec.Event)
		s.at = eventlog.Position{Seq: rec.Event.Seq, Sum: rec.Sum}
	}
	return nil
}

// readEvery is the least time between two reads of the source below a shared one, so
// that askers, however many, delay a daemon at most four times a second.
const readEvery = 250 * time.Millisecond

// answersKept bounds how many answers a shared source remembers.
const answersKept = 256

// shared reads a source for many askers.
type shared struct {
	src  Source
	turn chan struct{} // has room for the one reader that has the turn
	next time.Time     // when src may be read again; guarded by turn

	mu      sync.Mutex
	waiting []*asked // guarded by mu

	// The answers as of an event; guarded by turn.
	seq     protocol.Seq
	answers map[any]any
}

// asked is a question that waits.
type asked struct {
	key    any // equal for equal questions; nil: its answer is not shared
	answer func(*ledger.State) any
	value  any           // set before done is closed
	done   chan struct{} // closed when it is answered
}

// Shared returns a source for many askers. It reads src at most four times a second,
// answers in one read all questions that wait, and returns the same answer to equal
// questions of [Ask] while the log has nothing new. No answer is older than its
// question.
func Shared(src Source) Source {
	return &shared{src: src, turn: make(chan struct{}, 1), answers: map[any]any{}}
}

// Read implements [Source].
func (s *shared) Read(ctx context.Context, fn func(*ledger.State)) error {
	_, err := s.ask(ctx, nil, func(state *ledger.State) any {
		fn(state)
		return nil
	})
	return err
}

// ask returns the answer to a question. The caller that gets the turn reads for all
// that wait.
func (s *shared) ask(ctx context.Context, key any, answer func(*ledger.State) any) (any, error) {
	q := &asked{key: key, answer: answer, done: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, q)
	s.mu.Unlock()
	var err error
	select {
	case <-q.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case s.turn <- struct{}{}:
		err = s.read(ctx, q)
		<-s.turn
	}
	if err != nil && s.withdraw(q) {
		return nil, err
	}
	<-q.done
	return q.value, nil
}

// read answers all waiting questions, q among them, once src may be read again.
func (s *shared) read(ctx context.Context, q *asked) error {
	select {
	case <-q.done: // the reader before has answered it
		return nil
	default:
	}
	if err := pause.For(ctx, time.Until(s.next)); err != nil {
		return err
	}
	return s.src.Read(ctx, func(state *ledger.State) {
		s.next = time.Now().Add(readEvery)
		s.mu.Lock()
		list := s.waiting
		s.waiting = nil
		s.mu.Unlock()
		if state.Seq != s.seq || len(s.answers) > answersKept {
			s.seq = state.Seq
			clear(s.answers)
		}
		for _, q := range list {
			var known bool
			if q.value, known = s.answers[q.key]; !known || q.key == nil {
				q.value = q.answer(state)
				s.answers[q.key] = q.value
			}
			close(q.done)
		}
	})
}

// withdraw removes a waiting question, and reports whether it was still unanswered.
func (s *shared) withdraw(q *asked) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.waiting {
		if w == q {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return true
		}
	}
	return false
}
