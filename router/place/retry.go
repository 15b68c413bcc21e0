package place

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// How much of the queue is tried in one step. What is sent meanwhile waits no longer
// than for this.
const (
	retryFiles = 32
	retryBytes = 1 << 19 // of the log
)

// Retry tries a portion of the queue, and writes archived originals again that their
// writers went on changing. It reports whether more is to be tried at once, and
// returns the agents whose inboxes had vanished and are full again.
func (pl *Placer) Retry(now time.Time) (more bool, filled []protocol.AgentID) {
	pl.recheck(now)
	return pl.retry(func(x *item) bool { return pl.freePlace(now, x) })
}

// retry tries a portion of the queue. Where the name of a message is taken, it calls
// free, which reports whether it is free now.
func (pl *Placer) retry(free func(*item) bool) (more bool, filled []protocol.AgentID) {
	q := &pl.queue
	if len(q.pass) == 0 {
		q.begin()
	}
	for files, read := 0, 0; len(q.pass) > 0 && files < retryFiles && read < retryBytes; {
		x := q.pass[0]
		if q.items[x.path] != x || !pl.wanted(x) {
			pl.finish(x)
			continue
		}
		n, sought, err := pl.fetch(x)
		read += n
		switch {
		case err != nil:
			pl.finish(x)
			q.log.close()
			pl.unreadable(x, err)
			continue
		case x.inLog():
			continue // reading on comes to its bytes
		}
		files++
		q.pass = q.pass[1:]
		if err = pl.carryOut(x); errors.Is(err, mailbox.ErrTaken) && x.class == ledger.Delivery && free(x) {
			err = pl.carryOut(x)
		}
		pl.tried(x, err)
		if sought {
			break // finding the place cost as much as a portion
		}
	}
	if len(q.pass) == 0 {
		filled = q.end()
	}
	pl.restoring = pl.restoring && q.fresh > 0
	return len(q.pass) > 0 || q.fresh > 0, filled
}

// fetch reads one more event on the way to the bytes of an item, if they are not at
// hand. It returns how many bytes it read, and whether it had to find the place in
// the log first.
func (pl *Placer) fetch(x *item) (read int, sought bool, err error) {
	log := &pl.queue.log
	if !x.inLog() {
		return 0, false, nil
	}
	if log.at != x.of {
		sought = log.seek(pl, x.of)
		read, err = log.read(pl, x.of)
	}
	if err == nil && log.at == x.of {
		err = x.find(pl.state, log.places)
	}
	return read, sought, err
}

// finish takes the first item out of the pass and out of the queue.
func (pl *Placer) finish(x *item) {
	q := &pl.queue
	q.pass = q.pass[1:]
	if q.items[x.path] == x {
		q.drop(x.path)
	}
}

// unreadable logs that the bytes of an item could not be read from the log.
func (pl *Placer) unreadable(x *item, err error) {
	pl.log.Error("cannot read a delivered message again", slog.String("path", x.path), slog.String("seq", x.of.String()), slog.String("error", err.Error()))
}

// try carries out an item whose bytes are at hand. If the disk refuses, it is tried
// again in the next steps.
func (pl *Placer) try(x *item) {
	if !pl.wanted(x) {
		pl.queue.drop(x.path)
		return
	}
	pl.tried(x, pl.carryOut(x))
}

// tried takes an item that was carried out off the queue, and queues one that the
// disk refused.
func (pl *Placer) tried(x *item, err error) {
	if err == nil {
		pl.queue.drop(x.path)
		return
	}
	if pl.queue.refuse(x) && !errors.Is(err, mailbox.ErrTaken) {
		pl.log.Warn("cannot place or remove a file, it is tried again", slog.String("path", x.path), slog.String("error", err.Error()))
	}
}

// inLog reports whether the bytes of an item are still to be read.
func (x *item) inLog() bool {
	return x.data == nil && x.class != ledger.Swept && x.class != ledger.Aside && x.class != ledger.Lock
}

