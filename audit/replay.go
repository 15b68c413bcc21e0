package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// Until is where a replay ends. The zero Until is the end of the log.
type Until struct {
	Seq protocol.Seq // after this event
	At  time.Time    // after the last event that is not later
}

// ParseUntil parses an end: the number of an event, or a time (RFC 3339).
func ParseUntil(s string) (Until, error) {
	if seq, err := protocol.ParseSeq(s); err == nil {
		return Until{Seq: seq}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	return Until{At: at}, err
}

// Before reports whether an event comes after the end.
func (u Until) Before(ev protocol.Event) bool {
	return u.Seq > 0 && ev.Seq > u.Seq || !u.At.IsZero() && ev.TS.After(u.At)
}

// StateAt folds the log up to an end and returns the state there.
func StateAt(disk durable.FS, remember protocol.RememberSettings, until Until) (*ledger.State, error) {
	state := ledger.New(remember)
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err != nil {
			return nil, err
		}
		if until.Before(rec.Event) {
			break
		}
		state.Apply(rec.Event)
	}
	return state, nil
}

// Result describes the tree that [Replay] wrote.
type Result struct {
	Seq   protocol.Seq `json:"seq"` // of the last event folded
	Sum   string       `json:"sum"`
	At    time.Time    `json:"at"`
	Files int          `json:"files"`
	Bytes int64        `json:"bytes"`
}

var (
	// ErrNotEmpty refuses to replay into a directory that holds something.
	ErrNotEmpty = errors.New("the directory is not empty; name a new one")
	// ErrInside refuses to replay into the hive itself.
	ErrInside = errors.New("the directory is inside the hive, which a replay never changes; name one outside")
	// ErrNoSuchEvent says that the log ends before the event, or begins after the
	// time.
	ErrNoSuchEvent = errors.New("the log has no such event")
)

// Replay writes the tree that hived owned after one event into a directory
// that is empty or does not exist yet: byte for byte what git's tree has at that
// event (spec §5). All of it comes from the log; sealed segments are copied as they
// are. It starts no agent and changes nothing in the hive. The files are not
// synced: they can be made again.
func Replay(ctx context.Context, disk *durable.Disk, into string, until Until) (Result, error) {
	res, err := replay(ctx, disk, into, until)
	if err != nil {
		return Result{}, fmt.Errorf("replay into %s: %w", protocol.Quote(into), err)
	}
	return res, nil
}

func replay(ctx context.Context, disk *durable.Disk, into string, until Until) (Result, error) {
	if err := outside(disk.Path("."), into); err != nil {
		return Result{}, err
	}
	// The first reading finds the content that is alive at the end, the second writes
	// it, so that nothing is written and deleted again.
	tree, state, res, err := treeAt(ctx, disk, until)
	if err != nil {
		return Result{}, err
	}
	out, err := emptyDir(into)
	if err != nil {
		return Result{}, err
	}
	defer out.Close() //nolint:errcheck // every file was closed
	w := &writer{from: disk, to: out, view: state.View, checkpoints: newCheckpoints(disk), want: map[protocol.Blob][]string{}, made: map[string]bool{}}
	if err := tree.Walk(w.plan); err != nil {
		return Result{}, err
	}
	if err := visitPuts(ctx, disk, res.Seq, w.put); err != nil {
		return Result{}, err
	}
	if len(w.want) > 0 {
		return Result{}, fmt.Errorf("the log does not hold what %d files had", len(w.want))
	}
	res.Files, res.Bytes = w.files, w.bytes
	return res, nil
}

