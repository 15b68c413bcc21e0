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

// OK reports whether no check found a gap.
func (r Report) OK() bool { return len(r.Findings) == 0 }

// maxPerCode bounds how many findings of one code are listed.
const maxPerCode = 200

// Verify reads everything and names each broken rule (spec §4.8, §5, §6). It may
// run beside the daemon: a mismatch counts only where it is still there after the
// daemon had time for two scans. An error means that the check could not be
// finished, whatever the report says.
func Verify(ctx context.Context, disk durable.FS, opt Options) (Report, error) {
	v := &verifier{disk: disk, opt: opt}
	v.reset()
	err := v.run(ctx)
	v.noteOmitted()
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
	seen     map[protocol.Code]int // findings of each code, listed or not
}

func (v *verifier) run(ctx context.Context) error {
	whole, err := v.checkHistory(ctx)
	if err != nil || !whole {
		return err // without a whole log there is nothing to compare with
	}
	if err := v.fold.catchUp(v.disk); err != nil {
		return err
	}
	v.fillCounts() // later events only explain mismatches
	if err := v.checkFiles(ctx); err != nil {
		return err
	}
	v.fold.reportOpen(v.fold.pos.Seq)
	v.fold.checkCounts()
	return nil
}

// reset forgets what an earlier pass found and returns a new one.
func (v *verifier) reset() *pass {
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
	if v.seen[f.Code]++; v.seen[f.Code] > maxPerCode {
		return
	}
	*list = append(*list, f)
}

// noteOmitted adds notes on the findings that are not listed.
func (v *verifier) noteOmitted() {
	for _, code := range slices.Sorted(maps.Keys(v.seen)) {
		if n := v.seen[code] - maxPerCode; n > 0 {
			v.report.Notes = append(v.report.Notes, found(protocol.CodeMoreFindings, "", "%d more of %s are not listed", n, code))
		}
	}
}

