package users_test

import (
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/users"
	"github.com/hived/hived/protocol"
)

var accounts = flag.Bool("accounts", false, "make real accounts on this machine, and remove them; takes root")

// TestSetUpHandsOver checks that an agent that had no user keeps its own files and
// what waits in its outbox, and that a file with two names is not given away.
func TestSetUpHandsOver(t *testing.T) {
	t.Parallel()
	h := newHive(t, "alice", "bob")
	h.must(os.MkdirAll(h.path("agents/carol/notes/deep"), 0o755))
	for _, p := range []string{"memory.md", "notes/deep/x.md", "linked.md"} {
		h.must(os.WriteFile(h.path("agents/carol/"+p), []byte("x"), 0o644))
	}
	h.must(os.MkdirAll(h.path("agents/carol/outbox"), 0o755))
	h.must(os.WriteFile(h.path("agents/carol/outbox/1.json"), []byte(`{"to":"bob","id":"c-1","body":"before"}`), 0o600))
	h.must(os.Chmod(h.path("agents/carol/notes"), 0o750))
	h.must(exec.Command("chown", "-R", "70009:70009", h.path("agents/carol")).Run())
	h.must(os.Link(h.path("agents/carol/linked.md"), h.path("second.md")))
	h.must(os.Symlink("../../second.md", h.path("agents/carol/link.md")))

	h.who["carol"] = users.ID{UID: 70003, GID: 80003}
	list, err := users.SetUp(h.disk, h.all, h.who)
	h.must(err)
	for _, d := range list {
		if !strings.HasPrefix(d.Path, "agents/carol") {
			t.Errorf("set %s", d.Path)
		}
	}
	for p, want := range map[string]durable.Rights{
		"memory.md":       {UID: 70003, GID: 80003, Mode: 0o644},
		"notes":           {UID: 70003, GID: 80003, Mode: 0o750},
		"notes/deep/x.md": {UID: 70003, GID: 80003, Mode: 0o644},
		"outbox/1.json":   {UID: 0, GID: 80003, Mode: 0o600},
		"linked.md":       {UID: 70009, GID: 70009, Mode: 0o644},
	} {
		info, err := h.disk.Lstat("agents/carol/" + p)
		h.must(err)
		h.equal(p, info.Rights(), want)
	}
	if list, err = users.SetUp(h.disk, h.all, h.who); err != nil || len(list) > 0 {
		t.Errorf("a second time: %+v, %v", list, err)
	}
	h.up()
	h.equal("sender", message(h, "c-1").From, protocol.AgentID("carol"))
}

// TestSetUpAgainGivesNothing checks that what another user puts into an outbox
// later is not given to its agent.
func TestSetUpAgainGivesNothing(t *testing.T) {
	t.Parallel()
	h := newHive(t, "alice")
	for _, p := range []string{"agents/alice/outbox/1.json", "agents/alice/x.md"} {
		h.must(os.WriteFile(h.path(p), []byte("{}"), 0o600))
		h.must(os.Chown(h.path(p), 70009, 70009))
	}
	_, err := users.SetUp(h.disk, h.all, h.who)
	h.must(err)
	for _, p := range []string{"agents/alice/outbox/1.json", "agents/alice/x.md"} {
		info, err := h.disk.Lstat(p)
		h.must(err)
		h.equal(p, info.UID, uint32(70009))
	}
}

// TestOwner checks that a hive that was not marked becomes root's, and that a
// marked one keeps its owner.
func TestOwner(t *testing.T) {
	t.Parallel()
	h := newHive(t, "alice")
	who, err := users.Owner(h.disk)
	h.must(err)
	h.equal("owner", who, users.ID{})
	h.must(os.Chown(h.dir, 70009, 70009))
	list, err := users.SetUp(h.disk, h.all, h.who)
	h.must(err)
	for _, d := range list {
		h.equal(d.Path, d.UID == 70009 || d.UID == h.who["alice"].UID || strings.HasPrefix(d.Path, "agents/human"), true)
	}
	h.must(os.Remove(h.path(users.Marker)))
	_, err = users.SetUp(h.disk, h.all, h.who)
	h.must(err)
	info, err := h.disk.Lstat(".")
	h.must(err)
	h.equal("owner of one that is not marked", info.UID, uint32(0))
}

// TestSetUpPassesLinks checks that an agent that put links in the place of its
// directories does not keep others from being set up.
func TestSetUpPassesLinks(t *testing.T) {
	t.Parallel()
	h := newHive(t, "alice", "bob")
	h.as("alice", `mv outbox old && ln -s "$HIVE_DIR" outbox && mv inbox/.done old-done && ln -s "$HIVE_DIR"/log inbox/.done`)
	h.must(os.Chmod(h.path("agents/bob/inbox"), 0o755))
	list, err := users.SetUp(h.disk, h.all, h.who)
	h.must(err)
	if len(list) != 1 || list[0].Path != "agents/bob/inbox" {
		t.Errorf("set %+v", list)
	}
	h.equal("the hive", h.rights("."), durable.Rights{Mode: 0o755})
	h.equal("the log", h.rights("log"), durable.Rights{Mode: 0o700})
}

