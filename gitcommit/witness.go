package gitcommit

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// witness compares the repository, as go-git reads it, with the log: the branch, the
// chain of commits, and all trees of the newest of them (ADR 6). Only commits and trees
// are decoded by hived's own code.
type witness struct {
	reader *secondReader
	report func(Problem)
}

// expected is what a witness compares the repository with.
type expected struct {
	branch    string
	tip, onto protocol.Blob
	// links are the commits that name events of the log, oldest first, as hived read
	// them; each has the log's own sum beside that of the commit.
	links []link
	tree  *Tree // the owned state of the log at the last of the links
}

// runWitness reads the repository a second time. It returns an error only when it was
// stopped.
func runWitness(ctx context.Context, disk durable.FS, h *expected, report func(Problem)) error {
	w := &witness{reader: newSecondReader(disk), report: report}
	defer w.reader.close()
	if err := w.run(ctx, disk, h); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w.report(Problem{Code: protocol.CodeGitWitness, Text: "as go-git reads it, " + err.Error()})
	}
	return nil
}

func (w *witness) run(ctx context.Context, disk durable.FS, h *expected) error {
	if err := w.branch(disk, h.branch); err != nil {
		return err
	}
	links, err := w.chain(ctx, h.tip, h.onto)
	if err != nil {
		return err
	}
	if err := sameLinks(h.links, links); err != nil || len(links) == 0 {
		return err
	}
	head := links[len(links)-1]
	w.compare(ctx, head, h.tree)
	return ctx.Err()
}

// branchTries bounds how often a branch is read again when it moves meanwhile.
const branchTries = 5

// branch checks that both readers find the same commit under a branch.
func (w *witness) branch(disk durable.FS, name string) error {
	ours, err := readBranch(disk, name)
	if err != nil {
		return err
	}
	for range branchTries {
		theirs, err := w.reader.branch(name)
		if err == nil && theirs == ours {
			return nil
		}
		again, err2 := readBranch(disk, name)
		switch {
		case err2 != nil:
			return err2
		case again == ours && err != nil:
			return fmt.Errorf("%s cannot be read: %w", refFile(name), err)
		case again == ours:
			return fmt.Errorf("branch %s is at %s; hived reads %s", name, theirs, ours)
		}
		ours = again
	}
	return nil // it keeps moving
}

// chain returns the commits that name events of the log, oldest first.
func (w *witness) chain(ctx context.Context, tip, onto protocol.Blob) ([]link, error) {
	var out []link
	for id := tip; !id.IsZero() && id != onto; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		data, err := w.reader.read(id, kindCommit)
		if err != nil {
			return nil, fmt.Errorf("commit %s is damaged: %w", id, err)
		}
		c, err := decodeCommit(id, data)
		if err != nil {
			return nil, err
		}
		if c.last != 0 {
			l, err := linkOf(c)
			if err != nil {
				return nil, err
			}
			out = append(out, l)
		}
		id = c.parent
	}
	slices.Reverse(out)
	return out, nil
}

// sameLinks compares the commits that the witness found with those that hived found, and
// their ranges and sums with the log.
func sameLinks(ours, theirs []link) error {
	var follows, copied protocol.Seq
	for i, c := range theirs {
		if i == len(ours) {
			return fmt.Errorf("history has commit %s, which hived does not find", c.id)
		}
		logged := ours[i].logged
		c.logged = logged
		switch {
		case c != ours[i]:
			return fmt.Errorf("history has commit %s where hived finds %s", c.id, ours[i].id)
		case c.real && c.first != follows+1 && c.first != copied+1:
			return fmt.Errorf("commit %s brings the events from %s, history before it ends at %s", c.id, c.first, max(follows, copied))
		case c.real && hex.EncodeToString(c.sum[:]) != logged:
			return fmt.Errorf("commit %s says the sum of event %s is %x, the log says %s", c.id, c.last, c.sum, logged)
		}
		if copied = c.last; c.real {
			follows = c.last
		}
	}
	if len(theirs) < len(ours) {
		return fmt.Errorf("history lacks commit %s, which hived finds", ours[len(theirs)].id)
	}
	return nil
}

// errEnoughPaths ends a comparison that has reported mostPaths paths.
var errEnoughPaths = errors.New("enough paths were named")

// compare compares all trees of a commit with the state of the log: names, modes, ids.
func (w *witness) compare(ctx context.Context, c link, tree *Tree) {
	d := &treeWitness{witness: w, commit: c}
	if err := d.dir(ctx, c.tree, "", tree.root.entries); err != nil && !errors.Is(err, errEnoughPaths) && ctx.Err() == nil {
		w.report(Problem{Code: protocol.CodeGitWitness, Commit: c.id, Seq: c.last, Text: fmt.Sprintf("as go-git reads it, commit %s is damaged: %v", c.id, err)})
	}
}

type treeWitness struct {
	*witness
	commit link
	named  int
}

// dir compares a directory, and those below it, with the entries that it should have.
func (d *treeWitness) dir(ctx context.Context, id protocol.Blob, prefix string, want []entry) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	got, err := d.entries(id, prefix)
	if err != nil {
		return fmt.Errorf("tree %s, of %s: %w", id, protocol.Quote("/"+prefix), err)
	}
	for len(got) > 0 || len(want) > 0 {
		switch c := firstOf(want, got); {
		case c < 0:
			err = d.reportDiffers(prefix, want[0])
			want = want[1:]
		case c > 0:
			err = d.reportDiffers(prefix, got[0])
			got = got[1:]
		default:
			err = d.entry(ctx, prefix, got[0], want[0])
			got, want = got[1:], want[1:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entries returns the entries of a directory; in the root only those that hived owns.
func (d *treeWitness) entries(id protocol.Blob, prefix string) ([]entry, error) {
	data, err := d.reader.read(id, kindTree)
	if err != nil {
		return nil, err
	}
	list, err := decodeTree(data)
	if prefix == "" {
		list = slices.DeleteFunc(list, func(e entry) bool { return !ownedTop(e.name) })
	}
	return list, err
}

// entry compares two entries of one name, both directories or both files.
func (d *treeWitness) entry(ctx context.Context, prefix string, got, want entry) error {
	switch {
	case got.sub != nil:
		return d.dir(ctx, got.sub.id, prefix+got.name+"/", want.sub.entries)
	case got.gitMode() != modeFile || got.id != want.id:
		return d.reportDiffers(prefix, got)
	}
	return nil
}

func (d *treeWitness) reportDiffers(prefix string, e entry) error {
	path := prefix + e.name
	d.report(Problem{Code: protocol.CodeGitWitness, Object: e.hash(), Commit: d.commit.id, Path: path, Seq: d.commit.last, Text: fmt.Sprintf(
		"as go-git reads it, %s in commit %s is not what the log gives at event %s", protocol.Quote(path), d.commit.id, d.commit.last)})
	if d.named++; d.named == mostPaths {
		return errEnoughPaths
	}
	return nil
}
