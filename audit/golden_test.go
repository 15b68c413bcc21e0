package audit

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// The golden hive of format 1 was made by a hived that knew format 1 alone. It has
// agents in every status, messages in every state, own files, tasks in every state,
// sealed segments, swept files, and a history. What that hived said of them is
// recorded beside it; -golden records it again, which only that hived may do.
var recordGolden = flag.Bool("golden", false, "record what is known of the golden hives")

const golden = "testdata/format1"

// goldenHive unpacks a stored hive.
func goldenHive(t *testing.T, name string) *testHive {
	t.Helper()
	h := &testHive{t: t, dir: filepath.Join(t.TempDir(), "hive")}
	h.must(os.Mkdir(h.dir, 0o755))
	h.must(testenv.Unpack(name+".tar.gz", h.dir))
	disk, err := durable.Open(h.dir)
	h.must(err)
	t.Cleanup(func() { _ = disk.Close() })
	h.disk = disk
	h.set, err = hive.Settings(disk)
	h.must(err)
	return h
}

// saidOf describes a state in terms that every version of hived knows.
func saidOf(s *ledger.State) map[string]any {
	agents, tasks := map[string]any{}, map[string]any{}
	box := func(b *ledger.Box) []string {
		list := []string{}
		for name, l := range b.All() {
			list = append(list, fmt.Sprint(name, " ", l.Of, " ", l.ID, " ", l.Blob, " ", l.Size, " ", protocol.Stamp(l.At)))
		}
		return list
	}
	for _, a := range s.Roster() {
		agents[string(a.ID)] = map[string]any{
			"role": a.Role, "caps": a.Caps, "slots": a.Slots, "status": a.Status, "joined": protocol.Stamp(a.Joined), "missed": a.Missed,
			"accepted": a.Accepted, "delivered": a.Delivered, "handled": a.Handled, "inbox": box(&a.Inbox), "done": box(&a.Done), "sent": box(&a.Sent),
		}
	}
	files := map[string]string{}
	for p, f := range s.Files {
		files[p] = f.Blob.String() + " " + protocol.Stamp(f.At)
	}
	for t := range s.Tasks.All() {
		terms := t.Terms()
		tasks[string(t.ID)] = map[string]any{
			"title": t.Title, "creator": t.Creator, "to": t.To, "needs": t.Needs(), "resumes": terms.Resumes, "repairs": terms.Repairs,
			"priority": t.Priority, "depth": terms.Depth, "needed": terms.Needed, "approvers": terms.Approvers,
			"state": t.State, "since": t.Since, "epoch": t.Epoch, "attempt": t.Attempt, "retries": t.Retries,
			"holder": t.Holder, "offered": t.Offered, "declined": t.Declined, "not_before": t.NotBefore, "until": t.Until, "expected": t.Expected,
			"progressed": t.Progressed, "cancelling": t.Cancelling, "blocked_on": t.BlockedOn, "votes": t.Questions.Votes(), "category": t.Category, "reason": t.Reason,
			"milestone": t.Milestone, "checkpoint": fmt.Sprintf("%x at %d", t.CheckpointSum, t.CheckpointAt), "broken": t.Broken,
			"result_at": t.ResultAt, "brief_at": t.BriefAt, "changed": t.Changed, "viewed": t.Viewed, "rounds": t.Rounds, "spent": t.Spent, "reminded": t.Reminded,
			"children": s.Tasks.Children(t.ID),
		}
	}
	of, content, seen := s.Seen("alice", "a1")
	return map[string]any{
		"seq": s.Seq, "ts": protocol.Stamp(s.TS), "newest": s.Newest.String(), "settled": s.Settled, "lead": s.Lead, "running": s.Running, "paused": s.GitPaused,
		"counts": s.Counts, "agents": agents, "files": files, "tasks": tasks, "stats": s.Tasks.Report(s.TS), "registry": string(s.Registry()),
		"seen": fmt.Sprintf("%d %x %v", of, content, seen),
	}
}

// replayed lists what a replay up to an event writes.
func (h *testHive) replayed(until protocol.Seq) string {
	h.t.Helper()
	into := filepath.Join(h.t.TempDir(), "tree")
	_, err := Replay(h.t.Context(), h.disk, into, Until{Seq: until})
	h.must(err)
	var list []string
	h.must(filepath.WalkDir(into, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(into, p)
		list = append(list, fmt.Sprintf("%s %s\n", protocol.BlobOf(data), filepath.ToSlash(rel)))
		return err
	}))
	slices.Sort(list)
	return strings.Join(list, "")
}

// matches compares text with what was recorded.
func (h *testHive) matches(name, text string) {
	h.t.Helper()
	if *recordGolden {
		h.must(os.WriteFile(name, []byte(text), 0o644))
	}
	want, err := os.ReadFile(name)
	h.must(err)
	if d := cmp.Diff(string(want), text); d != "" {
		h.t.Errorf("%s (-then +now):\n%s", name, d)
	}
}

// fold returns the state at the end of the log.
func (h *testHive) fold() *ledger.State {
	h.t.Helper()
	state := ledger.New(h.set.Remember)
	for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
		h.must(err)
		state.Apply(rec.Event)
	}
	return state
}

func TestFormat1FoldsAsItDid(t *testing.T) {
	t.Parallel()
	h := goldenHive(t, golden)
	said, err := json.MarshalIndent(saidOf(h.fold()), "", " ")
	h.must(err)
	h.matches(golden+"-state.json", string(said)+"\n")
	var all strings.Builder
	for _, until := range []protocol.Seq{1, 100, 0} {
		fmt.Fprintf(&all, "until %d\n%s", until, h.replayed(until))
	}
	h.matches(golden+"-trees.txt", all.String())
}

func TestFormat1IsVerifiedAndGoesOn(t *testing.T) {
	t.Parallel()
	h := goldenHive(t, golden)
	if r := h.verify(); !r.OK() {
		t.Fatalf("before it is started:%s", lines(r.Findings))
	}
	before := h.fold()
	var id protocol.TaskID
	for x := range before.Tasks.All() {
		if x.State == task.InProgress && x.Holder == "bob" {
			id = x.ID
			break
		}
	}
	h.write("agents/bob/outbox/more.json", `{"to":"alice","id":"more","body":"goes on"}`)
	gate := sha256.Sum256([]byte("go test ./...")) // the task's
	h.write("agents/bob/outbox/task.json", fmt.Sprintf(`{"to":"hive","event":"complete","task":%q,"epoch":1,"data":{"result":"done","gate":{"exit":0,"sha256":"%x"}}}`, id, gate))
	h.once()
	after := h.fold()
	if got := after.Tasks.Get(id).State; got != task.Completed {
		t.Errorf("the task is %s", got)
	}
	if _, _, seen := after.Seen("bob", "more"); !seen {
		t.Error("the message was not accepted")
	}
	if r := h.verify(); !r.OK() {
		t.Errorf("afterwards:%s", lines(r.Findings))
	}
	h.once() // from its snapshot
	if r := h.verify(); !r.OK() {
		t.Errorf("after another start:%s", lines(r.Findings))
	}
}