func TestReady(t *testing.T) {
	t.Parallel()
	err := users.Ready([]protocol.AgentID{"a.b"})
	if os.Geteuid() != 0 {
		if want := "set up users: it takes root to make users and to give directories to them; run it with sudo"; text(err) != want {
			t.Errorf("got %v", err)
		}
	} else if !errors.Is(err, users.ErrName) {
		t.Errorf("got %v", err)
	}
}

// TestMayRun checks that a running daemon of another user is reported: it could not
// go on.
func TestMayRun(t *testing.T) {
	t.Parallel()
	h := newHive(t, "alice")
	c := exec.Command("/bin/sh", "-c", "read x")
	c.SysProcAttr = asUser(h.who["alice"])
	in, err := c.StdinPipe()
	h.must(err)
	h.must(c.Start())
	if err := users.MayRun(c.Process.Pid, users.ID{}); err == nil || !strings.Contains(err.Error(), "runs as user 70001 and could not go on") {
		t.Errorf("another user: %v", err)
	}
	h.must(users.MayRun(c.Process.Pid, h.who["alice"]))
	h.must(users.MayRun(os.Getpid(), h.who["alice"]))
	h.must(in.Close())
	_ = c.Wait() // its read ends without a line
	h.must(users.MayRun(c.Process.Pid, users.ID{}))
}

// TestAccounts makes real accounts, which changes the machine: go test
// ./internal/users -run Accounts -accounts
func TestAccounts(t *testing.T) {
	if !*accounts {
		t.Skip("it makes accounts on this machine: say -accounts")
	}
	h := newHive(t)
	ids := []protocol.AgentID{"hived-test-1", "Hived-Test-2"}
	names, err := users.AccountNames(ids)
	h.must(err)
	h.must(users.Ready(ids))
	for _, id := range ids {
		if _, err := users.Account(id); !errors.Is(err, users.ErrNoUser) {
			t.Fatalf("there is an account %s already: %v", names[id], err)
		}
	}
	t.Cleanup(func() {
		for _, name := range names {
			if out, err := exec.Command("userdel", name).CombinedOutput(); err != nil {
				t.Errorf("remove %s: %v: %s", name, err, out)
			}
		}
	})
	home := func(id protocol.AgentID) string { return h.path(protocol.AgentDir(id)) }
	who, made, err := users.MakeAccounts(t.Context(), ids, home)
	h.must(err)
	h.equal("made", made, []string{"hive-hived-test-1", "hive-hived-test-2"})
	all, fresh, joined, err := users.MakeGroup(t.Context(), "", []string{"hive-hived-test-1"})
	h.must(err)
	t.Cleanup(func() {
		if out, err := exec.Command("groupdel", all.Name).CombinedOutput(); err != nil {
			t.Errorf("remove %s: %v: %s", all.Name, err, out)
		}
	})
	h.equal("a new group", fresh, true)
	h.equal("joined", joined, []string{"hive-hived-test-1"})
	if all, fresh, joined, err = users.MakeGroup(t.Context(), all.Name, made); err != nil || fresh || len(joined) != 1 {
		t.Errorf("new: %v, joined: %v, %v", fresh, joined, err)
	}
	h.equal("members", all.Members, made)
	if all, fresh, joined, err = users.MakeGroup(t.Context(), all.Name, made); err != nil || fresh || len(joined) != 0 {
		t.Errorf("a second time: new: %v, joined: %v, %v", fresh, joined, err)
	}
	h.all = all
	again, made, err := users.MakeAccounts(t.Context(), ids, home)
	h.must(err)
	h.equal("made again", len(made), 0)
	if diff := cmp.Diff(who, again); diff != "" {
		t.Errorf("-first +second:\n%s", diff)
	}
	if a, b := who[ids[0]], who[ids[1]]; a.UID == b.UID || a.GID == b.GID || a.UID == 0 || a.GID == 0 {
		t.Errorf("%+v and %+v", a, b)
	}
	maps.Copy(h.who, who)
	_, err = users.SetUp(h.disk, h.all, h.who)
	h.must(err)
	h.as(ids[0], `echo '{"to":"Hived-Test-2","id":"t-1","body":"x"}' >outbox/1.json`)
	if said, err := h.try(ids[1], `ls ../hived-test-1`); !refused(said, err) {
		t.Errorf("not refused: %v: %s", err, said)
	}
	h.up()
	h.equal("from", message(h, "t-1").From, ids[0])
}

