package matrix

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/hived/hived/audit"
	makehive "github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
	"github.com/hived/hived/view"
)

// matrix holds what the rows share.
type matrix struct {
	t        *testing.T
	template func() string  // the directory of a hive of which others are copies
	hived    func() string  // the program, built
	common   func() *daemon // the hive that rows share
}

func newMatrix(t *testing.T) *matrix {
	t.Helper()
	m := &matrix{t: t}
	m.template = sync.OnceValue(m.makeTemplate)
	m.hived = sync.OnceValue(m.build)
	m.common = sync.OnceValue(m.startCommon)
	return m
}

// quick returns settings with which a row has little to wait for.
func quick() protocol.Settings {
	s := protocol.DefaultSettings()
	s.Settle, s.Rescan, s.Git.CommitDelay = 20*time.Millisecond, 30*time.Millisecond, 5*time.Millisecond
	return s
}

// yaml has the same settings for those that read hive.yaml.
const yaml = "settle: 20ms\nrescan: 30ms\ngit: {commit_delay: 5ms}\n"

func (m *matrix) makeTemplate() string {
	dir := filepath.Join(m.t.TempDir(), "hive")
	for _, id := range []string{"alice", "bob", "carol", "dave"} {
		testenv.Must(m.t, os.MkdirAll(filepath.Join(dir, "agents", id, "outbox"), 0o755))
	}
	disk, err := durable.Open(dir)
	testenv.Must(m.t, err)
	defer disk.Close()
	testenv.Must(m.t, makehive.Init(disk, makehive.Options{Settings: quick(), Template: []byte(yaml), Version: "test", Now: time.Now()}))
	return dir
}

// daemon is a hive and the daemon that runs on it.
type daemon struct {
	dir  string
	real *durable.Disk
	mem  *faultfs.Mem // nil for a hive on a real disk
	disk durable.FS   // of these two, the one that the hive is on
	set  protocol.Settings
	stop func() error // nil while none runs
	done chan error   // how the daemon of this process ended
	heard
	said words // its own log output

	paused bool // whether intake is: then carol's messages wait

	mu  sync.Mutex
	due map[string]bool // ids of carol's messages, which dave must get exactly once; guarded by mu
}

// words is a buffer that can be written and read at the same time.
type words struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// heard holds the events of a hive, in the order of the log.
type heard struct {
	mu     sync.Mutex
	events []protocol.Event
	meet   map[string]func()
}

// when has the daemon call do at the first message of an agent, after it is logged
// and before anything is done with it.
func (e *heard) when(from string, do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.meet == nil {
		e.meet = map[string]func(){}
	}
	e.meet[from] = do
}

func (e *heard) add(ev protocol.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m, ok := ev.Body.(*protocol.MessageEvent); ok && e.meet[string(m.From)] != nil {
		e.meet[string(m.From)]()
		delete(e.meet, string(m.From))
	}
	e.events = append(e.events, ev)
}

// forget forgets all but the first n events.
func (e *heard) forget(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = e.events[:min(n, len(e.events))]
}

// after returns the events from the n-th on.
func (e *heard) after(n int) []protocol.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.events[n:len(e.events):len(e.events)]
}

// hive is a hive as one row sees it: alice and bob are the row's own, carol and
// dave have nothing to do with it.
type hive struct {
	*daemon
	t          *testing.T
	m          *matrix
	row        string
	alice, bob string
	messages   int // sent by carol
	meantime   int // how often others were seen at work in the middle of the row
	sibling    int
	passed     int
}

func openDaemon(t *testing.T, dir string, set protocol.Settings) *daemon {
	t.Helper()
	d := &daemon{dir: dir, set: set, due: map[string]bool{}}
	var err error
	d.real, err = durable.Open(dir)
	testenv.Must(t, err)
	d.disk = d.real
	t.Cleanup(func() {
		if d.stop != nil {
			_ = d.stop()
		}
		_ = d.real.Close()
	})
	return d
}

