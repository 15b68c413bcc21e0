package eventlog

import (
	"context"
	"errors"
	"iter"
	"strings"
	"syscall"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// pull follows a log from a position until the test ends, and returns a function
// that waits for the next event.
func pull(t *testing.T, disk durable.FS, after Position) func() (Record, error, bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	next, stop := iter.Pull2(Follow(ctx, disk, after, nil, 1))
	t.Cleanup(func() { cancel(); stop() })
	return next
}

// unsynced appends text to the open segment, as a writer that has not synced yet.
func unsynced(t *testing.T, disk durable.FS, text string) {
	t.Helper()
	f, err := disk.Append(openName)
	if err == nil {
		_, err = f.Write([]byte(text))
	}
	err = errors.Join(err, f.Close())
	testenv.Must(t, err)
}

// linesAfter returns lines of events that follow a log, each chained to the one
// before.
func linesAfter(t *testing.T, disk durable.FS, more ...bool) []string {
	t.Helper()
	stats, _ := check(t, disk)
	var out []string
	for i, m := range more {
		ev := note(stats.Last + 1 + protocol.Seq(i))
		ev.More = m
		line, sum, err := protocol.AppendLine(nil, ev, stats.Sum)
		testenv.Must(t, err)
		stats.Sum = sum
		out = append(out, string(line))
	}
	return out
}

// survives opens the log as it is after a power cut now, and fails the test if it
// does not hold the event.
func survives(t *testing.T, disk *faultfs.Mem, rec Record) {
	t.Helper()
	_, _, evs, err := open(disk.Copy().Reboot())
	testenv.Must(t, err)
	if last := evs[len(evs)-1].Seq; last < rec.Event.Seq {
		t.Errorf("event %d was handed out, and after a power cut the log ends with %d", rec.Event.Seq, last)
	}
}

// TestFollowGivesOnlyWhatSurvivesAPowerCut checks that events are on the disk when
// they are handed out, though the writer has not synced yet.
func TestFollowGivesOnlyWhatSurvivesAPowerCut(t *testing.T) {
	disk := faultfs.New()
	small(t, disk)
	next := pull(t, disk, Position{})
	unsynced(t, disk, joined(linesAfter(t, disk, false, true, true, false)))
	for want := protocol.Seq(1); want <= 13; want++ {
		rec, err, _ := next()
		if err != nil || rec.Event.Seq != want {
			t.Fatalf("event %d, %v; want %d", rec.Event.Seq, err, want)
		}
		survives(t, disk, rec)
	}
}

// beforeNames is a disk that does something before it syncs names.
type beforeNames struct {
	durable.FS
	do func()
}

func (d beforeNames) SyncDir(name string) error {
	if name == "." && d.do != nil {
		d.do()
	}
	return d.FS.SyncDir(name)
}

// TestFollowGivesASegmentWhenItsNameIsDurable checks that events of a new segment
// are handed out only when its name is on the disk too.
func TestFollowGivesASegmentWhenItsNameIsDurable(t *testing.T) {
	disk := faultfs.New()
	small(t, disk)
	l, _, _, err := open(disk)
	testenv.Must(t, err)
	next := pull(t, disk, Position{Seq: 8})
	if rec, err, _ := next(); rec.Event.Seq != 9 || err != nil {
		t.Fatal(rec, err)
	}
	seen, old := 0, statOf(t, l.file).Ino
	l.disk = beforeNames{disk, func() {
		if info, err := disk.Lstat(openName); err != nil || info.Ino == old {
			return // not renamed yet
		}
		rec, err, _ := next()
		if err != nil || rec.Event.Seq != 10 {
			t.Errorf("event %d, %v", rec.Event.Seq, err)
		}
		seen++
		survives(t, disk, rec)
	}}
	seal(t, l)
	if seen == 0 {
		t.Error("the moment between renaming and syncing was missed")
	}
}

func statOf(t *testing.T, f durable.File) durable.Info {
	t.Helper()
	info, err := f.Stat()
	testenv.Must(t, err)
	return info
}

// TestFollowGivesWholeDecisions checks that a decision is handed out only whole: a
// start sets half of one aside, and the follower goes on with what takes its place.
func TestFollowGivesWholeDecisions(t *testing.T) {
	for name, torn := range map[string]string{"": "", " and a torn line": `{"seq":12,"ts` + strings.Repeat("\x00", 600)} {
		t.Run("half a decision"+name, func(t *testing.T) {
			disk := faultfs.New()
			all := small(t, disk)
			unsynced(t, disk, joined(linesAfter(t, disk, true, true))+torn)
			r := newReader(disk, Position{Seq: 8})
			defer r.end()
			var got []protocol.Event
			collect := func(rec Record, err error) bool {
				if err != nil {
					t.Error(err)
				}
				got = append(got, rec.Event)
				return err == nil
			}
			r.sure(collect)
			r.sure(collect)
			same(t, got, all[8:])
			l, found, _, err := open(disk)
			if err != nil || found.Torn == "" {
				t.Fatal(found, err)
			}
			want := append(all[8:9:9], add(t, l, 3)...)
			r.sure(collect)
			same(t, got, want)
		})
	}
}

// TestFollowGivesADecisionThatComesInParts checks that a decision is handed out
// once, when its last part is there.
func TestFollowGivesADecisionThatComesInParts(t *testing.T) {
	disk := faultfs.New()
	small(t, disk)
	parts := linesAfter(t, disk, true, true, false)
	r := newReader(disk, Position{Seq: 9})
	defer r.end()
	var got []string
	for i, want := range []int{0, 0, 3} {
		unsynced(t, disk, parts[i])
		r.sure(func(rec Record, err error) bool {
			if err != nil {
				t.Error(err)
			}
			got = append(got, string(rec.Line)+"\n")
			return err == nil
		})
		if len(got) != want {
			t.Errorf("%d events after %d parts, want %d", len(got), i+1, want)
		}
	}
	if joined(got) != joined(parts) {
		t.Errorf("got %q, want %q", got, parts)
	}
}

// TestFollowEndsWithAFailedSync checks that nothing is handed out whose sync
// failed.
func TestFollowEndsWithAFailedSync(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.OpSync, faultfs.OpSyncDir} {
		disk := faultfs.New()
		small(t, disk)
		unsynced(t, disk, joined(linesAfter(t, disk, false)))
		next := pull(t, disk, Position{Seq: 9})
		disk.FailAt(1, syscall.EIO, 1, func(o faultfs.Op, _ string) bool { return o == op })
		if rec, err, _ := next(); !errors.Is(err, durable.ErrSync) || rec.Event.Seq != 0 {
			t.Errorf("%s: event %d, %v", op, rec.Event.Seq, err)
		}
	}
}

