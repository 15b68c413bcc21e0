package users_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/users"
	"github.com/hived/hived/protocol"
)

func TestAccountName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		id   protocol.AgentID
		want string
		err  string
	}{
		{"alice", "hive-alice", ""},
		{"Alice_2-b", "hive-alice_2-b", ""},
		{"a.b", "", "agent a.b makes no name of a Unix user: a dot cannot be in one; rename its directory"},
		{protocol.AgentID(strings.Repeat("a", 27)), "hive-" + strings.Repeat("a", 27), ""},
		{protocol.AgentID(strings.Repeat("a", 28)), "", "agent aaaaaaaaaaaaaaaaaaaaaaaaaaaa makes no name of a Unix user: hive-aaaaaaaaaaaaaaaaaaaaaaaaaaaa is longer than 32 letters; rename its directory"},
	} {
		got, err := users.AccountName(tt.id)
		if got != tt.want || text(err) != tt.err || err != nil && !errors.Is(err, users.ErrName) {
			t.Errorf("%s: %q, %v", tt.id, got, err)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAccountNames(t *testing.T) {
	t.Parallel()
	got, err := users.AccountNames([]protocol.AgentID{"bob", "alice", "bob"})
	if diff := cmp.Diff(map[protocol.AgentID]string{"alice": "hive-alice", "bob": "hive-bob"}, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	_, err = users.AccountNames([]protocol.AgentID{"bob", "Bob"})
	if want := "agents Bob and bob would both be the user hive-bob; rename the directory of one"; text(err) != want {
		t.Errorf("got %v", err)
	}
	if _, err = users.AccountNames([]protocol.AgentID{"bob", "a.b"}); !errors.Is(err, users.ErrName) {
		t.Errorf("got %v", err)
	}
}

// TestRights checks that two agents share nothing, and that the directories of an
// agent without a user are closed to all.
func TestRights(t *testing.T) {
	t.Parallel()
	owner := users.ID{UID: 5, GID: 6}
	seen := map[string]bool{}
	for _, r := range users.Rights(owner, 9, map[protocol.AgentID]users.ID{"alice": {UID: 1, GID: 11}, "bob": {UID: 2, GID: 12}, "human": owner}) {
		if seen[r.Path] || r.Why == "" {
			t.Errorf("%+v", r)
		}
		seen[r.Path] = true
		switch id := strings.Split(r.Path+"//", "/")[1]; id {
		case "alice", "bob":
			uid := map[string]uint32{"alice": 1, "bob": 2}[id]
			if r.Mode&0o007 != 0 || r.GID != 10+uid || r.UID != 5 && r.UID != uid {
				t.Errorf("%+v", r)
			}
		case "human":
			if r.UID != 5 || r.GID != 6 || r.Mode != 0o700 {
				t.Errorf("%+v", r)
			}
		case "":
			if r.UID != 5 || r.GID != 6 && r.Path != "tasks" || r.Path == "tasks" && (r.GID != 9 || r.Mode&0o007 != 0 || r.Files&0o007 != 0) || r.Mode&0o022 != 0 {
				t.Errorf("%+v", r)
			}
		default:
			if r.UID != 5 || r.GID != 6 || r.Mode&0o022 != 0 {
				t.Errorf("%+v", r)
			}
		}
	}
	if len(seen) != 27 {
		t.Errorf("%d paths", len(seen))
	}
}

// TestFindGroup checks that a group that hived did not make is not taken for a
// hive's.
func TestFindGroup(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":               "have no Unix group in common: `hived init --users` makes one",
		"root":           "names \"root\" as the agents' group, which `hived init --users` did not make",
		"hived-00000000": "there is no hived-00000000, `hived init --users` makes it",
	} {
		if _, err := users.FindGroup(name); !strings.Contains(text(err), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestOctal(t *testing.T) {
	t.Parallel()
	for mode, want := range map[fs.FileMode]string{0o7: "0007", 0o770 | fs.ModeSticky: "1770", fs.ModeDir | 0o755 | fs.ModeSetgid: "2755", 0o644 | fs.ModeSetuid: "4644"} {
		if got := users.Octal(mode); got != want {
			t.Errorf("%v is %s, want %s", mode, got, want)
		}
	}
}

// TestDifferences checks that a path that is missing, or is another kind of file,
// is no difference in rights.
func TestDifferences(t *testing.T) {
	t.Parallel()
	disk := faultfs.New()
	rights := users.RightsOf("alice", users.ID{}, users.ID{})
	if got := users.Differences(disk, rights); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	for _, err := range []error{disk.MkdirAll("agents/alice/inbox", 0o755), disk.Symlink("agents/alice/outbox", "inbox")} {
		testenv.Must(t, err)
	}
	var got []string
	for _, d := range users.Differences(disk, rights) {
		got = append(got, d.Path+" "+users.Octal(d.Have.Rights().Mode)+" "+users.Octal(d.Mode))
	}
	if diff := cmp.Diff([]string{"agents/alice 0755 0700", "agents/alice/inbox 0755 0700"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAgents(t *testing.T) {
	t.Parallel()
	disk := faultfs.New()
	for _, name := range []string{"bob", "human", "god", "lead", ".users", "no good"} {
		testenv.Must(t, disk.MkdirAll("agents/"+name, 0o755))
	}
	testenv.Must(t, disk.Symlink("agents/link", "bob"))
	got, err := users.Agents(disk)
	if diff := cmp.Diff([]protocol.AgentID{"bob", "god", "human"}, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

// TestMakerWithoutUsers checks that in a hive without users a daemon makes
// directories as always.
func TestMakerWithoutUsers(t *testing.T) {
	t.Parallel()
	disk, err := durable.Open(t.TempDir())
	testenv.Must(t, err)
	defer disk.Close()
	mkdir := users.Maker(disk, nil, nil, nil)
	testenv.Must(t, mkdir("alice", "x"))
	if info, err := disk.Lstat("x"); err != nil || info.Mode.Perm()&0o700 != 0o700 || info.Mode.Perm() == 0o700 {
		t.Errorf("mode %v, %v", info.Mode, err)
	}
	if err := mkdir("alice", "x"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
}

func TestReach(t *testing.T) {
	t.Parallel()
	top := filepath.Join(t.TempDir(), "top")
	hive := filepath.Join(top, "hive")
	testenv.Must(t, os.MkdirAll(hive, 0o755))
	for mode, want := range map[fs.FileMode]string{
		0o750: "is closed to others (mode 0750), so agents do not reach the hive below it; make the hive elsewhere, or `chmod o+x` it",
		0o777: "(mode 0777), the hive too; make the hive elsewhere, or `chmod o-w` it",
	} {
		testenv.Must(t, os.Chmod(top, mode))
		if err := users.Reach(hive); !strings.HasSuffix(text(err), want) {
			t.Errorf("%04o: %v", mode, err)
		}
	}
}
