package eventlog

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// story writes a log, the same each time. It tries an operation again while retry
// returns true for its error, and returns the events accepted before the first
// other error, the log, and that error.
func story(disk durable.FS, retry func(error) bool) (accepted []protocol.Event, log *Log, err error) {
	try := func(do func() error) bool {
		for err = do(); err != nil && retry(err); {
			err = do()
		}
		return err == nil
	}
	ok := try(func() error {
		l, evs, err := Create(disk, Options{}, noon, began)
		log, accepted = l, append(accepted, evs...)
		return err
	})
	for _, n := range []int{2, 3, 0, 1, 2, 0, 1} { // 0 seals
		if !ok {
			break
		}
		evs := notes(log.Next(), n)
		ok = try(func() error {
			if n == 0 {
				ev, _, err := log.Seal(noon, log.Format())
				evs = []protocol.Event{ev}
				return err
			}
			_, err := log.Append(evs)
			return err
		})
		if ok {
			accepted = append(accepted, evs...)
		}
	}
	return accepted, log, err
}

func never(error) bool { return false }

// full reports whether err is a full disk, for which a writer waits.
func full(err error) bool {
	space := errors.Is(err, durable.ErrNoSpace) || errors.Is(err, syscall.ENOSPC)
	return space && !errors.Is(err, durable.ErrSync)
}

// holds opens a log after a crash. It returns an error unless all accepted events
// are there, once and in order, followed by nothing but later events of the story,
// and the log can be appended to and sealed.
func holds(disk *faultfs.Mem, accepted, all []protocol.Event) error {
	l, _, evs, err := open(disk)
	if len(accepted) == 0 && errors.Is(err, ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(evs) < len(accepted) || len(evs) > len(all) {
		return fmt.Errorf("%d events were accepted, %d are there", len(accepted), len(evs))
	}
	if diff := cmp.Diff(all[:len(evs)], evs); diff != "" {
		return fmt.Errorf("-want +got:\n%s", diff)
	}
	next := notes(l.Next(), 2)
	if _, err := l.Append(next[:1]); err != nil {
		return err
	}
	if _, _, err := l.Seal(noon, l.Format()); err != nil {
		return err
	}
	again := disk.Reboot()
	if stats, err := Check(again, nil, nil, func(d *Damage) { panic(d) }); err != nil || int(stats.Last) != len(evs)+2 {
		return fmt.Errorf("after the next crash: %+v, %w", stats, err)
	}
	if _, err := again.Lstat(tempName); err == nil {
		return fmt.Errorf("%s was left behind", tempName)
	}
	return nil
}

func losses() []faultfs.Loss {
	list := []faultfs.Loss{faultfs.Drop, faultfs.Keep}
	for seed := range uint64(6) {
		list = append(list, faultfs.Torn(seed))
	}
	return list
}

// TestCrashSweep cuts the power at every operation. Each of these mistakes was made
// by hand, and it caught them: no sync in write (drop), no sync of the new file or
// of log/ in Seal (drop), no SyncDir after the rename (drop), log.jsonl written in
// place instead of renamed over (torn), the tail not cut (torn).
func TestCrashSweep(t *testing.T) {
	all, _, err := story(faultfs.New(), never)
	testenv.Must(t, err)
	for _, loss := range losses() {
		for n := 1; ; n++ {
			disk := faultfs.New()
			disk.CrashAt(n, loss)
			accepted, _, err := story(disk, never)
			if err := holds(disk.Reboot(), accepted, all); err != nil {
				t.Errorf("%v at operation %d: %v", loss, n, err)
			}
			if err == nil {
				break
			}
		}
	}
}

// TestCrashInRecovery cuts the power again while the log is opened after a crash.
func TestCrashInRecovery(t *testing.T) {
	all, _, _ := story(faultfs.New(), never)
	for i, loss := range losses() {
		for n := 1; ; n++ {
			disk := faultfs.New()
			disk.CrashAt(n, loss)
			accepted, _, err := story(disk, never)
			for m := 1; ; m++ {
				second := disk.Reboot()
				second.CrashAt(m, losses()[(i+m)%len(losses())])
				_, _, _, openErr := open(second)
				if err := holds(second.Reboot(), accepted, all); err != nil {
					t.Fatalf("%v at operation %d, again at %d: %v", loss, n, m, err)
				}
				if !errors.Is(openErr, faultfs.ErrCrashed) {
					break
				}
			}
			if err == nil {
				break
			}
		}
	}
}

// TestCrashAfterShortWrite has a write stop half way and the log go on, and cuts
// the power at each later operation. It catches a missing cut, and a cut that is
// not durable when a segment is sealed.
func TestCrashAfterShortWrite(t *testing.T) {
	all, _, _ := story(faultfs.New(), never)
	for _, loss := range losses() {
		for write := 1; write <= 9; write++ {
			for n := 1; ; n++ {
				disk := faultfs.New()
				disk.ShortWrite(write, syscall.ENOSPC)
				disk.CrashAt(n, loss)
				accepted, _, err := story(disk, full)
				if err := holds(disk.Reboot(), accepted, all); err != nil {
					t.Fatalf("%v, write %d, operation %d: %v", loss, write, n, err)
				}
				if err == nil {
					break
				}
			}
		}
	}
}

// TestFaults has each operation fail once. The log survives a full disk, whichever
// operation meets it except a sync; after a failed sync it accepts nothing more and
// does not use the disk again.
func TestFaults(t *testing.T) {
	whole := faultfs.New()
	all, _, _ := story(whole, never)
	for _, cause := range []error{syscall.ENOSPC, syscall.EIO} {
		for n := 1; n <= whole.Ops(); n++ {
			disk := faultfs.New()
			disk.FailAt(n, cause, 1)
			accepted, l, err := story(disk, func(err error) bool {
				if !errors.Is(err, cause) {
					t.Errorf("%v at %d: %v", cause, n, err)
				}
				return full(err)
			})
			if errors.Is(err, ErrBroken) {
				before := disk.Ops()
				_, appendErr := l.Append(notes(l.Next(), 1))
				_, _, sealErr := l.Seal(noon, l.Format())
				if !errors.Is(appendErr, ErrBroken) || !errors.Is(sealErr, durable.ErrSync) || disk.Ops() != before {
					t.Errorf("%v at %d: used after it broke: %v, %v", cause, n, appendErr, sealErr)
				}
			}
			if full(cause) && err != nil && !errors.Is(err, durable.ErrSync) {
				t.Errorf("%v at %d: %v", cause, n, err)
			}
			disk.Heal()
			if err := holds(disk.Reboot(), accepted, all); err != nil {
				t.Errorf("%v at %d: %v", cause, n, err)
			}
		}
	}
}

// TestCutFails checks that the log is broken when a half-written line cannot be
// cut: where it ends is not known then.
func TestCutFails(t *testing.T) {
	disk := faultfs.New()
	l := create(t, disk)
	disk.ShortWrite(1, syscall.ENOSPC)
	disk.FailAt(1, syscall.EIO, 1, func(op faultfs.Op, _ string) bool { return op == faultfs.OpTruncate })
	_, err := l.Append(notes(2, 1))
	if !errors.Is(err, ErrBroken) || !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v", err)
	}
	disk.CrashAt(0, faultfs.Keep)
	again := disk.Reboot()
	if _, found, evs, err := open(again); err != nil || len(evs) != 1 || found.Torn == "" {
		t.Errorf("%d events, %+v, %v", len(evs), found, err)
	}
}