func (v *verifier) fillCounts() {
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

// daemonRuns reports whether a daemon holds the hive.
func (v *verifier) daemonRuns() bool {
	_, held, err := durable.Holder(v.disk, protocol.LockFile)
	return err == nil && held
}

// checkHistory checks the log, and git against the log, in one reading. It reports
// whether the log is whole.
func (v *verifier) checkHistory(ctx context.Context) (whole bool, err error) {
	var p *pass
	var problems []gitcommit.Problem
	var gitErr error
	if err := v.retry(ctx, func() (bad bool, err error) {
		p, problems = v.reset(), nil
		gitErr = v.checkGit(ctx, p, func(one gitcommit.Problem) {
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
		v.add(found(protocol.CodeGitMissing, pathGit, "%v", errNoGit))
		return true, nil
	case errors.Is(gitErr, gitcommit.ErrForeign), errors.Is(gitErr, gitcommit.ErrUnsupported), errors.Is(gitErr, gitcommit.ErrDamaged):
		v.add(foreignGit(gitErr))
		return true, nil
	case gitErr != nil:
		return false, gitErr
	}
	if err := v.addGitFindings(ctx, problems); err != nil {
		return false, err
	}
	return true, v.checkWorktree(ctx, problems)
}

// checkGit compares the repository with the log while it reads the log; without a
// repository it only reads the log.
func (v *verifier) checkGit(ctx context.Context, p *pass, report func(gitcommit.Problem)) error {
	_, err := v.disk.Lstat(pathGit)
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

// logFinding returns the finding of a damage of the log, with its place and, where
// the line still shows it, the message.
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

// messageAt reads the id of a message from a line that may be damaged.
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

// retry runs a check, up to three times with pauses where it finds something while
// a daemon runs, which may have been writing there just then.
func (v *verifier) retry(ctx context.Context, check func() (bad bool, err error)) error {
	for try := 1; ; try++ {
		bad, err := check()
		if err != nil || !bad || try == 3 || !v.daemonRuns() {
			return err
		}
		if err := pause.For(ctx, time.Duration(try)*100*time.Millisecond); err != nil {
			return err
		}
	}
}

const pathGit = ".git"

var errNoGit = errors.New("there is no git repository")

// addGitFindings turns what package gitcommit found into findings, which name the
// message where an object is one.
func (v *verifier) addGitFindings(ctx context.Context, problems []gitcommit.Problem) error {
	v.gitWhole = true
	for _, err := range gitcommit.Commits(v.disk) {
		if err != nil {
			break // reported already
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

// grace is how long verify waits for a running daemon: two scans, and two more
// whenever the daemon logged something meanwhile, because a busy one takes longer
// for them; at most maxGrace, or two scans where those are longer.
type grace struct {
	scans       time.Duration
	until, last time.Time
	seen        protocol.Seq // the last event that it logged
}

// maxGrace is how long verify waits for a daemon that goes on logging.
const maxGrace = 20 * time.Second

func newGrace(now time.Time, rescan time.Duration) grace {
	scans := 2*rescan + 500*time.Millisecond
	return grace{scans: scans, until: now.Add(scans), last: now.Add(max(scans, maxGrace))}
}

// logged extends the grace because the daemon logged something.
func (p *grace) logged(now time.Time) {
	if p.until = now.Add(p.scans); p.until.After(p.last) {
		p.until = p.last
	}
}

func (p *grace) ended(now time.Time) bool { return now.After(p.until) }

// checkFiles compares the disk with the log. While a daemon runs, mismatches are
// checked again until they are gone or the grace has ended.
func (v *verifier) checkFiles(ctx context.Context) error {
	f := &files{disk: v.disk, fold: v.fold, running: v.daemonRuns()}
	paths, err := f.paths(v.opt)
	if err != nil {
		return err
	}
	v.report.Files = len(paths)
	p := newGrace(time.Now(), v.opt.Settings.Rescan)
	p.seen = v.fold.pos.Seq
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		list, err := f.compare(ctx, paths)
		if err != nil {
			return err
		}
		f.running = v.daemonRuns()
		more, err := v.maySettle(list, f.running, &p)
		if err != nil {
			return err
		}
		if !more {
			for _, x := range list {
				v.add(x.Finding)
			}
			return v.notePending()
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

// maySettle reports whether a running daemon may still settle some of the findings.
// It folds what the daemon has logged meanwhile, which may explain them.
func (v *verifier) maySettle(list []pathFinding, running bool, p *grace) (bool, error) {
	if !anyMaySettle(list) || !running {
		return false, nil
	}
	if err := v.fold.catchUp(v.disk); err != nil {
		return false, err
	}
	if v.fold.pos.Seq > p.seen {
		p.seen = v.fold.pos.Seq
		p.logged(time.Now())
	}
	return !p.ended(time.Now()), nil
}

// pathFinding is the finding of a path that is not as it should be.
type pathFinding struct {
	path string
	Finding
}

// anyMaySettle reports whether a running daemon may be about to settle some of the
// findings.
func anyMaySettle(list []pathFinding) bool {
	return slices.ContainsFunc(list, func(x pathFinding) bool {
		switch x.Code { //nolint:exhaustive // the others are not about unread messages
		case protocol.CodeFileAltered, protocol.CodeArchiveAltered, protocol.CodeFileMissing, protocol.CodeTaskFile, protocol.CodeFilePlanted, protocol.CodeHandledSoon, protocol.CodeGoneSoon, protocol.CodeMassDeletion, protocol.CodeAgainSoon, protocol.CodeReopened:
			return true
		}
		return false
	})
}

// paths lists the paths to compare: those that should exist, and those that exist
// where only hived's files should.
func (f *files) paths(opt Options) ([]string, error) {
	var paths []string
	if err := f.fold.tree.Walk(func(p string, _ protocol.Blob) error {
		paths = append(paths, p)
		return nil
	}); err != nil {
		return nil, err
	}
	paths = append(paths, f.unknownInInboxes()...)
	own, err := f.unloggedOwn(opt)
	return append(paths, own...), err
}

// unknownInInboxes lists the files in inboxes that are no unread message of the
// state.
func (f *files) unknownInInboxes() []string {
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

// unloggedOwn lists the agents' own files that no event has yet.
func (f *files) unloggedOwn(opt Options) ([]string, error) {
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

// compare checks a list of paths and returns the findings.
func (f *files) compare(ctx context.Context, paths []string) ([]pathFinding, error) {
	var list []pathFinding
	for i, p := range paths {
		if i%256 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		one, err := f.check(p)
		if err != nil {
			return nil, err
		}
		if one != nil {
			list = append(list, pathFinding{p, *one})
		}
	}
	return list, nil
}

// notePending notes the messages that wait in outboxes (spec §4.8).
func (v *verifier) notePending() error {
	for _, a := range v.fold.state.Roster() {
		if n := mailbox.Pending(v.disk, a.ID); n > 0 {
			v.add(found(protocol.CodeOutboxWaiting, protocol.OutboxDir(a.ID), "messages that wait to be taken in: %d", n))
		}
	}
	return nil
}
