package mailbox

import (
	"errors"
	"io/fs"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Options are the settings of a Boxes (spec §10).
type Options struct {
	Settle          time.Duration // how long a doubtful file must rest
	StraysAfter     time.Duration // how long a stray may stay unmentioned
	MaxMessageBytes int64         // a larger file is not read
	OwnMaxBytes     int64         // a larger file of an agent's own is not read
	OwnInclude      []string      // patterns below agents/<id>/, see [Boxes.OwnFiles]
	// Mkdir makes one directory of an agent's, for [Boxes.Ensure], or with no id
	// tasks/, for [Boxes.MakeDir]; nil: with mode 0755.
	Mkdir func(id protocol.AgentID, dir string) error
}

// maxSettle is how long a file that is not a message may rest while somebody
// still has it open for writing (spec §3.3).
const maxSettle = 60 * time.Second

// Boxes reads and writes the directories of all agents of a hive. It
// remembers what it saw, so that a directory in which nothing moved costs one
// stat. It is not safe for concurrent use.
type Boxes struct {
	fs durable.FS
	*memory
}

// memory is what a [Boxes] remembers.
type memory struct {
	opt      Options
	agents   dirState
	listed   []AgentDir
	boxes    map[protocol.AgentID]*box
	board    ownSet
	archived archive
	stands   map[string]known // files of hived's own whose bytes were right
	making   sync.Mutex       // held while directories are made, which several may want
}

// box is what is remembered of one agent.
type box struct {
	outbox outbox
	inbox  inbox
	own    ownSet
	done   shelf
	sent   shelf
}

// New returns the boxes below the root of disk. It reads nothing yet.
func New(disk durable.FS, opt Options) *Boxes {
	return &Boxes{disk, &memory{opt: opt, boxes: map[protocol.AgentID]*box{}, stands: map[string]known{}}}
}

// Forget makes the next scans of an agent's directories read everything, and
// report again everything that is still there. It is called when something that was
// reported could not be handled.
func (b *Boxes) Forget(id protocol.AgentID) {
	x := b.box(id)
	x.outbox, x.own = outbox{}, ownSet{}
	x.inbox.odd = nil
	x.inbox.dir.mtime = time.Time{} // which directory it is stays known
}

func (b *Boxes) box(id protocol.AgentID) *box {
	x := b.boxes[id]
	if x == nil {
		x = &box{}
		b.boxes[id] = x
	}
	return x
}

// stamp distinguishes one state of a file from the next without reading it.
type stamp struct {
	ino   uint64
	size  int64
	mtime int64 // nanoseconds
}

func stampOf(i durable.Info) stamp { return stamp{i.Ino, i.Size, i.ModTime.UnixNano()} }

// known is a file whose bytes are known for as long as its stamp is the same. Until
// that is sure it must be read again, because a change within the tick of the one
// before leaves the stamp as it is.
type known struct {
	stamp
	seen time.Time // when this stamp was first seen; zero: nobody has looked at it since it was written
	sure bool      // a later change cannot have the same stamp
}

// read returns what is known about a file that was read at now.
func (k known) read(i durable.Info, now time.Time) known {
	since := k.seen
	if k.stamp != stampOf(i) || since.IsZero() {
		k, since = known{stamp: stampOf(i), seen: now}, i.ModTime
	}
	k.sure = k.sure || now.Sub(since) >= tickOf(i.ModTime)
	return k
}

// The kernel stamps a change with the time of its last tick, some file systems
// with the whole second: a second change within that time leaves no trace in
// the mtime.
const (
	tick       = 20 * time.Millisecond
	coarseTick = 2100 * time.Millisecond
)

func tickOf(mtime time.Time) time.Duration {
	if mtime.Nanosecond() == 0 {
		return coarseTick
	}
	return tick
}

// dirState says whether a directory must be listed again. It trusts a listing that
// was certainly taken a tick after the mtime appeared, by the daemon's own clock: the
// disk's clock may be another one. A stat may come long after the time that it is
// given, so the time of the first one that shows an mtime proves nothing; that of the
// next one does.
type dirState struct {
	dev, ino uint64
	mtime    time.Time
	first    time.Time // of the first stat that saw this mtime; zero: nothing is known
	since    time.Time // of the stat after that; zero: there was none
	sure     bool      // nothing that came later can have this mtime
}

// moved records the directory before a listing, and reports whether one is needed.
func (d *dirState) moved(i durable.Info, now time.Time) bool {
	if d.other(i) || !d.mtime.Equal(i.ModTime) {
		*d = dirState{dev: i.Dev, ino: i.Ino, mtime: i.ModTime, first: now}
	} else if d.since.IsZero() && now.After(d.first) {
		d.since = now
	}
	return !d.sure
}

// still reports whether a listing would find nothing new, and remembers nothing.
func (d *dirState) still(i durable.Info) bool {
	return d.sure && !d.other(i) && d.mtime.Equal(i.ModTime)
}

// other reports whether this is another directory than the one seen before.
func (d *dirState) other(i durable.Info) bool {
	return d.first.IsZero() || d.dev != i.Dev || d.ino != i.Ino
}

// replaced reports whether there was a directory before, and it was another one.
func (d *dirState) replaced(i durable.Info) bool { return !d.first.IsZero() && d.other(i) }

// listed records that a listing that began at now succeeded.
func (d *dirState) listed(now time.Time) {
	d.sure = !d.since.IsZero() && now.Sub(d.since) >= tickOf(d.mtime)
}

func (d *dirState) forget() { *d = dirState{} }

// Moved says which of an agent's directories need a scan.
type Moved struct {
	Outbox bool // its time moved, or something in it is not settled
	Inbox  bool // likewise
	Own    bool // likewise, of the agent's own files; see [Boxes.OwnFiles]
	// Place says that a directory is missing, cannot be read, or is another one
	// than before: call [Boxes.Ensure] and watch it again.
	Place bool
}

// Any reports whether anything needs a scan.
func (m Moved) Any() bool { return m.Outbox || m.Inbox || m.Own || m.Place }

// Moved stats an agent's directory, inbox and outbox, and returns which of them
// need a scan (spec §3.1). It remembers nothing: until they are scanned, it returns
// the same again. Files that are changed in place move no directory; for them there
// are hints, [Boxes.Altered] and [Boxes.OwnFiles].
func (b *Boxes) Moved(id protocol.AgentID, now time.Time) Moved {
	x := b.box(id)
	m := Moved{Outbox: x.outbox.unsettled(now), Inbox: x.inbox.doubtful(), Own: x.own.doubt}
	dirs := [...]*dirState{&x.own.dir, &x.inbox.dir, &x.outbox.dir}
	moved := [...]*bool{&m.Own, &m.Inbox, &m.Outbox}
	home := protocol.AgentDir(id)
	near, done := durable.Near(b.fs, home)
	defer done()
	for i, name := range [...]string{home, protocol.InboxDir(id), protocol.OutboxDir(id)} {
		info, err := near.Lstat(name)
		bad := err != nil || !info.Mode.IsDir()
		*moved[i] = *moved[i] || bad || !dirs[i].still(info)
		m.Place = m.Place || bad || dirs[i].replaced(info)
	}
	return m
}

// statDir describes a directory; a link or a file in its place is an error.
func (b *Boxes) statDir(name string) (durable.Info, error) {
	info, err := b.fs.Lstat(name)
	switch {
	case err != nil:
		return info, err
	case info.Mode&fs.ModeSymlink != 0:
		return info, durable.PathError("list", name, durable.ErrLink)
	case !info.Mode.IsDir():
		return info, durable.PathError("list", name, syscall.ENOTDIR)
	}
	return info, nil
}

// holdsDir reports whether a listing has a directory of this name.
func holdsDir(entries []durable.Entry, name string) bool {
	return slices.ContainsFunc(entries, func(e durable.Entry) bool { return e.Name == name && e.Type.IsDir() })
}

// exhausted reports whether an error is about this process and not about a file:
// then the file waits.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
