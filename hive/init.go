package hive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/router/decide"
)

// Options say how a hive is made.
type Options struct {
	Settings protocol.Settings
	Template []byte // hive.yaml, where there is none yet
	Adopt    bool   // take over an older hive, or a directory that is a repository already
	Version  string
	Now      time.Time
	Tell     func(path, text string) // of what is taken over; may be nil
}

// ErrIsHive says that the directory is a hive already.
var ErrIsHive = protocol.NewError(protocol.CodeIsHive, "this is a hive already; start it with `hived up`")

// board is the first content of board.md.
const board = "# Board\n\nThe shared plan of this hive. Anyone may write here; every version is kept in git.\n"

// Init makes a hive of the directory below disk: its log, its directories, its
// repository with a first commit (spec §1).
func Init(disk durable.FS, opt Options) error {
	older, err := prepare(disk, opt)
	if err != nil {
		return err
	}
	real, ok := disk.(*durable.Disk)
	if !ok {
		return initialise(disk, opt, older) // no other process sees this disk
	}
	lock, err := durable.TakeLock(real, protocol.LockFile, nil)
	if err != nil {
		return err
	}
	err = initialise(disk, opt, older)
	return errors.Join(err, lock.Release())
}

// prepare reads what there is to take over, and makes what every hive needs.
func prepare(disk durable.FS, opt Options) (*olderHive, error) {
	if err := opt.Settings.Validate(); err != nil {
		return nil, err
	}
	for _, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err == nil {
			return nil, ErrIsHive
		}
		break
	}
	older, err := findOlder(disk, opt.Adopt)
	if err == nil && opt.Adopt {
		err = older.findTasks(disk)
	}
	if err != nil {
		return older, err
	}
	if older.is() && !opt.Adopt {
		return older, errors.New("this directory holds an older hive (registry.json, agents/): take it over with `hived init --adopt`")
	}
	repository := gitcommit.Init
	if opt.Adopt {
		repository = gitcommit.Adopt
	}
	if err := repository(disk); err != nil {
		return older, err
	}
	for _, dir := range []string{protocol.PathAgents, protocol.PathScratch, protocol.PathSegments, protocol.PathTasks} {
		if err := disk.MkdirAll(dir, 0o755); err != nil {
			return older, fmt.Errorf("make %s: %w", dir, err)
		}
	}
	return older, nil
}

func initialise(disk durable.FS, opt Options, older *olderHive) error {
	for _, f := range []struct {
		path string
		data []byte
	}{{protocol.PathSettings, opt.Template}, {protocol.PathBoard, []byte(board)}} {
		if _, err := disk.Lstat(f.path); errors.Is(err, fs.ErrNotExist) {
			if err := durable.Publish(disk, f.path, f.data, 0o644, durable.Synced); err != nil {
				return fmt.Errorf("write %s: %w", f.path, err)
			}
		}
	}
	if err := older.setAsideRegistry(disk); err != nil {
		return err
	}
	if err := older.setAsideLog(disk); err != nil {
		return err
	}
	if err := older.setAsideTasks(disk); err != nil {
		return err
	}
	if err := firstEvents(disk, opt, older); err != nil {
		return err
	}
	if opt.Tell != nil {
		if older.aside != "" {
			opt.Tell(protocol.PathRegistry, "as it was, it is kept as "+older.aside)
		}
		for _, text := range older.notes() {
			opt.Tell(protocol.PathAgents, text)
		}
		older.tellTasks(opt.Tell)
	}
	return firstRun(disk, opt)
}

// firstEvents begins the log, with everything that is taken over or not at all: a
// hive with a log is not adopted again, so what is missing would be missing for good.
func firstEvents(disk durable.FS, opt Options, older *olderHive) error {
	first := &protocol.HiveEvent{Action: protocol.Initialised, Format: protocol.BasicFormat, Note: opt.Version}
	if opt.Adopt {
		first.Action = protocol.Adopted
		first.Onto = older.onto
	}
	state := ledger.New(opt.Settings.Remember)
	state.Apply(protocol.Event{Seq: 1, TS: opt.Now, Body: first})
	d := decide.New(state, opt.Settings, nil, nil)
	d.Record(opt.Now, &protocol.AgentEvent{Agent: protocol.Human, Action: protocol.Joined})
	older.events(d, opt.Now)
	bodies := []protocol.Body{first}
	for _, decision := range d.Drain(opt.Now) {
		bodies = append(bodies, decision.Event.Body)
	}
	log, _, err := eventlog.Create(disk, eventlog.Options{SegmentBytes: opt.Settings.Log.SegmentBytes}, opt.Now, bodies...)
	if err != nil {
		return fmt.Errorf("begin the log: %w", err)
	}
	return log.Close()
}

// firstRun commits hive.yaml, which belongs to people and which hived never commits
// again, and lets a daemon run once on the new hive: that makes the directories and
// the first commit of the log.
func firstRun(disk durable.FS, opt Options) error {
	repo, err := gitcommit.Open(disk, gitcommit.Options{StaleLock: opt.Settings.Git.StaleLock})
	if err != nil {
		return err
	}
	if err := repo.Seed(context.Background(), opt.Now, "hive: settings", protocol.PathSettings); err != nil {
		return fmt.Errorf("make the first commit: %w", err)
	}
	return router.FirstRun(context.Background(), disk, router.Config{Settings: opt.Settings, Version: opt.Version})
}
