package place

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// Archive moves a file that was accepted before and found again, and reports
// whether it is one.
func (pl *Placer) Archive(x protocol.Arrival) bool {
	key := originalFile(x.Agent, x.Original)
	f, known := pl.originals[key]
	if known {
		pl.archive(key, x, f)
	}
	return known
}

// recheck sets right archived originals that their writers went on changing
// (spec §3.6).
func (pl *Placer) recheck(now time.Time) {
	for _, p := range pl.boxes.Recheck(now) {
		if l, stands := pl.state.BoxFile(p); stands {
			pl.tryLogged(&item{class: ledger.Own, path: p}, l.Of)
		}
	}
}

// archive moves an accepted original to outbox/.sent, or out of the hive if
// retention has let it go since.
func (pl *Placer) archive(key original, x protocol.Arrival, f archivePlace) {
	err := pl.boxes.Archive(x, f.as)
	if err == nil && f.swept {
		pl.try(&item{class: ledger.Swept, of: f.seq, path: protocol.SentDir(x.Agent) + "/" + f.as})
	}
	pl.archived(key, f, err)
}

// archived takes note of what became of an original. One that cannot be moved
// is remembered, so that it is known when it is found again.
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

// archivedBy finds the event that brought a file of .sent or .done.
func (pl *Placer) archivedBy(p string) (protocol.Event, error) {
	l, known := pl.state.BoxFile(p)
	if !known {
		return protocol.Event{}, ledger.ErrNoEvent
	}
	return eventlog.ReadEvent(pl.disk, l.Of)
}

// scanFiles is how many files of an outbox one look hands out.
const scanFiles = 512

// RedoOriginals archives the originals that a crash left in the outboxes, and
// writes again those that it took. It belongs behind [Placer.Redo], when what a
// start decides is in the log.
func (pl *Placer) RedoOriginals(from protocol.Seq) error {
	if len(pl.originals) == 0 { // also after a stop that was not marked
		return nil
	}
	now := time.Now()
	for _, id := range pl.agents() {
		for more := true; more; {
			scan, err := pl.boxes.Arrivals(id, now, scanFiles)
			if err != nil {
				break
			}
			for _, x := range scan.Arrivals {
				pl.Archive(x)
			}
			more = scan.More
		}
		pl.boxes.Forget(id)
	}
	unsettled := pl.stillThere()
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

// stillThere archives those of the expected originals that stand in their
// outboxes and are not handed out: what is not a message has to rest first, and
// that of an agent on hold waits. It gives those that cannot be archived now,
// which is done when they are found again.
func (pl *Placer) stillThere() map[original]bool {
	there := map[original]bool{}
	for _, id := range pl.agents() {
		entries, err := pl.disk.ReadDir(protocol.OutboxDir(id))
		if err != nil {
			continue
		}
		for _, e := range entries {
			info, err := pl.disk.Lstat(protocol.OutboxDir(id) + "/" + e.Name)
			if err != nil {
				continue
			}
			for key, f := range pl.originals {
				if key.agent == id && key.file.Ino == info.Ino && key.file.Name == protocol.SafeName(e.Name) && pl.untouched(protocol.OutboxDir(id)+"/"+e.Name, info, key, f) {
					raw, _ := pl.rawOf(f.seq)
					pl.archive(key, protocol.Arrival{Agent: id, Name: e.Name, Original: key.file, Raw: raw, Size: info.Size}, f)
					_, there[key] = pl.originals[key]
				}
			}
		}
	}
	return there
}

// untouched tells whether a file that has the name and the inode of an original
// is that still. One of which a power cut left a part is removed: its writer had
// not synced it, but it was accepted, and the log has it whole. Left in its
// outbox it would be called broken, or be sent again.
func (pl *Placer) untouched(name string, info durable.Info, key original, f archivePlace) bool {
	if !info.Regular() || info.Size > pl.max {
		return protocol.Stamp(info.ModTime) == key.file.MTime
	}
	data, _, err := durable.ReadFile(pl.disk, name, pl.max)
	if err != nil {
		return true
	}
	sum := sha256.Sum256(data)
	if protocol.Stamp(info.ModTime) == key.file.MTime && hex.EncodeToString(sum[:]) == key.file.SHA256 {
		return true
	}
	raw, err := pl.rawOf(f.seq)
	left := len(bytes.Trim(data, "\x00")) == 0 || err == nil && mailbox.Torn(data, raw)
	return left && pl.boxes.Remove(name) != nil
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

// rewriteSent makes sure that the archive holds what was accepted, where that was
// not found in its outbox.
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
