package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/users"
)

// program copies this test's binary, which is `hived` under that name, to where
// other users can run it.
func program(t *testing.T, dir string) string {
	t.Helper()
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, "hived"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return to.Name()
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
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	hive, err := makeHive(filepath.Join(dir, "hive"), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := users.Reach(hive); err != nil {
		t.Skipf("other users do not get to the directory for tests: %v", err)
	}
	disk, err := durable.Open(hive)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	who := map[protocol.AgentID]users.ID{"alice": {UID: 70001, GID: 80001}, "bob": {UID: 70002, GID: 80002}, protocol.Human: {}}
	if _, err := users.SetUp(disk, who); err != nil {
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
		{"task create later --timeout 1ms", 4, "create is queued as"},
		{"status", 1, "that is for the owner of the hive"},
		{"doctor", 0, "run it as root, or as who the hive belongs to"},
		{"init --users", 1, "it takes root"},
	} {
		c := exec.Command(hived, strings.Fields(tt.args)...)
		c.Env = []string{"HIVE_DIR=" + hive, "HIVE_AGENT=alice", "NO_COLOR=1"}
		c.Dir = hive
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 70001, Gid: 80001}}
		out, _ := c.CombinedOutput()
		if got := c.ProcessState.ExitCode(); got != tt.exit || !strings.Contains(string(out), tt.says) {
			t.Errorf("hived %s: exit status %d, want %d: %s", tt.args, got, tt.exit, out)
		}
	}
	if list, err := os.ReadDir(filepath.Join(hive, "agents", "alice", "outbox")); err != nil || len(list) != 3 {
		t.Errorf("the outbox holds %v, %v", list, err)
	}
}
