package gitcommit

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git names its objects by SHA-1
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hived/hived/protocol"
)

// Tree is the part of the versioned tree that hived owns (spec §6), in memory:
// paths and the git ids of their contents, without the contents. It does no
// I/O of its own. It must not be used by two goroutines at once.
type Tree struct {
	root *dir
	load func(protocol.Blob) ([]byte, error) // reads a tree object, or nil
	// touch, if not nil, is called with every path whose content may have changed.
	touch func(path string)

	now    uint32 // the number of the commit in the making
	loaded int    // entries in memory, at most
}

// dir is one directory. Its id is zero from a change to the next seal.
type dir struct {
	id      protocol.Blob
	unread  bool   // entries are still in git, under id
	used    uint32 // the number of the last commit that needed it
	entries []entry
}

// entry is a file, or a directory where sub is set.
type entry struct {
	name string
	id   protocol.Blob // of a file
	sub  *dir
	mode uint32 // of a person's root entries; zero for an ordinary file or directory
}

// Oddity is a change that had no effect, and why.
type Oddity struct {
	Code string // git-unversionable, git-move-absent
	Path string
}

const (
	codeUnversionable = "git-unversionable"
	codeMoveAbsent    = "git-move-absent"
)

// Top is one owned name in the root of the tree: agents, tasks, log,
// registry.json, PROTOCOL.md or board.md.
type Top struct {
	Name string
	ID   protocol.Blob
	Dir  bool
}

// Segments returns the git id of the file at a path on the disk.
type Segments func(path string) (protocol.Blob, error)

var errBadTree = errors.New("not a valid tree object")

// NewTree returns the empty tree, the state before the first event.
func NewTree() *Tree { return &Tree{root: &dir{}} }

// newTreeAt returns the tree whose root holds these entries; what is below them
// is read when it is needed.
func newTreeAt(tops []Top, load func(protocol.Blob) ([]byte, error)) *Tree {
	t := NewTree()
	t.load = load
	for _, top := range tops {
		e := entry{name: top.Name, id: top.ID}
		if top.Dir {
			e = entry{name: top.Name, sub: &dir{id: top.ID, unread: true}}
		}
		t.root.insert(e)
	}
	return t
}

// Apply applies the changes of one event, in order. Paths that hived does not own
// or that git would not accept as ordinary ones are left out. The segments function
// serves [protocol.PutFile] and may be nil where there is none. An error means that
// a tree object or a segment could not be read; the tree must not be used any more.
func (t *Tree) Apply(changes []protocol.Change, segments Segments) ([]Oddity, error) {
	var odd []Oddity
	for i := range changes {
		c := &changes[i]
		id, err := contentOf(c, segments)
		if err != nil {
			return odd, err
		}
		code, _, err := t.apply(c, id)
		if err != nil {
			return odd, fmt.Errorf("change %s in the tree: %w", protocol.Quote(c.Path), err)
		}
		if code != "" {
			odd = append(odd, Oddity{Code: code, Path: c.Path})
		}
	}
	return odd, nil
}

func contentOf(c *protocol.Change, segments Segments) (protocol.Blob, error) {
	switch {
	case c.Op == protocol.Put && c.Blob.IsZero():
		return protocol.BlobOf(c.Data), nil
	case c.Op == protocol.PutFile && segments == nil:
		return protocol.Blob{}, fmt.Errorf("hash %s: there is no disk to read it from", protocol.Quote(c.Path))
	case c.Op == protocol.PutFile:
		return segments(c.Path)
	}
	return c.Blob, nil
}

// apply applies one change and reports whether a put stored content that the path
// did not have before.
func (t *Tree) apply(c *protocol.Change, id protocol.Blob) (code string, stored bool, err error) {
	takes := protocol.Owned(c.Path) && protocol.Versionable(c.Path)
	if !takes {
		code = codeUnversionable
	}
	switch c.Op {
	case protocol.Put, protocol.PutFile:
		if takes {
			stored, err = t.put(c.Path, id)
		}
	case protocol.Delete:
		_, _, err = t.remove(c.Path)
	case protocol.Move:
		was, ok, rmErr := t.remove(c.From)
		switch {
		case rmErr != nil:
			err = rmErr
		case !ok:
			code = codeMoveAbsent
		case takes:
			_, err = t.put(c.Path, was)
		}
	}
	return code, stored, err
}

// Lookup returns the id of the file at a path.
func (t *Tree) Lookup(path string) (protocol.Blob, bool, error) {
	d := t.root
	for {
		name, rest, below := strings.Cut(path, "/")
		if err := t.ensureRead(d); err != nil {
			return protocol.Blob{}, false, err
		}
		i, ok := d.find(name)
		if !ok || (d.entries[i].sub != nil) != below {
			return protocol.Blob{}, false, nil
		}
		if !below {
			return d.entries[i].id, true, nil
		}
		d, path = d.entries[i].sub, rest
	}
}

// Walk visits every file in git's order.
func (t *Tree) Walk(visit func(path string, id protocol.Blob) error) error {
	return t.walk(t.root, "", visit)
}