func (m *matrix) startCommon() *daemon {
	dir := filepath.Join(m.t.TempDir(), "hive")
	m.copyTemplate(m.t, dir)
	d := openDaemon(m.t, dir, quick())
	d.set.InboxCap, d.set.Rescan, d.set.OutboxStraysAfter = 100000, 200*time.Millisecond, 300*time.Millisecond
	h := &hive{daemon: d, t: m.t, m: m, row: "common"}
	h.up()
	m.t.Cleanup(h.judge) // once all rows are done
	return d
}

// share returns the common hive for a row, with two agents for it alone.
func (m *matrix) share(t *testing.T, name string) *hive {
	t.Helper()
	h := &hive{daemon: m.common(), t: t, m: m, row: name, alice: name + "-a", bob: name + "-b"}
	h.mkdir(h.outbox(h.alice))
	h.mkdir(h.outbox(h.bob))
	h.joined(h.alice)
	h.joined(h.bob)
	return h
}

func (m *matrix) copyTemplate(t *testing.T, dir string) {
	t.Helper()
	testenv.Must(t, os.CopyFS(dir, os.DirFS(m.template())))
}

// newHive returns a hive for one row.
func (m *matrix) newHive(t *testing.T, r row) *hive {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hive")
	m.copyTemplate(t, dir)
	set := quick()
	if r.set != nil {
		r.set(&set)
	}
	h := &hive{daemon: openDaemon(t, dir, set), t: t, m: m, row: r.name, alice: "alice", bob: "bob"}
	switch r.on {
	case memory:
		h.mem = faultfs.New()
		h.disk = h.mem
		copyDisk(t, h.real, h.mem, ".")
	case own:
		h.up()
	case common, still:
	}
	return h
}

// copyDisk copies everything below a directory from one disk to another.
func copyDisk(t *testing.T, from, to durable.FS, dir string) {
	t.Helper()
	list, err := from.ReadDir(dir)
	testenv.Must(t, err)
	for _, e := range list {
		name := path.Join(dir, e.Name)
		if e.Type.IsDir() {
			testenv.Must(t, to.MkdirAll(name, 0o755))
			copyDisk(t, from, to, name)
			continue
		}
		data, info, err := durable.ReadFile(from, name, -1)
		testenv.Must(t, err)
		f, err := to.Create(name, info.Mode.Perm())
		testenv.Must(t, err)
		_, err = f.Write(data)
		testenv.Must(t, errors.Join(err, f.Sync(), f.Close()))
	}
	testenv.Must(t, to.SyncDir(dir))
}

func (h *hive) config() router.Config {
	return router.Config{Settings: h.set, Version: "test", OnEvent: h.add, Log: slog.New(slog.NewTextHandler(&h.said, nil))}
}

// open starts a daemon up to the point where it would begin to work.
func (h *hive) open(cfg router.Config) (*router.Router, error) {
	if h.mem != nil {
		return router.New(h.mem, cfg)
	}
	return router.New(h.real, cfg)
}

// up starts a daemon in this process.
func (h *hive) up() {
	h.t.Helper()
	r, err := h.open(h.config())
	h.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	h.done = done
	h.stop = func() error {
		h.stop = nil
		cancel()
		return wait.Ended(wait.Longest, "the daemon to stop", done, h.story)
	}
}

// endsItself checks that the daemon ends by itself, with an error that has this
// text.
func (h *hive) endsItself(says string) {
	h.t.Helper()
	err := wait.Ended(wait.Longest, "the daemon to end by itself", h.done, h.story)
	h.stop = nil
	if err == nil || !strings.Contains(err.Error(), says) {
		h.t.Fatalf("the daemon ended with %v, want %q", err, says)
	}
}

