package gitcommit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

const (
	leftoverPacks = 16       // newest packs that are searched
	leftoverIdx   = 16 << 20 // bytes of an index that is read for it
	tailOfReflog  = 1 << 20  // bytes
)

// finishInterrupted finishes a commit that a crash interrupted between its pack and
// the move of the branch: nothing would ever refer to its objects, and git fsck
// would report them for ever. Its events are in the log, which is always ahead, so
// the commit is as good as a finished one.
func (r *Repo) finishInterrupted(tip protocol.Blob) error {
	pos := r.position()
	if pos.OnBranch {
		return nil
	}
	c, err := r.interrupted(tip)
	if err != nil || c == nil {
		return err
	}
	if err := r.freeOwnLock(c.id); err != nil {
		return err
	}
	// The process may have died before its pack's name was durable; a power cut
	// could still lose the name.
	if err := r.packer.syncNames(); err != nil {
		return fmt.Errorf("finish the commit that a crash interrupted: %w", err)
	}
	err = r.moveRef(tip, c.id, r.tryLock)
	if errors.Is(err, ErrLocked) || errors.Is(err, errRaced) {
		return nil // somebody works on the branch: leave it to them
	}
	if err != nil {
		return fmt.Errorf("finish the commit that a crash interrupted: %w", err)
	}
	r.head = Head{Seq: c.last, Sum: c.sum, Commit: c.id}
	r.writeReflog(tip, c.id, r.opt.Now(), "hive: finished after a crash", pos.Head)
	return nil
}

// freeOwnLock removes the lock of the branch if it holds a commit that only hived
// could know: the crash removed the other name of that file.
func (r *Repo) freeOwnLock(id protocol.Blob) error {
	lock := refFile(r.branch) + lockExt
	data, err := readSmall(r.disk, lock, mostSmall)
	if err != nil || string(data) != id.String()+"\n" {
		return durable.IgnoreNotExist(err)
	}
	if err := discard(r.disk, lock); err != nil {
		return fmt.Errorf("remove hived's own lock that a crash left: %w", err)
	}
	return nil
}

// interrupted finds the commit by hived that follows the tip and that the branch
// never named. One that it did name was taken out of history by a person.
func (r *Repo) interrupted(tip protocol.Blob) (*commit, error) {
	packs, err := newestPacks(r.disk)
	if err != nil {
		return nil, err
	}
	for _, info := range packs[:min(len(packs), leftoverPacks)] {
		c := r.lastCommit(packStem(info))
		if c == nil || !c.byHived() || c.parent != tip || c.first != r.head.Seq+1 {
			continue
		}
		if named, err := r.inReflog(c.id); err != nil || named {
			return nil, err
		}
		if err := r.checkComplete(c); err != nil {
			continue
		}
		return c, nil
	}
	return nil, nil
}

// lastCommit reads the commit that hived writes last into a pack; nil where
// there is none.
func (r *Repo) lastCommit(stem string) *commit {
	data, err := readSmall(r.disk, stem+".idx", leftoverIdx)
	if err != nil {
		return nil
	}
	x, err := parseIdx(data)
	if err != nil || x.len() == 0 {
		return nil
	}
	last := x.entry(x.last())
	f, err := r.disk.Open(stem + ".pack")
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	var b [1]byte
	if _, err := f.ReadAt(b[:], last.offset); err != nil || kind(b[0]>>4&7) != kindCommit {
		return nil
	}
	c, err := r.store.commit(last.id)
	if err != nil {
		return nil
	}
	return c
}

// checkComplete reads every object of the owned part of a commit that its parent
// does not have.
func (r *Repo) checkComplete(c *commit) error {
	root, err := r.store.root(c.id)
	if err != nil {
		return err
	}
	was, err := r.store.root(c.parent)
	if err != nil {
		return err
	}
	f := &editFinder{store: r.store, tree: newTreeAt(topsOf(was), r.store.tree)}
	edits, err := f.edits(root)
	if err != nil {
		return err
	}
	for _, e := range edits {
		if e.id.IsZero() {
			continue
		}
		if _, err := r.store.read(e.id, kindBlob); err != nil {
			return err
		}
	}
	return nil
}

// inReflog reports whether a reflog names a commit.
func (r *Repo) inReflog(id protocol.Blob) (bool, error) {
	for _, name := range r.reflogs() {
		data, err := readTail(r.disk, name)
		if err != nil {
			return false, err
		}
		if bytes.Contains(data, []byte(id.String())) {
			return true, nil
		}
	}
	return false, nil
}

// readTail reads the end of a file; it returns nothing where the file is missing.
func readTail(disk durable.FS, name string) ([]byte, error) {
	f, err := disk.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size-tailOfReflog)
	return io.ReadAll(io.NewSectionReader(f, from, info.Size-from))
}
