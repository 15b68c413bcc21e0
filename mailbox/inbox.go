package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Handled is a message that left its inbox.
type Handled struct {
	File string
	How  protocol.How // done or deleted
}

// InboxScan is what one call of Inbox found.
type InboxScan struct {
	Handled []Handled // in name order
	// Missing counts the unread messages that are in neither inbox nor .done,
	// including those that the next call may report as deleted.
	Missing int
	// Unexpected are the message files that nobody delivered, in name order, each
	// once for as long as it stays: planted, or taken back out of .done.
	Unexpected []string
	// Vanished says that the inbox is gone, or is another directory than before:
	// call Ensure and deliver the unread messages again (spec §4.7).
	Vanished bool
	// Broken says that .done is missing: call Ensure.
	Broken bool
	// Again is when something doubtful can be decided; zero if nothing is doubtful.
	Again time.Time
}

// inbox is what is remembered of one inbox.
type inbox struct {
	dir dirState
	// remade says that the marker was missing when it was last checked, or that
	// the inbox took the place of another, and that not all unread messages have
	// been seen there since.
	remade bool
	right  map[string]known     // delivered files whose bytes were right
	wrong  map[string]resting   // delivered files whose bytes were wrong
	gone   map[string]time.Time // when a file was first missed
	odd    map[string]*oddity
}

// resting is a file that is judged only after it has been left alone for Settle.
type resting struct {
	stamp
	since time.Time // when this stamp was first seen
}

type oddity struct {
	first time.Time
	told  bool
}

// Inbox compares an inbox with the names that are unread there (spec §4.7).
// A message that is in .done instead is done. One that is in neither is deleted
// once a second call agrees, Settle after the first, about the same directory; it is
// reported again for as long as it is in unread. An inbox gets its marker when all
// unread messages have been seen in it, so that a daemon which is killed before
// that finds it missing. unread is called only if the directory must be listed:
// its mtime moved, something is doubtful, or force is set.
func (b *Boxes) Inbox(id protocol.AgentID, now time.Time, unread iter.Seq[string], force bool) (InboxScan, error) {
	s, err := b.scanInbox(id, now, unread, force)
	if err != nil {
		return InboxScan{}, fmt.Errorf("look into the inbox of agent %s: %w", id, err)
	}
	return s, nil
}

