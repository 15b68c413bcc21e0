package matrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
)

// build builds the program.
func (m *matrix) build() string {
	dir := m.t.TempDir()
	open(m.t, dir)
	// A test's result is cached unless what it reads itself changes, so stat the
	// sources.
	sources, err := filepath.Glob("../../cmd/hived/*.go")
	if err != nil || len(sources) == 0 {
		m.t.Fatalf("find the program: %v", err)
	}
	for _, name := range sources {
		if _, err := os.Stat(name); err != nil {
			m.t.Fatal(err)
		}
	}
	name := filepath.Join(dir, "hived")
	c := exec.Command("go", "build", "-ldflags=-s -w", "-o", name, "./cmd/hived")
	c.Dir = filepath.Join("..", "..")
	if out, err := c.CombinedOutput(); err != nil {
		m.t.Fatalf("go build: %v\n%s", err, out)
	}
	return name
}

// open lets other users into a temporary directory.
func open(t *testing.T, dir string) {
	t.Helper()
	for d := filepath.Clean(dir); d != filepath.Clean(os.TempDir()) && d != "/"; d = filepath.Dir(d) {
		testenv.Must(t, os.Chmod(d, 0o755))
	}
}

// program is hived as a process of its own.
type program struct {
	*exec.Cmd
	said *bytes.Buffer
}

// program returns the program with arguments, run by a shell that may first run
// another command.
func (h *hive) program(first string, args ...string) *program {
	h.t.Helper()
	line := `exec "$0" "$@"`
	if first != "" {
		line = first + " && " + line
	}
	p := &program{exec.Command("sh", append([]string{"-c", line, h.m.hived()}, args...)...), &bytes.Buffer{}}
	p.Dir, p.Stderr = h.dir, p.said
	p.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	return p
}

// start starts the program as this hive's daemon.
func (h *hive) start(p *program) {
	h.t.Helper()
	h.must(p.Start())
	ctx, cancel := context.WithCancel(context.Background())
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		h.follow(ctx)
	}()
	h.stop = func() error {
		h.stop = nil
		err := p.Process.Signal(syscall.SIGTERM)
		if errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
		ended := make(chan error, 1)
		go func() { ended <- p.Wait() }()
		err = errors.Join(err, wait.Ended(wait.Longest, "the program to end", ended, h.story))
		cancel()
		wait.Receive(h.t, "the follower of the log to end", followed)
		if err != nil {
			return fmt.Errorf("%w: %s", err, p.said)
		}
		return nil
	}
}

// follow adds the events that the program logs.
func (h *hive) follow(ctx context.Context) {
	at := eventlog.Position{}
	if list := h.after(0); len(list) > 0 {
		at.Seq = list[len(list)-1].Seq
	}
	for rec, err := range eventlog.Follow(ctx, h.real, at, nil, 5*time.Millisecond) {
		if err != nil {
			return
		}
		h.add(rec.Event)
	}
}

// kill ends the program as a crash would.
func (h *hive) kill(p *program) {
	h.t.Helper()
	h.must(p.Process.Kill())
	_ = h.stop()
}

// running waits until the program works.
func (h *hive) running() {
	h.t.Helper()
	h.eventually("the program's lock", func() bool {
		_, held, err := durable.Holder(h.real, ".hived/lock")
		return err == nil && held
	})
	await(h, "start", func(e *protocol.HiveEvent) bool { return e.Action == protocol.Started })
}

// asUser starts a daemon without the rights of root.
func (h *hive) asUser() {
	h.t.Helper()
	p := h.program("", "up", h.dir)
	if os.Geteuid() == 0 {
		open(h.t, h.dir)
		h.must(filepath.WalkDir(h.dir, func(name string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(name, 65534, 65534))
		}))
		p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	h.start(p)
	h.running()
	if os.Geteuid() == 0 {
		h.must(os.Chown(h.path(protocol.PathLog), 65534, 65534))
	}
}

// exits runs the program to its end, and checks its exit status and that it prints
// one line with this text.
func (h *hive) exits(status int, says string, args ...string) {
	h.t.Helper()
	p := h.program("", args...)
	err := p.Run()
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	}
	if said := strings.TrimSpace(p.said.String()); got != status || !strings.Contains(said, says) || strings.Contains(said, "\n") {
		h.t.Errorf("hived %v exited with %d and printed %q", args, got, said)
	}
}

// userNamespace returns a namespace in which limits of the user can be set for the
// program alone.
func userNamespace() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
}

// mount puts the hive, whose daemon does not run, on a file system of its own.
func (h *hive) mount(options string) {
	h.t.Helper()
	h.must(h.real.Close())
	before := h.dir + ".before"
	h.must(os.Rename(h.dir, before))
	h.must(os.Mkdir(h.dir, 0o755))
	h.must(syscall.Mount("none", h.dir, "tmpfs", 0, options))
	h.t.Cleanup(func() { _ = syscall.Unmount(h.dir, syscall.MNT_DETACH) })
	h.must(os.CopyFS(h.dir, os.DirFS(before)))
	var err error
	h.real, err = durable.Open(h.dir)
	h.must(err)
	h.disk = h.real
}

// check skips a row for which the machine lacks what it needs.
func (n need) check(t *testing.T) {
	t.Helper()
	switch n {
	case root:
		if os.Geteuid() != 0 {
			t.Skip("this needs root")
		}
	case git:
		if _, err := exec.LookPath("git"); err != nil {
			t.Skip("there is no git program")
		}
	case mounts:
		dir := t.TempDir()
		if err := syscall.Mount("none", dir, "tmpfs", 0, ""); err != nil {
			t.Skipf("nothing can be mounted: %v", err)
		}
		_ = syscall.Unmount(dir, syscall.MNT_DETACH)
	case userNS:
		c := exec.Command("sh", "-c", "echo 0 > /proc/sys/user/max_inotify_instances")
		c.SysProcAttr = userNamespace()
		if out, err := c.CombinedOutput(); err != nil {
			t.Skipf("there are no user namespaces with limits: %v %s", err, out)
		}
	case user:
		c := exec.Command("true")
		if os.Geteuid() == 0 {
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		if err := c.Run(); err != nil {
			t.Skipf("cannot take the rights of another user: %v", err)
		}
	}
}