// TestMakerWithoutAccount checks that where an account cannot be looked up at the
// moment, the new directory is closed and the others stay as they are, and that
// where there is none, all are closed.
func TestMakerWithoutAccount(t *testing.T) {
	t.Parallel()
	down := errors.New("the directory service does not answer")
	for _, tt := range []struct {
		err  error
		want durable.Rights // of the outbox, which stays as it is
	}{
		{down, durable.Rights{UID: 70001, GID: 80001, Mode: 0o700}},
		{users.ErrNoUser, durable.Rights{Mode: 0o700}},
	} {
		h := newHive(t, "alice")
		h.must(os.Remove(h.path("agents/alice/inbox/.done")))
		var warned error
		mkdir := users.Maker(h.disk, h.find, func(protocol.AgentID) (users.ID, error) { return users.ID{}, tt.err }, func(_ protocol.AgentID, err error) { warned = err })
		h.must(mkdir("alice", "agents/alice/inbox/.done"))
		if !errors.Is(warned, tt.err) {
			t.Errorf("warned of %v, want %v", warned, tt.err)
		}
		h.equal("the new directory", h.rights("agents/alice/inbox/.done"), durable.Rights{Mode: 0o700})
		h.equal("the outbox", h.rights("agents/alice/outbox"), tt.want)
	}
}

// TestKeep checks that what is the hive's own is closed again before a daemon
// starts.
func TestKeep(t *testing.T) {
	t.Parallel()
	h := newHive(t, "alice")
	h.must(os.RemoveAll(h.path(".hived")))
	h.must(os.Chmod(h.path("log.jsonl"), 0o644))
	h.must(os.Chmod(h.path("agents/alice"), 0o755))
	list, err := users.Keep(h.disk, h.find, h.must)
	h.must(err)
	if len(list) != 1 || list[0].Path != "log.jsonl" {
		t.Errorf("set %+v", list)
	}
	h.equal(".hived", h.rights(".hived"), durable.Rights{Mode: 0o700})
	h.must(os.Remove(h.path(users.Marker)))
	h.must(os.Chmod(h.path("log.jsonl"), 0o644))
	if list, err = users.Keep(h.disk, h.find, h.must); err != nil || len(list) > 0 {
		t.Errorf("without users: %+v, %v", list, err)
	}
}

// TestTasksStayClosed checks that what hived makes below tasks/ is open to the
// agents alone, also where somebody deleted it while the daemon ran, or opened it:
// then a start closes it again.
func TestTasksStayClosed(t *testing.T) {
	t.Parallel()
	h := newHive(t, "alice", "bob")
	h.up()
	first := h.aTask()
	closed := func(when string) {
		t.Helper()
		if list := users.Differences(h.disk, h.table()); len(list) > 0 {
			t.Errorf("%s: %+v", when, list)
		}
	}
	closed("at first")
	h.must(os.RemoveAll(h.path("tasks")))
	h.aTask()
	closed("made again")
	h.must(h.stop())
	for _, p := range []string{"tasks", "tasks/" + string(first), "tasks/" + string(first) + "/brief.json"} {
		h.must(os.Chown(h.path(p), 70009, 70009))
		h.must(os.Chmod(h.path(p), 0o777))
	}
	h.must(os.Symlink("/etc", h.path("tasks/etc")))
	h.must(os.WriteFile(h.path("second"), nil, 0o644))
	h.must(os.Link(h.path("second"), h.path("tasks/second")))
	list, err := users.Keep(h.disk, h.find, h.must)
	h.must(err)
	few, more := users.Few(list)
	if len(list) != 3 || len(few) != 2 || few[0].Path != "tasks" || few[1].In != "tasks" || more["tasks"] != 1 {
		t.Errorf("set %+v", list)
	}
	h.equal("the second name of a file", h.rights("second"), durable.Rights{Mode: 0o644})
	h.must(os.Remove(h.path("tasks/second")))
	closed("after a start")
}

// TestHiveWithoutGroup checks that a hive whose agents have no group yet keeps its
// tasks/ as they are at a start, with a warning, and gets a group when it is set up
// again.
func TestHiveWithoutGroup(t *testing.T) {
	t.Parallel()
	h := newHive(t, "alice")
	h.must(os.WriteFile(h.path(users.Marker), []byte("Each agent of this hive is a Unix user of its own.\n"), 0o644))
	open := durable.Rights{Mode: 0o755}
	h.must(h.disk.SetRights("tasks", open))
	var warned error
	list, err := users.Keep(h.disk, users.FindGroup, func(err error) { warned = err })
	h.must(err)
	if len(list) > 0 || !errors.Is(warned, users.ErrNoGroup) {
		t.Errorf("set %+v, and warned of %v", list, warned)
	}
	h.equal("tasks/ after a start", h.rights("tasks"), open)
	list, err = users.SetUp(h.disk, h.all, h.who)
	h.must(err)
	if len(list) != 1 || list[0].Path != "tasks" {
		t.Errorf("set %+v", list)
	}
	h.equal("the group", users.GroupName(h.disk), h.all.Name)
	if list := users.Differences(h.disk, h.table()); len(list) > 0 {
		t.Errorf("%+v", list)
	}
}