// refused checks that a start fails with an error that has this text.
func (h *hive) refused(says string) {
	h.t.Helper()
	r, err := h.open(h.config())
	if err == nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.Run(ctx)
	}
	if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
		h.t.Fatalf("the start returned %v, want one line with %q", err, says)
	}
}

// down stops the daemon, which must end without an error.
func (h *hive) down() {
	h.t.Helper()
	if err := h.stop(); err != nil {
		h.t.Fatalf("the daemon ended with %v", err)
	}
}

// once runs a daemon until nothing is left to do.
func (h *hive) once() {
	h.t.Helper()
	cfg := h.config()
	cfg.Once = true
	r, err := h.open(cfg)
	h.must(err)
	h.must(r.Run(context.Background()))
}

// await waits for an event that fits, among all so far and to come.
func await[T protocol.Body](h *hive, what string, fits func(T) bool) T {
	h.t.Helper()
	var found T
	seen := 0
	wait.Until(h.t, "the event "+what, func() bool {
		list := h.after(seen)
		for _, ev := range list {
			if b, ok := ev.Body.(T); ok && fits(b) {
				found = b
				return true
			}
		}
		seen += len(list)
		return false
	}, h.story)
	return found
}

// all returns the events of a kind so far that fit.
func all[T protocol.Body](h *hive, fits func(T) bool) (found []T) {
	for _, ev := range h.after(0) {
		if b, ok := ev.Body.(T); ok && fits(b) {
			found = append(found, b)
		}
	}
	return found
}

// eventually waits for a condition that no event reports.
func (h *hive) eventually(what string, true func() bool) {
	h.t.Helper()
	wait.Until(h.t, what, true, h.story)
}

// end returns how the daemon of this process ended, or that it runs.
func (h *hive) end() string {
	select {
	case err := <-h.done:
		h.stop = nil
		return fmt.Sprintf("the daemon ended: %v", err)
	default:
		return "the daemon runs"
	}
}

// story returns the last events of the hive, its status, and whether its daemon
// runs.
func (h *hive) story() string {
	list := h.after(0)
	var b strings.Builder
	for _, ev := range list[max(0, len(list)-40):] {
		fmt.Fprintln(&b, ev.Seq, protocol.Summary(ev))
	}
	status, err := view.ReadStatus(h.real)
	fmt.Fprintf(&b, "status: %+v, %v\n%s\n", status, err, h.end())
	return b.String()
}

func (h *hive) joined(id string) {
	h.t.Helper()
	await(h, id+" joined", func(e *protocol.AgentEvent) bool {
		return string(e.Agent) == id && e.Action == protocol.Joined
	})
}

// message waits for the message that a sender gave this id.
func (h *hive) message(from, id string) *protocol.MessageEvent {
	h.t.Helper()
	return await(h, "message "+id+" of "+from, func(e *protocol.MessageEvent) bool {
		return string(e.From) == from && string(e.ID) == id
	})
}

func (h *hive) quarantined(id, as string, code protocol.Code) *protocol.QuarantineEvent {
	h.t.Helper()
	return await(h, "quarantine of "+as, func(e *protocol.QuarantineEvent) bool {
		return string(e.Agent) == id && e.Code == code && (as == "" || path.Base(e.Path) == as)
	})
}

// told waits for a notice to an agent.
func (h *hive) told(id string, code protocol.Code) *protocol.MessageEvent {
	h.t.Helper()
	return await(h, "notice "+string(code)+" to "+id, isNotice(id, code))
}

func isNotice(id string, code protocol.Code) func(*protocol.MessageEvent) bool {
	return func(e *protocol.MessageEvent) bool {
		return e.From == protocol.Hive && slices.Contains(e.Delivered, protocol.AgentID(id)) && strings.Contains(e.Raw, `"code":"`+string(code)+`"`)
	}
}

func (h *hive) alert(code protocol.Code, about string) *protocol.AlertEvent {
	h.t.Helper()
	return await(h, "alert "+string(code), func(e *protocol.AlertEvent) bool {
		return e.Code == code && (strings.Contains(e.Path, about) || string(e.Agent) == about)
	})
}

