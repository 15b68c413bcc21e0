package mailbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// waiting is a file that cannot be decided yet. It is judged by when this process
// saw it change, never by its own times.
type waiting struct {
	stamp
	since   time.Time // when this stamp was first seen
	linked  time.Time // when it was first seen with a second name; zero: it has one
	blocked error     // why it cannot be read; nil: it can
	due     time.Time // nothing is to be done before, unless the file changes
	told    bool      // the owner knows that it cannot be read
	held    bool      // it is a message, and its caller lets it wait
	marked  bool      // the same, and what its caller marked it with
}

// fileScan reads one file of an outbox, once.
type fileScan struct {
	b    *Boxes
	o    *outbox
	id   protocol.AgentID
	name string
	now  time.Time
	file durable.File
	info durable.Info
}

func (l *fileScan) path() string { return protocol.OutboxDir(l.id) + "/" + l.name }

// decide reads the file, once and safely. A nil arrival means that there is nothing
// to decide yet. An error leaves the name in the queue.
func (l *fileScan) decide() (*protocol.Arrival, error) {
	if w := l.o.waiting[l.name]; w != nil && l.now.Before(w.due) && l.same(w) {
		return nil, nil
	}
	f, err := l.b.fs.Open(l.path())
	if err != nil {
		return l.notOpened(err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if l.info, err = f.Stat(); err != nil {
		l.block(err)
		return nil, nil
	}
	l.file = f
	switch {
	case l.info.UID != l.o.owner && l.info.UID != 0:
		return l.fault(protocol.CodeUnreadable, fmt.Sprintf("the file belongs to user %d and the outbox to user %d; write it as the outbox's owner", l.info.UID, l.o.owner)), nil
	case l.info.Links > 1:
		return l.linked(), nil
	case l.info.Size > l.b.opt.MaxMessageBytes:
		return l.tooLarge(), nil
	}
	return l.read()
}

// same reports whether a waiting file is unchanged. It costs one stat.
func (l *fileScan) same(w *waiting) bool {
	info, err := l.b.fs.Lstat(l.path())
	return err == nil && w.blocked == nil && stampOf(info) == w.stamp && (info.Links > 1) == !w.linked.IsZero()
}

func (l *fileScan) read() (*protocol.Arrival, error) {
	raw, err := durable.ReadAll(l.file, l.info.Size, l.b.opt.MaxMessageBytes)
	switch {
	case errors.Is(err, durable.ErrTooLarge):
		return l.tooLarge(), nil
	case err != nil:
		l.block(err)
		return nil, nil
	}
	m, err := protocol.DecodeMessage(raw)
	if err != nil {
		if !l.settled() {
			return nil, nil
		}
		a := l.fault(protocol.CodeMalformed, err.Error())
		if bad := (*protocol.Malformed)(nil); errors.As(err, &bad) {
			a.Fault.Line, a.Fault.Column = bad.Line, bad.Column
		}
		return withRaw(a, raw), nil
	}
	a := withRaw(l.arrival(), raw)
	a.Message, a.BadTaken = m, true
	a.SentTaken = l.taken("")
	return a, nil
}

// settled reports whether a file that is not a message has been left alone for
// long enough (spec §3.3).
func (l *fileScan) settled() bool {
	w := l.wait()
	quiet := l.now.Sub(w.since)
	switch {
	case quiet < l.b.opt.Settle:
		w.due = w.since.Add(l.b.opt.Settle)
		return false
	case quiet >= maxSettle:
		return true
	}
	if open, known := durable.BeingWritten(l.file); known && open {
		w.due = earlier(l.now.Add(l.b.opt.Settle), w.since.Add(maxSettle))
		return false
	}
	return true
}

// linked lets a file with two names rest: who publishes by link and unlink
// has two names for a moment.
func (l *fileScan) linked() *protocol.Arrival {
	w := l.wait()
	if w.linked.IsZero() {
		w.linked = l.now
	}
	if w.due = w.linked.Add(l.b.opt.Settle); l.now.Before(w.due) {
		return nil
	}
	return l.fault(protocol.CodeHardLink, "the file has a second name (a hard link), so it was not read; write a copy of its own into the outbox")
}

// wait returns what is remembered about the file, starting anew if it has changed.
func (l *fileScan) wait() *waiting {
	s := stampOf(l.info)
	w := l.o.waiting[l.name]
	switch {
	case w == nil || w.ino != s.ino:
		w = &waiting{stamp: s, since: l.now}
	case w.stamp != s:
		w.stamp, w.since = s, l.now
	}
	w.blocked, w.told, w.held, w.marked = nil, false, false, false
	if l.info.Links <= 1 {
		w.linked = time.Time{}
	}
	if l.o.waiting == nil {
		l.o.waiting = map[string]*waiting{}
	}
	l.o.waiting[l.name] = w
	return w
}

// notOpened decides about a file that could not be opened.
func (l *fileScan) notOpened(err error) (*protocol.Arrival, error) {
	if errors.Is(err, fs.ErrNotExist) {
		delete(l.o.waiting, l.name)
		return nil, nil
	}
	if exhausted(err) {
		return nil, err
	}
	info, statErr := l.b.fs.Lstat(l.path())
	if statErr == nil && info.Mode&fs.ModeType != 0 {
		l.info = info
		return l.fault(protocol.CodeNotAFile, "it is "+kindOf(info.Mode)+" and not a file, so it was not read; write a file into the outbox"), nil
	}
	l.block(err)
	return nil, nil
}

// block records a file that cannot be read; every round tries it again.
func (l *fileScan) block(err error) {
	w := l.o.waiting[l.name]
	if w == nil {
		l.info = durable.Info{}
		w = l.wait()
	}
	if w.blocked == nil {
		w.due, w.told = l.now.Add(l.b.opt.Settle), false
	}
	w.blocked = err
}

func (l *fileScan) tooLarge() *protocol.Arrival {
	return l.fault(protocol.CodeTooLarge, fmt.Sprintf("the file has more than %d bytes (max_message_bytes), so it was not read; send a shorter message that says where the rest is", l.b.opt.MaxMessageBytes))
}

func (l *fileScan) fault(code protocol.Code, detail string) *protocol.Arrival {
	a := l.arrival()
	a.Fault = &protocol.Fault{Code: code, Detail: detail}
	a.SentTaken, a.BadTaken = true, l.taken(protocol.AsidePrefix)
	return a
}

// arrival returns the file as an arrival, which no longer waits.
func (l *fileScan) arrival() *protocol.Arrival {
	delete(l.o.waiting, l.name)
	a := &protocol.Arrival{
		Agent:    l.id,
		Name:     l.name,
		Original: protocol.Original{Name: protocol.SafeName(l.name), Ino: l.info.Ino, MTime: protocol.Stamp(l.info.ModTime)},
		ModTime:  l.info.ModTime,
		Size:     l.info.Size,
		Seen:     l.now,
	}
	if !l.info.CTime.IsZero() {
		a.Original.CTime = protocol.Stamp(l.info.CTime)
	}
	return a
}

func withRaw(a *protocol.Arrival, raw []byte) *protocol.Arrival {
	sum := sha256.Sum256(raw)
	a.Original.SHA256 = hex.EncodeToString(sum[:])
	a.Raw, a.Size = raw, int64(len(raw))
	return a
}

// taken reports whether the name in .sent may be in use. Two names can have the
// same safe form, so a name that is not its own safe form counts as taken.
func (l *fileScan) taken(prefix string) bool {
	as := protocol.SentName(prefix + l.name)
	if as != prefix+l.name {
		return true
	}
	_, err := l.b.fs.Lstat(protocol.SentDir(l.id) + "/" + as)
	return !errors.Is(err, fs.ErrNotExist)
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
