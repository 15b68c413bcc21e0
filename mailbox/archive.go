package mailbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/protocol"
)

// archive remembers recently archived files, in the order in which they are to be
// checked again.
type archive struct {
	mu    sync.Mutex // held to add: several agents are served at the same time
	queue []kept
}

type kept struct {
	path string
	stamp
	due    time.Time
	sha256 string // set where a change may have left the stamp as it is
}

// maxKept bounds the memory for that: files beyond it are checked early.
const maxKept = 1 << 16

// Archive moves the original of an arrival to outbox/.sent/<as> (spec §3.6),
// and ensures that the file there holds what was read:
//
//   - a file that has taken the place of the original was never read: it goes
//     back to the outbox, beside a newer one under a name of its own, and the
//     original is written from its bytes;
//   - so does what was written over the original, unless it says the same:
//     then the bytes that were read are put back;
//   - an original that is gone is written from its bytes.
//
// Links, FIFOs and directories are moved as they are. It can be repeated, also
// after a crash and for an arrival put together from the log (Agent, Name,
// Original and Raw are what it needs). After an error [Boxes.Arrivals] returns the
// file again.
func (b *Boxes) Archive(a protocol.Arrival, as string) error {
	if err := b.archive(&a, protocol.SentDir(a.Agent)+"/"+as); err != nil {
		b.box(a.Agent).outbox.dir.forget()
		return fmt.Errorf("archive %s of %s as %s: %w", protocol.Quote(a.Name), a.Agent, protocol.Quote(as), err)
	}
	return nil
}

func (b *Boxes) archive(a *protocol.Arrival, to string) error {
	if a.Seen.IsZero() { // put together from the log: its name may be another file's by now
		if info, err := b.fs.Lstat(pathOf(a)); err == nil && info.Ino != a.Original.Ino {
			return b.restore(a, to)
		}
	}
	err := b.fs.RenameNew(pathOf(a), to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, there := b.fs.Lstat(pathOf(a)); there == nil {
			return err // .sent is missing
		}
		return b.restore(a, to)
	case errors.Is(err, fs.ErrExist):
		info, err := b.fs.Lstat(pathOf(a))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil || !isArrival(a, info) {
			return b.restore(a, to)
		}
		if err := b.fs.Rename(pathOf(a), to); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	failpoint.Hit(failpoint.OriginalMoved)
	info, err := b.fs.Lstat(to)
	if err != nil {
		return err
	}
	if !isArrival(a, info) {
		return b.swapped(a, to, info)
	}
	b.keep(a, to, info)
	return nil
}

func pathOf(a *protocol.Arrival) string { return protocol.OutboxDir(a.Agent) + "/" + a.Name }

// isArrival reports whether a file is the one that was read, with the same content.
func isArrival(a *protocol.Arrival, i durable.Info) bool {
	return i.Ino == a.Original.Ino && protocol.Stamp(i.ModTime) == a.Original.MTime &&
		(a.Raw == nil || i.Size == int64(len(a.Raw)))
}

// swapped handles a file that was moved and is not what was read.
func (b *Boxes) swapped(a *protocol.Arrival, to string, info durable.Info) error {
	if info.Ino == a.Original.Ino && info.Ino != 0 {
		if a.Raw == nil || b.saysTheSame(a, to) {
			return b.restore(a, to)
		}
	}
	if err := b.putBack(a, to); err != nil {
		return err
	}
	return b.restore(a, to)
}

// saysTheSame reports whether a file holds the message that was read in other
// bytes: many writers add the last line break with a write of its own.
func (b *Boxes) saysTheSame(a *protocol.Arrival, name string) bool {
	was, err := protocol.DecodeMessage(a.Raw)
	if err != nil {
		return false
	}
	now := b.message(name)
	return now != nil && protocol.ContentHash(was) == protocol.ContentHash(now)
}

// message reads a file that may hold a whole message; nil if it does not.
func (b *Boxes) message(name string) *protocol.Message {
	data, _, err := durable.ReadFile(b.fs, name, b.opt.MaxMessageBytes)
	if err != nil {
		return nil
	}
	m, err := protocol.DecodeMessage(data)
	if err != nil {
		return nil
	}
	return m
}

// putBack puts back in the outbox what was never read.
func (b *Boxes) putBack(a *protocol.Arrival, from string) error {
	err := b.fs.RenameNew(from, pathOf(a))
	ext := path.Ext(a.Name)
	stem := a.Name[:min(len(a.Name)-len(ext), 200)]
	for i := 2; errors.Is(err, fs.ErrExist); i++ {
		err = b.fs.RenameNew(from, protocol.OutboxDir(a.Agent)+"/"+stem+"-"+strconv.Itoa(i)+ext)
	}
	return err
}

// restore makes name hold what was read. A whole message there that is neither the
// original nor says the same got there in a crash between the move and the check,
// and was never read.
func (b *Boxes) restore(a *protocol.Arrival, name string) error {
	if a.Raw == nil {
		return nil
	}
	info, same, err := b.holds(name, a.Raw)
	if err != nil {
		return err
	}
	if !same && info.Ino != 0 && info.Ino != a.Original.Ino && b.message(name) != nil && !b.saysTheSame(a, name) {
		if err := b.putBack(a, name); err != nil {
			return err
		}
	}
	if same {
		return nil
	}
	_, err = b.publish(name, a.Raw, b.fs.Rename)
	return err
}

// keep queues an archived file for another check. A change in the tick in which it
// was read leaves the stamp as it is: then its bytes are compared.
func (b *Boxes) keep(a *protocol.Arrival, name string, info durable.Info) {
	if a.Raw == nil {
		return
	}
	k := kept{path: name, stamp: stampOf(info), due: a.Seen.Add(b.opt.Settle)}
	if a.Seen.Sub(info.ModTime) < tickOf(info.ModTime) {
		k.sha256 = a.Original.SHA256
	}
	b.archived.mu.Lock()
	defer b.archived.mu.Unlock()
	b.archived.queue = append(b.archived.queue, k)
}

// Recheck checks each archived file again, Settle after it was archived, and
// returns the names of those that their writer went on changing through an open
// descriptor: they are to be restored from the log with [Boxes.Put] (spec §3.6).
func (b *Boxes) Recheck(now time.Time) (changed []string) {
	q := b.archived.queue
	for len(q) > 0 && (len(q) > maxKept || !now.Before(q[0].due)) {
		if b.changed(q[0]) {
			changed = append(changed, q[0].path)
		}
		q = q[1:]
	}
	if b.archived.queue = q; len(q) == 0 {
		b.archived.queue = nil
	}
	return changed
}

func (b *Boxes) changed(k kept) bool {
	info, err := b.fs.Lstat(k.path)
	switch {
	case err != nil: // swept, or taken away by a person
		return false
	case stampOf(info) != k.stamp:
		return true
	case k.sha256 == "":
		return false
	}
	data, _, err := durable.ReadFile(b.fs, k.path, k.size)
	if err != nil {
		return errors.Is(err, durable.ErrTooLarge)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]) != k.sha256
}
