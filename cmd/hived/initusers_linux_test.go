package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/users"
	"github.com/hived/hived/protocol"
)

// program copies this test's binary, which is `hived` under that name, to where
// other users can run it. Another process does that: a program that this one starts
// meanwhile would inherit the open file, and what is open for writing cannot be run.
func program(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	testenv.Must(t, err)
	name := filepath.Join(dir, "hived")
	if out, err := exec.Command("cp", self, name).CombinedOutput(); err != nil {
		t.Fatalf("copy the program: %v: %s", err, out)
	}
	testenv.Must(t, os.Chmod(name, 0o755))
	return name
}

// An agent with a user of its own has the commands that it needs, and is told
// which are not for it.
func TestAsAgentWithUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("acting as another user takes root")
	}
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		testenv.Must(t, os.Chmod(d, 0o755))
	}
	home, _, err := makeHive(filepath.Join(dir, "hive"), hive.Options{})
	testenv.Must(t, err)
	if err := users.Reach(home); err != nil {
		t.Skipf("other users do not get to the directory for tests: %v", err)
	}
	disk, err := durable.Open(home)
	testenv.Must(t, err)
	defer disk.Close()
	who := map[protocol.AgentID]users.ID{"alice": {UID: 70001, GID: 80001}, "bob": {UID: 70002, GID: 80002}, protocol.Human: {}}
	all := users.Group{Name: "hived-00000000", GID: 90001} // there is none of that name: only what was set counts
	if _, err := users.SetUp(disk, all, who); err != nil {
		t.Fatal(err)
	}
	hived := program(t, dir)
	for _, tt := range []struct {
		args string
		exit int
		says string // in what it prints or says
	}{
		{"send --to bob --subject hello", 0, "01"},
		{"send --to bob --subject hello --wait accepted", 1, "leave out --wait"},
		{"inbox", 0, ""},
		{"agent list", 0, "human"},
		{"--agent alise inbox", 3, "no such agent"},
		{"--agent bob inbox", 1, "permission denied"},
		{"task list", 0, ""},
		{"task create later --timeout 1ms", 4, "create is queued as"},
		{"status", 1, "that is for the owner of the hive"},
		{"doctor", 0, "run it as root, or as who the hive belongs to"},
		{"init --users", 1, "it takes root"},
	} {
		c := exec.Command(hived, strings.Fields(tt.args)...)
		c.Env = []string{"HIVE_DIR=" + home, "HIVE_AGENT=alice", "NO_COLOR=1"}
		c.Dir = home
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 70001, Gid: 80001, Groups: []uint32{all.GID}}}
		out, err := c.CombinedOutput()
		if c.ProcessState == nil {
			t.Fatalf("start hived: %v", err)
		}
		if got := c.ProcessState.ExitCode(); got != tt.exit || !strings.Contains(string(out), tt.says) {
			t.Errorf("hived %s: exit status %d, want %d: %s", tt.args, got, tt.exit, out)
		}
	}
	if list, err := os.ReadDir(filepath.Join(home, "agents", "alice", "outbox")); err != nil || len(list) != 3 {
		t.Errorf("the outbox holds %v, %v", list, err)
	}
}

// Whatever umask a daemon, or a repair, is started with, what it makes below
// tasks/ can be read by the agents and by nobody else.
func TestUmaskAndTasks(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("giving directories to other users takes root")
	}
	dir := t.TempDir()
	home, _, err := makeHive(filepath.Join(dir, "hive"), hive.Options{})
	testenv.Must(t, err)
	disk, err := durable.Open(home)
	testenv.Must(t, err)
	defer disk.Close()
	who := map[protocol.AgentID]users.ID{"alice": {UID: 70001, GID: 80001}, protocol.Human: {}}
	all := users.Group{Name: "hived-00000000", GID: 90001}
	if _, err := users.SetUp(disk, all, who); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	testenv.Must(t, err)
	hived := filepath.Join(dir, "hived")
	testenv.Must(t, os.Symlink(self, hived))
	try := func(umask, args string) {
		t.Helper()
		c := exec.Command("/bin/sh", "-c", "umask "+umask+"; exec "+hived+" "+args)
		c.Env = []string{"HIVE_DIR=" + home, "NO_COLOR=1", "PATH=" + os.Getenv("PATH")}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("hived %s: %v: %s", args, err, out)
		}
		var tasks []users.Right
		for _, r := range users.Rights(users.ID{}, int64(all.GID), who) {
			if r.Path == protocol.PathTasks {
				tasks = append(tasks, r)
			}
		}
		for _, d := range users.Differences(disk, tasks) {
			t.Errorf("after umask %s and %s, %s belongs to %d with %s", umask, args, d.Path, d.Have.GID, users.Octal(d.Have.Rights().Mode))
		}
	}
	for _, umask := range []string{"077", "000"} {
		testenv.Must(t, os.WriteFile(filepath.Join(home, "agents/human/outbox", umask+".json"), []byte(`{"to":"hive","event":"create","data":{"title":"work"}}`), 0o600))
		try(umask, "up --once")
	}
	list, err := os.ReadDir(filepath.Join(home, "tasks"))
	if err != nil || len(list) != 2 {
		t.Fatalf("tasks: %v, %v", list, err)
	}
	testenv.Must(t, os.RemoveAll(filepath.Join(home, "tasks", list[0].Name())))
	try("077", "repair")
	if again, err := os.ReadDir(filepath.Join(home, "tasks")); err != nil || len(again) != 2 {
		t.Errorf("after the repair: %v, %v", again, err)
	}
}
