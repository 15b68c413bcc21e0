package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/snapshot"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// replays makes everything again from the log of a history, and checks that the bytes are
// the same: the state, of the whole log and of a snapshot and what follows it; the tree,
// of the files and of each commit; and the decisions themselves.
func (h *modelRun) replays() error {
	var events []protocol.Event
	for ev, err := range history(h.disk) {
		if err != nil {
			return err
		}
		events = append(events, ev.Event)
	}
	errs := []error{h.sameState(events), sameTree(h.disk), sameDecisions(events)}
	if !h.ran.state.GitPaused {
		errs = append(errs, sameCommits(h.disk, h.model.seq))
	}
	return errors.Join(errs...)
}

// storied is an event with what it changes.
type storied struct {
	protocol.Event
	sum     string
	changes []protocol.Change
}

// history yields the events of the log with what they change.
func history(disk durable.FS) iter.Seq2[storied, error] {
	return func(yield func(storied, error) bool) {
		views := ledger.NewViews(ledger.New(protocol.RememberSettings{IDs: 64, Conversations: 64}))
		for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
			s := storied{Event: rec.Event, sum: rec.Sum.String()}
			if err == nil {
				s.changes, err = ledger.Changes(rec.Event)
				views.Fold(rec.Event)
				s.changes = append(s.changes, views.Drain()...)
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

// sameCommits compares each commit with the log, and checks that the newest is at the last
// event.
func sameCommits(disk *faultfs.Mem, last protocol.Seq) error {
	var errs []error
	events := func(yield func(gitcommit.Event, error) bool) {
		for s, err := range history(disk) {
			if !yield(gitcommit.Event{Seq: s.Seq, Sum: s.sum, Changes: s.changes}, err) {
				return
			}
		}
	}
	err := gitcommit.Check(context.Background(), disk, events, func(p gitcommit.Problem) {
		if !p.Info {
			errs = append(errs, fmt.Errorf("git: %s: %s", p.Code, p.Text))
		}
	})
	for c, failed := range gitcommit.Commits(disk) {
		if failed != nil || c.Last != last {
			errs = append(errs, fmt.Errorf("git ends at event %s, the log at %s, %w", c.Last, last, failed))
		}
		break
	}
	return errors.Join(append(errs, err)...)
}

// stateBytes returns a state encoded, so that two can be compared.
func stateBytes(s *ledger.State) (string, error) {
	var b bytes.Buffer
	err := s.Encode(&b, protocol.Sum{})
	return b.String(), err
}

// sameState folds the log again, and compares the state with the daemon's and the
// snapshot's.
func (h *modelRun) sameState(events []protocol.Event) error {
	fold := ledger.New(h.settings.Remember)
	for _, ev := range events {
		fold.Apply(ev)
	}
	fromSnapshot, at, _, err := snapshot.Read(h.disk, h.settings.Remember)
	if err != nil {
		return fmt.Errorf("after a clean stop there is no snapshot: %w", err)
	}
	for _, ev := range events[at.Seq:] {
		fromSnapshot.Apply(ev)
	}
	want, err := stateBytes(fold)
	for what, s := range map[string]*ledger.State{"the daemon": h.ran.state, "the snapshot": fromSnapshot} {
		is, failed := stateBytes(s)
		if err = errors.Join(err, failed); is != want {
			err = errors.Join(err, fmt.Errorf("the state of %s at %s is not that of the log at %s", what, s.Seq, fold.Seq))
		}
	}
	return err
}

// sameTree applies the changes of all events to an empty tree, and checks that the disk
// has each of its files, and no other in the boxes.
func sameTree(disk *faultfs.Mem) error {
	tree := gitcommit.NewTree()
	segment := func(p string) (protocol.Blob, error) {
		data, _, err := durable.ReadFile(disk, p, -1)
		return protocol.BlobOf(data), err
	}
	for ev, err := range history(disk) {
		if err != nil {
			return err
		}
		if _, err := tree.Apply(ev.changes, segment); err != nil {
			return err
		}
	}
	var errs []error
	err := tree.Walk(func(p string, id protocol.Blob) error {
		data, _, err := durable.ReadFile(disk, p, -1)
		own := path.Dir(path.Dir(p)) == protocol.PathAgents // a deletion may not be recorded yet
		if err != nil && !own || err == nil && protocol.BlobOf(data) != id {
			errs = append(errs, fmt.Errorf("%s differs from the log: %q, %w", p, data, err))
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// sameDecisions takes every file of an outbox again, as the log describes it, has it
// decided twice from the state before, and checks that the events are the same, byte for
// byte.
func sameDecisions(events []protocol.Event) error {
	state := ledger.New(modelSettings().Remember)
	all := events
	recall := func(seqs []protocol.Seq) (evs []protocol.Event, err error) {
		for _, seq := range seqs {
			evs = append(evs, all[seq-1])
		}
		return evs, nil
	}
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n-1].More {
			n++
		}
		group := events[:n]
		if a, ok := arrivalOf(group[0]); ok {
			for range 2 {
				got, err := decideAgain(state, recall, group[0], a)
				if err != nil {
					return err
				}
				if want := lines(group); got != want {
					return fmt.Errorf("decided again (-log +now):\n%s", cmp.Diff(want, got))
				}
			}
		}
		for _, ev := range group {
			state.Apply(ev)
		}
		events = events[n:]
	}
	return nil
}

// decideAgain decides about an arrival from a copy of a state, and returns the events.
func decideAgain(state *ledger.State, recall decide.Recall, first protocol.Event, a protocol.Arrival) (string, error) {
	b, err := stateBytes(state)
	if err != nil {
		return "", err
	}
	again, _, err := ledger.Decode(strings.NewReader(b), modelSettings().Remember)
	if err != nil {
		return "", err
	}
	d := decide.New(again, modelSettings(), zeros{}, recall)
	if _, err := d.Arrival(first.TS, a); err != nil {
		return "", err
	}
	var events []protocol.Event
	for _, x := range d.Pending() {
		events = append(events, x.Event)
	}
	return lines(events), nil
}

// lines returns events as the log has them, without the chain of sums.
func lines(events []protocol.Event) string {
	var b []byte
	for _, ev := range events {
		line, _, err := protocol.AppendLine(b, ev, protocol.Sum{})
		if err != nil {
			return err.Error()
		}
		b = line
	}
	return string(b)
}

// arrivalOf returns the file that a decision was about.
func arrivalOf(ev protocol.Event) (a protocol.Arrival, ok bool) {
	var o *protocol.Original
	as := ""
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		o, as, a.Agent, a.Raw = e.Original, e.Sent, e.From, []byte(e.Raw)
	case *protocol.DuplicateEvent:
		o, as, a.Agent, a.Raw = e.Original, e.Sent, e.Agent, []byte(e.Raw)
	case *protocol.QuarantineEvent:
		o, as, a.Agent, a.Size = e.Original, path.Base(e.Path), e.Agent, e.Size
		if e.Content != nil {
			a.Raw = e.Content.Bytes()
		}
		a.Fault = &protocol.Fault{Code: e.Code, Detail: e.Detail, Line: e.Line, Column: e.Column}
	}
	if o == nil {
		return a, false
	}
	a.Name, a.Original = o.Name, *o
	a.ModTime, _ = time.Parse(time.RFC3339Nano, o.MTime)
	a.SentTaken, a.BadTaken = as != o.Name, as != "bad-"+o.Name
	if m, err := protocol.DecodeMessage(a.Raw); err == nil && a.Raw != nil {
		a.Message, a.Fault = m, nil
		a.Size = int64(len(a.Raw))
	}
	return a, true
}
