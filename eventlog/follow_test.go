package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	waits "github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
)

func TestMain(m *testing.M) {
	testenv.Cheap()
	goleak.VerifyTestMain(m)
}

// follower runs Follow in a goroutine; its method next waits for one event.
type follower struct {
	records chan protocol.Event
	errs    chan error
	wake    chan struct{}
	cancel  context.CancelFunc
}

func follow(t *testing.T, disk durable.FS, after Position, poll time.Duration) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &follower{make(chan protocol.Event), make(chan error, 1), make(chan struct{}, 1), cancel}
	go func() {
		defer close(f.records)
		for rec, err := range Follow(ctx, disk, after, f.wake, poll) {
			if err != nil {
				f.errs <- err
				return
			}
			select {
			case f.records <- rec.Event:
			case <-ctx.Done():
			}
		}
		f.errs <- nil
	}()
	return f
}

func (f *follower) next(t *testing.T) protocol.Event {
	t.Helper()
	ev := waits.Receive(t, "the next event", f.records)
	if ev.Seq == 0 {
		t.Fatalf("the follower ended: %v", <-f.errs)
	}
	return ev
}

func (f *follower) stop(t *testing.T) {
	t.Helper()
	f.cancel()
	if err := waits.Ended(waits.Longest, "the follower to end", f.errs); err != nil {
		t.Error(err)
	}
}

func TestFollow(t *testing.T) {
	for name, disk := range map[string]*faultfs.Mem{"files known": faultfs.New(), "files unknown": faultfs.New()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var view durable.FS = disk
				if name == "files unknown" {
					view = noInodes{disk}
				}
				l := create(t, disk)
				woken, polled := follow(t, view, Position{}, 0), follow(t, view, Position{}, time.Second)
				want := []protocol.Event{{Seq: 1, TS: noon, Body: began}}
				for i := range 12 {
					for _, ev := range want {
						same(t, []protocol.Event{woken.next(t), polled.next(t)}, []protocol.Event{ev, ev})
					}
					synctest.Wait() // both are at the end now
					switch i % 4 {
					case 1:
						want = []protocol.Event{seal(t, l)}
					case 2: // sealed, with more behind it, before anybody reads
						want = append(add(t, l, 2), seal(t, l))
						want = append(want, add(t, l, 1)...)
					case 3: // a daemon starts, and copies the segment
						testenv.Must(t, l.Close())
						var err error
						l, _, _, err = open(disk)
						testenv.Must(t, err)
						want = add(t, l, 1)
					default:
						want = add(t, l, 3)
					}
					woken.wake <- struct{}{}
				}
				woken.stop(t)
				polled.stop(t)
			})
		})
	}
}

// noInodes is a disk on a platform that cannot tell files apart.
type noInodes struct{ durable.FS }

func (d noInodes) Lstat(name string) (durable.Info, error) {
	info, err := d.FS.Lstat(name)
	info.Ino = 0
	return info, err
}

// TestFollowThroughRepair checks that a follower that read a torn line goes on
// after its repair.
func TestFollowThroughRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, want := smallFiles(t)
		disk := plant(t, change(all, openName, all[openName]+`{"seq":10,"ts`+strings.Repeat("\x00", 600)))
		f := follow(t, disk, Position{Seq: 8}, time.Second)
		same(t, []protocol.Event{f.next(t)}, want[8:])
		synctest.Wait()
		l, found, _, err := open(disk)
		if err != nil || found.Torn == "" {
			t.Fatal(found, err)
		}
		synctest.Wait()
		evs := add(t, l, 2)
		same(t, []protocol.Event{f.next(t), f.next(t)}, evs)
		f.stop(t)
	})
}

// TestMismatch checks that a position that is not in this log is an error.
func TestMismatch(t *testing.T) {
	all, _ := smallFiles(t)
	disk := plant(t, all)
	stats, _ := check(t, disk)
	other := protocol.Sum{1}
	for _, tt := range []struct {
		at   Position
		want *Mismatch
	}{
		{Position{9, stats.Sum}, nil},
		{Position{9, other}, &Mismatch{Position{9, other}, stats.Sum}},
		{Position{Seq: 10}, nil},
		{Position{10, other}, &Mismatch{At: Position{10, other}}},
	} {
		var got *Mismatch
		evs, err := read(disk, tt.at)
		if len(evs) > 0 || errors.As(err, &got) != (tt.want != nil) || err != nil && got == nil || got != nil && *got != *tt.want {
			t.Errorf("after %v: %v, %v", tt.at, evs, err)
		}
	}
	for seq := protocol.Seq(1); seq < 9; seq++ {
		var got *Mismatch
		if _, err := read(disk, Position{seq, other}); !errors.As(err, &got) {
			t.Errorf("after %d: %v", seq, err)
		}
	}
}

