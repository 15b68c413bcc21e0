package place

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// Archive moves a file to outbox/.sent if it was accepted before and is found
// again, and reports whether it was.
func (pl *Placer) Archive(x protocol.Arrival) bool {
	key := originalFile(x.Agent, x.Original)
	f, known := pl.originals[key]
	if known {
		pl.archive(key, x, f)
	}
	return known
}

// recheck writes archived originals again that their writers went on changing
// (spec §3.6).
func (pl *Placer) recheck(now time.Time) {
	for _, p := range pl.boxes.Recheck(now) {
		if l, stands := pl.state.BoxFile(p); stands {
			pl.tryLogged(&item{class: ledger.Own, path: p}, l.Of)
		}
	}
}

// archive moves an accepted original to outbox/.sent, and removes it there if
// retention has let it go since.
func (pl *Placer) archive(key original, x protocol.Arrival, f archivePlace) {
	err := pl.boxes.Archive(x, f.as)
	if err == nil && f.swept {
		pl.try(&item{class: ledger.Swept, of: f.seq, path: protocol.SentDir(x.Agent) + "/" + f.as})
	}
	pl.archived(key, f, err)
}

// archived notes whether an original was archived. One that cannot be moved is
// remembered, so that it is known when it is found again.
func (pl *Placer) archived(key original, f archivePlace, err error) {
	if err == nil {
		delete(pl.originals, key)
		return
	}
	if _, known := pl.originals[key]; !known {
		pl.log.Warn("cannot archive a sent file, it is tried again", slog.String("agent", string(key.agent)), slog.String("file", key.file.Name), slog.String("error", err.Error()))
	}
	pl.originals[key] = f
}

// archivedBy returns the event that has the bytes of a file in .sent or .done.
func (pl *Placer) archivedBy(p string) (protocol.Event, error) {
	l, known := pl.state.BoxFile(p)
	if !known {
		return protocol.Event{}, ledger.ErrNoEvent
	}
	return eventlog.ReadEvent(pl.disk, l.Of)
}

// RedoOriginals archives the originals that a crash left in the outboxes, and
// writes again those that it took. It is called after [Placer.Redo], when what a
// start decides is in the log.
func (pl *Placer) RedoOriginals(from protocol.Seq) error {
	if len(pl.originals) == 0 { // also after a stop that was not marked
		return nil
	}
	unsettled := pl.archiveFound(time.Now())
	for rec, err := range eventlog.Read(pl.disk, eventlog.Position{Seq: from}) {
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		changes, err := ledger.Changes(rec.Event)
		if err != nil {
			return err
		}
		for _, p := range ledger.Placements(rec.Event, changes) {
			if p.Class == ledger.Original {
				pl.rewriteSent(p, unsettled)
			}
		}
	}
	return nil
}

// archiveFound archives those of the expected originals that are in their
// outboxes. Unlike [mailbox.Boxes.Arrivals] it waits for nothing: what is no
// message has to settle there, and what an agent on hold sent is not taken. It
// returns those that cannot be archived now, which is done when they are found
// again.
func (pl *Placer) archiveFound(now time.Time) (unsettled map[original]bool) {
	expected := map[string][]original{} // by the path as it is logged; several where a name was used again
	for key := range pl.originals {
		at := protocol.OutboxDir(key.agent) + "/" + key.file.Name
		expected[at] = append(expected[at], key)
	}
	unsettled = map[original]bool{}
	for _, id := range pl.agents() {
		entries, err := pl.disk.ReadDir(protocol.OutboxDir(id))
		if err != nil {
			continue
		}
		for _, e := range entries {
			keys := expected[protocol.OutboxDir(id)+"/"+protocol.SafeName(e.Name)]
			if len(keys) == 0 {
				continue
			}
			if key, raw, is := pl.recognise(protocol.OutboxDir(id)+"/"+e.Name, keys); is {
				pl.archive(key, protocol.Arrival{Agent: id, Name: e.Name, Original: key.file, Raw: raw, Size: int64(len(raw)), Seen: now}, pl.originals[key])
				_, unsettled[key] = pl.originals[key]
			}
		}
	}
	return unsettled
}

// recognise returns which of some originals a file in an outbox is, with the bytes
// that were accepted. A file of which a power cut left a part is removed: its
// writer had not synced it, but it was accepted, and the log has it whole. Left in
// its outbox it would be called broken, or be sent again.
func (pl *Placer) recognise(name string, keys []original) (key original, raw []byte, is bool) {
	info, err := pl.disk.Lstat(name)
	if err != nil {
		return original{}, nil, false
	}
	keys = slices.DeleteFunc(slices.Clone(keys), func(key original) bool { return key.file.Ino != info.Ino })
	readable := info.Regular() && info.Size <= pl.max
	var data []byte
	if readable {
		data, _, err = durable.ReadFile(pl.disk, name, pl.max)
	}
	sum := sha256.Sum256(data)
	for _, key := range keys {
		sameTime := protocol.Stamp(info.ModTime) == key.file.MTime
		switch {
		case err != nil, !readable && sameTime:
			raw, _ := pl.rawOf(pl.originals[key].seq)
			return key, raw, true
		case sameTime && hex.EncodeToString(sum[:]) == key.file.SHA256:
			return key, data, true
		}
	}
	if !readable {
		return original{}, nil, false
	}
	for _, key := range keys {
		raw, err := pl.rawOf(pl.originals[key].seq)
		if len(bytes.Trim(data, "\x00")) == 0 || err == nil && mailbox.Torn(data, raw) {
			return key, raw, pl.boxes.Remove(name) != nil
		}
	}
	return original{}, nil, false
}

// expect remembers an accepted original that may still stand in its outbox, so
// that it is archived and not accepted again.
func (pl *Placer) expect(p ledger.Placement) {
	if p.Original != nil && pl.state.Agents[p.Agent] != nil {
		pl.originals[originalFile(p.Agent, *p.Original)] = archivePlace{as: path.Base(p.Path), seq: p.Of}
	}
}

// rawOf returns the bytes that an event took out of an outbox, none where they
// were not read.
func (pl *Placer) rawOf(seq protocol.Seq) ([]byte, error) {
	ev, err := eventlog.ReadEvent(pl.disk, seq)
	if err != nil {
		return nil, err
	}
	list, err := pl.placements(ev)
	for _, p := range list {
		if p.Class == ledger.Original {
			return p.Data, nil
		}
	}
	return nil, cmp.Or(err, ledger.ErrNoEvent)
}

// rewriteSent writes what was accepted into the archive, unless its original was
// found in the outbox.
func (pl *Placer) rewriteSent(p ledger.Placement, unsettled map[original]bool) {
	if p.Original == nil {
		return
	}
	key := originalFile(p.Agent, *p.Original)
	if _, still := pl.originals[key]; !still || unsettled[key] {
		return // it was found in its outbox and moved, or will be
	}
	delete(pl.originals, key)
	if _, kept := pl.state.BoxFile(p.Path); kept {
		x := protocol.Arrival{Agent: p.Agent, Name: p.Original.Name, Original: *p.Original, Raw: p.Data, Size: int64(len(p.Data))}
		if err := pl.boxes.Archive(x, path.Base(p.Path)); err != nil {
			pl.log.Warn("cannot redo", slog.String("path", p.Path), slog.String("error", err.Error()))
		}
	}
}
