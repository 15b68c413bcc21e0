package torture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/proof/child"
	"github.com/hived/hived/protocol"
)

// hiveYAML is the settings of a hive under torture: what is rare elsewhere happens
// often, and by default no limit stops a message. Agents that lost an answer create tasks
// while they hold some.
const hiveYAML = `settle: 200ms
rescan: 500ms
hop_cap: %d
routing: {breaker: {echoes: %d}}
inbox_cap: %d
log: {segment_bytes: 65536}
git: {commit_delay: 20ms}
retention: {files: 20}
tasks: {lease: 150ms, heartbeat_timeout: 150ms, progress_timeout: 300ms, stall_grace: 50ms, backoff: {base: 20ms, max: 100ms}, max_retries: 1000, generations: 100, retention: 2s, approval_timeout: %s}
`

const (
	noLimit = 1_000_000 // stops no message
	// echoesOfLoop is more than a harmless agent can send before a hive with
	// hostile agents has enough messages.
	echoesOfLoop = 300
)

// settings returns the settings of a hive. With hostile agents they have limits that
// stop these, and that the harmless come nowhere near. A copy may live for very
// long, so nothing stops a message there.
func (h *hive) settings() string {
	hops, echoes, unread := noLimit, noLimit, noLimit
	if len(h.crowd.guests) > 0 && !h.copied {
		hops, echoes, unread = protocol.DefaultSettings().HopCap, echoesOfLoop, inboxCap
	}
	return fmt.Sprintf(hiveYAML, hops, echoes, unread, approvalTime)
}

// hive is a hive that is tortured, with its agents.
type hive struct {
	program string
	dir     string
	git     string // the git program; empty if there is none
	copied  bool   // of a user's hive
	crowd   *crowd
	logged  *accepted
	tell    func(doing string, r Report)

	hostile []string         // names of those that do harm
	tears   protocol.AgentID // the agent whose inbox files are truncated; empty if there is none
	// exclusive is held while somebody inspects the hive, or changes files that
	// are hived's own.
	exclusive sync.Mutex
}

const pace = 60 * time.Millisecond

