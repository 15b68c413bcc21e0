package mailbox

import (
	"errors"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// How work on many agents' directories is divided between goroutines.
const (
	lanes    = 2
	laneFew  = 16 // so many files are done before another goroutine has begun
	laneScan = 1  // so many outboxes are
	nearFew  = 4  // for so few files a directory is not kept open
)

// near returns the same boxes with one directory kept open, for work on many of its
// files; done closes it.
func (b *Boxes) near(dir string, files int) (near *Boxes, done func()) {
	if files <= nearFew {
		return b, func() {}
	}
	disk, done := durable.Near(b.fs, dir)
	return &Boxes{disk, b.memory}, done
}

// side does work in a list of directories: one item after the other in the same
// directory, and at the same time in others if there are more than few.
func (b *Boxes) side(dirs []string, few int, work func(b *Boxes, i int)) {
	var order []string
	of := map[string][]int{}
	for i, dir := range dirs {
		if of[dir] == nil {
			order = append(order, dir)
		}
		of[dir] = append(of[dir], i)
	}
	run := func(lane, step int) {
		for k := lane; k < len(order); k += step {
			dir := order[k]
			near, done := b.near(dir, len(of[dir]))
			for _, i := range of[dir] {
				work(near, i)
			}
			done()
		}
	}
	if len(dirs) <= few || len(order) == 1 {
		run(0, 1)
		return
	}
	var g sync.WaitGroup
	for lane := range lanes {
		g.Go(func() { run(lane, lanes) })
	}
	g.Wait()
}

// dirOf returns a directory of an agent. It makes the agent's entry in the memory, so
// that goroutines only read the map from here on.
func (b *Boxes) dirOf(id protocol.AgentID, dir func(protocol.AgentID) string) string {
	b.box(id)
	return dir(id)
}

// AgentScan is what [Boxes.ArrivalsAll] found in one outbox.
type AgentScan struct {
	Scan
	Err error
}

// ArrivalsAll is [Boxes.Arrivals] for several outboxes, which are read concurrently.
// It returns one result for each id.
func (b *Boxes) ArrivalsAll(ids []protocol.AgentID, now time.Time, limit int) []AgentScan {
	out, dirs := make([]AgentScan, len(ids)), make([]string, len(ids))
	for i, id := range ids {
		dirs[i] = b.dirOf(id, protocol.OutboxDir)
	}
	b.side(dirs, laneScan, func(b *Boxes, i int) {
		out[i].Scan, out[i].Err = b.Arrivals(ids[i], now, limit)
	})
	return out
}

// Delivery is one message for one inbox, see [Boxes.Deliver].
type Delivery struct {
	Agent protocol.AgentID
	File  string
	Data  []byte
}

// DeliverAll is [Boxes.Deliver] for many messages. Several inboxes are written
// concurrently, each in the order of the list. It returns an error, or nil, for each
// message.
func (b *Boxes) DeliverAll(list []Delivery) []error {
	dirs, errs := make([]string, len(list)), make([]error, len(list))
	for i := range list {
		dirs[i] = b.dirOf(list[i].Agent, protocol.InboxDir)
	}
	b.side(dirs, laneFew, func(b *Boxes, i int) {
		errs[i] = b.Deliver(list[i].Agent, list[i].File, list[i].Data)
	})
	return errs
}

// ArchiveItem is one original and its name in outbox/.sent, see [Boxes.Archive].
type ArchiveItem struct {
	protocol.Arrival
	As string
}

// ArchiveAll is [Boxes.Archive] for many originals, those of several agents
// concurrently. It returns an error, or nil, for each of them.
func (b *Boxes) ArchiveAll(list []ArchiveItem) []error {
	dirs, errs := make([]string, len(list)), make([]error, len(list))
	for i := range list {
		dirs[i] = b.dirOf(list[i].Agent, protocol.OutboxDir)
	}
	b.side(dirs, laneFew, func(b *Boxes, i int) {
		errs[i] = b.Archive(list[i].Arrival, list[i].As)
	})
	return errs
}

// File is a file of hived's own, see [Boxes.PutAll].
type File struct {
	Name string
	Data []byte
}

// PutAll is [Boxes.Put] for many files that are new or hold other bytes: nothing is
// read to find out. A missing directory is made. It returns an error, or nil, for
// each file.
func (b *Boxes) PutAll(list []File) []error {
	dirs, errs := make([]string, len(list)), make([]error, len(list))
	for i := range list {
		dirs[i] = path.Dir(list[i].Name)
	}
	b.side(dirs, laneFew, func(b *Boxes, i int) {
		errs[i] = b.overwrite(list[i].Name, list[i].Data)
		if errors.Is(errs[i], fs.ErrNotExist) {
			if errs[i] = b.MakeDir(dirs[i]); errs[i] == nil {
				errs[i] = b.overwrite(list[i].Name, list[i].Data)
			}
		}
	})
	return errs
}

// RemoveAll is [Boxes.Remove] for many files, those of several directories
// concurrently. It returns an error, or nil, for each of them.
func (b *Boxes) RemoveAll(names []string) []error {
	dirs, errs := make([]string, len(names)), make([]error, len(names))
	for i, name := range names {
		dirs[i] = path.Dir(name)
	}
	b.side(dirs, laneFew, func(b *Boxes, i int) { errs[i] = b.Remove(names[i]) })
	return errs
}
