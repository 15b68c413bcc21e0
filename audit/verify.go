package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
)

// Options of [Verify].
type Options struct {
	Settings protocol.Settings
}

// Report is what [Verify] found at one sequence number.
type Report struct {
	Seq        protocol.Seq `json:"seq"`        // of the last event
	Sum        string       `json:"sum"`        // of that event, 32 hex digits
	GitSeq     protocol.Seq `json:"git_seq"`    // git goes through this event; 0 where there is no history
	Messages   uint64       `json:"messages"`   // accepted
	Deliveries uint64       `json:"deliveries"` // message and recipient
	Drops      uint64       `json:"drops"`      // message and recipient
	Handled    uint64       `json:"handled"`
	Unread     uint64       `json:"unread"`
	Files      int          `json:"files"`   // compared
	Commits    int          `json:"commits"` // of hived's, held against the log
	Findings   []Finding    `json:"findings"`
	Notes      []Finding    `json:"notes"` // nothing is wrong with these
}

// OK tells whether no check found a gap.
func (r Report) OK() bool { return len(r.Findings) == 0 }

// mostOfOne bounds how many findings of one code are listed.
const mostOfOne = 200

// Verify reads everything and names each broken rule (spec §4.8, §5, §6). It
// may run beside the daemon: what does not fit is believed only when it still
// does not after the daemon had time for two passes. An error means that the
// check could not be finished, whatever the report says.
func Verify(ctx context.Context, disk *durable.Disk, opt Options) (Report, error) {
	v := &verifier{disk: disk, opt: opt, seen: map[Code]int{}}
	err := v.run(ctx)
	v.finish()
	if err != nil {
		return v.report, fmt.Errorf("verify: %w", err)
	}
	return v.report, nil
}

type verifier struct {
	disk     *durable.Disk
	opt      Options
	report   Report
	gitWhole bool // git holds all that the log holds
	fold     *fold
	seen     map[Code]int // findings of a code, those that are not listed too
}

func (v *verifier) run(ctx context.Context) error {
	v.fold = newFold(v.add)
	v.report.Findings, v.report.Notes = []Finding{}, []Finding{}
	whole, err := v.log(ctx)
	if err != nil {
		return err
	}
	if !whole {
		return nil // what does not follow from an event cannot be held against it
	}
	if err := v.git(ctx); err != nil {
		return err
	}
	if err := v.fold.catchUp(v.disk); err != nil {
		return err
	}
	v.count() // what comes later only explains what does not fit here
	if err := v.files(ctx); err != nil {
		return err
	}
	v.fold.settle(v.fold.pos.Seq)
	v.fold.balance()
	return nil
}

func (v *verifier) add(f Finding) {
	list := &v.report.Findings
	if f.Level == Note {
		list = &v.report.Notes
	}
	if v.seen[f.Code]++; v.seen[f.Code] > mostOfOne {
		return
	}
	*list = append(*list, f)
}

// finish says what was left out.
func (v *verifier) finish() {
	for _, code := range slices.Sorted(maps.Keys(v.seen)) {
		if n := v.seen[code] - mostOfOne; n > 0 {
			v.report.Notes = append(v.report.Notes, found(codeTooMany, "", "%d more of %s are not listed", n, code))
		}
	}
}

func (v *verifier) count() {
	s := v.fold.state
	r := &v.report
	r.Seq, r.Sum = v.fold.pos.Seq, v.fold.pos.Sum.String()
	r.Messages, r.Deliveries, r.Drops, r.Handled = s.Counts.Messages, s.Counts.Deliveries, s.Counts.Drops, s.Counts.Handled
	for _, a := range s.Roster() {
		r.Unread += uint64(len(a.Inbox))
	}
	if v.gitWhole {
		r.GitSeq = r.Seq
	}
}

// runs tells whether a daemon holds the hive.
func (v *verifier) runs() bool {
	_, held, err := durable.Holder(v.disk, router.LockFile)
	return err == nil && held
}

// log runs the log's own check. The fold begins only where the whole log can be
// read.
func (v *verifier) log(ctx context.Context) (whole bool, err error) {
	var damage []*eventlog.Damage
	check := func() (bad bool, err error) {
		damage = nil
		_, err = eventlog.Check(v.disk, func(d *eventlog.Damage) { damage = append(damage, d) })
		return len(damage) > 0, err
	}
	if err := v.believe(ctx, check); err != nil {
		return false, err
	}
	for _, d := range damage {
		v.add(logFinding(v.disk, d))
	}
	return len(damage) == 0, nil
}