// newHive makes a hive, or a copy of one, in a directory that does not exist yet.
func newHive(ctx context.Context, o Options, dir string) (*hive, error) {
	h := &hive{program: o.Program, dir: dir, copied: o.Hive != "", crowd: newCrowd(dir, o.Agents, pace), logged: newAccepted(), tell: o.Tell}
	h.git, _ = exec.LookPath("git") // without it there is one check less
	if h.copied {
		if err := os.CopyFS(dir, os.DirFS(o.Hive)); err != nil {
			return nil, fmt.Errorf("copy the hive: %w", err)
		}
	}
	if err := h.invite(o.Hostile); err != nil {
		return nil, err
	}
	for _, id := range h.crowd.everybody("") {
		if err := os.MkdirAll(filepath.Join(dir, protocol.OutboxDir(id)), 0o755); err != nil { //nolint:gosec // a hive is as readable as any directory
			return nil, fmt.Errorf("make a hive: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, protocol.PathSettings), []byte(h.settings()), 0o644); err != nil { //nolint:gosec // as above
		return nil, fmt.Errorf("make a hive: %w", err)
	}
	if h.copied {
		return h, nil
	}
	return h, h.run(ctx, "init", dir)
}

// run runs a command of hived.
func (h *hive) run(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, h.program, args...).CombinedOutput() //nolint:gosec // the program to be tortured
	if err != nil {
		return fmt.Errorf("hived %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// enough is how many messages of harmless agents a new hive gets: each check goes
// through all of them.
const (
	enough     = 2000
	enoughLoop = 1200 // in a hive where endless senders are stopped, see echoesOfLoop
)

// full reports whether a hive has had enough messages.
func (h *hive) full() bool {
	n := h.crowd.size()
	return !h.copied && (n >= enough || n >= enoughLoop && len(h.crowd.guests) > 0)
}

// work has the agents work until the returned function is called, which waits for
// them.
func (h *hive) work(ctx context.Context, random *rand.Rand) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	seed := rand.New(rand.NewPCG(random.Uint64(), 3)) //nolint:gosec // nothing is secret
	go func() { done <- h.crowd.work(ctx, seed) }()
	return func() error {
		cancel()
		return <-done
	}
}

// kills has the agents work and kills the daemon again and again, until ctx ends or
// it is time for another hive. Then it checks whether everything is there.
func (h *hive) kills(ctx context.Context, random *rand.Rand, most int, r *Report) error {
	end := h.work(ctx, random)
	var err error
	for n := 0; err == nil && ctx.Err() == nil && n < most && !h.full(); n++ {
		h.tell("killing daemons", *r)
		err = h.crash(ctx, random, r)
	}
	if err = errors.Join(err, end()); err != nil {
		return err
	}
	return h.finish(context.WithoutCancel(ctx), r)
}

// crash starts a daemon, lets it live for a moment and kills it. If the daemon got
// as far as a complete start, everything is checked before.
func (h *hive) crash(ctx context.Context, random *rand.Rand, r *Report) error {
	if err := h.readStopped(); err != nil {
		return err
	}
	before := h.logged.starts
	d, err := child.Start(h.program, h.dir, child.Options{})
	if err != nil {
		return err
	}
	up := random.IntN(3) > 0 // otherwise it ends in the middle of its recovery
	life := 30 * time.Millisecond
	if up {
		if err := h.started(ctx, d, before); err != nil {
			return errors.Join(err, d.Kill())
		}
		h.check(ctx, r)
		life *= 10
	}
	_ = pause.For(ctx, time.Duration(random.Int64N(int64(life))))
	if err := d.Alive(); err != nil {
		r.problem("%v", err)
	}
	if up && random.IntN(6) == 0 {
		r.Stops++
		if err := d.Stop(); err != nil {
			r.problem("%v", err)
		}
	} else {
		r.Crashes++
		cut := h.powerCut
		if up && random.IntN(2) == 0 {
			cut = h.powerCutWhenRead
		}
		if err := cut(ctx, d, random); err != nil {
			return err
		}
	}
	h.fsck(ctx, r)
	return nil
}

// powerCutWhenRead is powerCut after hived has set aside what others wrote into the
// log, and before they write more: only then is it known what was on the disk.
func (h *hive) powerCutWhenRead(ctx context.Context, d *child.Daemon, random *rand.Rand) error {
	if h.tears != "" {
		h.exclusive.Lock()
		defer h.exclusive.Unlock()
		_ = h.readSoon(ctx) // the next check finds what is wrong
	}
	return h.powerCut(ctx, d, random)
}

// powerCut kills a daemon, and truncates inbox files that were not on the disk yet.
func (h *hive) powerCut(_ context.Context, d *child.Daemon, random *rand.Rand) error {
	if err := d.Kill(); err != nil {
		return err
	}
	return h.cut(random)
}

// readStopped reads the log while no daemon runs. An error does not count if a
// program writes into the log, because hived repairs that first.
func (h *hive) readStopped() error {
	if err := h.logged.read(h.dir); err != nil && !slices.Contains(h.hostile, "log-writer") {
		return err
	}
	return nil
}

// cut does to inboxes what a power cut does, if the log says what that may be.
func (h *hive) cut(random *rand.Rand) error {
	if h.tears == "" || h.logged.read(h.dir) != nil {
		return h.readStopped()
	}
	h.tear(random)
	return nil
}

// startTime is how long a daemon may take to start.
const startTime = 60 * time.Second

// started waits until the log says that the daemon started, or until the time of the
// run is over.
func (h *hive) started(ctx context.Context, d *child.Daemon, before int) error {
	late := time.NewTimer(startTime)
	defer late.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := h.logged.read(h.dir); err == nil && h.logged.starts > before {
			return nil
		}
		select {
		case <-d.Ended():
			return d.Alive()
		case <-ctx.Done():
			return nil
		case <-late.C:
			return fmt.Errorf("the daemon did not start within %s: %s", startTime, d.Said())
		case <-tick.C:
		}
	}
}

// check compares the log with what the agents know, and with files and git, while
// the daemon runs. What is no longer in an outbox must be in the log, so outboxes
// are read first.
func (h *hive) check(ctx context.Context, r *Report) {
	h.exclusive.Lock()
	defer h.exclusive.Unlock()
	sent := h.crowd.known.keys()
	waits, err := h.waiting()
	if err == nil {
		err = h.readSoon(ctx)
	}
	if err != nil {
		r.problem("%v", err)
		return
	}
	h.logged.holds(slices.DeleteFunc(sent, func(key string) bool { return waits[key] }), r)
	h.verify(ctx, r)
	r.Checks++
}

// mendTime is how long hived may take to notice what others wrote into its log.
const mendTime = 10 * time.Second

// readSoon reads the log as soon as hived has set aside what others wrote there.
func (h *hive) readSoon(ctx context.Context) (err error) {
	for begin := time.Now(); time.Since(begin) < mendTime; _ = pause.For(ctx, 5*time.Millisecond) {
		if err = h.logged.read(h.dir); err == nil || ctx.Err() != nil || !slices.Contains(h.hostile, "log-writer") {
			break
		}
	}
	return err
}

// waiting returns the keys of the messages in the outboxes.
func (h *hive) waiting() (map[string]bool, error) {
	keys := map[string]bool{}
	for _, id := range h.crowd.everybody("") {
		dir := filepath.Join(h.dir, protocol.OutboxDir(id))
		list, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // git removed it with its content, and hived makes it again
		}
		if err != nil {
			return nil, fmt.Errorf("read an outbox: %w", err)
		}
		for _, e := range list {
			data, err := os.ReadFile(filepath.Join(dir, e.Name())) //nolint:gosec // what an agent wrote
			if err != nil {
				continue // it is gone by now, or is a directory
			}
			keys[keyIn(data)] = true
		}
	}
	return keys, nil
}

// verify runs `hived verify`.
func (h *hive) verify(ctx context.Context, r *Report) {
	err := h.run(ctx, "--hive", h.dir, "verify")
	if err == nil || ctx.Err() != nil || h.excused(err.Error()) {
		return
	}
	r.problem("%v", err)
}

// excused reports whether all faults that `hived verify` found follow from what was
// done on purpose: messages that the deleter deleted, while hived does not believe
// it yet, and messages that git wrote into an inbox again after their agent had
// handled them.
func (h *hive) excused(said string) bool {
	faults := strings.Split(said, "fault    ")[1:]
	return len(faults) > 0 && !slices.ContainsFunc(faults, func(fault string) bool {
		what, _, _ := strings.Cut(fault, ":")
		code, path, _ := strings.Cut(what, " ")
		switch code {
		case "file-missing":
			return !slices.Contains(h.hostile, "deleter") || !strings.HasPrefix(path, protocol.InboxDir(stranger("deleter"))+"/")
		case "file-planted":
			return !slices.Contains(h.hostile, "person") || !h.crowd.known.wasHandled(path)
		}
		return true
	})
}

// fsck runs `git fsck` while no daemon runs: it would miss what is added while it reads.
func (h *hive) fsck(ctx context.Context, r *Report) {
	if h.git == "" {
		return
	}
	h.exclusive.Lock()
	defer h.exclusive.Unlock()
	out, err := exec.CommandContext(ctx, h.git, "-C", h.dir, "fsck", "--strict", "--no-dangling", "--no-progress").CombinedOutput() //nolint:gosec // reads a repository
	if (err != nil || len(out) > 0) && ctx.Err() == nil {
		first, _, _ := strings.Cut(string(out), "\n")
		r.problem("git fsck: %v: %s", err, first)
	}
}

// finish makes the last check of a hive: nothing is left to do, and everything has
// to be there.
func (h *hive) finish(ctx context.Context, r *Report) error {
	if err := h.crowd.settle(); err != nil {
		return err
	}
	for range 2 { // the second one must have nothing left to do
		if err := h.run(ctx, "up", "--once", h.dir); err != nil {
			r.problem("%v", err)
		}
	}
	if err := h.crowd.last(); err != nil {
		return err
	}
	if err := h.logged.read(h.dir); err != nil {
		r.problem("%v", err)
		return nil
	}
	waits, err := h.waiting()
	if err != nil {
		return err
	}
	h.logged.holds(h.crowd.known.gone(waits), r)
	h.crowd.known.setAside(h.logged, r)
	h.crowd.known.finish(waits, r)
	h.crowd.known.questions(&h.logged.tasks, r)
	h.stopped(r)
	h.crowd.known.tasks(&h.logged.tasks, r)
	h.verify(ctx, r)
	h.fsck(ctx, r)
	r.Checks++
	return nil
}

// stopped checks that the agents that broadcast back were stopped before they had
// sent all that they would, and for good, and that nobody else was stopped.
func (h *hive) stopped(r *Report) {
	for _, id := range h.crowd.everybody("") {
		why := h.logged.stopped[id]
		if !strings.HasPrefix(string(id), crowdNames+"echo-") {
			if why != "" {
				r.problem("%s, which does not echo endlessly, was stopped: %s", id, why)
			}
			continue
		}
		if n := h.logged.after[id]; n > 0 {
			r.problem("%d messages of %s were accepted after it was stopped", n, id)
		}
		if why == "" && h.logged.from[id] >= echoesMost && !h.copied {
			r.problem("%s, which broadcasts back, was not stopped within %d messages", id, echoesMost)
		}
	}
}
