package gitcommit

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Event is one event of the log as history needs it.
type Event struct {
	Seq     protocol.Seq
	Sum     string // 32 hex digits
	Changes []protocol.Change
	// Views, where not nil, returns what else changed since it was last called, as
	// of this event. It is called for an event that a commit ends with, before the
	// next event is pulled.
	Views func() []protocol.Change
}

// Problem is one thing that [Check] found.
type Problem struct {
	Code   protocol.Code
	Info   bool          // worth knowing, and no fault
	Object protocol.Blob // the object that is wrong or missing
	Commit protocol.Blob
	Path   string // in the tree, or of a file of git's
	Seq    protocol.Seq
	Text   string // one sentence for a person
}

// Check verifies the repository by itself and against the log (spec §6): all
// objects have the hash that names them; hived's commits, oldest first, follow
// each other without a gap, carry the sums of the log, and hold in the owned paths
// exactly the state of the log at their sequence number. A repository without
// faults is then read a second time, with the code of go-git: the branch, the
// chain of commits, and all trees of the newest. The history yields every event of
// the log in order. Check reports what is wrong and returns an error only when it
// could not go on. Report is called by one goroutine at a time.
//
// Everything is read as a stream; in memory are the state, a bounded part of
// what is read, and 100 bytes a commit; at the end, for the second reading, the
// indexes of all packs.
func Check(ctx context.Context, disk durable.FS, history iter.Seq2[Event, error], report func(Problem)) error {
	var mu sync.Mutex
	faults := 0
	one := func(p Problem) {
		mu.Lock()
		defer mu.Unlock()
		if !p.Info {
			faults++
		}
		report(p)
	}
	h, err := check(ctx, disk, history, one)
	if err != nil || faults > 0 {
		return err // history must be rebuilt, whatever a second reader finds
	}
	if err := runWitness(ctx, disk, h, one); err != nil {
		return fmt.Errorf("check git's history a second time: %w", err)
	}
	return nil
}

// check verifies the repository with hived's own code. It returns what the witness
// then expects.
func check(ctx context.Context, disk durable.FS, history iter.Seq2[Event, error], report func(Problem)) (*expected, error) {
	m, err := readMarker(disk)
	if err != nil {
		return nil, fmt.Errorf("check the git repository: %w", err)
	}
	// The tip is read first: what a running hive commits meanwhile must not be
	// looked for among objects that were listed before.
	tip, err := readBranch(disk, m.branch)
	if err != nil {
		report(Problem{Code: protocol.CodeGitUnreadable, Path: refFile(m.branch), Text: err.Error()})
	}
	stored, err := checkObjects(ctx, disk, report)
	if err != nil {
		return nil, fmt.Errorf("check git's objects: %w", err)
	}
	defer stored.close()
	k := &checker{disk: disk, store: newStore(disk), stored: stored, report: report, tree: NewTree(), touched: make(map[string]bool)}
	k.tree.touch = func(p string) { k.touched[p] = true }
	next, stop := iter.Pull2(history)
	defer stop()
	k.next = next
	links, err := k.run(ctx, tip, m.onto)
	if err != nil {
		return nil, fmt.Errorf("check git's history: %w", err)
	}
	return &expected{m.branch, tip, m.onto, links, k.tree}, nil
}

// link is one commit of the chain that names events of the log.
type link struct {
	id, tree    protocol.Blob
	first, last protocol.Seq
	sum         [16]byte
	real        bool // by hived, not a person's copy
	// logged is the sum that the log has at last; set when the link was checked.
	logged string
}

func linkOf(c *commit) (link, error) {
	l := link{id: c.id, tree: c.tree, first: c.first, last: c.last, real: c.by == identity}
	_, err := hex.Decode(l.sum[:], []byte(c.sum))
	return l, err
}

type checker struct {
	disk   durable.FS
	store  *store
	stored *present
	report func(Problem)
	next   func() (Event, error, bool)

	tree    *Tree
	touched map[string]bool
	lookups chan<- lookup
	at      Event // the last event folded
	ended   bool  // the log has no more events

	follows protocol.Seq // the last event of the newest commit by hived
	copied  protocol.Seq // the last event of a person's copy after it, if it was built upon
}

