package gitcommit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/protocol"
)

// Batch is the content of one commit: events without a gap and what they change
// (spec §6).
type Batch struct {
	First, Last protocol.Seq
	Sum         string // of the event Last, 32 hex digits
	At          time.Time
	Subject     string // for a person; cut to one line of 100 characters
	Lines       []string
	// Changes of all the events, in order.
	Changes []protocol.Change
}

// Result of a commit.
type Result struct {
	Commit protocol.Blob
	// Owned paths that a person had changed since hived's last commit and whose
	// content this commit does not hold: Own are own files and board.md, Overruled
	// are paths that were set right (an alert says so too). Mostly empty.
	Own, Overruled []string
	// Bytes of the changed directories: each is written whole.
	Directories int64
}

// OwnFilesChanged rejects a batch once, because a person committed other content
// of own files or board.md: events about them must be logged first. With the
// same tip again, [Repo.Commit] commits.
type OwnFilesChanged struct {
	Paths []string
}

func (e *OwnFilesChanged) Error() string {
	return "commit: a person committed other content of " + fewPaths(e.Paths) + "; log it first"
}

// OutOfStep rejects a batch because history does not end where the batch begins:
// a person took commits by hived out of it. The next batch must begin at Want.
type OutOfStep struct {
	Want, Got protocol.Seq
}

func (e *OutOfStep) Error() string {
	return fmt.Sprintf("commit: the batch begins at event %s, history needs event %s", e.Got, e.Want)
}

// Commit makes one commit of a batch upon the tip of hived's branch and returns
// when it is on the disk. An error means that nothing was committed and that the
// same batch may be passed again: [ErrLocked], [ErrBusy], *[OwnFilesChanged],
// *[OutOfStep], [ErrDamaged], or an error of the disk.
func (r *Repo) Commit(ctx context.Context, b Batch) (Result, error) {
	if b.First == 0 || b.Last < b.First || !isHex(b.Sum, 32) {
		return Result{}, fmt.Errorf("commit events %s to %s: not a range with its sum", b.First, b.Last)
	}
	for {
		res, err := r.commitOnce(ctx, &b)
		if err != nil {
			// The tree in memory may be ahead of history; it must be read again.
			r.tree = nil
		}
		if errors.Is(err, errRaced) && ctx.Err() == nil {
			continue
		}
		return res, err
	}
}

func (r *Repo) commitOnce(ctx context.Context, b *Batch) (Result, error) {
	pos := r.position()
	if pos.OnBranch {
		return Result{}, fmt.Errorf("%w: %s", ErrBusy, pos.String())
	}
	if err := r.keepRecent(); err != nil {
		return Result{}, err
	}
	tip, err := r.branchTip()
	if err != nil {
		return Result{}, err
	}
	edits, err := r.personEdits(tip, b)
	if err != nil {
		return Result{}, err
	}
	w := &work{repo: r, objects: make([]object, 0, len(b.Changes)), seen: make(map[protocol.Blob]bool, len(b.Changes))}
	if err := w.apply(b.Changes); err != nil {
		return Result{}, fmt.Errorf("commit events %s to %s: %w", b.First, b.Last, err)
	}
	res, err := r.sortEdits(tip, edits)
	if err != nil {
		return Result{}, err
	}
	root, err := w.seal(tip, b)
	if err != nil {
		return Result{}, err
	}
	res.Commit = w.objects[len(w.objects)-1].id
	res.Directories = w.directories()
	if err := r.publishCommit(ctx, w.objects, tip, res.Commit); err != nil {
		return Result{}, fmt.Errorf("commit events %s to %s: %w", b.First, b.Last, err)
	}
	r.head = Head{Seq: b.Last, Sum: b.Sum, Commit: res.Commit}
	r.tree.endCommit()
	r.rootOf, r.root = res.Commit, root
	r.writeReflog(tip, res.Commit, b.At, subjectOf(b), pos.Head)
	r.alertOverruled(res.Overruled)
	return res, nil
}

// personEdits returns what a person changed in owned paths since hived's last
// commit. It is *[OutOfStep] where the batch does not follow that commit.
func (r *Repo) personEdits(tip protocol.Blob, b *Batch) ([]edit, error) {
	var foreign []*commit
	if tip != r.head.Commit {
		var err error
		if foreign, err = r.refreshHead(tip); err != nil {
			return nil, err
		}
	}
	if b.First != r.head.Seq+1 {
		return nil, &OutOfStep{Want: r.head.Seq + 1, Got: b.First}
	}
	t, err := r.state()
	if err != nil || len(foreign) == 0 || r.head.Seq == 0 {
		return nil, err
	}
	for _, c := range foreign {
		if c.last > b.Last {
			// A copy of a later commit by hived: its content comes again with the
			// next batches, and is nobody's edit.
			return nil, nil
		}
	}
	root, err := r.rootAt(tip)
	if err != nil {
		return nil, err
	}
	f := &editFinder{store: r.store, tree: t}
	return f.edits(root)
}

// rootAt returns the root entries of a commit, and remembers those of the last.
func (r *Repo) rootAt(tip protocol.Blob) ([]entry, error) {
	if r.rootOf == tip && r.root != nil {
		return r.root, nil
	}
	root, err := r.store.root(tip)
	if err != nil {
		return nil, err
	}
	r.rootOf, r.root = tip, root
	return root, nil
}

