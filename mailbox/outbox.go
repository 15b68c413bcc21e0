package mailbox

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Scan is what one call of Arrivals found.
type Scan struct {
	Arrivals []protocol.Arrival // in name order
	Strays   []protocol.Stray   // each once for as long as it stays
	More     bool               // there are names left for the next call
	Broken   bool               // .sent is missing: call [Boxes.Ensure]
	// Again is when a file that is not settled yet should be read; zero if there
	// is none, or if More is set.
	Again time.Time
}

// sliceBytes bounds what the arrivals of one call hold in memory.
const sliceBytes = 8 << 20

// looksPerArrival bounds the files that one call reads for each that it may return,
// so that an outbox full of unsettled files delays nobody else.
const looksPerArrival = 4

// outbox is what is remembered of one outbox. One round takes a listing, or the
// files that wait, and reads each name once, over as many calls as it takes.
type outbox struct {
	dir      dirState
	owner    uint32
	broken   bool                // .sent was missing when the directory was listed
	heard    bool                // something happened since the directory was listed
	queue    []string            // names of this round that are still to be looked at
	waiting  map[string]*waiting // files that cannot be decided yet
	strays   map[string]*stray
	strayDue time.Time // when the next stray is to be mentioned; zero: none
}

type stray struct {
	ino   uint64
	first time.Time
	told  bool
}

// Arrivals scans an outbox (spec §3.1 to §3.3) and returns at most limit arrivals
// (a limit below one counts as one). now is the daemon's clock; the times of files
// are never compared with it. A directory whose mtime has not moved and in which
// nothing waits costs one stat; a listing is consumed over as many calls as it
// takes. A file that was returned and that is neither archived nor gone when the
// directory is listed again is returned again.
//
// An error is about the directory or about this process. It does not affect other
// agents and loses nothing: call again.
func (b *Boxes) Arrivals(id protocol.AgentID, now time.Time, limit int) (Scan, error) {
	var s Scan
	o := &b.box(id).outbox
	limit = max(limit, 1)
	if len(o.queue) == 0 {
		if err := b.newRound(id, o, now); err != nil {
			return s, fmt.Errorf("look into the outbox of agent %s: %w", id, err)
		}
	}
	near, done := b.near(protocol.OutboxDir(id), min(len(o.queue), limit))
	defer done()
	s.Broken, o.broken = o.broken, false
	held := 0
	for looks := 0; len(o.queue) > 0 && len(s.Arrivals) < limit && looks < limit*looksPerArrival && held < sliceBytes; looks++ {
		l := fileScan{b: near, o: o, id: id, name: o.queue[0], now: now}
		a, err := l.decide()
		if err != nil && len(s.Arrivals) > 0 {
			break // what there is goes first, the error comes with the next call
		}
		if err != nil {
			return s, fmt.Errorf("read %s of agent %s: %w", protocol.Quote(l.name), id, err)
		}
		o.queue = o.queue[1:]
		if a != nil {
			held += len(a.Raw)
			s.Arrivals = append(s.Arrivals, *a)
		}
	}
	if s.More = len(o.queue) > 0; !s.More {
		o.queue = nil
		s.Again, s.Strays = o.endRound(now)
	}
	s.Strays = append(s.Strays, b.dueStrays(id, o, now)...)
	return s, nil
}

// Listed reports whether an outbox has listed files that [Boxes.Arrivals] has not
// read yet.
func (b *Boxes) Listed(id protocol.AgentID) bool { return len(b.box(id).outbox.queue) > 0 }

// Heard records that something may have happened in an outbox. The next round lists
// it, whatever its mtime: a round that is under way does not see what happened after
// its own listing, so another one has to follow it.
func (b *Boxes) Heard(id protocol.AgentID) { b.box(id).outbox.heard = true }

// Unread reports whether an outbox needs another call of [Boxes.Arrivals]: names of
// its listing are left, or [Boxes.Heard] was called since it was listed.
func (b *Boxes) Unread(id protocol.AgentID) bool {
	o := &b.box(id).outbox
	return len(o.queue) > 0 || o.heard
}

// forever is longer than a daemon runs.
const forever = 1 << 62

// Hold leaves an arrival in its outbox: it is not returned again before it changes,
// or [Boxes.Forget] is called. It may be marked; see [Boxes.Marked].
func (b *Boxes) Hold(a protocol.Arrival, marked bool) {
	o := &b.box(a.Agent).outbox
	if o.waiting == nil {
		o.waiting = map[string]*waiting{}
	}
	s := stamp{ino: a.Original.Ino, size: a.Size, mtime: a.ModTime.UnixNano()}
	o.waiting[a.Name] = &waiting{stamp: s, since: a.Seen, due: a.Seen.Add(forever), held: true, marked: marked}
}