// drop waits for the event that has who did not get a message, and why.
func (h *hive) drop(from, id string, why protocol.Reason) *protocol.DropEvent {
	h.t.Helper()
	return await(h, "drop of "+id, func(e *protocol.DropEvent) bool {
		return string(e.From) == from && string(e.ID) == id && e.Reason == why
	})
}

// --- files

func (h *hive) outbox(id string) string { return protocol.OutboxDir(protocol.AgentID(id)) }
func (h *hive) inbox(id string) string  { return protocol.InboxDir(protocol.AgentID(id)) }
func (h *hive) sent(id string) string   { return protocol.SentDir(protocol.AgentID(id)) }

func (h *hive) path(p string) string { return filepath.Join(h.dir, filepath.FromSlash(p)) }

func (h *hive) must(err error) {
	h.t.Helper()
	testenv.Must(h.t, err)
}

func (h *hive) mkdir(p string) {
	h.t.Helper()
	h.must(os.MkdirAll(h.path(p), 0o755))
}

// write writes a file in place.
func (h *hive) write(p, text string) {
	h.t.Helper()
	h.must(os.MkdirAll(filepath.Dir(h.path(p)), 0o755))
	h.must(os.WriteFile(h.path(p), []byte(text), 0o644))
}

// put publishes a file whole, as an agent should.
func (h *hive) put(p, text string) {
	h.t.Helper()
	h.must(durable.Publish(h.disk, p, []byte(text), 0o644, durable.Sync(h.mem != nil)))
}

// send publishes a message.
func (h *hive) send(from, name, text string) {
	h.t.Helper()
	h.put(h.outbox(from)+"/"+name, text)
}

func (h *hive) read(p string) string {
	h.t.Helper()
	data, _, err := durable.ReadFile(h.disk, p, -1)
	h.must(err)
	return string(data)
}

func (h *hive) exists(p string) bool {
	_, err := h.disk.Lstat(p)
	return !errors.Is(err, fs.ErrNotExist)
}

func (h *hive) move(from, to string) {
	h.t.Helper()
	h.must(os.Rename(h.path(from), h.path(to)))
}

// back moves something back to its place in one step, even if hived has made it
// again there, or makes it at this moment.
func (h *hive) back(from, to string) {
	h.t.Helper()
	var err error
	for _, how := range slices.Repeat([]uint{unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE}, 50) {
		if err = unix.Renameat2(unix.AT_FDCWD, h.path(from), unix.AT_FDCWD, h.path(to), how); err == nil {
			break
		}
	}
	h.must(err)
	h.remove(from)
}

func (h *hive) remove(p string) {
	h.t.Helper()
	err := os.RemoveAll(h.path(p))
	for tries := 0; errors.Is(err, syscall.ENOTEMPTY) && tries < 100; tries++ { // hived makes it again already
		err = os.RemoveAll(h.path(p))
	}
	h.must(err)
}

// list returns the messages in a directory, in name order.
func (h *hive) list(dir string) []string {
	h.t.Helper()
	entries, err := h.disk.ReadDir(dir)
	h.must(err)
	names := []string{}
	for _, e := range entries {
		if protocol.IsMessageName(e.Name) {
			names = append(names, e.Name)
		}
	}
	return names
}

// arrived returns the texts of the messages in an inbox that came from someone.
func (h *hive) arrived(id, from string) []string {
	h.t.Helper()
	var texts []string
	for _, name := range h.list(h.inbox(id)) {
		if text := h.read(h.inbox(id) + "/" + name); strings.Contains(text, "\n  \"from\": \""+from+"\",\n") {
			texts = append(texts, text)
		}
	}
	return texts
}

// --- those who have nothing to do with it