// run checks the chain of commits against the log, and returns it.
func (k *checker) run(ctx context.Context, tip, onto protocol.Blob) ([]link, error) {
	chain, err := k.chain(ctx, tip, onto)
	if err != nil {
		return nil, err
	}
	defer k.startLookups()()
	for i, c := range chain {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		switch {
		case c.last == 0:
			k.report(Problem{Code: protocol.CodeGitTrailers, Commit: c.id, Text: "a commit of hived's changes what hived owns and names no events"})
		case !c.real && !builtUpon(chain[i:]):
			k.report(Problem{Code: protocol.CodeGitAmended, Info: true, Commit: c.id, Seq: c.last, Text: "a person's commit copies the trailers of one of hived's"})
		default:
			if err := k.checkCommit(c); err != nil {
				return nil, err
			}
			chain[i].logged = k.at.Sum
		}
	}
	return chain, k.reportLag()
}

// lookup lists the objects that came with a commit.
type lookup struct {
	link
	objects []wantedObject
}

type wantedObject struct {
	id   protocol.Blob
	path string // of a file
}

// startLookups starts a goroutine that looks up, beside the folding, the objects that
// are sent to it. The function that it returns waits for it to end.
func (k *checker) startLookups() (wait func()) {
	lookups := make(chan lookup, 1)
	k.lookups = lookups
	var wg sync.WaitGroup
	wg.Go(func() {
		for l := range lookups {
			for _, o := range l.objects {
				k.lookUpObject(o, l.link)
			}
		}
	})
	return func() {
		close(lookups)
		wg.Wait()
	}
}

// builtUpon reports whether a person's copy of a commit takes its place: hived
// continued from it, or nobody did yet. A person who rebases copies several in a
// row, and each copy takes the place of its own original.
func builtUpon(chain []link) bool {
	last := chain[0].last
	for _, c := range chain[1:] {
		switch {
		case c.real:
			return c.first == last+1
		case c.first == last+1:
			last = c.last
		}
	}
	return true
}

