package follow

import (
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// hive is a log and a repository in memory.
type hive struct {
	*testing.T
	disk  *faultfs.Mem
	log   *eventlog.Log
	repo  *gitcommit.Repo
	views *ledger.Views
}

func newHive(t *testing.T) *hive {
	t.Helper()
	h := &hive{T: t, disk: faultfs.New(), views: ledger.NewViews(ledger.New(windowsOfViews))}
	log, first, err := eventlog.Create(h.disk, eventlog.Options{}, time.Now(), &protocol.HiveEvent{Action: protocol.Initialised, Format: protocol.LogFormat})
	h.must(errors.Join(err, gitcommit.Init(h.disk)))
	h.log = log
	h.views.Fold(first[0])
	h.repo, err = gitcommit.Open(h.disk, gitcommit.Options{})
	h.must(err)
	return h
}

func (h *hive) must(err error) {
	h.Helper()
	testenv.Must(h, err)
}

// logs appends events and returns the entries that the loop passes on.
func (h *hive) logs(bodies ...protocol.Body) (list []Entry) {
	h.Helper()
	for _, body := range bodies {
		ev := protocol.Event{Seq: h.log.Next(), TS: time.Now(), Body: body}
		sums, err := h.log.Append([]protocol.Event{ev})
		h.must(err)
		changes, err := ledger.Changes(ev)
		h.must(err)
		h.views.Fold(ev)
		if len(list) == len(bodies)-1 {
			changes = append(changes, h.views.Drain()...)
		}
		list = append(list, NewEntry(ev, sums[0], changes))
	}
	return list
}

// someEvents returns events that change a file, a view, or nothing.
func someEvents(from, n int) (list []protocol.Body) {
	for i := from; i < from+n; i++ {
		switch i % 7 {
		case 0, 3:
			list = append(list, &protocol.AgentEvent{Agent: protocol.AgentID(fmt.Sprintf("a%d", i)), Action: protocol.Joined})
		case 1:
			list = append(list, &protocol.AlertEvent{Code: protocol.CodeStray, Text: "x"})
		default:
			text := fmt.Sprintf("version %d", i)
			list = append(list, &protocol.FileEvent{Path: protocol.PathBoard, Content: &protocol.Content{Text: text}})
		}
	}
	return list
}

// follower returns a Follower without a goroutine: the test calls commitOne.
func (h *hive) follower(set protocol.GitSettings) *Follower {
	h.Helper()
	f, err := New(h.disk, h.repo, Config{
		Settings: set, Log: nil, Ask: func([]string) {}, TakenBack: func() {}, Landed: func(protocol.Seq) {},
		Snapshot: func() (*ledger.State, eventlog.Position, error) {
			return nil, eventlog.Position{}, errors.New("there is none")
		},
	})
	h.must(err)
	h.Cleanup(f.source.close)
	return f
}

// wantWholeLog fails the test unless history holds the whole log, each commit the tree
// at its last event.
func (h *hive) wantWholeLog(commits int) {
	h.Helper()
	views := ledger.NewViews(ledger.New(windowsOfViews))
	history := func(yield func(gitcommit.Event, error) bool) {
		for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
			changes, failed := ledger.Changes(rec.Event)
			views.Fold(rec.Event)
			ev := gitcommit.Event{Seq: rec.Event.Seq, Sum: rec.Sum.String(), Changes: changes, Views: views.Drain}
			if !yield(ev, errors.Join(err, failed)) {
				return
			}
		}
	}
	h.must(gitcommit.Check(h.Context(), h.disk, iter.Seq2[gitcommit.Event, error](history), func(p gitcommit.Problem) { h.Errorf("%+v", p) }))
	n := 0
	for c, err := range gitcommit.Commits(h.disk) {
		h.must(err)
		if n++; n == 1 && c.Last != h.log.Next()-1 {
			h.Errorf("history ends with event %s, the log with %s", c.Last, h.log.Next()-1)
		}
	}
	if n != commits {
		h.Errorf("there are %d commits, want %d", n, commits)
	}
}

