package faultfs

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hived/hived/internal/durable"
)

// Loss says what a crash takes away of what was not synced.
type Loss struct {
	kind lossKind
	seed uint64
}

type lossKind int

const (
	lossDrop lossKind = iota
	lossKeep
	lossTorn
)

// The two simple losses: a power cut that takes all that was not synced, and
// the death of the process, which takes nothing and saves nothing: what was not
// synced by then a later power cut can still take.
var (
	Drop = Loss{kind: lossDrop}
	Keep = Loss{kind: lossKeep}
)

// Torn is a power cut that takes some of it, the same for the same seed and the
// same operations: each directory has a first part of its changes, each file a
// first part of its writes, and the last of these may have been cut. The
// operation that the crash fell upon is among them.
func Torn(seed uint64) Loss { return Loss{kind: lossTorn, seed: seed} }

// String names the loss in the output of tests.
func (l Loss) String() string {
	switch l.kind {
	case lossDrop:
		return "drop"
	case lossKeep:
		return "keep"
	case lossTorn:
		return fmt.Sprintf("torn-%d", l.seed)
	}
	return "unknown"
}

// part is how much of an operation takes place.
type part int

const (
	all part = iota
	half
	none
)

// of returns the bytes of a write of n bytes that are written.
func (p part) of(n int) int {
	switch p {
	case all:
		return n
	case half:
		return n / 2
	case none:
	}
	return 0
}

// fault is a planned failure.
type fault struct {
	wait  int // matching operations until it fires, at 1 on the next one
	times int // how often it fires; < 0 for ever
	err   error
	part  part
	only  []Filter
}

func (f *fault) matches(op Op, name string) bool {
	for _, only := range f.only {
		if !only(op, name) {
			return false
		}
	}
	return true
}

// Ops counts the mutating operations so far, failed ones too.
func (m *Mem) Ops() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ops
}

// CrashAt stops the disk at the n-th mutating operation from now, or at once
// where n <= 0: this operation and every call after it, reading too, is
// [ErrCrashed]. Reboot shows what is left.
func (m *Mem) CrashAt(n int, how Loss) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crashIn, m.loss, m.crashed = max(n, 0), how, m.crashed || n <= 0
}

// Reboot returns the disk as it is found after the crash, with no faults planned
// and the count at 0; clock, capacity and inode numbers go on. A disk that still
// runs crashes now, with the loss of the last CrashAt, or Drop.
func (m *Mem) Reboot() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crashed = true
	switch m.loss.kind {
	case lossKeep:
		c := m.copyLocked()
		c.syncErr = nil
		return c
	case lossTorn:
		m.tearLocked(m.loss.seed)
	case lossDrop:
	}
	return &Mem{root: onDisk(m.root, map[*inode]*inode{}), lastIno: m.lastIno, clock: m.clock, limit: m.limit, loss: Drop}
}

// Copy returns another disk that is like this one, what is not synced included,
// with no faults planned and the count at 0. Files that are open on the one are
// not open on the other.
func (m *Mem) Copy() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.copyLocked()
}

func (m *Mem) copyLocked() *Mem {
	made := map[*inode]*inode{nil: nil}
	c := &Mem{root: twin(m.root, made), lastIno: m.lastIno, clock: m.clock, limit: m.limit, syncErr: m.syncErr, loss: Drop}
	for _, old := range m.pending {
		edits := slices.Clone(old)
		for i, e := range edits {
			edits[i] = edit{twin(e.dir, made), e.base, twin(e.node, made)}
		}
		c.pending = append(c.pending, edits)
	}
	return c
}

// Reopen lets SyncAll forget that a sync failed, as for a process that opens the
// disk anew. What was lost with it stays lost.
func (m *Mem) Reopen() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.syncErr = nil
}

// FailAt makes the n-th mutating operation from now fail with err, without any
// effect, and those after it until it has failed `times` times; times < 0 is for
// ever. Filters choose which operations count and fail. A failed sync loses what
// it should have saved.
func (m *Mem) FailAt(n int, err error, times int, only ...Filter) {
	m.plan(&fault{wait: n, times: times, err: err, part: none, only: only})
}