// treeAt folds the log up to an event.
func treeAt(ctx context.Context, disk durable.FS, until Until) (*gitcommit.Tree, *ledger.State, Result, error) {
	tree, state, res := gitcommit.NewTree(), ledger.New(checkMemory), Result{}
	views := ledger.NewViews(state)
	var last protocol.Seq
	for rec, err := range effects(disk, eventlog.Position{}, changesOf) {
		ev := rec.Event
		switch {
		case err != nil:
			return nil, nil, res, err
		case ctx.Err() != nil:
			return nil, nil, res, context.Cause(ctx)
		}
		last = ev.Seq
		if until.Before(ev) {
			break
		}
		if _, err := tree.Apply(effectOf(rec).changes, noSegment); err != nil {
			return nil, nil, res, err
		}
		views.Fold(ev)
		res = Result{Seq: ev.Seq, Sum: rec.Sum.String(), At: ev.TS}
	}
	switch {
	case until.Seq > last:
		return nil, nil, res, fmt.Errorf("%w: %d; the last one is %d", ErrNoSuchEvent, until.Seq, last)
	case res.Seq == 0:
		return nil, nil, res, fmt.Errorf("%w: nothing had happened by %s", ErrNoSuchEvent, protocol.Stamp(until.At))
	}
	_, err := tree.Apply(setIDs(views.Drain()), noSegment)
	return tree, state, res, err
}

// outside refuses a directory at or below the hive, whatever links lead there.
func outside(hive, into string) error {
	root, err := os.Stat(hive)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(into)
	if err != nil {
		return err
	}
	for {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			dir = real
			if info, err := os.Stat(dir); err == nil && os.SameFile(root, info) {
				return ErrInside
			}
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// emptyDir opens an empty directory to write into, and makes it where it is missing.
func emptyDir(dir string) (*durable.Disk, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(abs); errors.Is(err, fs.ErrNotExist) {
		if err := makeDir(abs); err != nil {
			return nil, err
		}
	}
	out, err := durable.Open(abs)
	if err != nil {
		return nil, err
	}
	entries, err := out.ReadDir(".")
	if err == nil && len(entries) > 0 {
		err = ErrNotEmpty
	}
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

func makeDir(abs string) error {
	parent, err := durable.Open(filepath.Dir(abs))
	if err != nil {
		return err
	}
	return errors.Join(parent.Mkdir(filepath.Base(abs), 0o755), parent.Close())
}

// writer writes the content of events to the paths that have it in the tree.
type writer struct {
	from        durable.FS
	to          durable.FS
	view        func(path string) ([]byte, bool) // views, which are in no event
	checkpoints *ledger.Checkpoints
	want        map[protocol.Blob][]string // paths that still have to be written
	made        map[string]bool            // directories
	files       int
	bytes       int64
}

// plan notes a path of the tree; views and sealed segments are written at once.
func (w *writer) plan(p string, id protocol.Blob) error {
	if strings.HasPrefix(p, protocol.PathSegments+"/") {
		return w.segment(p)
	}
	if data, ok := w.view(p); ok {
		return w.create(p, func(f io.Writer) error { return w.write(f, data) })
	}
	w.want[id] = append(w.want[id], p)
	return nil
}

// put writes the content of one change to all the paths that have it.
func (w *writer) put(ev protocol.Event, c protocol.Change) error {
	if len(w.want[c.Blob]) == 0 {
		return nil
	}
	data, err := w.checkpoints.DataIn(ev, c.Path)
	if err != nil {
		return err
	}
	for _, p := range w.want[c.Blob] {
		if err := w.create(p, func(f io.Writer) error { return w.write(f, data) }); err != nil {
			return err
		}
	}
	delete(w.want, c.Blob)
	return nil
}

func (w *writer) write(f io.Writer, data []byte) error {
	n, err := f.Write(data)
	w.bytes += int64(n)
	return err
}

func (w *writer) segment(p string) error {
	f, err := w.from.Open(p)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	return w.create(p, func(to io.Writer) error {
		n, err := io.Copy(to, f)
		w.bytes += n
		return err
	})
}

func (w *writer) create(p string, write func(io.Writer) error) error {
	if dir := path.Dir(p); !w.made[dir] {
		if err := w.to.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		w.made[dir] = true
	}
	f, err := w.to.Create(p, 0o644)
	if err != nil {
		return err
	}
	w.files++
	return errors.Join(write(f), f.Close())
}