// logFinding names the place and, where the line still tells, the message.
func logFinding(disk durable.FS, d *eventlog.Damage) Finding {
	where := d.File
	if d.Line > 0 {
		where = fmt.Sprintf("%s:%d", d.File, d.Line)
	}
	code := codeLogDamaged
	switch {
	case errors.Is(d.Err, eventlog.ErrMissing) && d.File == protocol.PathLog:
		code = codeLogMissing
	case errors.Is(d.Err, eventlog.ErrMissing):
		code = codeSegmentGone
	}
	f := found(code, where, "%v", d.Err).about(d.Seq, messageAt(disk, d))
	if d.Remedy != "" {
		f.Remedy = d.Remedy
	}
	return f
}

// lineHead is how much of a damaged line is read, in bytes.
const lineHead = 1 << 10

// messageAt reads the id of a message out of a line that may be damaged.
func messageAt(disk durable.FS, d *eventlog.Damage) protocol.MessageID {
	if d.Line == 0 {
		return ""
	}
	f, err := disk.Open(d.File)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // only read
	head := make([]byte, lineHead)
	n, _ := f.ReadAt(head, d.Offset) // a short line is read as far as it goes
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	_, rest, ok := strings.Cut(line, `"kind":"message","id":"`)
	if !ok {
		return ""
	}
	text, _, _ := strings.Cut(rest, `"`)
	id, err := protocol.ParseMessageID(text)
	if err != nil {
		return ""
	}
	return id
}

