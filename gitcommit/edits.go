package gitcommit

import (
	"slices"

	"github.com/hived/hived/protocol"
)

// edit is a path in which a person's commit differs from the state in memory.
type edit struct {
	path string
	id   protocol.Blob // zero: removed
	mode bool          // an executable, a link or the like
}

// editFinder compares two trees and descends only where they differ.
type editFinder struct {
	store *store
	tree  *Tree
	found []edit
}

// edits returns the owned paths in which a commit's root differs from the tree.
func (f *editFinder) edits(root []entry) ([]edit, error) {
	theirs := slices.DeleteFunc(slices.Clone(root), func(e entry) bool { return !ownedTop(e.name) })
	f.tree.Tops() // so that every directory has its id
	err := f.compare("", f.tree.root.entries, theirs)
	return f.found, err
}

func (f *editFinder) compare(prefix string, ours, theirs []entry) error {
	for len(ours) > 0 || len(theirs) > 0 {
		var err error
		switch c := firstOf(ours, theirs); {
		case c < 0:
			err = f.reportAll(prefix, ours[0], f.addRemoved)
			ours = ours[1:]
		case c > 0:
			err = f.reportAll(prefix, theirs[0], f.addPresent)
			theirs = theirs[1:]
		default:
			err = f.compareEntry(prefix, ours[0], theirs[0])
			ours, theirs = ours[1:], theirs[1:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func firstOf(a, b []entry) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return inGitOrder(a[0], b[0])
}

func (f *editFinder) compareEntry(prefix string, ours, theirs entry) error {
	if ours.hash() == theirs.hash() && theirs.mode == 0 {
		return nil
	}
	if ours.sub == nil {
		f.addPresent(prefix+theirs.name, theirs)
		return nil
	}
	a, err := f.entries(ours.sub)
	if err != nil {
		return err
	}
	b, err := f.entries(theirs.sub)
	if err != nil {
		return err
	}
	return f.compare(prefix+ours.name+"/", a, b)
}

// reportAll reports every file below an entry that only one side has.
func (f *editFinder) reportAll(prefix string, e entry, report func(string, entry)) error {
	if e.sub == nil {
		report(prefix+e.name, e)
		return nil
	}
	entries, err := f.entries(e.sub)
	if err != nil {
		return err
	}
	for _, below := range entries {
		if err := f.reportAll(prefix+e.name+"/", below, report); err != nil {
			return err
		}
	}
	return nil
}

func (f *editFinder) addRemoved(path string, _ entry) {
	f.found = append(f.found, edit{path: path})
}

func (f *editFinder) addPresent(path string, e entry) {
	f.found = append(f.found, edit{path: path, id: e.id, mode: e.mode != 0})
}

// entries returns the entries of a directory without keeping a person's in memory.
func (f *editFinder) entries(d *dir) ([]entry, error) {
	if !d.unread {
		return d.entries, nil
	}
	data, err := f.store.tree(d.id)
	if err != nil {
		return nil, err
	}
	return decodeTree(data)
}
