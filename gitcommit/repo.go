package gitcommit

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

var (
	// ErrForeign refuses a .git that hived did not make (spec §6).
	ErrForeign = errors.New("hived did not make this .git")
	// ErrUnsupported refuses a kind of repository that hived cannot write.
	ErrUnsupported = errors.New("this kind of git repository is not supported")
	// ErrDamaged means that the repository is broken; the log can rebuild it.
	ErrDamaged = errors.New("the git repository is damaged")
	// ErrLocked rejects a batch because a process holds git's lock.
	ErrLocked = errors.New("git's lock is held")
	// ErrBusy rejects a batch because a person's rebase, merge or the like is in
	// progress on hived's branch.
	ErrBusy = errors.New("a git operation is in progress on hived's branch")
)

// Options of a [Repo].
type Options struct {
	// StaleLock is the age at which a lock that no live process can own is
	// removed; zero is 10 s (spec §6).
	StaleLock time.Duration
	// Alert is called with what a person should know, under a code: git-stale-lock,
	// git-overruled, git-unversionable, git-move-absent, git-index-rebuilt,
	// git-reflog, git-leftover, git-branch-restored. It may be nil.
	Alert func(code, text string)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Bulk omits every sync until [Repo.Flush]: for rebuilding from the log.
	Bulk bool
}

// Head is a commit by hived and the state that it holds. The zero Head is that of
// a history in which hived has not committed yet.
type Head struct {
	Seq    protocol.Seq
	Sum    string // of the event Seq, 32 hex digits
	Commit protocol.Blob
}

// Repo is the hive's repository, open for committing.
type Repo struct {
	disk   durable.FS
	opt    Options
	branch string
	onto   protocol.Blob // where an adopted history ends; zero without one
	owner  func(lock durable.Info) liveness

	store  *store
	packer *packer
	index  index

	head Head
	tree *Tree // the state at head; nil when it must be read again
	// The root of the commit that was last read as the tip.
	rootOf protocol.Blob
	root   []entry

	// The file that this process last linked to the name of git's lock on the index.
	ownIndexLock atomic.Pointer[durable.Info]

	reportedTip protocol.Blob // the tip whose own files were reported
	dirty       dirtySet

	recent    recent
	shortened [2]int64 // the size of each reflog after it was shortened

	merging sync.Mutex       // held by Consolidate
	packs   map[string]*pack // known to Consolidate; guarded by merging
	swept   time.Time        // the last search for temporary files; guarded by merging
}