// sortEdits divides a person's edits into own files and overruled paths, and drops
// those that the new state holds too. It returns *[OwnFilesChanged], once for each
// tip, if own files are among them.
func (r *Repo) sortEdits(tip protocol.Blob, edits []edit) (Result, error) {
	var res Result
	for _, e := range edits {
		id, ok, err := r.tree.Lookup(e.path)
		switch {
		case err != nil:
			return res, err
		case !e.mode && ok == !e.id.IsZero() && id == e.id:
		case isOwn(e.path):
			res.Own = append(res.Own, e.path)
		default:
			res.Overruled = append(res.Overruled, e.path)
		}
	}
	if len(res.Own) > 0 && r.reportedTip != tip {
		r.reportedTip = tip
		return res, &OwnFilesChanged{Paths: res.Own}
	}
	return res, nil
}

// alertOverruled alerts people to what a person's commit lost, and marks these paths
// for the index.
func (r *Repo) alertOverruled(paths []string) {
	for _, p := range paths {
		r.dirty.add(p)
	}
	if len(paths) > 0 {
		r.alert("git-overruled", "a person's commit had changed what only hived changes; it is set right: "+fewPaths(paths))
	}
}

// isOwn reports whether a path is board.md or a file directly in agents/<id>/
// (spec §6).
func isOwn(path string) bool {
	return path == protocol.PathBoard ||
		strings.HasPrefix(path, protocol.PathAgents+"/") && strings.Count(path, "/") == 2
}

// publishCommit writes the objects and then moves the branch. If the branch cannot be
// moved, the objects are removed again.
func (r *Repo) publishCommit(ctx context.Context, objects []object, tip, id protocol.Blob) error {
	stem, existed, err := r.packer.write(objects)
	if err != nil {
		return err
	}
	err = r.moveRef(tip, id, func(tmp, lock string) error { return r.lock(ctx, tmp, lock, refWaits) })
	if err != nil && !existed {
		if now, readErr := readBranch(r.disk, r.branch); readErr == nil && now != id {
			err = errors.Join(err, r.packer.remove(stem))
		}
	}
	if err != nil {
		return err
	}
	r.recent.add(r.opt.Now(), stem, objects)
	return r.keepRecent()
}

// work collects the objects of one commit.
type work struct {
	repo    *Repo
	objects []object
	seen    map[protocol.Blob]bool
}

func (w *work) add(o object) {
	if !w.seen[o.id] {
		w.seen[o.id] = true
		w.objects = append(w.objects, o)
	}
}

func (w *work) directories() (bytes int64) {
	for i := range w.objects {
		if w.objects[i].kind == kindTree {
			bytes += int64(len(w.objects[i].data))
		}
	}
	return bytes
}

func (w *work) apply(changes []protocol.Change) error {
	for i := range changes {
		c := &changes[i]
		o := object{kind: kindBlob, id: c.Blob, data: c.Data}
		switch {
		case c.Op == protocol.PutFile:
			id, size, err := hashFile(w.repo.disk, c.Path)
			if err != nil {
				return err
			}
			o = object{kind: kindBlob, id: id, path: c.Path, size: size}
		case c.Op == protocol.Put && c.Blob.IsZero():
			o.id = protocol.BlobOf(c.Data)
		}
		code, stored, err := w.repo.tree.apply(c, o.id)
		if err != nil {
			return err
		}
		if stored {
			w.add(o)
		}
		w.alertOddity(code, c)
	}
	return w.prune(changes)
}

// prune drops the blobs that no path holds at the end of the batch: a file can
// have two versions in one batch, and git fsck reports objects that nothing refers
// to.
func (w *work) prune(changes []protocol.Change) error {
	held := make(map[protocol.Blob]bool, len(changes))
	for i := range changes {
		if changes[i].Op == protocol.Delete {
			continue
		}
		id, ok, err := w.repo.tree.Lookup(changes[i].Path)
		if err != nil {
			return err
		}
		if ok {
			held[id] = true
		}
	}
	w.objects = slices.DeleteFunc(w.objects, func(o object) bool {
		if !held[o.id] {
			delete(w.seen, o.id)
		}
		return !held[o.id]
	})
	return nil
}

func (w *work) alertOddity(code string, c *protocol.Change) {
	switch code {
	case codeUnversionable:
		w.repo.alert(code, protocol.Quote(c.Path)+" is not versioned: git would not take the name as an ordinary one")
	case codeMoveAbsent:
		w.repo.alert(code, fmt.Sprintf("%s was to become %s in git, but git does not hold it", protocol.Quote(c.From), protocol.Quote(c.Path)))
	}
}

// seal adds the trees and, as the last object, the commit. It returns the new
// root's entries.
func (w *work) seal(tip protocol.Blob, b *Batch) ([]entry, error) {
	below, err := w.repo.rootAt(tip)
	if err != nil {
		return nil, err
	}
	tops := w.repo.tree.seal(func(id protocol.Blob, data []byte) {
		w.add(object{kind: kindTree, id: id, data: data})
	})
	root := slices.DeleteFunc(slices.Clone(below), func(e entry) bool { return ownedTop(e.name) })
	for _, top := range tops {
		e := entry{name: top.Name, id: top.ID}
		if top.Dir {
			e.sub = &dir{id: top.ID, unread: true}
		}
		root = append(root, e)
	}
	slices.SortFunc(root, inGitOrder)
	data := encodeTree(root)
	tree := objectID(kindTree, data)
	w.add(object{kind: kindTree, id: tree, data: data})
	data = encodeCommit(tree, tip, b)
	w.objects = append(w.objects, object{kind: kindCommit, id: objectID(kindCommit, data), data: data})
	return root, nil
}