// chain returns the commits to check, oldest first.
func (k *checker) chain(ctx context.Context, tip, onto protocol.Blob) ([]link, error) {
	var out []link
	for id := tip; !id.IsZero() && id != onto; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c, err := k.store.commit(id)
		if err != nil {
			// The commits above can still be compared with the log.
			k.report(Problem{Code: protocol.CodeGitUnreadable, Object: id, Commit: id, Text: err.Error()})
			break
		}
		if c.last != 0 || c.by == identity && !k.leavesOwned(c) {
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

// leavesOwned reports whether a commit changes nothing that hived owns, as the
// commit of [Repo.Seed] does. It is false for one that cannot be read.
func (k *checker) leavesOwned(c *commit) bool {
	root, err := k.store.root(c.id)
	if err != nil {
		return false
	}
	was, err := k.store.root(c.parent)
	return err == nil && slices.Equal(topsOf(root), topsOf(was))
}

// checkCommit checks one commit against the log.
func (k *checker) checkCommit(c link) error {
	if c.first != k.follows+1 && c.first != k.copied+1 {
		k.report(Problem{Code: protocol.CodeGitGap, Commit: c.id, Seq: c.first, Text: fmt.Sprintf(
			"commit %s brings the events from %s, history before it ends at %s", c.id, c.first, max(k.follows, k.copied))})
	}
	if c.real {
		k.follows, k.copied = c.last, c.last
	} else {
		k.copied = c.last
	}
	if err := k.foldTo(c.last); err != nil {
		return err
	}
	if k.at.Seq != c.last {
		if k.ended {
			k.report(Problem{Code: protocol.CodeGitAhead, Commit: c.id, Seq: c.last, Text: fmt.Sprintf("commit %s goes through event %s, the log ends at %s", c.id, c.last, k.at.Seq)})
		}
		return nil
	}
	if sum := hex.EncodeToString(c.sum[:]); sum != k.at.Sum {
		k.report(Problem{Code: protocol.CodeGitSumDiffers, Commit: c.id, Seq: c.last, Text: fmt.Sprintf("commit %s says the sum of event %s is %s, the log says %s", c.id, c.last, sum, k.at.Sum)})
	}
	if !c.real {
		k.report(Problem{Code: protocol.CodeGitAmended, Info: true, Commit: c.id, Seq: c.last, Text: "a person rewrote this commit of hived's"})
	}
	if err := k.queueLookups(c); err != nil {
		return err
	}
	k.compare(c)
	return nil
}

// foldTo folds events up to a sequence number, if the log goes so far.
func (k *checker) foldTo(seq protocol.Seq) error {
	segments := SegmentsOf(k.disk)
	var views func() []protocol.Change
	for k.at.Seq < seq && !k.ended {
		ev, err, ok := k.next()
		if err != nil {
			return err
		}
		if !ok {
			k.ended = true
			break
		}
		if _, err := k.tree.Apply(ev.Changes, segments); err != nil {
			return err
		}
		k.at = Event{Seq: ev.Seq, Sum: ev.Sum}
		views = ev.Views
	}
	if k.at.Seq != seq || views == nil {
		return nil
	}
	_, err := k.tree.Apply(views(), segments)
	return err
}

const mostPaths = 10 // reported of one commit

// compare reports where the owned part of a commit's tree differs from the state.
func (k *checker) compare(c link) {
	data, err := k.store.tree(c.tree)
	if err == nil {
		var root []entry
		if root, err = decodeTree(data); err == nil && slices.Equal(topsOf(root), k.tree.Tops()) {
			return
		}
		if err == nil {
			k.reportDifferences(c, root)
			return
		}
	}
	k.report(Problem{Code: protocol.CodeGitUnreadable, Object: c.tree, Commit: c.id, Seq: c.last, Text: err.Error()})
}

func (k *checker) reportDifferences(c link, root []entry) {
	f := &editFinder{store: k.store, tree: k.tree}
	found, err := f.edits(root)
	if err != nil {
		k.report(Problem{Code: protocol.CodeGitUnreadable, Commit: c.id, Seq: c.last, Text: err.Error()})
	}
	for i, e := range found {
		if i == mostPaths {
			break
		}
		k.report(Problem{Code: protocol.CodeGitTreeDiffers, Object: e.id, Commit: c.id, Path: e.path, Seq: c.last, Text: fmt.Sprintf(
			"%s in commit %s is not what the log gives at event %s (%d paths differ)", protocol.Quote(e.path), c.id, c.last, len(found))})
	}
	if len(found) == 0 {
		k.report(Problem{Code: protocol.CodeGitTreeDiffers, Commit: c.id, Seq: c.last, Text: fmt.Sprintf("the tree of commit %s is not what the log gives at event %s", c.id, c.last)})
	}
}

// queueLookups sends every object that came since the last commit to the lookups.
func (k *checker) queueLookups(c link) error {
	var list []wantedObject
	k.tree.seal(func(id protocol.Blob, _ []byte) { list = append(list, wantedObject{id: id}) })
	for path := range k.touched {
		id, ok, err := k.tree.Lookup(path)
		if err != nil {
			return err
		}
		if ok {
			list = append(list, wantedObject{id, path})
		}
	}
	clear(k.touched)
	k.lookups <- lookup{c, list}
	return nil
}

func (k *checker) lookUpObject(o wantedObject, c link) {
	if !k.stored.has(o.id) {
		k.report(Problem{Code: protocol.CodeGitObjectMissing, Object: o.id, Commit: c.id, Path: o.path, Seq: c.last, Text: fmt.Sprintf("object %s of commit %s is not in the repository", o.id, c.id)})
	}
}

// reportLag reports how far the log is ahead of history.
func (k *checker) reportLag() error {
	through := max(k.follows, k.copied)
	for !k.ended {
		ev, err, ok := k.next()
		if err != nil {
			return err
		}
		k.ended = !ok
		if ok {
			k.at = Event{Seq: ev.Seq}
		}
	}
	if k.at.Seq > through {
		k.report(Problem{Code: protocol.CodeGitBehind, Info: true, Seq: through, Text: fmt.Sprintf("git holds the events through %s, the log goes to %s", through, k.at.Seq)})
	}
	return nil
}
