package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// RepairOptions of [Repair].
type RepairOptions struct {
	Settings protocol.Settings
	Version  string
	// Adopt allows repairs that give something up: a new log from the files as they
	// are where there is no log, and a history built from a log that lost its end.
	// What was there before is kept aside.
	Adopt bool
}

// Action is one thing that was mended.
type Action struct {
	Code  protocol.Code `json:"code"` // of the fault
	Where string        `json:"where,omitzero"`
	Text  string        `json:"text"` // what was done
}

// String returns the action as one line that is safe on a terminal.
func (a Action) String() string {
	if a.Where == "" {
		return protocol.Visible(string(a.Code) + ": " + a.Text)
	}
	return protocol.Visible(string(a.Code) + " " + a.Where + ": " + a.Text)
}

// Repaired is what [Repair] did, and what is left.
type Repaired struct {
	Done   []Action  `json:"done"`
	Left   []Finding `json:"left"` // what is still wrong
	Report Report    `json:"report"`
}

// ErrNotAHive says that a directory holds neither agents nor a log.
var ErrNotAHive = errors.New("this is not a hive; make one with `hived init`")

// Repair makes disk and git agree with the log again, and the log with itself
// where git still has what it lost. It holds the hive's lock meanwhile: where a
// daemon runs the error is [durable.ErrLocked]. It deletes nothing: what it
// replaces is below .hived/ afterwards. It logs what it did as a `hive` event, and
// ends with [Verify].
func Repair(ctx context.Context, disk durable.FS, opt RepairOptions) (Repaired, error) {
	r := &repairer{disk: disk, opt: opt}
	r.out.Done, r.out.Left = []Action{}, []Finding{}
	if err := r.run(ctx); err != nil {
		return r.out, fmt.Errorf("repair: %w", err)
	}
	return r.out, nil
}

type repairer struct {
	disk durable.FS
	opt  RepairOptions
	out  Repaired
	fold *fold
}

func (r *repairer) done(code protocol.Code, where, format string, args ...any) {
	r.out.Done = append(r.out.Done, Action{code, where, fmt.Sprintf(format, args...)})
}

func (r *repairer) left(f Finding) { r.out.Left = append(r.out.Left, f) }

func (r *repairer) run(ctx context.Context) error {
	if !r.isHive() {
		return ErrNotAHive
	}
	if err := r.disk.MkdirAll(protocol.PathScratch, 0o755); err != nil {
		return err
	}
	release := func() error { return nil } // a disk that no other process sees needs no lock
	if shared, ok := r.disk.(*durable.Disk); ok {
		lock, err := durable.TakeLock(shared, protocol.LockFile, []byte("repair\n"))
		if err != nil {
			return err
		}
		release = lock.Release
	}
	again, err := r.runLocked(ctx)
	if err := errors.Join(err, release()); err != nil {
		return err
	}
	if again {
		if err := r.adopt(ctx); err != nil {
			return err
		}
	}
	if len(r.out.Left) > 0 {
		return nil // without a whole log there is nothing to compare with
	}
	r.out.Report, err = Verify(ctx, r.disk, Options{Settings: r.opt.Settings})
	r.out.Left = append(r.out.Left, r.out.Report.Findings...)
	return err
}

func (r *repairer) isHive() bool {
	for _, name := range []string{protocol.PathLog, protocol.PathAgents, protocol.PathSegments} {
		if _, err := r.disk.Lstat(name); err == nil {
			return true
		}
	}
	return false
}

// runLocked does what needs the hive's lock. It reports whether the hive has to be
// adopted from its files instead.
func (r *repairer) runLocked(ctx context.Context) (adopt bool, err error) {
	if err := r.mendRights(); err != nil {
		return false, err
	}
	if _, err := r.disk.Lstat(protocol.PathLog); errors.Is(err, fs.ErrNotExist) {
		if r.opt.Adopt {
			return true, nil
		}
		r.left(found(protocol.CodeLogMissing, protocol.PathLog, "the file is missing: what is not in a sealed segment cannot be made again"))
		return false, nil
	}
	whole, err := r.mendLog()
	if err != nil || !whole {
		return false, err
	}
	r.fold = newFold(r.disk, func(Finding) {})
	if err := r.fold.catchUp(r.disk); err != nil {
		return false, err
	}
	for _, step := range []func(context.Context) error{r.makeDirectories, r.mendFiles, r.removeLeftovers, r.mendGit} {
		if err := step(ctx); err != nil {
			return false, err
		}
	}
	return false, nil
}

// noteMost bounds the note about a repair in the log, in bytes.
const noteMost = 600

// record logs what was mended (spec §5).
func (r *repairer) record() error {
	log, _, err := eventlog.Open(r.disk, eventlog.Options{SegmentBytes: r.opt.Settings.Log.SegmentBytes}, func(protocol.Event) error { return nil })
	if err != nil {
		return err
	}
	var note strings.Builder
	for i, a := range r.out.Done {
		if note.Len() > noteMost {
			fmt.Fprintf(&note, "; and %d more", len(r.out.Done)-i)
			break
		}
		if i > 0 {
			note.WriteString("; ")
		}
		note.WriteString(a.String())
	}
	_, err = log.Append([]protocol.Event{{
		Seq: log.Next(), TS: time.Now().UTC(),
		Body: &protocol.HiveEvent{Action: protocol.Repaired, Note: note.String()},
	}})
	return errors.Join(err, log.Close())
}