// carryOut carries out a row while others work.
func (h *hive) carryOut(r row) {
	h.t.Helper()
	h.others()
	h.meantime = 0
	r.run(h)
	if h.meantime == 0 {
		h.t.Error("the row did not check others in its middle")
	}
	h.others()
}

// others has carol send dave a message. While a daemon runs it must arrive now;
// otherwise judge checks that it arrived.
func (h *hive) others() {
	h.t.Helper()
	h.meantime++
	h.messages++
	id := fmt.Sprintf("%s-other-%d", h.row, h.messages)
	h.mu.Lock()
	h.due[id] = true
	h.mu.Unlock()
	h.send("carol", id+".json", `{"id":"`+id+`","to":"dave","body":"as always"}`)
	if h.stop != nil && !h.paused {
		h.message("carol", id)
	}
}

// judge checks what must be true of any hive after anything: carol's messages
// reached dave, each once; log, files and history agree; git finds no fault; and no
// line of the log acts on a terminal.
func (h *hive) judge() {
	h.t.Helper()
	if h.t.Failed() && h.row != "common" {
		return
	}
	if h.stop == nil {
		h.up()
	}
	h.others()
	h.down()
	if h.mem != nil {
		h.land()
	}
	h.once() // what the last daemon left to do
	got := map[string]int{}
	for _, text := range h.arrived("dave", "carol") {
		id, _, _ := strings.Cut(strings.TrimPrefix(text, "{\n  \"id\": \""), `"`)
		got[id]++
	}
	for id := range h.due {
		if got[id] != 1 {
			h.t.Errorf("carol's %s is in dave's inbox %d times", id, got[id])
		}
		delete(got, id)
	}
	if len(got) > 0 {
		h.t.Errorf("dave's inbox has messages that carol did not send: %v", got)
	}
	report, err := audit.Verify(context.Background(), h.real, audit.Options{Settings: h.set})
	h.must(err)
	for i, f := range report.Findings {
		if i < 10 {
			h.t.Errorf("verify: %s", f)
		}
	}
	h.fsck()
	for _, ev := range h.after(0) {
		if line := protocol.Summary(ev); strings.ContainsFunc(line, unicode.IsControl) {
			h.t.Errorf("the summary of event %s is %q", ev.Seq, line)
		}
	}
}

// land copies a hive in memory to a real disk, where judge checks it.
func (h *hive) land() {
	h.t.Helper()
	h.must(h.real.Close())
	h.must(os.RemoveAll(h.dir))
	h.must(os.Mkdir(h.dir, 0o755))
	var err error
	h.real, err = durable.Open(h.dir)
	h.must(err)
	copyDisk(h.t, h.mem, h.real, ".")
	h.mem, h.disk = nil, h.real
}

func (h *hive) fsck() {
	h.t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		return
	}
	if out := h.git("-c", "core.fsmonitor=false", "fsck", "--strict", "--no-progress"); out != "" {
		h.t.Errorf("git fsck: %s", out)
	}
}

// git runs the git program on the hive, as a person would, untouched by
// anybody's settings.
func (h *hive) git(args ...string) string {
	h.t.Helper()
	out, err := gitIn(h.t, h.dir, args...)
	if err != nil {
		h.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

func gitIn(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	env := append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir, "LC_ALL=C",
		"GIT_AUTHOR_NAME=p", "GIT_AUTHOR_EMAIL=p@example.org", "GIT_COMMITTER_NAME=p", "GIT_COMMITTER_EMAIL=p@example.org")
	for tries := 0; ; tries++ { // a person would try again, too, when hived holds the index or the branch for a moment
		c := exec.Command("git", append([]string{"-c", "safe.directory=*"}, args...)...)
		c.Dir, c.Env = dir, env
		out, err := c.CombinedOutput()
		if busy := strings.Contains(string(out), ".lock") || strings.Contains(string(out), "cannot lock ref"); err == nil || !busy || tries == 20 {
			return string(out), err
		}
	}
}
