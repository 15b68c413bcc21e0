package place

import (
	"bytes"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// Refill queues what belongs in an inbox that vanished, unless it is being filled
// already (spec §4.7). If the daemon ends before it is full, the next start fills
// it, because it finds it without its marker.
func (pl *Placer) Refill(id protocol.AgentID) {
	q := &pl.queue
	a := pl.state.Agents[id]
	if _, filling := q.fill[id]; filling || a == nil {
		return
	}
	q.fill[id] = q.passes + 1
	for file, l := range a.Inbox.All() {
		if p := protocol.InboxDir(id) + "/" + file; q.items[p] == nil {
			q.add(&item{class: ledger.Delivery, of: l.Of, path: p})
		}
	}
}

// Restore queues what the log says is in the mailboxes and in tasks/ and the disk
// does not hold: a person who moved the branch back to an older commit took it out
// of the work tree, and nobody handled it. A file that its agent moved, which the
// log does not know of yet, stays where it is.
func (pl *Placer) Restore() {
	pl.restoring = true
	for _, id := range pl.agents() {
		a := pl.state.Agents[id]
		inbox, done := protocol.InboxDir(id), protocol.DoneDir(id)
		pl.missing(ledger.Delivery, &a.Inbox, inbox, done)
		pl.missing(ledger.Handled, &a.Done, done, inbox)
		pl.missing(ledger.Original, &a.Sent, protocol.SentDir(id))
	}
	pl.tasks(func(string) bool { return true })
	for p := range pl.state.AllViews {
		pl.putView(p)
	}
}

// missing queues the files that the log has in a box, the first of dirs, and that
// are in none of dirs.
func (pl *Placer) missing(class ledger.Class, box *ledger.Box, dirs ...string) {
	if box.Len() == 0 {
		return
	}
	there := map[string]bool{}
	for _, dir := range dirs {
		list, _ := pl.disk.ReadDir(dir) // of a directory that cannot be listed all is taken to be missing
		for _, e := range list {
			there[e.Name] = true
		}
	}
	for name, l := range box.All() {
		if !there[name] {
			pl.logged(class, l.Of, dirs[0]+"/"+name)
		}
	}
}

// tasks queues files of tasks to be written again.
func (pl *Placer) tasks(these func(path string) bool) {
	for f := range pl.state.Tasks.AllFiles() {
		if f.Seq == 0 || !these(f.Path) {
			continue
		}
		if _, view := pl.state.View(f.Path); view {
			pl.putView(f.Path)
			continue
		}
		pl.logged(ledger.Own, f.Seq, f.Path)
	}
}

// logged queues a file whose bytes are in the log, unless it waits already.
func (pl *Placer) logged(class ledger.Class, of protocol.Seq, p string) {
	if pl.queue.items[p] == nil {
		pl.queue.add(&item{class: class, of: of, path: p})
	}
}

// putView writes a view as it is now, where the disk does not hold that.
func (pl *Placer) putView(p string) {
	want, ok := pl.state.View(p)
	if !ok {
		return
	}
	have, _, err := durable.ReadFile(pl.disk, p, int64(len(want))+1)
	if err != nil || !bytes.Equal(have, want) {
		pl.Put(p, want)
	}
}

// Close finishes what [Placer.Restore] began, and closes the log.
func (pl *Placer) Close() {
	for pl.restoring && pl.queue.fresh > 0 {
		pl.retry(func(*item) bool { return false })
	}
	pl.queue.log.close()
}
