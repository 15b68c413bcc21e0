package view

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

var remember = protocol.DefaultSettings().Remember

// stateOf returns the state after events, numbered from 1.
func stateOf(events ...protocol.Body) *ledger.State {
	s := ledger.New(remember)
	for i, body := range events {
		s.Apply(protocol.Event{Seq: protocol.Seq(i + 1), TS: at(i), Body: body})
	}
	return s
}

// fixed is a source that never changes.
type fixed struct{ *ledger.State }

func (f fixed) Read(_ context.Context, fn func(*ledger.State)) error {
	fn(f.State)
	return nil
}

// seqOf returns the last event of a source's state.
func seqOf(t *testing.T, src Source) (seq protocol.Seq) {
	t.Helper()
	testenv.Must(t, src.Read(t.Context(), func(s *ledger.State) { seq = s.Seq }))
	return seq
}

// TestStored checks that what is stored is read with a snapshot and without, goes
// on with the log, and begins again when the snapshot is of another log.
func TestStored(t *testing.T) {
	disk := faultfs.New()
	w := newLog(t, disk)
	w.add(3)
	testenv.Must(t, disk.MkdirAll(protocol.PathScratch, 0o755))
	snapshot := func(sum protocol.Sum, name string) {
		t.Helper()
		s := ledger.New(remember)
		for rec := range eventlog.Read(disk, eventlog.Position{}) {
			s.Apply(rec.Event)
		}
		s.Counts.Alerts = 100 // to show who read the snapshot
		var b bytes.Buffer
		f, err := disk.Create(protocol.SnapshotFile, 0o644)
		if err = errors.Join(err, s.Encode(&b, sum)); err == nil {
			_, err = f.Write(b.Bytes())
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	alerts := func(src Source) (n uint64) {
		t.Helper()
		testenv.Must(t, src.Read(t.Context(), func(s *ledger.State) { n = s.Counts.Alerts }))
		return n
	}
	if n := alerts(Stored(disk, remember)); n != 3 {
		t.Errorf("without a snapshot there are %d alerts", n)
	}
	snapshot(w.Sum(), "a snapshot")
	w.add(2)
	src := Stored(disk, remember)
	if n := alerts(src); n != 102 {
		t.Errorf("with a snapshot there are %d alerts", n)
	}
	w.seal()
	w.add(2)
	if n := alerts(src); n != 104 {
		t.Errorf("when the log has gone on there are %d alerts", n)
	}
	testenv.Must(t, disk.Remove(protocol.SnapshotFile))
	snapshot(protocol.Sum{1}, "the snapshot of another log")
	if n := alerts(Stored(disk, remember)); n != 7 {
		t.Errorf("with the snapshot of another log there are %d alerts", n)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Stored(disk, remember).Read(over, func(*ledger.State) { t.Error("it was read though time was up") }); !errors.Is(err, context.Canceled) {
		t.Errorf("when time is up it ends with %v", err)
	}
	if err := Stored(faultfs.New(), remember).Read(t.Context(), func(*ledger.State) { t.Error("it was read, and there is no log") }); err == nil {
		t.Error("a hive without a log was read")
	}
}

// counted is a source that counts how often it is read.
type counted struct {
	reads atomic.Int32
	state *ledger.State
	err   error
}

func (c *counted) Read(ctx context.Context, fn func(*ledger.State)) error {
	if c.err != nil {
		return c.err
	}
	c.reads.Add(1)
	fn(c.state)
	return nil
}

// TestShared checks that a shared source is read at most four times a second,
// however many ask, and that an equal question is answered once as long as nothing
// happens.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &counted{state: stateOf(&protocol.AgentEvent{Agent: "alice", Action: protocol.Joined})}
		src := Shared(below)
		ask := func(until time.Time) (asks int) {
			var all sync.WaitGroup
			var n atomic.Int32
			for range 10 {
				all.Go(func() {
					for time.Now().Before(until) && n.Load() < 10_000 {
						if list, err := Ask(t.Context(), src, Agents{}); err != nil || len(list) != 1 {
							t.Errorf("%v, %v", list, err)
						}
						n.Add(1)
					}
				})
			}
			all.Wait()
			return int(n.Load())
		}
		from := time.Now()
		asks := ask(from.Add(10 * time.Second))
		if most := int32(4*time.Since(from)/time.Second + 1); below.reads.Load() > most || asks < 100 {
			t.Errorf("the source was read %d times for %d questions, want %d at most", below.reads.Load(), asks, most)
		}
		one, _ := Ask(t.Context(), src, Agents{})
		same, _ := Ask(t.Context(), src, Agents{})
		if &one[0] != &same[0] {
			t.Error("an equal question was answered again, though nothing happened")
		}
		below.state.Apply(protocol.Event{Seq: 2, TS: at(2), Body: &protocol.AgentEvent{Agent: "bob", Action: protocol.Joined}})
		if list, err := Ask(t.Context(), src, Agents{}); err != nil || len(list) != 2 {
			t.Errorf("after something happened: %v, %v", list, err)
		}
		if seq := seqOf(t, src); seq != 2 {
			t.Errorf("a reader sees event %d", seq)
		}
	})
}