// cutOnSync is a disk whose writer cuts off what it wrote while a reader syncs it,
// as it does when the disk is full.
type cutOnSync struct {
	*faultfs.Mem
	size *int64
}

func (d cutOnSync) Open(name string) (durable.File, error) {
	f, err := d.Mem.Open(name)
	return cutFile{f, d}, err
}

type cutFile struct {
	durable.File
	d cutOnSync
}

func (f cutFile) Sync() error {
	if *f.d.size > 0 {
		w, err := f.d.Append(openName)
		if err == nil {
			err = errors.Join(w.Truncate(*f.d.size), w.Close())
		}
		if *f.d.size = 0; err != nil {
			return err
		}
	}
	return f.File.Sync()
}

// TestFollowGivesNothingThatWasCutMeanwhile checks that what a writer cuts off
// during the reader's sync is not handed out.
func TestFollowGivesNothingThatWasCutMeanwhile(t *testing.T) {
	disk := faultfs.New()
	small(t, disk)
	info, err := disk.Lstat(openName)
	testenv.Must(t, err)
	next := linesAfter(t, disk, false)
	unsynced(t, disk, next[0])
	r := newReader(cutOnSync{disk, &info.Size}, Position{Seq: 9})
	defer r.end()
	for i, want := range []int{0, 1} {
		got := 0
		r.sure(func(rec Record, err error) bool {
			if err != nil || rec.Event.Seq != 10 {
				t.Errorf("event %d, %v", rec.Event.Seq, err)
			}
			got++
			return true
		})
		if got != want {
			t.Errorf("read %d: %d events, want %d", i, got, want)
		}
		unsynced(t, disk, next[0])
	}
}