// Open opens the repository that [Init] made and removes what a crash of hived
// left half done in it. A Repo need not be closed.
func Open(disk durable.FS, opt Options) (*Repo, error) {
	m, err := readMarker(disk)
	if err != nil {
		return nil, err
	}
	if opt.StaleLock == 0 {
		opt.StaleLock = 10 * time.Second
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	r := &Repo{
		disk: disk, opt: opt, branch: m.branch, onto: m.onto,
		store: newStore(disk), packer: newPacker(disk, durable.Sync(!opt.Bulk)),
		packs: make(map[string]*pack),
	}
	r.owner = r.ownerOf
	r.dirty = dirtySet{all: true, mostBare: mostBare} // a crash may have come between a commit and its index
	if err := r.removeLeftovers(); err != nil {
		return nil, fmt.Errorf("open the git repository: %w", err)
	}
	if err := r.sweepTemporary(); err != nil {
		return nil, fmt.Errorf("open the git repository: %w", err)
	}
	if err := r.restoreHead(); err != nil {
		return nil, fmt.Errorf("open the git repository: %w", err)
	}
	return r, nil
}

// restoreHead finds the newest commit by hived. First it restores a branch that was
// removed; last it finishes a commit that a crash interrupted.
func (r *Repo) restoreHead() error {
	if err := r.breakPersonLocks(); err != nil {
		return err
	}
	tip, err := r.branchTip()
	if err != nil {
		return err
	}
	if r.head, _, err = r.newestOwn(tip); err != nil {
		return err
	}
	return r.finishInterrupted(tip)
}

func (r *Repo) alert(code, text string) {
	if r.opt.Alert != nil {
		r.opt.Alert(code, text)
	}
}

// Head returns the newest commit by hived in the first-parent history of its
// branch, as the repository is now (spec §6). The events after it are to be
// committed next. A commit that a person amended or rebased is no longer by hived,
// even where its trailers were kept.
func (r *Repo) Head() (Head, error) {
	tip, err := r.branchTip()
	if err != nil {
		return Head{}, err
	}
	if tip == r.head.Commit {
		return r.head, nil
	}
	if _, err := r.refreshHead(tip); err != nil {
		return Head{}, err
	}
	return r.head, nil
}

// newestOwn walks from a commit to the newest one by hived. It also returns the
// commits on the way, which are a person's, newest first.
func (r *Repo) newestOwn(tip protocol.Blob) (Head, []*commit, error) {
	var foreign []*commit
	for id := tip; !id.IsZero() && id != r.onto; {
		c, err := r.store.commit(id)
		if err != nil {
			return Head{}, nil, err
		}
		if c.byHived() {
			return Head{Seq: c.last, Sum: c.sum, Commit: id}, foreign, nil
		}
		foreign = append(foreign, c)
		id = c.parent
	}
	return Head{}, foreign, nil
}

// refreshHead updates the head to where the branch is now. It returns what a person
// committed upon the state in memory, newest first. Where a person took commits by
// hived out of history, the head becomes the newest that is left.
func (r *Repo) refreshHead(tip protocol.Blob) ([]*commit, error) {
	found, foreign, err := r.newestOwn(tip)
	if err != nil || found.Commit == r.head.Commit {
		return foreign, err
	}
	// The index was built upon another commit then: compare all of it.
	r.dirty.all = true
	for i, c := range foreign {
		same, err := r.holdsHead(c)
		if err != nil {
			return nil, err
		}
		if same {
			r.head.Commit = c.id
			return foreign[:i], nil
		}
	}
	r.head, r.tree = found, nil
	return foreign, nil
}

// holdsHead reports whether a person's copy of the newest commit, with an amended
// message for instance, still holds the state in memory.
func (r *Repo) holdsHead(c *commit) (bool, error) {
	if r.tree == nil || c.last != r.head.Seq || c.sum != r.head.Sum || c.last == 0 {
		return false, nil
	}
	root, err := r.store.root(c.id)
	if err != nil {
		return false, err
	}
	return slices.Equal(topsOf(root), r.tree.Tops()), nil
}

// state returns the owned tree at head, and reads it when it is not in memory.
func (r *Repo) state() (*Tree, error) {
	if r.tree != nil {
		return r.tree, nil
	}
	root, err := r.store.root(r.head.Commit)
	if err != nil {
		return nil, err
	}
	r.tree = newTreeAt(topsOf(root), r.store.tree)
	r.tree.touch = r.dirty.add
	return r.tree, nil
}

// Rest frees memory that is useful only while there is much to commit: trees and
// objects that can be read again, and contents of packs that no repack can remove
// any more.
func (r *Repo) Rest() {
	if r.tree != nil {
		r.tree.forgetAll()
	}
	r.store.dropCache()
	r.recent.expire(r.opt.Now())
}

// Flush syncs everything that was written in bulk.
func (r *Repo) Flush() error {
	if err := r.disk.SyncAll(); err != nil {
		return fmt.Errorf("sync the git repository: %w", err)
	}
	return nil
}

// ownedTop reports whether hived owns a name in the root, be it a file or a
// directory.
func ownedTop(name string) bool {
	switch name {
	case protocol.PathAgents, protocol.PathTasks, protocol.PathSegments:
		return true
	}
	return protocol.Owned(name)
}

// topsOf returns the owned names of a root.
func topsOf(root []entry) []Top {
	var out []Top
	for _, e := range root {
		if ownedTop(e.name) {
			out = append(out, topOf(e))
		}
	}
	return out
}

func topOf(e entry) Top { return Top{Name: e.name, ID: e.hash(), Dir: e.sub != nil} }

// fewPaths lists at most five paths.
func fewPaths(paths []string) string { return protocol.Few(paths, 5, protocol.Quote) }