// TestSharedEnds checks that a caller that stops waiting does not end the others'
// wait, and that an error reaches each of them.
func TestSharedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &counted{state: stateOf()}
		src := Shared(below)
		seqOf(t, src) // the next reading has to wait
		up := errors.New("time is up")
		ctx := t.Context()
		short, cancel := context.WithTimeoutCause(ctx, readEvery/2, up)
		defer cancel()
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				if i%2 == 1 {
					if _, err := Ask(ctx, src, Agents{}); err != nil {
						t.Error(err)
					}
				} else if _, err := Ask(short, src, Agents{}); !errors.Is(err, up) {
					t.Errorf("when time is up: %v", err)
				}
			})
		}
		all.Wait()
		below.err = errors.New("broken")
		if _, err := Ask(t.Context(), src, Tasks{}); !errors.Is(err, below.err) {
			t.Errorf("of a source that is broken: %v", err)
		}
	})
}

// TestAsk checks the answers about a state, page by page.
func TestAsk(t *testing.T) {
	id := func(n int) protocol.TaskID { return protocol.TaskID(fmt.Sprintf("01M7YWEVEB97VS93BY45E8GWC%d", n)) }
	events := bodies(
		&protocol.AgentEvent{Agent: "bob", Action: protocol.Joined, Role: "builder", Caps: []string{"go"}, Slots: 2},
		&protocol.AgentEvent{Agent: "alice", Action: protocol.Joined},
		&protocol.AgentEvent{Agent: "bob", Action: protocol.LeadSet},
	)
	for n := range 3 {
		mid := protocol.MessageID(fmt.Sprint("m", n))
		events = append(events, &protocol.MessageEvent{ID: mid, From: "alice", To: to("bob"), Conversation: protocol.ConversationID(fmt.Sprint("c", n)), Delivered: ids("bob"), File: string(mid) + ".json", Sent: "f.json", Size: n})
	}
	for n := range 3 {
		events = append(events, &protocol.TaskEvent{Task: id(n), Event: task.Create, To: task.Unassigned, By: "human", Spec: &protocol.TaskSpec{Title: "T"}})
	}
	events = append(events, &protocol.TaskEvent{Task: id(1), Event: task.Cancel, From: task.Unassigned, To: task.Cancelled, By: "human"})
	src := fixed{stateOf(events...)}

	agents := reply(t, src, Agents{})
	want := []Agent{
		{ID: "alice", Status: ledger.Active, Sent: 3, Joined: at(1)},
		{ID: "bob", Role: "builder", Status: ledger.Active, Lead: true, Unread: 3, Caps: []string{"go"}, Slots: 2, Joined: at(0)},
	}
	if diff := cmp.Diff(want, agents); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	tasks := func(q Tasks) (list []string) {
		for _, v := range reply(t, src, q) {
			list = append(list, fmt.Sprint(v.ID[25:], v.State))
		}
		return list
	}
	inbox := func(q Inbox) (list []string) {
		for _, x := range reply(t, src, q) {
			list = append(list, fmt.Sprint(x.File, x.Seq, x.ID, x.Size))
		}
		return list
	}
	talks := func(q Conversations) (list []string) {
		for _, x := range reply(t, src, q) {
			list = append(list, fmt.Sprint(x.Conversation, x.Last))
		}
		return list
	}
	for _, tt := range []struct {
		name      string
		got, want []string
	}{
		{"tasks", tasks(Tasks{}), []string{"0unassigned", "1cancelled", "2unassigned"}},
		{"two tasks", tasks(Tasks{Most: 2}), []string{"0unassigned", "1cancelled"}},
		{"the next tasks", tasks(Tasks{Most: 2, After: id(1)}), []string{"2unassigned"}},
		{"tasks in a state", tasks(Tasks{State: task.Unassigned}), []string{"0unassigned", "2unassigned"}},
		{"an inbox", inbox(Inbox{Agent: "bob"}), []string{"m0.json4m00", "m1.json5m11", "m2.json6m22"}},
		{"one message", inbox(Inbox{Agent: "bob", After: 4, Most: 1}), []string{"m1.json5m11"}},
		{"nobody's inbox", inbox(Inbox{Agent: "zoe"}), nil},
		{"conversations", talks(Conversations{}), []string{"c26", "c15", "c04"}},
		{"the second conversation", talks(Conversations{Skip: 1, Most: 1}), []string{"c15"}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func reply[T any](t *testing.T, src Source, q Question[T]) T {
	t.Helper()
	out, err := Ask(t.Context(), src, q)
	testenv.Must(t, err)
	return out
}