// believe runs a check, and once more after a pause where it found something
// beside a running daemon, which may just have been writing there.
func (v *verifier) believe(ctx context.Context, check func() (bad bool, err error)) error {
	for try := 1; ; try++ {
		bad, err := check()
		if err != nil || !bad || try == 3 || !v.runs() {
			return err
		}
		if err := pause(ctx, time.Duration(try)*100*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// git holds the history against the log. The first look folds the log on its
// way.
func (v *verifier) git(ctx context.Context) error {
	if _, err := v.disk.Lstat(dirGit); errors.Is(err, fs.ErrNotExist) {
		v.add(found(codeGitMissing, dirGit, "there is no git repository"))
		return nil
	}
	also := v.fold.add
	var problems []gitcommit.Problem
	err := v.believe(ctx, func() (bad bool, err error) {
		problems = nil
		err = gitcommit.Check(ctx, v.disk, history(v.disk, eventlog.Position{}, also), func(p gitcommit.Problem) {
			bad = bad || !p.Info
			problems = append(problems, p)
		})
		also = nil
		return bad, err
	})
	switch {
	case errors.Is(err, gitcommit.ErrForeign), errors.Is(err, gitcommit.ErrUnsupported), errors.Is(err, gitcommit.ErrDamaged):
		v.add(foreignGit(err))
		return nil
	case err != nil:
		return err
	}
	v.gitWhole = true
	for _, err := range gitcommit.Commits(v.disk) {
		if err != nil {
			break // told of already
		}
		v.report.Commits++
	}
	return v.tellGit(ctx, problems)
}

const dirGit = ".git"

// tellGit turns what package gitcommit found into findings that name the
// message, where an object is one.
func (v *verifier) tellGit(ctx context.Context, problems []gitcommit.Problem) error {
	want := map[protocol.Blob]bool{}
	for _, p := range problems {
		if !p.Object.IsZero() {
			want[p.Object] = true
		}
		if p.Code == gitcommit.CodeBehind {
			v.report.GitSeq, v.gitWhole = p.Seq, false
		}
	}
	from, err := origins(ctx, v.disk, want)
	if err != nil {
		return err
	}
	for _, p := range problems {
		v.add(gitFinding(p, from[p.Object]))
	}
	return nil
}

func gitFinding(p gitcommit.Problem, from origin) Finding {
	where := p.Path
	switch {
	case !p.Object.IsZero():
		where = p.Object.String()
	case !p.Commit.IsZero():
		where = p.Commit.String()
	}
	f := found(Code(p.Code), where, "%s", p.Text).about(p.Seq, "")
	if from.seq > 0 {
		f = f.about(from.seq, from.id)
		f.Text += ": it is " + from.path
	}
	return f
}

// files compares the disk with what the log gives. While a daemon runs, what
// does not fit is looked at again until it does, or the daemon had two passes.
func (v *verifier) files(ctx context.Context) error {
	f := &files{disk: v.disk, fold: v.fold, running: v.runs()}
	paths, err := f.all(v.opt)
	if err != nil {
		return err
	}
	v.report.Files = len(paths)
	deadline := time.Now().Add(2*v.opt.Settings.Rescan + 500*time.Millisecond)
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		list, err := f.round(ctx, paths)
		if err != nil {
			return err
		}
		f.running = v.runs()
		if !passing(list) || !f.running || time.Now().After(deadline) {
			for _, x := range list {
				v.add(x.Finding)
			}
			return v.waiting()
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		if err := v.fold.catchUp(v.disk); err != nil {
			return err
		}
		paths = paths[:0]
		for _, x := range list {
			paths = append(paths, x.path)
		}
	}
}

// suspect is a path that is not as it should be.
type suspect struct {
	path string
	Finding
}

// passing tells whether a running daemon may be about to settle some of it.
func passing(list []suspect) bool {
	return slices.ContainsFunc(list, func(x suspect) bool {
		switch x.Code { //nolint:exhaustive // the others are not about unread messages
		case codeFileAltered, codeFileMissing, codeFilePlanted, codeHandledSoon, codeGoneSoon, codeAgainSoon, codeReopened:
			return true
		}
		return false
	})
}

// all lists the paths to compare: those that should be there, and those that
// are there where only what hived knows should be.
func (f *files) all(opt Options) ([]string, error) {
	var paths []string
	if err := f.fold.tree.Walk(func(p string, _ protocol.Blob) error {
		paths = append(paths, p)
		return nil
	}); err != nil {
		return nil, err
	}
	paths = append(paths, f.strangers()...)
	own, err := f.newOwn(opt)
	return append(paths, own...), err
}

// strangers lists what stands in an inbox and is unread by no one.
func (f *files) strangers() []string {
	var paths []string
	for _, a := range f.fold.state.Roster() {
		list, err := f.disk.ReadDir(protocol.InboxDir(a.ID))
		if err != nil {
			continue // that it is not there shows in what is missing from it
		}
		for _, e := range list {
			if _, known := a.Inbox[e.Name]; !known && protocol.IsMessageName(e.Name) {
				paths = append(paths, protocol.InboxDir(a.ID)+"/"+e.Name)
			}
		}
	}
	return paths
}

// newOwn lists the agents' own files that no event has yet.
func (f *files) newOwn(opt Options) ([]string, error) {
	s := opt.Settings.OwnFiles
	boxes := mailbox.New(f.disk, mailbox.Options{OwnMaxBytes: s.MaxBytes, OwnInclude: s.Include, Settle: time.Minute})
	var paths []string
	for _, a := range f.fold.state.Roster() {
		own, err := boxes.OwnFiles(a.ID, time.Now(), true)
		if err != nil {
			continue // the agent's directory is gone, and so are its files
		}
		for _, x := range own.Changed {
			_, known, err := f.fold.tree.Lookup(x.Path)
			if err != nil {
				return nil, err
			}
			if !known && !x.TooBig && !x.BadName {
				paths = append(paths, x.Path)
			}
		}
	}
	return paths, nil
}

// round compares a list of paths.
func (f *files) round(ctx context.Context, paths []string) ([]suspect, error) {
	var list []suspect
	for i, p := range paths {
		if i%256 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		one, err := f.check(p)
		if err != nil {
			return nil, err
		}
		if one != nil {
			list = append(list, suspect{p, *one})
		}
	}
	return list, nil
}

// waiting notes the messages that wait in outboxes (spec §4.8).
func (v *verifier) waiting() error {
	for _, a := range v.fold.state.Roster() {
		if n := router.Pending(v.disk, a.ID); n > 0 {
			v.add(found(codePending, protocol.OutboxDir(a.ID), "%d messages wait to be taken in", n))
		}
	}
	return nil
}
