package router

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/snapshot"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// journal makes decisions durable: it appends them to the log, in the order of their
// numbers, and keeps those for which there is no room. A full disk pauses intake; any
// other failure ends the daemon, because what is on the disk is not known any more
// (invariants 6 and 7).
type journal struct {
	*eventlog.Log
	disk     durable.FS
	log      *slog.Logger
	alert    func(*protocol.AlertEvent)
	snapshot snapshot.Keeper
	stuck    []decide.Decision // decided, but the log had no room
	awaits   int               // the format for which the open segment has to be sealed before more is decided, and the log had no room; zero: none
}

// openJournal opens the log, and returns the state after its last event, folded from a
// snapshot and the events after that.
func openJournal(disk durable.FS, cfg *Config, snapshots snapshot.Keeper, alert func(*protocol.AlertEvent)) (j journal, state *ledger.State, found eventlog.Recovery, err error) {
	j = journal{disk: disk, log: cfg.Log, alert: alert, snapshot: snapshots}
	fold := func(after eventlog.Position) {
		j.Log, found, err = eventlog.Open(disk, eventlog.Options{SegmentBytes: cfg.Settings.Log.SegmentBytes, After: after}, func(ev protocol.Event) error {
			state.Apply(ev)
			return nil
		})
	}
	state, at := j.snapshot.Load(cfg.Settings.Remember)
	fold(at)
	if bad := (*eventlog.Mismatch)(nil); at.Seq > 0 && errors.As(err, &bad) {
		cfg.Log.Warn("the snapshot is not one of this log, the whole log is read", slog.String("error", err.Error()))
		state = ledger.New(cfg.Settings.Remember)
		fold(eventlog.Position{})
	}
	if damage := (*eventlog.Damage)(nil); errors.As(err, &damage) {
		return j, nil, found, fmt.Errorf("read the log: %w%s", err, copyHint)
	}
	if err != nil {
		return j, nil, found, fmt.Errorf("read the log: %w", err)
	}
	return j, state, found, nil
}

// full reports whether intake pauses until the log has room.
func (j *journal) full() bool { return len(j.stuck) > 0 || j.awaits > 0 }

// append makes decisions durable. Where there is no room for them they are stuck,
// and no sums are returned.
func (j *journal) append(list []decide.Decision) ([]protocol.Sum, error) {
	evs := make([]protocol.Event, len(list))
	for i := range list {
		evs[i] = list[i].Event
	}
	sums, err := j.Append(evs)
	switch {
	case noRoom(err):
		if len(j.stuck) == 0 {
			j.log.Error("the disk is full, intake pauses", slog.String("error", err.Error()))
		}
		j.stuck = list
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("append to the log: %w", err)
	}
	if len(j.stuck) > 0 {
		j.stuck = nil
		j.log.Info("there is room again, intake goes on")
	}
	return sums, nil
}

// noRoom reports whether the disk was full, and nothing worse.
func noRoom(err error) bool {
	return errors.Is(err, durable.ErrNoSpace) && !errors.Is(err, durable.ErrSync)
}

// seal closes the open segment and begins one of a format. It returns the event of
// that, to be carried out; nil where the disk is full.
func (j *journal) seal(now time.Time, format int) (*decide.Decision, protocol.Sum, error) {
	ev, sum, err := j.Seal(now, format)
	if noRoom(err) {
		return nil, sum, nil
	}
	if err != nil {
		return nil, sum, fmt.Errorf("seal the log: %w", err)
	}
	changes, err := ledger.Changes(ev)
	return &decide.Decision{Event: ev, Changes: changes}, sum, err
}

// sealedFor reports whether more may be decided, given the format of the open segment
// after an attempt to begin one of the format that is needed.
func (j *journal) sealedFor(format, needed int) bool {
	was := j.awaits
	if j.awaits = 0; format < needed {
		j.awaits = needed
	}
	switch {
	case j.awaits > 0 && was == 0:
		j.log.Error("the disk is full, the segment of the log cannot be sealed: intake pauses")
	case was > 0 && j.awaits == 0:
		j.log.Info("there is room again, intake goes on")
	}
	return j.awaits == 0
}

// restoreDeleted writes log.jsonl again, with an alert, where somebody deleted it while
// the daemon has it open.
func (j *journal) restoreDeleted() error {
	restored, err := j.Hold()
	j.foreign()
	switch {
	case restored:
		j.log.Error("log.jsonl was deleted while hived runs; it was written again")
		j.alert(&protocol.AlertEvent{Code: protocol.CodeLogRestored, Path: protocol.PathLog, Text: "log.jsonl was deleted while hived ran; it was written again from the open file"})
	case noRoom(err):
		return nil // the append finds out
	case err != nil:
		return fmt.Errorf("append to the log: %w", err)
	}
	return nil
}

// foreign raises an alert for what another program wrote into the log.
func (j *journal) foreign() {
	for _, f := range j.Foreign() {
		j.log.Error("another program wrote into log.jsonl; its bytes were set aside", slog.String("path", f.Kept))
		j.alert(foreignAlert(f))
	}
}

func foreignAlert(f eventlog.Foreign) *protocol.AlertEvent {
	return &protocol.AlertEvent{
		Code: protocol.CodeLogForeign, Path: f.Kept,
		Text: fmt.Sprintf("another program wrote %d bytes into log.jsonl, before event %d; they stand in %s, and no event is lost. Stop whatever writes there: only hived may", f.Bytes, f.Seq, f.Kept),
	}
}

// recall reads events again, given in ascending order: in one pass where they are near
// each other. Those that wait for room in the log are among them.
func (j *journal) recall(seqs []protocol.Seq) (evs []protocol.Event, err error) {
	logged := len(seqs)
	if len(j.stuck) > 0 {
		logged, _ = slices.BinarySearch(seqs, j.stuck[0].Event.Seq)
	}
	waiting := seqs[logged:]
	for seqs = seqs[:logged]; len(seqs) > 0; {
		near := 1
		for near < len(seqs) && seqs[near]-seqs[near-1] <= recallGap {
			near++
		}
		want := seqs[:near]
		for rec, err := range eventlog.Read(j.disk, eventlog.Position{Seq: want[0] - 1}) {
			if err != nil {
				return nil, err
			}
			if rec.Event.Seq == want[0] {
				evs = append(evs, rec.Event)
				if want = want[1:]; len(want) == 0 {
					break
				}
			}
		}
		if len(want) > 0 {
			return nil, fmt.Errorf("read event %s: %w", want[0], ledger.ErrNoEvent)
		}
		seqs = seqs[near:]
	}
	for _, seq := range waiting {
		evs = append(evs, j.stuck[seq-j.stuck[0].Event.Seq].Event)
	}
	return evs, nil
}

// recallGap is how many events that are not wanted are read over, before it is cheaper
// to seek.
const recallGap = 2048
