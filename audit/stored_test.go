package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// The stored hive is one of format 2, made by router's TestStoredHive, without its
// repository. What follows from its log is recorded beside it and stays the same,
// byte for byte; -golden records it again. What commands print of it is checked in
// cmd/hived.
const stored = "testdata/format2"

// TestStoredHiveHasAll checks that the stored hive has each kind of event, status
// of an agent, state of a message and of a task, and each kind of file.
func TestStoredHiveHasAll(t *testing.T) {
	t.Parallel()
	h := goldenHive(t, stored)
	had := map[string]bool{}
	for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
		h.must(err)
		had[string(rec.Event.Body.Kind())] = true
		for _, what := range whatOf(rec.Event) {
			had[what] = true
		}
	}
	state := h.fold()
	for _, a := range state.Roster() {
		had["agent is "+string(a.Status)] = true
		if a.Stopped {
			had["agent is stopped"] = true
		}
	}
	for x := range state.Tasks.All() {
		had["task is "+string(x.State)] = true
	}
	if sealed, err := os.ReadDir(h.path(protocol.PathSegments)); err != nil || len(sealed) < 2 {
		t.Errorf("%d segments are sealed: %v", len(sealed), err)
	}
	for _, p := range []string{".hived/snapshot", "tasks", "registry.json"} {
		if _, err := os.Stat(h.path(p)); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"agent is active", "agent is held", "agent is archived", "agent is stopped",
		"message delivered", "message delivered to several", "message kept", "message claims another sender", "message misspelt",
		"drop no-inbox", "drop expired", "drop inbox-full",
		"quarantine malformed", "quarantine too-large", "quarantine not-a-file", "quarantine id-conflict", "quarantine of other bytes than text",
		"handled done", "handled deleted", "handled reopened", "handled undeleted",
		"file deleted", "checkpoint whole", "checkpoint patch",
		"alert planted", "alert echo-cap", "alert bad-agent-directory", "alert own-file-too-large",
		"hive recovered", "hive sealed", "hive swept", "hive continued", "hive git-paused", "hive git-resumed",
		"agent joined", "agent changed", "agent held", "agent released", "agent archived", "agent restored", "agent lead", "agent inbox-undeleted",
		"task create", "task offer", "task claim", "task timeout", "task amend", "task answer", "task approval_vote", "task dependency_failed", "task cancelled", "task release",
		"refused race-lost", "refused fenced", "refused illegal-transition", "refused unknown-need", "refused future-epoch", "refused not-approver",
	}
	for _, k := range protocol.Kinds() {
		want = append(want, string(k))
	}
	for _, s := range []string{"unassigned", "offered", "pending", "in_progress", "paused", "blocked", "retrying", "stalled", "completed", "failed", "cancelled"} {
		want = append(want, "task is "+s)
	}
	for _, x := range want {
		if !had[x] {
			t.Errorf("there is no %q", x)
		}
	}
}

// whatOf returns names of what an event is an example of.
func whatOf(ev protocol.Event) (list []string) {
	add := func(is bool, what string) {
		if is {
			list = append(list, what)
		}
	}
	switch e := ev.Body.(type) {
	case *protocol.HiveEvent:
		add(true, "hive "+string(e.Action))
	case *protocol.AgentEvent:
		add(true, "agent "+string(e.Action))
	case *protocol.MessageEvent:
		add(len(e.Delivered) == 1, "message delivered")
		add(len(e.Delivered) > 1, "message delivered to several")
		add(e.Kept != nil, "message kept")
		add(e.ClaimedFrom != "", "message claims another sender")
		add(len(e.Misspelt) > 0, "message misspelt")
	case *protocol.DropEvent:
		add(true, "drop "+string(e.Reason))
	case *protocol.QuarantineEvent:
		add(true, "quarantine "+string(e.Code))
		add(e.Content != nil && len(e.Content.B64) > 0, "quarantine of other bytes than text")
	case *protocol.HandledEvent:
		add(true, "handled "+string(e.How))
	case *protocol.FileEvent:
		add(e.Deleted, "file deleted")
	case *protocol.TaskEvent:
		add(true, "task "+string(e.Event))
		add(e.Checkpoint != nil && e.Checkpoint.Patch == nil, "checkpoint whole")
		add(e.Checkpoint != nil && e.Checkpoint.Patch != nil, "checkpoint patch")
	case *protocol.TaskRejectedEvent:
		add(true, "refused "+string(e.Code))
	case *protocol.AlertEvent:
		add(true, "alert "+string(e.Code))
	case *protocol.DuplicateEvent, *protocol.DeliveredEvent:
	}
	return list
}

