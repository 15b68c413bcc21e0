package view

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
)

func TestMain(m *testing.M) {
	testenv.Cheap()
	goleak.VerifyTestMain(m)
}

// writer is a log to which a test appends.
type writer struct {
	t *testing.T
	*eventlog.Log
}

func newLog(t *testing.T, disk durable.FS) writer {
	t.Helper()
	l, _, err := eventlog.Create(disk, eventlog.Options{}, at(0), &protocol.HiveEvent{Action: protocol.Initialised, Format: protocol.LogFormat})
	testenv.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return writer{t, l}
}

// note returns an event whose text has its number.
func note(seq protocol.Seq) protocol.Event {
	return protocol.Event{Seq: seq, TS: at(int(seq)), Body: &protocol.AlertEvent{Code: protocol.CodeStray, Text: fmt.Sprint("note ", seq)}}
}

// add appends n events in one batch.
func (w writer) add(n int) {
	w.t.Helper()
	var evs []protocol.Event
	for i := range n {
		evs = append(evs, note(w.Next()+protocol.Seq(i)))
	}
	if _, err := w.Append(evs); err != nil {
		w.t.Fatal(err)
	}
}

func (w writer) seal() {
	w.t.Helper()
	if _, _, err := w.Seal(at(0), protocol.LogFormat); err != nil {
		w.t.Fatal(err)
	}
}

// run runs a feed until stop is called, at the latest when the test ends.
func run(t *testing.T, f *Feed) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := wait.Ended(wait.Longest, "the feed to end", done); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// lines returns the lines of a log.
func lines(t *testing.T, disk durable.FS) (list [][]byte) {
	t.Helper()
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		testenv.Must(t, err)
		list = append(list, bytes.Clone(rec.Line))
	}
	return list
}

// reader takes the events after a number, up to another, in a goroutine.
type reader struct {
	after protocol.Seq
	got   [][]byte
	done  chan error
}

func read(ctx context.Context, f *Feed, after, until protocol.Seq) *reader {
	r := &reader{after: after, done: make(chan error, 1)}
	go func() {
		for rec, err := range f.Events(ctx, after) {
			if err != nil {
				r.done <- err
				return
			}
			if r.got = append(r.got, rec.Line); rec.Event.Seq == until {
				break
			}
		}
		r.done <- nil
	}()
	return r
}

// saw fails the test unless the reader got exactly the lines of a log after its
// number.
func (r *reader) saw(t *testing.T, all [][]byte) {
	t.Helper()
	testenv.Must(t, wait.Ended(wait.Longest, "a reader to see everything", r.done))
	if !slices.EqualFunc(r.got, all[r.after:], bytes.Equal) {
		t.Errorf("after event %d a reader got %d events, or wrong ones; want the %d that follow", r.after, len(r.got), len(all)-int(r.after))
	}
}

// TestFeed checks that every reader gets every event after the one that it names,
// once and in order: those that the feed holds, those that it no longer holds, new
// ones, and those of a new segment.
func TestFeed(t *testing.T) {
	for name, most := range map[string]int{"which holds all": feedBytes, "which holds little": 2000, "which holds one": 1} {
		t.Run(name, func(t *testing.T) {
			const batches, last = 8, 1 + 8*11
			disk := faultfs.New()
			w := newLog(t, disk)
			w.add(10)
			w.seal()
			f := NewFeed(disk)
			f.most = most
			run(t, f)
			var readers []*reader
			for i := range batches - 1 {
				readers = append(readers, read(t.Context(), f, 0, last), read(t.Context(), f, w.Next()-1, last), read(t.Context(), f, w.Next()/2, last))
				w.add(10)
				if i%3 == 0 {
					f.Wake()
				}
				w.seal()
			}
			readers = append(readers, read(t.Context(), f, 0, last))
			for _, r := range readers {
				r.saw(t, lines(t, disk))
			}
			if f.mu.Lock(); f.bytes > most && len(f.list) > 1 {
				t.Errorf("the feed holds %d bytes in %d records, want %d at most", f.bytes, len(f.list), most)
			}
			f.mu.Unlock()
		})
	}
}