// Marked reports whether an outbox has a file that is held and was marked.
func (b *Boxes) Marked(id protocol.AgentID) bool {
	for _, w := range b.box(id).outbox.waiting {
		if w.held && w.marked {
			return true
		}
	}
	return false
}

// newRound begins a round by filling the queue.
func (b *Boxes) newRound(id protocol.AgentID, o *outbox, now time.Time) error {
	name := protocol.OutboxDir(id)
	info, err := b.statDir(name)
	if err != nil {
		return err
	}
	o.owner = info.UID
	if !o.dir.moved(info, now) && !o.heard {
		o.queue = slices.Sorted(maps.Keys(o.waiting))
		return nil
	}
	entries, err := b.fs.ReadDir(name)
	if err != nil {
		return err
	}
	o.dir.listed(now)
	o.heard = false
	o.broken = !holdsDir(entries, ".sent")
	strays := map[string]*stray{}
	waits := map[string]*waiting{}
	for _, e := range entries {
		switch w := o.waiting[e.Name]; {
		case protocol.IsMessageName(e.Name):
			o.queue = append(o.queue, e.Name)
			if w != nil {
				waits[e.Name] = w
			}
		case e.Name != ".sent":
			if strays[e.Name] = o.strays[e.Name]; strays[e.Name] == nil {
				strays[e.Name] = b.newStray(id, e.Name, now)
			}
		}
	}
	o.waiting = waits
	o.setStrays(strays, b.opt.StraysAfter)
	return nil
}

// unsettled reports whether there is something to do although the mtime has not moved.
func (o *outbox) unsettled(now time.Time) bool {
	return o.heard || len(o.queue) > 0 || len(o.waiting) > 0 || !o.strayDue.IsZero() && !now.Before(o.strayDue)
}

// endRound returns when a waiting file must be read again, and the files that could
// not be read for as long as Settle.
func (o *outbox) endRound(now time.Time) (again time.Time, unreadable []protocol.Stray) {
	for _, name := range slices.Sorted(maps.Keys(o.waiting)) {
		w := o.waiting[name]
		if w.blocked != nil && !w.told && !now.Before(w.due) {
			w.told = true
			unreadable = append(unreadable, protocol.Stray{Name: name, Code: protocol.CodeUnreadable, Why: unreadableText(w.blocked)})
		}
		if !w.told && !w.held && (again.IsZero() || w.due.Before(again)) {
			again = w.due
		}
	}
	return again, unreadable
}

func (b *Boxes) newStray(id protocol.AgentID, name string, now time.Time) *stray {
	s := &stray{first: now}
	if info, err := b.fs.Lstat(protocol.OutboxDir(id) + "/" + name); err == nil {
		s.ino = info.Ino
	}
	return s
}

func (o *outbox) setStrays(strays map[string]*stray, after time.Duration) {
	o.strays, o.strayDue = strays, time.Time{}
	for _, s := range strays {
		if due := s.first.Add(after); !s.told && (o.strayDue.IsZero() || due.Before(o.strayDue)) {
			o.strayDue = due
		}
	}
}

// dueStrays returns the strays that are due to be reported. One that is another file
// by now is a writer's temporary name, which is used again and again.
func (b *Boxes) dueStrays(id protocol.AgentID, o *outbox, now time.Time) []protocol.Stray {
	if o.strayDue.IsZero() || now.Before(o.strayDue) {
		return nil
	}
	var due []protocol.Stray
	for _, name := range slices.Sorted(maps.Keys(o.strays)) {
		s := o.strays[name]
		if s.told || now.Before(s.first.Add(b.opt.StraysAfter)) {
			continue
		}
		info, err := b.fs.Lstat(protocol.OutboxDir(id) + "/" + name)
		if err != nil || info.Ino != s.ino {
			s.ino, s.first = info.Ino, now
			continue
		}
		s.told = true
		due = append(due, protocol.Stray{Name: name, Code: protocol.CodeStray, Why: strayText(info)})
	}
	o.setStrays(o.strays, b.opt.StraysAfter)
	return due
}

func strayText(info durable.Info) string {
	what := "the name does not end in .json"
	switch {
	case info.Mode.IsDir():
		what = "it is a directory"
	case info.Mode&fs.ModeType != 0:
		what = "it is no file, and the name does not end in .json"
	case len(info.Name) > 0 && info.Name[0] == '.':
		what = "the name begins with a dot"
	}
	return what + ", so it is not sent; rename it to end in .json, or take it out of the outbox"
}

func unreadableText(err error) string {
	return "it cannot be read (" + protocol.Visible(err.Error()) + "); let hived's user read it, or take it out of the outbox"
}

// Pending returns how many messages wait in an agent's outbox.
func Pending(disk durable.FS, id protocol.AgentID) int {
	list, err := disk.ReadDir(protocol.OutboxDir(id))
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range list {
		if protocol.IsMessageName(e.Name) {
			n++
		}
	}
	return n
}
