package view

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

const (
	// feedBytes is how much of the log a Feed holds, counted by its lines.
	feedBytes = 8 << 20
	// feedPace is how often a Feed reads the log, woken or not. A read syncs the log,
	// and a sync after every message would delay the next.
	feedPace = 50 * time.Millisecond
	// feedPortion is how many records a reader takes at once: all that a slow reader
	// keeps in memory beside what the Feed holds.
	feedPortion = 32
)

// Feed hands the events of a log to any number of readers. It follows the log once,
// decodes each event once and holds the newest 8 MiB. Each reader takes from it at
// its own pace and waits for no other. A reader that asks for older events, or has
// fallen that far behind, reads the log until it has caught up.
//
// The events that it hands out survive a power cut (see [eventlog.Follow]).
type Feed struct {
	disk durable.FS
	most int           // bytes that it holds
	wake chan struct{} // has room for one signal

	woken atomic.Int64 // when Wake last had an effect, in nanoseconds since 1970

	mu    sync.Mutex
	list  []eventlog.Record // the newest, without a gap; guarded by mu
	bytes int               // of their lines; guarded by mu
	more  chan struct{}     // closed when a record comes; nil: no reader waits; guarded by mu
	over  bool              // Run has returned; guarded by mu
	err   error             // what it returned; guarded by mu
}

// NewFeed returns a feed of the log of a hive. It reads nothing before [Feed.Run].
func NewFeed(disk durable.FS) *Feed {
	return &Feed{disk: disk, most: feedBytes, wake: make(chan struct{}, 1)}
}

// Run follows the log until ctx ends, and then returns nil, or until the log cannot
// be followed. It may be called once; the readers end with it.
func (f *Feed) Run(ctx context.Context) error {
	err := f.follow(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list, f.over, f.err = nil, true, err
	f.wakeLocked()
	return err
}

func (f *Feed) follow(ctx context.Context) error {
	from, err := eventlog.Newest(f.disk)
	if err != nil {
		return fmt.Errorf("follow the log: %w", err)
	}
	for rec, err := range eventlog.Follow(ctx, f.disk, from, f.wake, feedPace) {
		if err != nil {
			return fmt.Errorf("follow the log: %w", err)
		}
		rec.Line = bytes.Clone(rec.Line)
		f.add(rec)
	}
	return nil
}

// add appends the next record and drops the oldest.
func (f *Feed) add(rec eventlog.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, rec)
	f.bytes += len(rec.Line)
	old := 0
	for ; f.bytes > f.most && old < len(f.list)-1; old++ {
		f.bytes -= len(f.list[old].Line)
	}
	clear(f.list[:old])
	f.list = f.list[old:]
	f.wakeLocked()
}

// tellLocked wakes the readers that wait.
func (f *Feed) wakeLocked() {
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// Wake makes the feed read the log now, because something was appended, unless it was
// woken a moment ago: then it reads soon by itself. It never blocks.
func (f *Feed) Wake() {
	now, last := time.Now().UnixNano(), f.woken.Load()
	if now-last < int64(feedPace) && now >= last {
		return
	}
	f.woken.Store(now)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Events returns the events after a number, and goes on with what is appended. It
// waits until [Feed.Run] has begun, and ends with ctx or with the feed. The last pair
// holds an error where the feed ended with one or the log cannot be read. All readers
// share the records: nothing that they point to may be changed.
func (f *Feed) Events(ctx context.Context, after protocol.Seq) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for {
			x := f.next(after)
			for rec, err := range x.records {
				if ctx.Err() != nil || !yield(rec, err) || err != nil {
					return
				}
				after = rec.Event.Seq
			}
			switch {
			case x.over:
				return
			case x.more == nil:
				continue
			}
			select {
			case <-ctx.Done():
				return
			case <-x.more:
			}
		}
	}
}

// portion is the records that a reader takes at once.
type portion struct {
	records iter.Seq2[eventlog.Record, error]
	over    bool            // nothing comes after them
	more    <-chan struct{} // closed when there is more; nil: there may be more at once
}

// next returns what follows an event, from the feed's memory or from the log.
func (f *Feed) next(after protocol.Seq) portion {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.over:
		return portion{records: failure(f.err), over: true}
	case len(f.list) == 0 || after >= f.list[len(f.list)-1].Event.Seq:
		if f.more == nil {
			f.more = make(chan struct{})
		}
		return portion{records: failure(nil), more: f.more}
	}
	oldest := f.list[0].Event.Seq
	if after+1 < oldest {
		return portion{records: f.older(after, oldest)}
	}
	rest := f.list[after+1-oldest:]
	return portion{records: each(slices.Clone(rest[:min(feedPortion, len(rest))]))}
}

// older returns the events between two numbers, from the log.
func (f *Feed) older(after, before protocol.Seq) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for rec, err := range eventlog.Read(f.disk, eventlog.Position{Seq: after}) {
			if err == nil && rec.Event.Seq >= before {
				return
			}
			rec.Line = bytes.Clone(rec.Line)
			if !yield(rec, err) {
				return
			}
			after = rec.Event.Seq
		}
		if after+1 < before {
			yield(eventlog.Record{}, fmt.Errorf("read the log: it ends with event %d, and held event %d before", after, before))
		}
	}
}

// each returns the records of a list.
func each(list []eventlog.Record) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for _, rec := range list {
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// failure returns a sequence with only the error, or none for nil.
func failure(err error) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		if err != nil {
			yield(eventlog.Record{}, err)
		}
	}
}