// TestFeedSlowReader checks that a reader that does not come back delays neither
// the feed, nor who wakes it, nor other readers, and misses nothing when it does.
func TestFeedSlowReader(t *testing.T) {
	disk := faultfs.New()
	w := newLog(t, disk)
	f := NewFeed(disk)
	f.most = 2000
	run(t, f)
	took, goOn := make(chan struct{}), make(chan struct{})
	comeBack := sync.OnceFunc(func() { close(goOn) })
	defer comeBack()
	slow := &reader{done: make(chan error, 1)}
	const last = 501
	go func() {
		for rec, err := range f.Events(t.Context(), 0) {
			if err != nil {
				slow.done <- err
				return
			}
			if slow.got = append(slow.got, rec.Line); rec.Event.Seq == 1 {
				close(took)
				<-goOn
			}
			if rec.Event.Seq == last {
				break
			}
		}
		slow.done <- nil
	}()
	wait.Receive(t, "the slow reader to begin", took)
	others := []*reader{read(t.Context(), f, 0, last), read(t.Context(), f, 0, last)}
	for range 50 {
		w.add(10)
		f.Wake()
	}
	for _, r := range others {
		r.saw(t, lines(t, disk))
	}
	comeBack()
	slow.saw(t, lines(t, disk))
}

// TestFeedStartedAgain checks that the next feed of a log goes on where a reader of
// the last one was.
func TestFeedStartedAgain(t *testing.T) {
	disk := faultfs.New()
	w := newLog(t, disk)
	w.add(5)
	first := NewFeed(disk)
	stop := run(t, first)
	before := read(t.Context(), first, 0, 6)
	before.saw(t, lines(t, disk))
	over := read(t.Context(), first, 6, 100)
	stop()
	if err := wait.Ended(wait.Longest, "a reader to end with the feed", over.done); err != nil || len(over.got) > 0 {
		t.Errorf("the reader ended with %v after %d events", err, len(over.got))
	}
	w.seal()
	w.add(5)
	second := NewFeed(disk)
	waiting := read(t.Context(), second, 6, 12) // before it runs
	run(t, second)
	waiting.saw(t, lines(t, disk))
}

// TestFeedEnds checks that a reader ends with its context, whether it waits or
// reads, and with an error of the feed.
func TestFeedEnds(t *testing.T) {
	disk := faultfs.New()
	newLog(t, disk).add(5)
	f := NewFeed(disk)
	run(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits, reads := read(ctx, f, 6, 100), 0
	for range f.Events(ctx, 0) {
		reads++
		cancel()
	}
	if reads != 1 {
		t.Errorf("a reader whose time is over got %d events", reads)
	}
	if err := wait.Ended(wait.Longest, "the reader that waits to end", waits.done); err != nil {
		t.Error(err)
	}
	nothing := NewFeed(faultfs.New())
	r := read(t.Context(), nothing, 0, 1)
	err := nothing.Run(t.Context())
	if got := wait.Ended(wait.Longest, "a reader to end with the feed", r.done); err == nil || !errors.Is(got, err) {
		t.Errorf("without a log the feed ends with %v, its reader with %v", err, got)
	}
}

// TestFeedIsDurable checks that an event that was handed out survives a power cut,
// though its writer has not synced it.
func TestFeedIsDurable(t *testing.T) {
	disk := faultfs.New()
	w := newLog(t, disk)
	f := NewFeed(disk)
	run(t, f)
	line, _, err := protocol.AppendLine(nil, note(2), w.Sum())
	testenv.Must(t, err)
	file, err := disk.Append(protocol.PathLog)
	if err == nil {
		_, err = file.Write(line)
	}
	err = errors.Join(err, file.Close())
	testenv.Must(t, err)
	f.Wake()
	for rec, err := range f.Events(t.Context(), 1) {
		if err != nil || rec.Event.Seq != 2 {
			t.Fatalf("event %d, %v", rec.Event.Seq, err)
		}
		if left := lines(t, disk.Copy().Reboot()); len(left) != 2 {
			t.Errorf("after a power cut the log holds %d events", len(left))
		}
		break
	}
}