// ShortWrite makes the n-th write from now fail with err, once, after half of
// its bytes.
func (m *Mem) ShortWrite(n int, err error, only ...Filter) {
	writes := func(op Op, _ string) bool { return op == OpWrite }
	m.plan(&fault{wait: n, times: 1, err: err, part: half, only: append(only, writes)})
}

func (m *Mem) plan(f *fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, f)
}

// Heal takes back every planned failure and the capacity, not a crash.
func (m *Mem) Heal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults, m.limit = nil, -1
}

// Capacity limits the bytes in all files together; what is written beyond is
// durable.ErrNoSpace, after as much as fits. n < 0 is no limit.
func (m *Mem) Capacity(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = n
}

// roomLocked returns the bytes that stay free when a file grows to size; fewer
// than 0 are missing.
func (m *Mem) roomLocked(n *inode, size int64) int64 {
	grow := size - int64(len(n.data))
	if m.limit < 0 || grow <= 0 {
		return math.MaxInt64
	}
	room := m.limit - grow
	seen := map[*inode]bool{}
	m.root.walk(liveNames, func(n *inode) {
		if !seen[n] {
			room -= int64(len(n.data))
		}
		seen[n] = true
	})
	return room
}

// doLocked counts one operation and carries it out, if nothing is planned
// against it.
func (m *Mem) doLocked(op Op, name string, do func()) error {
	how, err := m.nextLocked(op, name)
	if how == all {
		do()
	}
	return err
}

// nextLocked counts one operation and tells its fate. A crash that tears takes
// place in the middle of the operation, so that its effect may be seen in part.
func (m *Mem) nextLocked(op Op, name string) (part, error) {
	m.ops++
	if m.crashIn > 0 {
		if m.crashIn--; m.crashIn == 0 {
			m.crashed = true
			if m.loss.kind == lossTorn && op != OpSync && op != OpSyncDir && op != OpSyncAll {
				return all, ErrCrashed
			}
			return none, ErrCrashed
		}
	}
	for _, f := range m.faults {
		if f.times == 0 || !f.matches(op, name) {
			continue
		}
		if f.wait--; f.wait > 0 {
			continue
		}
		f.times = max(f.times-1, -1)
		return f.part, f.err
	}
	return all, nil
}

// syncLocked is one sync: it saves, or it fails and what was to be saved is
// lost for good (the pages are marked clean all the same).
func (m *Mem) syncLocked(op Op, name string, save, lose func()) error {
	err := m.doLocked(op, name, save)
	if err == nil || errors.Is(err, ErrCrashed) {
		return err
	}
	lose()
	// PathError gives err its meaning, such as ErrNoSpace, before ErrSync.
	return fmt.Errorf("%w: %w", durable.ErrSync, err)
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.dirLocked(name)
	if err != nil {
		return durable.PathError("syncdir", name, err)
	}
	return m.keepLocked("syncdir", name, m.syncLocked(OpSyncDir, name,
		func() { commit(m.takeLocked(dir)) },
		func() { m.takeLocked(dir) }))
}

// SyncAll implements FS.
func (m *Mem) SyncAll() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.crashed:
		return durable.PathError("syncall", ".", ErrCrashed)
	case m.syncErr != nil:
		return m.syncErr
	}
	return m.keepLocked("syncall", ".", m.syncLocked(OpSyncAll, ".",
		func() {
			commit(m.pending)
			m.pending = nil
			m.root.walk(liveNames, (*inode).save)
		},
		func() {
			m.pending = nil
			m.root.walk(liveNames, func(n *inode) { n.unsynced = nil })
		}))
}

// keepLocked keeps the first failed sync for later calls of SyncAll.
func (m *Mem) keepLocked(op, name string, err error) error {
	if err == nil {
		return nil
	}
	err = durable.PathError(op, name, err)
	if m.syncErr == nil && errors.Is(err, durable.ErrSync) {
		m.syncErr = err
	}
	return err
}