// TestRebuild builds history from the log alone, from its beginning and from where
// it ends.
func TestRebuild(t *testing.T) {
	t.Parallel()
	h := newHive(t)
	h.logs(someEvents(0, 2*rebuiltEvents)...)
	h.must(Rebuild(t.Context(), h.disk, h.repo))
	h.wantWholeLog(3) // the first event comes on top
	h.must(Rebuild(t.Context(), h.disk, h.repo))
	h.wantWholeLog(3)
	h.logs(someEvents(1, 40)...)
	h.must(Rebuild(t.Context(), h.disk, h.repo))
	h.wantWholeLog(4)
}

// TestCatchesUp: a follower that did not see the log growing reads it, in batches of
// any size, with a snapshot of this log or of another one, and with none.
func TestCatchesUp(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 3, 100, 1000} {
		for what, at := range map[string]protocol.Seq{"no snapshot": 0, "a snapshot before": 7, "a snapshot behind": 60, "a snapshot of another log": 7} {
			h := newHive(t)
			h.logs(someEvents(0, 20)...)
			h.must(Rebuild(t.Context(), h.disk, h.repo))
			h.logs(someEvents(20, 60)...)
			f := h.follower(protocol.GitSettings{CommitBatch: batch})
			asked := 0
			f.source.snapshot = func() (*ledger.State, eventlog.Position, error) {
				asked++
				if at == 0 {
					return nil, eventlog.Position{}, errors.New("there is none")
				}
				state := ledger.New(protocol.DefaultSettings().Remember)
				for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
					h.must(err)
					state.Apply(rec.Event)
					if rec.Event.Seq == at {
						sum := rec.Sum
						if what == "a snapshot of another log" {
							sum[0]++
							state = ledger.New(protocol.DefaultSettings().Remember)
							state.Seq = at
						}
						return state, eventlog.Position{Seq: at, Sum: sum}, nil
					}
				}
				return nil, eventlog.Position{}, errors.New("the log is too short")
			}
			f.CatchUp(h.log.Next() - 1)
			for f.commitOne(t.Context(), regardless) == committed {
			}
			h.wantWholeLog(1 + (60+batch-1)/batch)
			if asked != 1 {
				t.Errorf("batches of %d, %s: it was asked for %d times", batch, what, asked)
			}
		}
	}
}

// TestWaitsForMore: events that arrive while a batch from the log still waits for more
// are committed, and events that are worth no commit of their own delay no others.
func TestWaitsForMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHive(t)
		h.logs(someEvents(0, 5)...)
		f := h.follower(protocol.GitSettings{CommitBatch: 100, CommitDelay: time.Second})
		f.CatchUp(h.log.Next() - 1)
		if wait := f.commitOne(t.Context(), ifWorth); wait != time.Second {
			t.Fatalf("a young batch waits %s", wait)
		}
		f.Add(h.logs(&protocol.HiveEvent{Action: protocol.Settled, Through: 3}))
		<-time.After(time.Second)
		for f.commitOne(t.Context(), ifWorth) == committed {
		}
		f.Add(h.logs(someEvents(5, 5)...))
		<-time.After(time.Second)
		for f.commitOne(t.Context(), ifWorth) == committed {
		}
		h.wantWholeLog(2)
	})
}

// TestReadsOnAfterTheEnd: a reader that reached the end of the log before more was
// appended begins again, and one that finds nothing new ends.
func TestReadsOnAfterTheEnd(t *testing.T) {
	t.Parallel()
	h := newHive(t)
	h.logs(someEvents(0, 5)...)
	s := newSource(h.disk, nil)
	defer s.close()
	list, err := s.read(t.Context(), nil, 0, 3, 100)
	testenv.Must(t, err)
	s.stop()
	s.next, s.stop = func() (rec eventlog.Record, err error, more bool) { return rec, nil, false }, func() {}
	end := h.log.Next() - 1
	list, err = s.read(t.Context(), list, 0, end, 100)
	testenv.Must(t, err)
	if n := len(list); n == 0 || list[n-1].seq != end {
		t.Fatalf("%d entries are read, and not up to %d", n, end)
	}
	if list, err = s.read(t.Context(), nil, end, end+7, 100); err != nil || len(list) > 0 {
		t.Fatalf("after the end of the log are %v, %v", list, err)
	}
}
