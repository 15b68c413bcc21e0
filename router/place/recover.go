package place

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"slices"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// Redo carries out again what a crash, or somebody while no daemon ran, may have
// undone: the placements of all events after a settled mark, and the files of all
// tasks. It returns how many events there are after the mark, and the last of them
// that placed anything.
func (pl *Placer) Redo(from protocol.Seq) (events int, last protocol.Seq, err error) {
	events, last, err = pl.redo(from)
	if err != nil {
		return events, last, err
	}
	pl.tasks(func(p string) bool {
		_, err := pl.disk.Lstat(p)
		return errors.Is(err, fs.ErrNotExist)
	})
	pl.putView(protocol.PathRegistry)
	return events, last, nil
}

// redo carries out the placements since the mark again. It compares bytes, not
// existence: after a power cut a file can be there and empty.
func (pl *Placer) redo(from protocol.Seq) (n int, last protocol.Seq, err error) {
	swept, views := map[string]bool{}, map[string]bool{}
	for rec, err := range eventlog.Read(pl.disk, eventlog.Position{Seq: from}) {
		if err != nil {
			return n, last, fmt.Errorf("read the log: %w", err)
		}
		if err := pl.checkpoints.Fill(rec.Event); err != nil {
			pl.log.Warn("cannot write a checkpoint again", slog.String("error", err.Error())) // all else goes on
		}
		changes, err := ledger.Changes(rec.Event)
		if err != nil {
			return n, last, err
		}
		for _, p := range ledger.Placements(rec.Event, changes) {
			switch p.Class { //nolint:exhaustive // the others are done one by one
			case ledger.View:
				views[p.Path] = true
			case ledger.Swept:
				pl.redoSwept(p, rec.Event.Seq, swept)
			default:
				pl.again(p)
			}
		}
		pl.refillAsked(rec.Event)
		if len(changes) > 0 || ledger.ChangesView(rec.Event) != "" {
			last = rec.Event.Seq
		}
		n++
	}
	for _, p := range slices.Sorted(maps.Keys(views)) {
		pl.putView(p)
	}
	for key, f := range pl.originals {
		f.swept = swept[protocol.SentDir(key.agent)+"/"+f.as]
		pl.originals[key] = f
	}
	return n, last, nil
}

// again carries out a placement once more, if its file still belongs there.
func (pl *Placer) again(p ledger.Placement) {
	at := pl.state.Belongs(p)
	switch {
	case p.Class == ledger.Original:
		pl.expect(p)
	case p.Class == ledger.Handled:
		pl.redoHandled(p, at)
	case at == "":
	case p.Class == ledger.Delivery:
		pl.redoDelivery(p, at)
	case p.Class == ledger.Redelivery:
		// It may be older than the mark, and would count as deleted.
		pl.SetRight(p.Agent, path.Base(p.Path))
	case p.Class == ledger.Aside && at == p.Path:
		pl.try(itemOf(p))
	case p.Class == ledger.Own && p.Data != nil, p.Class == ledger.Lock:
		pl.try(itemOf(p))
	}
}

// redoDelivery delivers a message again that is unread and missing or damaged. One
// that the agent has moved to .done meanwhile stays there.
func (pl *Placer) redoDelivery(p ledger.Placement, at string) {
	x := itemOf(p)
	if at == p.Path {
		pl.try(x)
		return
	}
	x.class, x.path = ledger.Own, at
	pl.try(x)
	pl.forgetFile(p.Path)
}

// redoHandled repeats an agent's own move of a message, which nobody synced.
func (pl *Placer) redoHandled(p ledger.Placement, at string) {
	file := path.Base(p.Path)
	inbox, done := protocol.InboxDir(p.Agent)+"/"+file, protocol.DoneDir(p.Agent)+"/"+file
	var err error
	switch {
	case at == done:
		err = pl.boxes.Move(inbox, done)
		pl.SetRight(p.Agent, file)
	case at == "" && p.Op == protocol.Delete:
		// A power cut can have brought it back, and its agent moved it since.
		err = errors.Join(pl.boxes.Remove(inbox), pl.boxes.Remove(done))
	}
	if durable.IgnoreNotExist(err) != nil {
		pl.log.Warn("cannot redo", slog.String("path", inbox), slog.String("error", err.Error()))
	}
}

// redoSwept removes again a file that was swept from .sent or .done, and notes it.
// The file may have come back where it was before: in the inbox, if the agent's
// move is lost, or in the outbox, which shows when it is found there.
func (pl *Placer) redoSwept(p ledger.Placement, seq protocol.Seq, swept map[string]bool) {
	if pl.state.Belongs(p) != "" {
		pl.redoReused(seq, p.Path)
		return
	}
	pl.try(itemOf(p))
	swept[p.Path] = true
	inbox := protocol.InboxDir(p.Agent) + "/" + path.Base(p.Path)
	if _, unread := pl.state.BoxFile(inbox); path.Dir(p.Path) == protocol.DoneDir(p.Agent) && !unread {
		pl.try(&item{class: ledger.Swept, of: seq, path: inbox})
	}
}

// redoReused removes a swept file that a power cut brought back, and under whose
// name another was archived since: it would be taken for a message that nobody
// has read, and be sent once more.
func (pl *Placer) redoReused(seq protocol.Seq, p string) {
	have, _, err := durable.ReadFile(pl.disk, p, pl.max)
	now, failed := pl.archivedBy(p)
	if err != nil || failed != nil || puts(now, p, have) {
		return
	}
	for rec, err := range eventlog.Read(pl.disk, eventlog.Position{}) {
		if err != nil || rec.Event.Seq >= seq {
			return
		}
		if puts(rec.Event, p, have) {
			pl.forgetFile(p)
			return
		}
	}
}

// puts reports whether an event gives a file these bytes.
func puts(ev protocol.Event, p string, data []byte) bool {
	changes, err := ledger.Changes(ev)
	return err == nil && slices.ContainsFunc(changes, func(c protocol.Change) bool {
		return c.Op == protocol.Put && c.Path == p && bytes.Equal(c.Data, data)
	})
}

func (pl *Placer) forgetFile(p string) {
	if err := durable.IgnoreNotExist(pl.boxes.Remove(p)); err != nil {
		pl.log.Warn("cannot redo", slog.String("path", p), slog.String("error", err.Error()))
	}
}