// find takes the bytes of an item from the placements of its event.
func (x *item) find(s *ledger.State, list []ledger.Placement) error {
	for _, p := range list {
		if p.Op == protocol.Put && path.Base(p.Path) == path.Base(x.path) && s.Belongs(p) == x.path {
			x.data = append([]byte{}, p.Data...)
			return nil
		}
	}
	return ledger.ErrNoEvent
}

// wanted reports whether what an item would place still belongs at its path, as the
// log has it now.
func (pl *Placer) wanted(x *item) bool {
	l, stands := pl.state.BoxFile(x.path)
	switch x.class { //nolint:exhaustive // files of hived's own replace each other
	case ledger.Delivery, ledger.Handled, ledger.Original:
		return stands && l.Of == x.of
	case ledger.Aside:
		return stands || x.data == nil
	case ledger.Swept:
		return !stands
	}
	return true
}

// carryOut makes the disk agree with one item, whether that was done before or not.
// It compares bytes, and never overwrites a file in an inbox that the log does not
// know.
func (pl *Placer) carryOut(x *item) error {
	id, file := protocol.OwnerOf(x.path), path.Base(x.path)
	switch x.class { //nolint:exhaustive // the others are files
	case ledger.Delivery:
		err := pl.boxes.Redeliver(id, file, x.data)
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := pl.boxes.Ensure(id); err != nil {
				return err
			}
			err = pl.boxes.Redeliver(id, file, x.data)
		}
		return err
	case ledger.Handled:
		return pl.putBack(x, x.path, protocol.InboxDir(id)+"/"+file)
	case ledger.Original:
		return pl.putBack(x, x.path)
	case ledger.Swept:
		err := pl.boxes.Remove(x.path)
		if err == nil {
			pl.leave(x.path)
		}
		return err
	case ledger.Aside:
		return pl.setAside(x)
	case ledger.Lock:
		return pl.makeLock(x)
	}
	return pl.putIn(x.path, x.data)
}