// TestStoredHiveFolds checks that the state after each fiftieth event is what it was, and
// that the snapshot that an older daemon left is not believed, while one of today is read
// as it was written.
func TestStoredHiveFolds(t *testing.T) {
	t.Parallel()
	h := goldenHive(t, stored)
	state := ledger.New(h.set.Remember)
	var sums strings.Builder
	var last bytes.Buffer
	for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
		h.must(err)
		state.Apply(rec.Event)
		last.Reset()
		h.must(state.Encode(&last, rec.Sum))
		if rec.Event.Seq%50 == 0 {
			fmt.Fprintf(&sums, "%d %x\n", rec.Event.Seq, sha256.Sum256(last.Bytes()))
		}
	}
	said, err := json.MarshalIndent(saidOf(state), "", " ")
	h.must(err)
	h.matches(stored+"-state.json", string(said)+"\n")
	h.matches(stored+"-snapshots.txt", sums.String())
	if _, _, err := ledger.Decode(strings.NewReader(h.read(protocol.SnapshotFile)), h.set.Remember); err == nil || !strings.Contains(err.Error(), "fold the log instead") {
		t.Errorf("the snapshot of an older version was read: %v", err)
	}
	decoded, sum, err := ledger.Decode(bytes.NewReader(last.Bytes()), h.set.Remember)
	h.must(err)
	var again bytes.Buffer
	h.must(decoded.Encode(&again, sum))
	if again.String() != last.String() {
		t.Error("the snapshot that was read is written with other bytes")
	}
}

// TestStoredHiveIsReplayed checks that the files after some events are what they
// were.
func TestStoredHiveIsReplayed(t *testing.T) {
	t.Parallel()
	h := goldenHive(t, stored)
	var all strings.Builder
	for _, until := range []protocol.Seq{1, 150, 300, 450, 0} {
		fmt.Fprintf(&all, "until %d\n%s", until, h.replayed(until))
	}
	h.matches(stored+"-trees.txt", all.String())
}

// listed returns mode, content and path of each file of the hive, except the open
// segment and what belongs to git or a daemon.
func (h *testHive) listed() string {
	h.t.Helper()
	var b strings.Builder
	h.must(filepath.WalkDir(h.dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(h.dir, p)
		switch {
		case err != nil || rel == ".":
			return err
		case rel == ".git" || rel == ".hived":
			return fs.SkipDir
		case rel == protocol.PathLog:
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := "directory"
		if !d.IsDir() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			what = protocol.BlobOf(data).String()
		}
		mode := info.Mode().Perm()
		if runtime.GOOS == "windows" { // has no such modes
			mode = 0o644
			if d.IsDir() {
				mode = 0o755
			}
		}
		fmt.Fprintf(&b, "%04o %s %s\n", mode, what, filepath.ToSlash(rel))
		return nil
	}))
	return b.String()
}

// TestStoredHiveIsMadeAgain checks that repair, from log and settings alone, makes
// the files that were there, and a history with the same trees and commits.
func TestStoredHiveIsMadeAgain(t *testing.T) {
	t.Parallel()
	h := goldenHive(t, stored)
	h.matches(stored+"-files.txt", h.listed())
	for _, p := range []string{"agents", "tasks", "registry.json", "board.md", "PROTOCOL.md", ".hived"} {
		h.remove(p)
	}
	if r := h.repair(false); len(r.Left) > 0 {
		t.Fatalf("left:%s", lines(r.Left))
	}
	h.matches(stored+"-repaired.txt", h.listed())
	before := h.git("log", "--format=%H %cI %s", "HEAD~1") // the newest holds the repair, at its time
	h.matches(stored+"-git.txt", before+h.git("ls-tree", "-r", "HEAD"))
}

// TestStoredHiveGoesOn checks that a daemon starts on the stored hive, from its
// snapshot and from its log.
func TestStoredHiveGoesOn(t *testing.T) {
	t.Parallel()
	for _, gone := range []string{"none", protocol.SnapshotFile} {
		h := goldenHive(t, stored)
		h.remove(gone)
		if r := h.repair(false); len(r.Left) > 0 {
			t.Fatalf("left:%s", lines(r.Left))
		}
		h.once()
		if r := h.verify(); !r.OK() {
			t.Errorf("without %s:%s", gone, lines(r.Findings))
		}
	}
}