// TestDiskFull checks that the log goes on when a full disk has room again.
func TestDiskFull(t *testing.T) {
	disk := faultfs.New()
	l := create(t, disk)
	want := add(t, l, 1)
	disk.Capacity(l.Size() + 100)
	batch := notes(l.Next(), 5)
	for range 3 {
		if _, err := l.Append(batch); !errors.Is(err, durable.ErrNoSpace) || errors.Is(err, durable.ErrSync) {
			t.Fatalf("got %v", err)
		}
		if _, _, err := l.Seal(noon, l.Format()); !errors.Is(err, durable.ErrNoSpace) || errors.Is(err, durable.ErrSync) {
			t.Fatalf("seal: %v", err)
		}
		if stats, bad := check(t, disk); len(bad) > 0 || stats.Last != 2 || stats.Torn != 0 {
			t.Fatalf("%+v, %v", stats, bad)
		}
	}
	disk.Heal()
	if _, err := l.Append(batch); err != nil {
		t.Fatal(err)
	}
	seal(t, l)
	got, err := read(disk.Reboot(), Position{Seq: 1})
	testenv.Must(t, err)
	same(t, got[:6], append(want, batch...))
}

// TestCrashAfterCutAndSeal checks that when a failed write was cut and the next
// operation is a seal, the sealed file stays as it is whatever a power cut does.
func TestCrashAfterCutAndSeal(t *testing.T) {
	for _, loss := range losses() {
		disk := faultfs.New()
		l := create(t, disk)
		add(t, l, 2)
		disk.ShortWrite(1, syscall.ENOSPC)
		if _, err := l.Append(notes(l.Next(), 1)); !full(err) {
			t.Fatal(err)
		}
		seal(t, l)
		disk.CrashAt(0, loss)
		if _, _, evs, err := open(disk.Reboot()); err != nil || len(evs) != 4 {
			t.Errorf("%v: %d events, %v", loss, len(evs), err)
		}
	}
}

// TestOpenMakesDurable checks that all events that Open returns are on the disk:
// after a failed sync, what is read back may not be.
func TestOpenMakesDurable(t *testing.T) {
	disk := faultfs.New()
	l := create(t, disk)
	disk.FailAt(1, syscall.EIO, 1, func(op faultfs.Op, _ string) bool { return op == faultfs.OpSync })
	if _, err := l.Append(notes(2, 1)); !errors.Is(err, ErrBroken) {
		t.Fatal(err)
	}
	_, _, before, err := open(disk) // the daemon starts again, the power stays
	if err != nil || len(before) != 2 {
		t.Fatal(len(before), err)
	}
	_, _, after, err := open(disk.Reboot())
	testenv.Must(t, err)
	same(t, after, before)
}
