package follow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// How many events Rebuild puts into one commit, and how many bytes are read from
// the log for one commit.
const (
	rebuiltEvents = 512
	readBytes     = 16 << 20
)

// Rebuild commits all events of the log that history lacks, on a disk that no
// daemon writes to.
func Rebuild(ctx context.Context, disk durable.FS, repo *gitcommit.Repo) error {
	head, err := repo.Head()
	if err != nil {
		return err
	}
	s := newSource(disk, nil)
	defer s.close()
	for at := head.Seq; ; {
		list, err := s.read(ctx, nil, at, math.MaxUint64, rebuiltEvents)
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if len(list) == 0 {
			return nil
		}
		b := newBatch(list)
		b.Subject = fmt.Sprintf("hive: events %d to %d, from the log", b.First, b.Last)
		if _, err := repo.Commit(ctx, *b); err != nil {
			return err
		}
		at = b.Last
	}
}

// source reads the events that history lacks from the log, batch after batch. It
// continues where it stopped, so that a long log is read once.
type source struct {
	disk        durable.FS
	snapshot    func() (*ledger.State, eventlog.Position, error)
	checkpoints *ledger.Checkpoints
	at          protocol.Seq                          // the last event that was read
	views       *ledger.Views                         // as of that event; nil until a view changes
	next        func() (eventlog.Record, error, bool) // nil where nothing is being read
	stop        func()
}

func newSource(disk durable.FS, snapshot func() (*ledger.State, eventlog.Position, error)) source {
	return source{disk: disk, snapshot: snapshot, checkpoints: ledger.NewCheckpoints(func(seq protocol.Seq) (protocol.Event, error) {
		return eventlog.ReadEvent(disk, seq)
	})}
}

// close closes the log and drops the state.
func (s *source) close() {
	if s.next != nil {
		s.stop()
	}
	s.next, s.views = nil, nil
}

// read extends a batch, which may have its first entries already, with the events
// after an event, up to through, the last one that is known to be durable: later
// ones may be readable and not on the disk yet.
func (s *source) read(ctx context.Context, list []Entry, after, through protocol.Seq, most int) ([]Entry, error) {
	bytes, had := 0, len(list)
	for _, e := range list {
		bytes += e.bytes
	}
	if at := after + protocol.Seq(had); s.at != at {
		s.close()
		s.at = at
	}
	fresh := false // this call opened the log, which was known then to hold what is asked for
	for s.at < through && len(list) < most && bytes < readBytes {
		if s.next == nil {
			s.next, s.stop = iter.Pull2(eventlog.Map(s.disk, eventlog.Position{Seq: s.at}, changesOf))
			fresh = true
		}
		rec, err, more := s.next()
		if !more {
			s.stop()
			if s.next = nil; fresh {
				break
			}
			continue // it reached the end before more was appended
		}
		var e Entry
		if err == nil {
			e, err = s.entry(ctx, rec)
		}
		if err != nil {
			s.close()
			return list, err
		}
		s.at = e.seq
		bytes += e.bytes
		list = append(list, e)
	}
	if s.views != nil && len(list) > had {
		end := &list[len(list)-1]
		end.changes = append(end.changes, s.views.Drain()...)
	}
	return list, nil
}

// change is what an event changes, computed on all cores.
type change struct {
	list []protocol.Change
	err  error
}

func changesOf(ev protocol.Event) any {
	list, err := ledger.Changes(ev)
	return change{list, err}
}

// entry returns the entry of the next event, and folds the event into the views.
func (s *source) entry(ctx context.Context, rec eventlog.Record) (Entry, error) {
	ev := rec.Event
	changes, _ := rec.Value.(change)
	if e, ok := ev.Body.(*protocol.TaskEvent); ok && e.Checkpoint != nil {
		if err := s.checkpoints.Fill(ev); err != nil {
			return Entry{}, err
		}
		changes.list, changes.err = ledger.Changes(ev)
	}
	e := NewEntry(ev, rec.Sum, changes.list)
	if e.views && s.views == nil {
		var err error
		if s.views, err = s.viewsBefore(ctx, e.seq); err != nil {
			return Entry{}, err
		}
	}
	if s.views != nil {
		s.views.Fold(ev)
	}
	return e, changes.err
}

// viewsBefore returns the views before an event. The loop's state is ahead of it,
// so the log is folded once more, from the snapshot if that is older than the
// event.
func (s *source) viewsBefore(ctx context.Context, seq protocol.Seq) (*ledger.Views, error) {
	if s.snapshot != nil {
		if state, at, err := s.snapshot(); err == nil && at.Seq < seq {
			views, err := s.foldTo(ctx, state, at, seq)
			if bad := (*eventlog.Mismatch)(nil); !errors.As(err, &bad) { // else it is of another log
				return views, err
			}
		}
	}
	return s.foldTo(ctx, ledger.New(windowsOfViews), eventlog.Position{}, seq)
}

// foldTo folds the events between a position and an event into a state.
func (s *source) foldTo(ctx context.Context, state *ledger.State, after eventlog.Position, seq protocol.Seq) (*ledger.Views, error) {
	views := ledger.NewViews(state)
	for rec, err := range eventlog.Read(s.disk, after) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if rec.Event.Seq == seq {
			break
		}
		views.Fold(rec.Event)
	}
	views.Drain() // history has these
	return views, nil
}

// windowsOfViews bounds what a state remembers of ids and threads when it is folded
// only for its views, which show neither.
var windowsOfViews = protocol.RememberSettings{IDs: 64, Conversations: 64}