func (b *Boxes) scanInbox(id protocol.AgentID, now time.Time, unread iter.Seq[string], force bool) (s InboxScan, err error) {
	in := &b.box(id).inbox
	info, err := b.statDir(protocol.InboxDir(id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		*in = inbox{}
		return InboxScan{Vanished: true}, nil
	case err != nil:
		return s, err
	case in.dir.replaced(info):
		b.unmark(id)
		*in = inbox{remade: true}
		in.dir.moved(info, now)
		return InboxScan{Vanished: true}, nil
	}
	if !in.dir.moved(info, now) && !force && !in.doubtful() {
		return s, nil
	}
	entries, err := b.fs.ReadDir(protocol.InboxDir(id))
	if err != nil {
		return s, err
	}
	extra, missing := in.compare(entries, unread)
	if s.Handled, err = b.handled(id, in, missing, now); err != nil {
		return InboxScan{}, err
	}
	if len(in.gone) > 0 && (in.remade || !b.marked(id)) {
		*in = inbox{remade: in.remade}
		in.dir.moved(info, now)
		return InboxScan{Vanished: true}, nil
	}
	if err := b.mark(id, in, entries); err != nil {
		return InboxScan{}, err
	}
	in.dir.listed(now)
	s.Broken = !holdsDir(entries, ".done")
	s.Missing = len(in.gone)
	s.Unexpected = in.unexpected(extra, now, b.opt.Settle)
	s.Again = in.again(now, b.opt.Settle)
	return s, nil
}

// mark puts the marker when all unread messages were seen in a listing. Two scans
// must have found it missing: whoever deletes the directory may have deleted the
// marker first, and be about to delete the messages.
func (b *Boxes) mark(id protocol.AgentID, in *inbox, entries []durable.Entry) error {
	switch {
	case slices.ContainsFunc(entries, func(e durable.Entry) bool { return e.Name == marker }):
		in.remade = false
	case !in.remade:
		in.remade = true
	default:
		f, err := b.fs.Create(protocol.InboxDir(id)+"/"+marker, filePerm)
		if err == nil {
			err = f.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("mark it: %w", err)
		}
		in.remade = false
	}
	return nil
}

// unmark removes the marker from a directory that took the place of an inbox: it
// may be another agent's inbox, or an old one. If that fails, only this process
// knows that the inbox was replaced.
func (b *Boxes) unmark(id protocol.AgentID) {
	_ = b.fs.Remove(protocol.InboxDir(id) + "/" + marker)
}

// marked reports whether this is still the inbox that got the marker. It is called
// after the inbox and .done were read, so that the answer holds for both.
func (b *Boxes) marked(id protocol.AgentID) bool {
	_, err := b.fs.Lstat(protocol.InboxDir(id) + "/" + marker)
	return !errors.Is(err, fs.ErrNotExist)
}

// compare compares a listing with the unread names: extra are the messages that
// are not unread, missing the unread ones that are not there.
func (in *inbox) compare(entries []durable.Entry, unread iter.Seq[string]) (extra map[string]bool, missing []string) {
	extra = make(map[string]bool, len(entries))
	for _, e := range entries {
		if protocol.IsMessageName(e.Name) {
			extra[e.Name] = true
		}
	}
	right := make(map[string]known, len(in.right))
	for file := range unread {
		if !extra[file] {
			missing = append(missing, file)
		} else if k, ok := in.right[file]; ok {
			right[file] = k
		}
		delete(extra, file)
	}
	in.right = right
	slices.Sort(missing)
	return extra, missing
}

// handled finds out what became of the missing files. The inbox was listed before
// .done is read, so a file that is moved in between is found.
func (b *Boxes) handled(id protocol.AgentID, in *inbox, missing []string, now time.Time) (out []Handled, err error) {
	gone := map[string]time.Time{}
	for _, file := range missing {
		_, err := b.fs.Lstat(protocol.DoneDir(id) + "/" + file)
		switch {
		case err == nil:
			out = append(out, Handled{file, protocol.HowDone})
			continue
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		if gone[file] = in.gone[file]; gone[file].IsZero() {
			gone[file] = now
		} else if now.Sub(gone[file]) >= b.opt.Settle {
			out = append(out, Handled{file, protocol.HowDeleted})
		}
	}
	in.gone = gone
	return out, nil
}

// unexpected keeps track of files that nobody delivered. They are given time: a
// file may be about to leave, or be moved by hand.
func (in *inbox) unexpected(extra map[string]bool, now time.Time, settle time.Duration) (due []string) {
	odd := make(map[string]*oddity, len(extra))
	for _, file := range slices.Sorted(maps.Keys(extra)) {
		o := in.odd[file]
		if o == nil {
			o = &oddity{first: now}
		}
		if !o.told && now.Sub(o.first) >= settle {
			o.told = true
			due = append(due, file)
		}
		odd[file] = o
	}
	in.odd = odd
	return due
}

func (in *inbox) doubtful() bool {
	for _, o := range in.odd {
		if !o.told {
			return true
		}
	}
	return len(in.gone) > 0
}

// again returns the next time at which something doubtful can be decided.
func (in *inbox) again(now time.Time, settle time.Duration) (next time.Time) {
	sooner := func(first time.Time) {
		if due := first.Add(settle); due.After(now) && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	for _, first := range in.gone {
		sooner(first)
	}
	if in.remade {
		sooner(now)
	}
	for _, o := range in.odd {
		if !o.told {
			sooner(o.first)
		}
	}
	return next
}

// Delivered is a message in an inbox and what its file must hold.
type Delivered struct {
	File string
	Blob protocol.Blob // of its bytes
	Size int           // in bytes
}

// Altered returns those of the files that hold other bytes than were delivered, or
// are no longer files (spec §4.7), once they have been left alone for Settle: a writer
// that overwrites a file empties it first. again is when the next of them will have
// been left alone for that long; zero if there is none. It costs a stat each; a file
// is read only if its size, mtime or inode changed, or if it was not read since a tick
// after they did: a change within the tick of the delivery leaves all three as they
// were. Missing files are left to [Boxes.Inbox]; those that cannot be read are not
// judged.
func (b *Boxes) Altered(id protocol.AgentID, now time.Time, files []Delivered) (altered []string, again time.Time, err error) {
	near, done := b.near(protocol.InboxDir(id), len(files))
	defer done()
	in := &b.box(id).inbox
	wrong := map[string]resting{}
	for _, f := range files {
		name := protocol.InboxDir(id) + "/" + f.File
		is, intact, err := near.intact(name, now, in, f)
		if err != nil {
			return altered, again, fmt.Errorf("look at %s of agent %s: %w", protocol.Quote(f.File), id, err)
		}
		if intact {
			continue
		}
		r, known := in.wrong[f.File]
		if !known || r.stamp != is {
			r = resting{is, now}
		}
		wrong[f.File] = r
		switch due := r.since.Add(b.opt.Settle); {
		case !now.Before(due):
			altered = append(altered, f.File)
		case again.IsZero() || due.Before(again):
			again = due
		}
	}
	in.wrong = wrong
	return altered, again, nil
}

func (b *Boxes) intact(name string, now time.Time, in *inbox, want Delivered) (is stamp, intact bool, err error) {
	info, err := b.fs.Lstat(name)
	if err != nil {
		return is, true, notAbout(err)
	}
	is = stampOf(info)
	right := in.right[want.File]
	switch {
	case !info.Regular() || info.Size != int64(want.Size):
		return is, false, nil
	case right.sure && is == right.stamp:
		return is, true, nil
	}
	data, info, err := durable.ReadFile(b.fs, name, int64(want.Size))
	switch {
	case errors.Is(err, durable.ErrTooLarge):
		return is, false, nil
	case err != nil:
		return is, true, notAbout(err)
	case protocol.BlobOf(data) != want.Blob:
		return is, false, nil
	}
	in.remember(want.File, right.read(info, now))
	return is, true, nil
}

// remember records that the bytes of a delivered file were right.
func (in *inbox) remember(file string, k known) {
	if in.right == nil {
		in.right = map[string]known{}
	}
	in.right[file] = k
}

// notAbout returns err if it is about this process and not about one file, else nil.
func notAbout(err error) error {
	if exhausted(err) {
		return err
	}
	return nil
}
