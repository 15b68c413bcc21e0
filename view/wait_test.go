package view

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/protocol"
)

// counter is done at the event with the number until.
type counter struct{ until, seen protocol.Seq }

func (c *counter) See(ev protocol.Event) bool {
	c.seen = ev.Seq
	return ev.Seq == c.until
}

// records yields n events and then err, unless it is nil.
func records(n int, err error) iter.Seq2[eventlog.Record, error] {
	return recordsOf(make([]protocol.Body, n), err)
}

// recordsOf yields the events, numbered from 1, and then err, unless it is nil.
func recordsOf(events []protocol.Body, err error) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for i, body := range events {
			if !yield(eventlog.Record{Event: protocol.Event{Seq: protocol.Seq(i + 1), Body: body}}, nil) {
				return
			}
		}
		if err != nil {
			yield(eventlog.Record{}, err)
		}
	}
}

func TestWait(t *testing.T) {
	broken, up := errors.New("broken"), errors.New("time is up")
	for name, tt := range map[string]struct {
		records iter.Seq2[eventlog.Record, error]
		up      error // ends the time before anything is read
		seen    protocol.Seq
		want    error
	}{
		"done":                   {records(9, broken), nil, 3, nil},
		"the log ends before":    {records(2, nil), nil, 2, nil},
		"the log cannot be read": {records(2, broken), nil, 2, broken},
		"time is up":             {records(9, nil), up, 0, up},
		"time is up at the end":  {records(0, nil), up, 0, up},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if tt.up != nil {
			cancel(tt.up)
		}
		c := &counter{until: 3}
		if err := Wait(ctx, tt.records, c); !errors.Is(err, tt.want) || c.seen != tt.seen {
			t.Errorf("%s: %v after event %d, want %v after %d", name, err, c.seen, tt.want, tt.seen)
		}
		cancel(nil)
	}
}
