package mailbox

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

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
	// Unexpected are the message files, in name order, that nobody delivered,
	// each once for as long as it stays: planted, or taken back out of .done.
	Unexpected []string
	// Vanished says that the inbox is gone, or is another directory than
	// before: Ensure it and deliver again what is unread (spec §4.7).
	Vanished bool
	// Again is when something doubtful will be decided; zero: nothing is.
	Again time.Time
}

// inbox is what is remembered of one inbox.
type inbox struct {
	dir   dirState
	done  dirState
	right map[string]stamp     // delivered files whose bytes were right
	gone  map[string]time.Time // when a file was first missed
	odd   map[string]*oddity
}

type oddity struct {
	first time.Time
	told  bool
}

// Inbox compares an inbox with the names that are unread there (spec §4.7).
// What is in .done instead is done. What is in neither is deleted once a
// second call agrees, Settle after the first, about the same directory; it is
// said again for as long as it is in unread. unread is asked only if the
// directory has to be listed: its mtime moved, something is doubtful, or force.
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
	case absent(err):
		*in = inbox{}
		return InboxScan{Vanished: true}, nil
	case err != nil:
		return s, err
	case in.dir.replaced(info):
		*in = inbox{}
		in.dir.moved(info, now)
		return InboxScan{Vanished: true}, nil
	}
	if !in.dir.moved(info, now) && !force && !in.doubtful() {
		return s, nil
	}
	extra, missing, err := b.compare(id, in, unread)
	if err != nil {
		return s, err
	}
	if s.Vanished, err = b.doneVanished(id, in, now); s.Vanished || err != nil {
		return s, err
	}
	if s.Handled, err = b.handled(id, in, missing, now); err != nil {
		return InboxScan{}, err
	}
	in.dir.listed(now)
	s.Unexpected = in.unexpected(extra, now, b.opt.Settle)
	s.Again = in.again(now, b.opt.Settle)
	return s, nil
}

// doneVanished tells whether .done is gone or is another directory. A new inbox
// can have the inode of the one that was deleted; it has no .done then, or a
// new one.
func (b *Boxes) doneVanished(id protocol.AgentID, in *inbox, now time.Time) (bool, error) {
	info, err := b.statDir(protocol.DoneDir(id))
	if err != nil && !absent(err) {
		return false, err
	}
	if err == nil && !in.done.replaced(info) {
		in.done.moved(info, now)
		return false, nil
	}
	*in = inbox{}
	return true, nil
}

// compare lists an inbox: extra are the messages that are not unread, missing
// the unread ones that are not there.
func (b *Boxes) compare(id protocol.AgentID, in *inbox, unread iter.Seq[string]) (extra map[string]bool, missing []string, err error) {
	entries, err := b.fs.ReadDir(protocol.InboxDir(id))
	if err != nil {
		return nil, nil, err
	}
	extra = make(map[string]bool, len(entries))
	for _, e := range entries {
		if protocol.IsMessageName(e.Name) {
			extra[e.Name] = true
		}
	}
	right := make(map[string]stamp, len(in.right))
	for file := range unread {
		if !extra[file] {
			missing = append(missing, file)
		} else if s, known := in.right[file]; known {
			right[file] = s
		}
		delete(extra, file)
	}
	in.right = right
	slices.Sort(missing)
	return extra, missing, nil
}

// handled finds out what became of the missing files. The inbox was listed
// before .done is looked at: a file that is moved in between is found.
func (b *Boxes) handled(id protocol.AgentID, in *inbox, missing []string, now time.Time) (out []Handled, err error) {
	gone := map[string]time.Time{}
	deleted := false
	for _, file := range missing {
		_, err := b.fs.Lstat(protocol.DoneDir(id) + "/" + file)
		switch {
		case err == nil:
			out = append(out, Handled{file, protocol.HowDone})
			continue
		case !absent(err):
			return nil, err
		}
		if gone[file] = in.gone[file]; gone[file].IsZero() {
			gone[file] = now
		} else if now.Sub(gone[file]) >= b.opt.Settle {
			out = append(out, Handled{file, protocol.HowDeleted})
			deleted = true
		}
	}
	if deleted {
		// Deleting is believed only of the directory that was listed.
		info, err := b.statDir(protocol.InboxDir(id))
		if err != nil || in.dir.other(info) {
			in.gone = nil
			return nil, err
		}
	}
	in.gone = gone
	return out, nil
}

// unexpected keeps account of files that nobody delivered. They are given
// time: a file may be on its way out, or be moved by hand.
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

// again gives the next moment at which a doubt ends.
func (in *inbox) again(now time.Time, settle time.Duration) (next time.Time) {
	sooner := func(first time.Time) {
		if due := first.Add(settle); due.After(now) && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	for _, first := range in.gone {
		sooner(first)
	}
	for _, o := range in.odd {
		if !o.told {
			sooner(o.first)
		}
	}
	return next
}

// Altered gives those of the files that may hold other bytes than were
// delivered, at the price of a stat each: their size, mtime or inode moved, or
// nothing is known of them since the start. [Boxes.Redeliver] of the right
// bytes tells ([ErrTaken]), and makes an intact one known. A file that is gone is left
// to [Boxes.Inbox].
func (b *Boxes) Altered(id protocol.AgentID, files []string) (suspect []string, err error) {
	in := &b.box(id).inbox
	for _, file := range files {
		info, err := b.fs.Lstat(protocol.InboxDir(id) + "/" + file)
		if absent(err) {
			continue
		}
		if err != nil {
			return suspect, fmt.Errorf("look at %s of agent %s: %w", protocol.Quote(file), id, err)
		}
		if right, known := in.right[file]; !known || right != stampOf(info) || !info.Regular() {
			suspect = append(suspect, file)
		}
	}
	return suspect, nil
}