func (t *Tree) walk(d *dir, prefix string, visit func(string, protocol.Blob) error) error {
	if d.unread { // what nothing else needs does not stay in memory
		d = &dir{id: d.id, unread: true}
	}
	if err := t.read(d); err != nil {
		return err
	}
	for _, e := range d.entries {
		var err error
		if e.sub != nil {
			err = t.walk(e.sub, prefix+e.name+"/", visit)
		} else {
			err = visit(prefix+e.name, e.id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Tops returns the owned names of the root with the ids of what they hold now.
// Two trees with the same tops hold the same.
func (t *Tree) Tops() []Top { return t.seal(nil) }

// seal hashes every directory that changed since the last call and passes each
// new tree object to emit.
func (t *Tree) seal(emit func(id protocol.Blob, data []byte)) []Top {
	tops := make([]Top, 0, len(t.root.entries))
	for _, e := range t.root.entries {
		if e.sub != nil {
			tops = append(tops, Top{Name: e.name, ID: e.sub.seal(emit), Dir: true})
		} else {
			tops = append(tops, Top{Name: e.name, ID: e.id})
		}
	}
	return tops
}

func (d *dir) seal(emit func(protocol.Blob, []byte)) protocol.Blob {
	if !d.id.IsZero() {
		return d.id
	}
	for _, e := range d.entries {
		if e.sub != nil {
			e.sub.seal(emit)
		}
	}
	data := encodeTree(d.entries)
	d.id = objectID(kindTree, data)
	if emit != nil {
		emit(d.id, data)
	}
	return d.id
}

func (t *Tree) put(path string, id protocol.Blob) (changed bool, err error) {
	return t.putIn(t.root, "", path, id)
}

func (t *Tree) putIn(d *dir, prefix, path string, id protocol.Blob) (bool, error) {
	if err := t.ensureRead(d); err != nil {
		return false, err
	}
	name, rest, below := strings.Cut(path, "/")
	i, ok := d.find(name)
	if ok && (d.entries[i].sub != nil) != below {
		if err := t.touchBelow(d.entries[i], prefix); err != nil {
			return false, err
		}
		d.entries = slices.Delete(d.entries, i, i+1)
		d.id, ok = protocol.Blob{}, false
	}
	if !below {
		switch e := (entry{name: name, id: id}); {
		case !ok:
			d.insert(e)
			t.loaded++
		case d.entries[i].id == id:
			return false, nil
		default:
			d.entries[i] = e
		}
		d.id = protocol.Blob{}
		t.notify(prefix + name)
		return true, nil
	}
	if !ok {
		i = d.insert(entry{name: name, sub: &dir{}})
		t.loaded++
	}
	changed, err := t.putIn(d.entries[i].sub, prefix+name+"/", rest, id)
	if changed {
		d.id = protocol.Blob{}
	}
	return changed, err
}

// touchBelow calls touch for every file of an entry that is removed.
func (t *Tree) touchBelow(e entry, prefix string) error {
	if e.sub == nil {
		t.notify(prefix + e.name)
		return nil
	}
	return t.walk(e.sub, prefix+e.name+"/", func(p string, _ protocol.Blob) error {
		t.notify(p)
		return nil
	})
}

func (t *Tree) remove(path string) (was protocol.Blob, ok bool, err error) {
	return t.removeIn(t.root, path, path)
}

func (t *Tree) removeIn(d *dir, whole, path string) (was protocol.Blob, ok bool, err error) {
	if err := t.ensureRead(d); err != nil {
		return was, false, err
	}
	name, rest, below := strings.Cut(path, "/")
	i, found := d.find(name)
	if !found || (d.entries[i].sub != nil) != below {
		return was, false, nil
	}
	if !below {
		was = d.entries[i].id
		d.entries = slices.Delete(d.entries, i, i+1)
		d.id = protocol.Blob{}
		t.notify(whole)
		return was, true, nil
	}
	sub := d.entries[i].sub
	was, ok, err = t.removeIn(sub, whole, rest)
	if !ok || err != nil {
		return was, ok, err
	}
	d.id = protocol.Blob{}
	if len(sub.entries) == 0 { // git knows no empty directory
		d.entries = slices.Delete(d.entries, i, i+1)
	}
	return was, true, nil
}

func (t *Tree) notify(path string) {
	if t.touch != nil {
		t.touch(path)
	}
}

func (t *Tree) read(d *dir) error {
	if !d.unread {
		return nil
	}
	data, err := t.load(d.id)
	if err != nil {
		return err
	}
	entries, err := decodeTree(data)
	if err != nil {
		return fmt.Errorf("read tree %s: %w", d.id, err)
	}
	for i := range entries {
		entries[i].mode = 0 // what hived owns has no modes of its own
	}
	d.entries, d.unread = entries, false
	return nil
}

// ensureRead reads the entries of a directory if need be, and marks it as used by
// the commit in the making.
func (t *Tree) ensureRead(d *dir) error {
	d.used = t.now
	if !d.unread {
		return nil
	}
	err := t.read(d)
	t.loaded += len(d.entries)
	return err
}

const (
	// mostEntries may be in memory before unused directories are forgotten.
	mostEntries = 1 << 16
	// coldAfter is the number of commits after which a directory counts as unused,
	// and between two searches for unused ones.
	coldAfter = 64
)

// endCommit is called when everything is in git. It forgets directories that were
// not used for a while, if many entries are in memory.
func (t *Tree) endCommit() {
	if t.now++; t.load != nil && t.loaded > mostEntries && t.now%coldAfter == 0 {
		t.loaded = t.root.forgetUnused(t.now - coldAfter)
	}
}

// forgetAll forgets all directories that are in git.
func (t *Tree) forgetAll() {
	if t.load != nil {
		t.loaded = t.root.forgetUnused(t.now + 1)
	}
}

// forgetUnused forgets the directories below that were not used since a commit, and
// returns the number of entries that are left. Using a directory uses its parents
// too.
func (d *dir) forgetUnused(since uint32) int {
	left := len(d.entries)
	for _, e := range d.entries {
		switch sub := e.sub; {
		case sub == nil || sub.unread:
		case sub.used < since && !sub.id.IsZero():
			sub.entries, sub.unread = nil, true
		default:
			left += sub.forgetUnused(since)
		}
	}
	return left
}

// find returns the position of a name, be it a file or a directory. All names
// between the two possible positions begin with the name.
func (d *dir) find(name string) (int, bool) {
	i, ok := d.search(name, 0)
	if !ok && i < len(d.entries) && strings.HasPrefix(d.entries[i].name, name) {
		i, ok = d.search(name, '/')
	}
	return i, ok
}

// search returns the position in git's order that a name has or would have; after
// is the byte that follows the name in that order.
func (d *dir) search(name string, after byte) (int, bool) {
	from, to := 0, len(d.entries)
	for from < to {
		mid := int(uint(from+to) >> 1)
		switch c := order(&d.entries[mid], name, after); {
		case c == 0:
			return mid, true
		case c < 0:
			from = mid + 1
		default:
			to = mid
		}
	}
	return from, false
}

func (d *dir) insert(e entry) int {
	i, _ := d.search(e.name, e.byteAt(len(e.name)))
	d.entries = slices.Insert(d.entries, i, e)
	return i
}

// inGitOrder compares as git does: a directory as if its name ended in a slash.
func inGitOrder(a, b entry) int { return order(&a, b.name, b.byteAt(len(b.name))) }

// order compares an entry with a name that is followed by a byte.
func order(e *entry, name string, after byte) int {
	n := min(len(e.name), len(name))
	if c := strings.Compare(e.name[:n], name[:n]); c != 0 {
		return c
	}
	if n < len(name) {
		after = name[n]
	}
	return int(e.byteAt(n)) - int(after)
}

func (e entry) byteAt(i int) byte {
	switch {
	case i < len(e.name):
		return e.name[i]
	case e.sub != nil:
		return '/'
	}
	return 0
}

const (
	modeFile = 0o100644
	modeDir  = 0o40000
)

func (e entry) gitMode() uint32 {
	switch {
	case e.mode != 0:
		return e.mode
	case e.sub != nil:
		return modeDir
	}
	return modeFile
}

// hash returns the id of what an entry names; its directory must be sealed.
func (e entry) hash() protocol.Blob {
	if e.sub != nil {
		return e.sub.id
	}
	return e.id
}

func encodeTree(entries []entry) []byte {
	n := 0
	for i := range entries {
		n += len("100644 ") + len(entries[i].name) + 1 + sha1.Size
	}
	out := make([]byte, 0, n)
	for i := range entries {
		e := &entries[i]
		switch {
		case e.mode != 0:
			out = append(strconv.AppendUint(out, uint64(e.mode), 8), ' ')
		case e.sub != nil:
			out = append(out, "40000 "...)
		default:
			out = append(out, "100644 "...)
		}
		out = append(append(out, e.name...), 0)
		id := &e.id
		if e.sub != nil {
			id = &e.sub.id // it must be sealed
		}
		out = append(out, id[:]...)
	}
	return out
}

// decodeTree decodes a tree object. Directories are unread; the mode of everything
// that is not an ordinary file or directory is kept.
func decodeTree(data []byte) ([]entry, error) {
	var out []entry
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, ok2 := bytes.Cut(head, []byte{' '})
		if !ok || !ok2 || len(name) == 0 || len(rest) < sha1.Size {
			return nil, errBadTree
		}
		m, err := strconv.ParseUint(string(mode), 8, 32)
		if err != nil {
			return nil, errBadTree
		}
		e := entry{name: string(name), id: protocol.Blob(rest[:sha1.Size]), mode: uint32(m)}
		switch m {
		case modeDir:
			e = entry{name: e.name, sub: &dir{id: e.id, unread: true}}
		case modeFile:
			e.mode = 0
		}
		if len(out) > 0 && inGitOrder(out[len(out)-1], e) >= 0 {
			return nil, errBadTree
		}
		out = append(out, e)
		data = rest[sha1.Size:]
	}
	return out, nil
}