// makeLock makes the lock of a step where it is missing. While the step is under way on
// the same boot of a machine it stays missing: whoever runs the step's command may hold
// the lock that was removed, and another file would say that nobody does (spec §8.9).
func (pl *Placer) makeLock(x *item) error {
	if _, err := pl.disk.Lstat(x.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, _, err := durable.ReadFile(pl.disk, x.from, -1)
	if err == nil {
		record, err := protocol.DecodeStep(data)
		if err == nil && record.Underway() && record.Command != "" && record.Boot == string(x.data) {
			return nil
		}
	}
	return pl.putIn(x.path, []byte{})
}

// putBack writes a file of an archive that is in none of some places. Its agent may
// have moved it to one of them, which the log does not know of yet.
func (pl *Placer) putBack(x *item, places ...string) error {
	for _, at := range places {
		if _, err := pl.disk.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if _, err := pl.boxes.Ensure(protocol.OwnerOf(x.path)); err != nil {
		return err
	}
	return pl.boxes.Put(x.path, x.data)
}

// putIn writes a file, and makes the directory of a task's if it is missing.
func (pl *Placer) putIn(p string, data []byte) error {
	err := pl.boxes.Put(p, data)
	if !errors.Is(err, fs.ErrNotExist) || !protocol.IsTaskPath(p) {
		return err
	}
	if err := pl.boxes.MakeDir(path.Dir(p)); err != nil {
		return err
	}
	return pl.boxes.Put(p, data)
}

// leave removes the directories of a task once they are empty. It is called after
// each file that is swept: any may be the last, as removals are tried again.
func (pl *Placer) leave(p string) {
	if !protocol.IsTaskPath(p) {
		return
	}
	for dir := path.Dir(p); dir != protocol.PathTasks; dir = path.Dir(dir) {
		_ = pl.disk.Remove(dir) // one that holds files stays
	}
}

// setAside moves a file that took the name of a message to .done. If it changed
// since its bytes were logged, those are written there, and it stays to be set aside
// as another.
func (pl *Placer) setAside(x *item) error {
	same := x.data == nil
	if !same {
		have, _, err := durable.ReadFile(pl.disk, x.from, pl.max)
		same = err == nil && bytes.Equal(have, x.data)
	}
	if same {
		_, err := pl.boxes.SetAside(protocol.OwnerOf(x.path), path.Base(x.from), path.Base(x.path))
		if err == nil || x.data == nil {
			return durable.IgnoreNotExist(err)
		}
	}
	if err := pl.boxes.Put(x.path, x.data); err != nil || !same {
		return err
	}
	return pl.boxes.Remove(x.from)
}

// freePlace sets aside a file in an inbox that has the name of a message but is not
// that message (spec §4.7), and reports whether the name is free or holds the message
// now. The bytes of the file are in the log before it moves.
func (pl *Placer) freePlace(now time.Time, x *item) (moved bool) {
	if pl.queue.items[x.aside] != nil {
		return false // it is logged, and still cannot be moved
	}
	id, file := protocol.OwnerOf(x.path), path.Base(x.path)
	data, _, err := durable.ReadFile(pl.disk, x.path, pl.max)
	if err != nil && !errors.Is(err, durable.ErrNotRegular) && !errors.Is(err, durable.ErrLink) && !errors.Is(err, durable.ErrTooLarge) {
		return false
	}
	if err == nil && bytes.Equal(data, x.data) {
		return true // its agent has set it right since
	}
	as, err := pl.loop.SetAside(now, id, file, data)
	if err != nil {
		return false
	}
	x.aside = protocol.DoneDir(id) + "/" + as
	l, _ := pl.state.BoxFile(x.aside) // none where it has no bytes
	pl.try(&item{class: ledger.Aside, of: cmp.Or(l.Of, pl.state.Seq), path: x.aside, from: x.path, data: data})
	return pl.queue.items[x.aside] == nil
}

// SetRight makes a message in an inbox or in .done hold again what was delivered.
// Another file under its name in the inbox is set aside (spec §4.7); in .done it is
// overwritten, because it is the agent's own copy, changed before it was moved.
func (pl *Placer) SetRight(id protocol.AgentID, file string) {
	x := &item{class: ledger.Delivery, path: protocol.InboxDir(id) + "/" + file}
	l, stands := pl.state.BoxFile(x.path)
	if !stands {
		x.class, x.path = ledger.Own, protocol.DoneDir(id)+"/"+file
		l, stands = pl.state.BoxFile(x.path)
		have, _, err := durable.ReadFile(pl.disk, x.path, int64(l.Size))
		if !stands || errors.Is(err, fs.ErrNotExist) || err == nil && protocol.BlobOf(have) == l.Blob {
			return
		}
	}
	pl.tryLogged(x, l.Of)
}

// tryLogged carries out an item with the bytes that an event has.
func (pl *Placer) tryLogged(x *item, of protocol.Seq) {
	x.of = of
	ev, err := eventlog.ReadEvent(pl.disk, of)
	if err == nil {
		var list []ledger.Placement
		if list, err = pl.placements(ev); err == nil {
			err = x.find(pl.state, list)
		}
	}
	if err != nil {
		pl.unreadable(x, err)
		return
	}
	pl.try(x)
}

// placements returns the placements of an event, with the bytes of its checkpoint.
func (pl *Placer) placements(ev protocol.Event) ([]ledger.Placement, error) {
	if err := pl.checkpoints.Fill(ev); err != nil {
		return nil, fmt.Errorf("read a checkpoint again: %w", err)
	}
	changes, err := ledger.Changes(ev)
	if err != nil {
		return nil, err
	}
	return ledger.Placements(ev, changes), nil
}

// Doubtful reports whether a message that left its inbox was not handled: one that
// the disk still refuses to take was not deleted by its agent, and one that was
// moved while it was torn was not read.
func (pl *Placer) Doubtful(id protocol.AgentID, h mailbox.Handled) bool {
	x := pl.queue.items[protocol.InboxDir(id)+"/"+h.File]
	return x != nil && (h.How == protocol.HowDeleted || pl.holdsPart(protocol.DoneDir(id)+"/"+h.File, x.data))
}

// holdsPart reports whether a file holds a part of what it should, and not all.
func (pl *Placer) holdsPart(p string, data []byte) bool {
	have, _, err := durable.ReadFile(pl.disk, p, int64(len(data)))
	return err == nil && mailbox.Torn(have, data) && !bytes.Equal(have, data)
}
