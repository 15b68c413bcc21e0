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
	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
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
	Kept       uint64       `json:"kept"`       // messages that wait for `hived continue`
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
func Verify(ctx context.Context, disk durable.FS, opt Options) (Report, error) {
	v := &verifier{disk: disk, opt: opt}
	v.begin()
	err := v.run(ctx)
	v.finish()
	if err != nil {
		return v.report, fmt.Errorf("verify: %w", err)
	}
	return v.report, nil
}

type verifier struct {
	disk     durable.FS
	opt      Options
	report   Report
	gitWhole bool // git holds all that the log holds
	fold     *fold
	seen     map[protocol.Code]int // findings of a code, those that are not listed too
}

func (v *verifier) run(ctx context.Context) error {
	whole, err := v.history(ctx)
	if err != nil || !whole {
		return err // what does not follow from an event cannot be held against it
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

// begin forgets what an earlier look found.
func (v *verifier) begin() *pass {
	v.report = Report{Findings: []Finding{}, Notes: []Finding{}}
	v.seen = map[protocol.Code]int{}
	v.fold = newFold(v.disk, v.add)
	return &pass{disk: v.disk, fold: v.fold}
}

func (v *verifier) add(f Finding) {
	list := &v.report.Findings
	if f.Level == protocol.LevelNote {
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
			v.report.Notes = append(v.report.Notes, found(protocol.CodeMoreFindings, "", "%d more of %s are not listed", n, code))
		}
	}
}

func (v *verifier) count() {
	s := v.fold.state
	r := &v.report
	r.Seq, r.Sum = v.fold.pos.Seq, v.fold.pos.Sum.String()
	r.Messages, r.Deliveries, r.Drops, r.Handled = s.Counts.Messages, s.Counts.Deliveries, s.Counts.Drops, s.Counts.Handled
	for _, n := range s.Kept() {
		r.Kept += uint64(n) //nolint:gosec // a length is not negative
	}
	for _, a := range s.Roster() {
		r.Unread += uint64(a.Inbox.Len()) //nolint:gosec // a length is not negative
	}
	if v.gitWhole {
		r.GitSeq = r.Seq
	}
}

// runs tells whether a daemon holds the hive.
func (v *verifier) runs() bool {
	_, held, err := durable.Holder(v.disk, protocol.LockFile)
	return err == nil && held
}

// history holds the log against itself and git against the log, in one reading.
// It is not whole where the log is damaged.
func (v *verifier) history(ctx context.Context) (whole bool, err error) {
	var p *pass
	var problems []gitcommit.Problem
	var gitErr error
	if err := v.believe(ctx, func() (bad bool, err error) {
		p, problems = v.begin(), nil
		gitErr = v.git(ctx, p, func(one gitcommit.Problem) {
			bad = bad || !one.Info
			problems = append(problems, one)
		})
		return bad || len(p.damage) > 0, p.err
	}); err != nil {
		return false, err
	}
	for _, d := range p.damage {
		v.add(logFinding(v.disk, d))
	}
	if len(p.damage) > 0 {
		return false, nil
	}
	switch {
	case errors.Is(gitErr, errNoGit):
		v.add(found(protocol.CodeGitMissing, dirGit, "%v", errNoGit))
		return true, nil
	case errors.Is(gitErr, gitcommit.ErrForeign), errors.Is(gitErr, gitcommit.ErrUnsupported), errors.Is(gitErr, gitcommit.ErrDamaged):
		v.add(foreignGit(gitErr))
		return true, nil
	case gitErr != nil:
		return false, gitErr
	}
	if err := v.tellGit(ctx, problems); err != nil {
		return false, err
	}
	return true, v.work(ctx, problems)
}

// git checks the repository and reads the log on its way, or the log alone
// where there is nothing to hold it against.
func (v *verifier) git(ctx context.Context, p *pass, report func(gitcommit.Problem)) error {
	_, err := v.disk.Lstat(dirGit)
	switch {
	case err == nil:
		err = gitcommit.Check(ctx, v.disk, p.events(ctx), report)
	case errors.Is(err, fs.ErrNotExist):
		err = errNoGit
	}
	if !p.begun && ctx.Err() == nil {
		p.events(ctx)(func(gitcommit.Event, error) bool { return true })
	}
	return err
}

// logFinding names the place and, where the line still tells, the message.
func logFinding(disk durable.FS, d *eventlog.Damage) Finding {
	where := d.File
	if d.Line > 0 {
		where = fmt.Sprintf("%s:%d", d.File, d.Line)
	}
	code := protocol.CodeLogDamaged
	switch {
	case errors.Is(d.Err, eventlog.ErrMissing) && d.File == protocol.PathLog:
		code = protocol.CodeLogMissing
	case errors.Is(d.Err, eventlog.ErrMissing):
		code = protocol.CodeSegmentMissing
	case errors.Is(d.Err, eventlog.ErrForeign):
		code = protocol.CodeLogForeign
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
		if err := pause.For(ctx, time.Duration(try)*100*time.Millisecond); err != nil {
			return err
		}
	}
}

const dirGit = ".git"

var errNoGit = errors.New("there is no git repository")

// tellGit turns what package gitcommit found into findings that name the
// message, where an object is one.
func (v *verifier) tellGit(ctx context.Context, problems []gitcommit.Problem) error {
	v.gitWhole = true
	for _, err := range gitcommit.Commits(v.disk) {
		if err != nil {
			break // told of already
		}
		v.report.Commits++
	}
	want := map[protocol.Blob]bool{}
	for _, p := range problems {
		if !p.Object.IsZero() {
			want[p.Object] = true
		}
		if p.Code == protocol.CodeGitBehind {
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
	f := found(p.Code, where, "%s", p.Text).about(p.Seq, "")
	if from.seq > 0 {
		f = f.about(from.seq, from.id)
		f.Text += ": it is " + from.path
	}
	return f
}

// grace is how long a running daemon is waited for: two passes, and two more
// whenever it logged something meanwhile, for who has much to do takes longer
// for them; but not for ever.
type grace struct {
	passes      time.Duration
	until, last time.Time
	seen        protocol.Seq // the last event that it logged
}

// busiest is as long as a daemon that logs one thing after the other is waited
// for.
const busiest = 20 * time.Second

func newGrace(now time.Time, rescan time.Duration) grace {
	passes := 2*rescan + 500*time.Millisecond
	return grace{passes: passes, until: now.Add(passes), last: now.Add(max(passes, busiest))}
}

// logged notes that the daemon logged something.
func (p *grace) logged(now time.Time) {
	if p.until = now.Add(p.passes); p.until.After(p.last) {
		p.until = p.last
	}
}

func (p *grace) over(now time.Time) bool { return now.After(p.until) }

// files compares the disk with what the log gives. While a daemon runs, what
// does not fit is looked at again until it does, or the daemon had two passes;
// one that has much to do takes longer for them.
func (v *verifier) files(ctx context.Context) error {
	f := &files{disk: v.disk, fold: v.fold, running: v.runs()}
	paths, err := f.all(v.opt)
	if err != nil {
		return err
	}
	v.report.Files = len(paths)
	p := newGrace(time.Now(), v.opt.Settings.Rescan)
	p.seen = v.fold.pos.Seq
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		list, err := f.round(ctx, paths)
		if err != nil {
			return err
		}
		f.running = v.runs()
		more, err := v.mayPass(list, f.running, &p)
		if err != nil {
			return err
		}
		if !more {
			for _, x := range list {
				v.add(x.Finding)
			}
			return v.waiting()
		}
		if err := pause.For(ctx, wait); err != nil {
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

// mayPass tells whether a daemon may yet settle some of what was found. What it
// has logged meanwhile, in the last moment too, may be what was missed.
func (v *verifier) mayPass(list []suspect, running bool, p *grace) (bool, error) {
	if !passing(list) || !running {
		return false, nil
	}
	if err := v.fold.catchUp(v.disk); err != nil {
		return false, err
	}
	if v.fold.pos.Seq > p.seen {
		p.seen = v.fold.pos.Seq
		p.logged(time.Now())
	}
	return !p.over(time.Now()), nil
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
		case protocol.CodeFileAltered, protocol.CodeArchiveAltered, protocol.CodeFileMissing, protocol.CodeTaskFile, protocol.CodeFilePlanted, protocol.CodeHandledSoon, protocol.CodeGoneSoon, protocol.CodeMassDeletion, protocol.CodeAgainSoon, protocol.CodeReopened:
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
			if _, known := a.Inbox.Get(e.Name); !known && protocol.IsMessageName(e.Name) {
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
		own, err := boxes.OwnFiles(a.ID, time.Now())
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
		if n := mailbox.Pending(v.disk, a.ID); n > 0 {
			v.add(found(protocol.CodeOutboxWaiting, protocol.OutboxDir(a.ID), "%d messages wait to be taken in", n))
		}
	}
	return nil
}
