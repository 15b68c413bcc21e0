package gitcommit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// mostSeed bounds a file that Seed commits, in bytes.
const mostSeed = 16 << 20

// Seed makes a commit without trailers that holds these files of people (not owned,
// at the top of the hive) as they are on the disk, and no longer holds what is
// never versioned: an older hive may have committed its log (spec §7). Where
// nothing would change it commits nothing.
func (r *Repo) Seed(ctx context.Context, at time.Time, subject string, names ...string) error {
	tip, err := readBranch(r.disk, r.branch)
	if err != nil {
		return err
	}
	var was []entry
	if !tip.IsZero() {
		if was, err = r.store.root(tip); err != nil {
			return err
		}
	}
	root := slices.DeleteFunc(slices.Clone(was), func(e entry) bool {
		return e.name == protocol.PathLog || e.name == protocol.PathScratch || slices.Contains(names, e.name)
	})
	var objects []object
	var found []string
	for _, name := range names {
		data, _, err := durable.ReadFile(r.disk, name, mostSeed)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("commit %s: %w", name, err)
		}
		id := protocol.BlobOf(data)
		objects, found = append(objects, object{kind: kindBlob, id: id, data: data}), append(found, name)
		root = append(root, entry{name: name, id: id})
	}
	slices.SortFunc(root, inGitOrder)
	tree := encodeTree(root)
	if !tip.IsZero() && bytes.Equal(tree, encodeTree(was)) {
		return nil
	}
	objects = append(objects, object{kind: kindTree, id: objectID(kindTree, tree), data: tree})
	var w bytes.Buffer
	fmt.Fprintf(&w, "tree %s\n", objectID(kindTree, tree))
	if !tip.IsZero() {
		fmt.Fprintf(&w, "parent %s\n", tip)
	}
	fmt.Fprintf(&w, "author %[1]s\ncommitter %[1]s\n\n%s\n", signature(at), oneLine(subject, mostSubject))
	id := objectID(kindCommit, w.Bytes())
	objects = append(objects, object{kind: kindCommit, id: id, data: w.Bytes()})
	if err := r.publishCommit(ctx, objects, tip, id); err != nil {
		return fmt.Errorf("commit %s: %w", names, err)
	}
	r.dirty.all = true
	own := r.position()
	r.writeReflog(tip, id, at, subject, own.Head)
	if !own.Own() {
		return nil
	}
	return r.seedIndex(ctx, id, objects[:len(found)], found)
}

// seedIndex adds the seeded files to an index that exists already. A missing one
// will be made from the tree.
func (r *Repo) seedIndex(ctx context.Context, tip protocol.Blob, blobs []object, names []string) error {
	if _, err := r.disk.Lstat(indexFile); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	v, err := r.loadIndex(tip)
	if err != nil {
		return fmt.Errorf("bring git's index up to date: %w", err)
	}
	patches := make([]patch, 0, len(blobs))
	for i := range blobs {
		patches = append(patches, patch{names[i], newIndexEntry(names[i], blobs[i].id, modeFile, fileStat{})})
	}
	err = v.all(func(e indexEntry) error {
		if name := string(e.name()); name == protocol.PathLog || strings.HasPrefix(name, protocol.PathScratch+"/") {
			patches = append(patches, patch{name: name})
		}
		return nil
	})
	slices.SortFunc(patches, func(a, b patch) int { return strings.Compare(a.name, b.name) })
	if err == nil {
		err = r.writeIndex(ctx, v, patches)
	}
	if err = errors.Join(err, v.close()); err != nil {
		return fmt.Errorf("bring git's index up to date: %w", err)
	}
	return nil
}

// Tip returns the commit at the tip of HEAD's branch, in hex; empty where there is
// no repository or no commit yet.
func Tip(disk durable.FS) (string, error) {
	if _, err := disk.Lstat(gitDir); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	head, err := readHEAD(disk)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // a crash interrupted [Init]
	}
	if err != nil {
		return "", fmt.Errorf("read HEAD: %w", err)
	}
	id, err := readBranch(disk, head.branch)
	if err != nil || id.IsZero() {
		return "", err
	}
	return id.String(), nil
}