// TestFollowOfWhatWasLost checks that a follower whose last event was lost in a
// power cut ends with an error.
func TestFollowOfWhatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := smallFiles(t)
		disk := plant(t, all)
		f := follow(t, disk, Position{Seq: 7}, time.Second)
		f.next(t)
		f.next(t)
		synctest.Wait()
		lines := lineList(all[openName])
		testenv.Must(t, durable.Publish(disk, openName, []byte(joined(lines[:2])), 0o644, true))
		l, _, _, err := open(disk)
		testenv.Must(t, err)
		if _, err := l.Append([]protocol.Event{{Seq: 9, TS: noon, Body: &protocol.AlertEvent{Code: "x", Text: "another event of another length"}}}); err != nil {
			t.Fatal(err)
		}
		var got *Mismatch
		if err := <-f.errs; !errors.As(err, &got) || got.At.Seq != 9 {
			t.Errorf("got %v", err)
		}
		f.cancel()
	})
}

// TestFollowFromAhead checks that a follower from a position ahead of the log,
// without a sum, waits until the log gets there.
func TestFollowFromAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New()
		l := create(t, disk)
		f := follow(t, disk, Position{Seq: 5}, time.Second)
		synctest.Wait()
		add(t, l, 2)
		seal(t, l)
		synctest.Wait()
		evs := add(t, l, 3)
		same(t, []protocol.Event{f.next(t), f.next(t)}, evs[1:])
		f.stop(t)
	})
}

// TestReadBesideWriter checks that readers beside a writer that seals all the time
// get every event once.
func TestReadBesideWriter(t *testing.T) {
	disk, err := durable.Open(t.TempDir())
	testenv.Must(t, err)
	defer disk.Close()
	l := create(t, disk)
	defer l.Close()
	const batches = 150
	f := follow(t, disk, Position{}, 0)
	again := make(chan error)
	go func() { again <- readAgainAndAgain(disk, batches) }()
	written := make(chan error)
	go func() {
		defer close(written)
		for i := range batches {
			if _, err := l.Append(notes(l.Next(), 1+i%7)); err != nil {
				written <- err
				return
			}
			if i%3 == 0 {
				if _, _, err := l.Seal(noon, l.Format()); err != nil {
					written <- err
					return
				}
			}
			select {
			case f.wake <- struct{}{}:
			default:
			}
		}
	}()
	last := protocol.Seq(1 + batches/3)
	for i := range batches {
		last += protocol.Seq(1 + i%7)
	}
	for seq := protocol.Seq(1); seq <= last; seq++ {
		if ev := f.next(t); ev.Seq != seq {
			t.Fatalf("seq %d after %d", ev.Seq, seq-1)
		}
	}
	f.stop(t)
	if err := waits.Ended(waits.Longest, "everything to be written", written); err != nil {
		t.Error(err)
	}
	if err := waits.Ended(waits.Longest, "everything to be read", again); err != nil {
		t.Error(err)
	}
	if _, bad := check(t, disk); len(bad) > 0 {
		t.Error(bad)
	}
}

// readAgainAndAgain reads from a new place each time, and checks the whole log.
func readAgainAndAgain(disk durable.FS, times int) error {
	var at Position
	for range times {
		for rec, err := range Read(disk, at) {
			if err != nil {
				return err
			}
			if rec.Event.Seq != at.Seq+1 {
				return fmt.Errorf("seq %d after %d", rec.Event.Seq, at.Seq)
			}
			at = Position{rec.Event.Seq, rec.Sum}
		}
		var bad error
		if _, err := Check(disk, nil, nil, func(d *Damage) { bad = d }); err != nil || bad != nil {
			return errors.Join(err, bad)
		}
	}
	return nil
}

// TestNewest checks that the newest events are those of the open segment.
func TestNewest(t *testing.T) {
	disk := faultfs.New()
	if _, err := Newest(disk); err == nil {
		t.Error("a log was found, and there is none")
	}
	l := create(t, disk)
	for i, want := range []protocol.Seq{0, 2, 4} {
		if got, err := Newest(disk); err != nil || got.Seq != want {
			t.Errorf("segment %d: behind event %d, %v; want %d", i, got.Seq, err, want)
		}
		add(t, l, 1)
		seal(t, l)
	}
}
