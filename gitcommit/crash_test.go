package gitcommit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/sweep"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

// story returns what the crash tests commit to a disk: a log of events, one commit
// each, with the index and the packs kept up to date.
func story() []Event {
	segment := []byte("{\"seq\":1}\n")
	text := strings.Repeat("a message of some length, ", 8)
	begin := []change{put("registry.json", "{}"), put("board.md", "plan")}
	for i := range 8 {
		begin = append(begin, put(fmt.Sprintf("agents/a/inbox/0%d.json", i), "old"))
	}
	events := []Event{
		{Changes: begin},
		{Changes: []change{put("agents/a/inbox/1.json", text), put("agents/b/inbox/1.json", text), put("agents/c/outbox/.sent/1.json", text+"as it was sent")}},
		{Changes: []change{move("agents/a/inbox/1.json", "agents/a/inbox/.done/1.json"), {Op: protocol.PutFile, Path: "log/000000000001.jsonl", Data: segment}}},
		{Changes: []change{del("agents/b/inbox/1.json"), put("tasks/t/task.json", "{}"), put("agents/a/inbox/2.json", "two")}},
	}
	for i := range events {
		events[i].Seq, events[i].Sum = protocol.Seq(i+1), fmt.Sprintf("%032x", i+1)
	}
	return events
}

// commitStory commits the events of the story that history lacks, and returns those
// that are durable.
func commitStory(ctx context.Context, disk durable.FS, events []Event, packs int) (protocol.Seq, error) {
	if err := Init(disk); err != nil {
		return 0, err
	}
	r, err := Open(disk, Options{})
	if err != nil {
		return 0, err
	}
	head, err := r.Head()
	if err != nil {
		return 0, err
	}
	sure := head.Seq
	for _, e := range events[head.Seq:] {
		b := Batch{First: e.Seq, Last: e.Seq, Sum: e.Sum, At: time.Unix(int64(9+packs), 0), Changes: e.Changes}
		if _, err := r.Commit(ctx, b); err != nil {
			return sure, err
		}
		sure = e.Seq
		if _, err := r.SyncIndex(ctx); err != nil {
			return sure, err
		}
		// What was merged is merged again at the end.
		if packs > 0 && (e.Seq == 3 || e.Seq == events[len(events)-1].Seq) {
			if err := mergeAll(ctx, r, disk); err != nil {
				return sure, err
			}
		}
	}
	return sure, nil
}

func mergeAll(ctx context.Context, r *Repo, disk durable.FS) error {
	r.merging.Lock()
	defer r.merging.Unlock()
	found, err := allPacks(r, disk)
	if err != nil || len(found) < 2 {
		return err
	}
	return r.merge(ctx, found)
}

// differences counts the objects that are stored as differences.
func differences(t *testing.T, disk durable.FS) map[kind]int {
	t.Helper()
	out := make(map[kind]int)
	s := newStore(disk)
	names, err := packNames(disk)
	testenv.Must(t, err)
	for stem := range names {
		x, err := readIdx(disk, stem)
		testenv.Must(t, err)
		f, err := disk.Open(stem + ".pack")
		testenv.Must(t, err)
		for i := range x.len() {
			e := x.entry(i)
			p, err := s.u.entry(f, e.offset)
			testenv.Must(t, err)
			if p.kind == kindRefDelta {
				k, _, err := s.find(e.id)
				testenv.Must(t, err)
				out[k]++
			}
		}
		testenv.Must(t, f.Close())
	}
	return out
}

func allPacks(r *Repo, disk durable.FS) ([]pack, error) {
	names, err := packNames(disk)
	if err != nil {
		return nil, err
	}
	var out []pack
	for stem := range names {
		p, err := r.packOf(stem)
		if err != nil {
			return nil, err
		}
		out = append(out, *p)
	}
	return out, nil
}

// newDisk returns a disk in memory with the sealed segment of the story on it.
func newDisk(t *testing.T) *faultfs.Mem {
	t.Helper()
	m := faultfs.New()
	testenv.Must(t, m.Mkdir("log", 0o755))
	testenv.Must(t, durable.Publish(m, "log/000000000001.jsonl", []byte("{\"seq\":1}\n"), 0o644, true))
	testenv.Must(t, m.SyncAll())
	return m
}

// checkStory checks a disk against the story.
func checkStory(t *testing.T, disk durable.FS, events []Event) {
	t.Helper()
	err := Check(t.Context(), disk, storyOf(events), func(p Problem) { t.Errorf("check: %s: %s", p.Code, p.Text) })
	testenv.Must(t, err)
}

// wantNoDangling fails the test if a commit in a pack is not in history.
func wantNoDangling(t *testing.T, disk durable.FS) {
	t.Helper()
	history := make(map[protocol.Blob]bool)
	for c, err := range Commits(disk) {
		testenv.Must(t, err)
		history[c.ID] = true
	}
	packs, err := newestPacks(disk)
	testenv.Must(t, err)
	s := newStore(disk)
	for _, p := range packs {
		x, err := readIdx(disk, packStem(p))
		testenv.Must(t, err)
		for i := range x.len() {
			id := protocol.Blob(x.name(i))
			if _, err := s.readOnce(id, kindCommit); err == nil && !history[id] {
				t.Errorf("commit %s dangles", id)
			}
		}
	}
}

// After a crash at any operation of the disk, with any loss of unsynced data, what
// was committed is there and the rest can be committed.
func TestCrashAnywhere(t *testing.T) {
	events := story()
	m := newDisk(t)
	before := m.Ops()
	if _, err := commitStory(t.Context(), m, events, 1); err != nil {
		t.Fatal(err)
	}
	checkStory(t, m, events)
	ops := m.Ops() - before
	if d := differences(t, m); d[kindBlob] != 1 || d[kindTree] == 0 {
		t.Fatalf("the story makes differences of %v", d)
	}
	for _, how := range []faultfs.Loss{faultfs.Drop, faultfs.Keep, faultfs.Torn(1), faultfs.Torn(2)} {
		t.Run(how.String(), func(t *testing.T) {
			for n := 1; n <= ops; n += sweep.Of(sweep.GitCrashes) {
				m := newDisk(t)
				m.CrashAt(n, how)
				sure, err := commitStory(t.Context(), m, events, 1)
				if err != nil && !errors.Is(err, faultfs.ErrCrashed) {
					t.Fatalf("crash at %d: %v", n, err)
				}
				m = m.Reboot()
				if sure > 0 {
					r, err := Open(m, Options{})
					if err != nil {
						t.Fatalf("crash at %d: %v", n, err)
					}
					if head, err := r.Head(); err != nil || head.Seq < sure {
						t.Fatalf("crash at %d: history ends at %s, %s was committed (%v)", n, head.Seq, sure, err)
					}
				}
				if _, err := commitStory(t.Context(), m, events, 0); err != nil {
					t.Fatalf("after a crash at %d: %v", n, err)
				}
				checkStory(t, m, events)
				wantNoDangling(t, m)
				if t.Failed() {
					t.Fatalf("after a crash at %d", n)
				}
			}
		})
	}
}

// operations counts the operations of the disk that a story takes.
func operations(t *testing.T, events []Event) int {
	t.Helper()
	m := newDisk(t)
	before := m.Ops()
	_, err := commitStory(t.Context(), m, events, 0)
	testenv.Must(t, err)
	return m.Ops() - before
}

// A killed process leaves names that are not durable. The next process makes them
// durable before a durable branch depends on them.
func TestPowerCutAfterAKill(t *testing.T) {
	t.Parallel()
	events := story()
	ops := operations(t, events)
	for n := 1; n <= ops; n++ {
		m := newDisk(t)
		m.CrashAt(n, faultfs.Keep)
		_, _ = commitStory(t.Context(), m, events, 0)
		m = m.Reboot()
		if r, err := Open(m, Options{}); err == nil {
			_, _ = r.Head() // it lands what the kill left
		}
		m.CrashAt(0, faultfs.Drop)
		m = m.Reboot()
		if _, err := commitStory(t.Context(), m, events, 0); err != nil {
			t.Fatalf("power cut after a kill at %d: %v", n, err)
		}
		checkStory(t, m, events)
		if t.Failed() {
			t.Fatalf("power cut after a kill at %d", n)
		}
	}
}

// A full disk, or one that fails, costs the batch and nothing else.
func TestFailuresGiveTheBatchBack(t *testing.T) {
	events := story()
	ops := operations(t, events)
	for n := 1; n <= ops; n++ {
		m := newDisk(t)
		m.FailAt(n, durable.ErrNoSpace, 1, func(op faultfs.Op, _ string) bool { return op != faultfs.OpSync })
		if _, err := commitStory(t.Context(), m, events, 0); err != nil && !errors.Is(err, durable.ErrNoSpace) {
			t.Fatalf("failure at %d: %v", n, err)
		}
		m.Heal()
		if _, err := commitStory(t.Context(), m, events, 0); err != nil {
			t.Fatalf("after a failure at %d: %v", n, err)
		}
		checkStory(t, m, events)
		if t.Failed() {
			t.Fatalf("after a failure at %d", n)
		}
	}
}

// TestPackOfTheDead: a commit whose pack exists already, from a process that died
// before it synced the name, or failed to, is as durable as any.
func TestPackOfTheDead(t *testing.T) {
	events := story()[:1]
	begun := newDisk(t)
	if _, err := commitStory(t.Context(), begun, nil, 0); err != nil {
		t.Fatal(err)
	}
	testenv.Must(t, begun.SyncAll())
	clean := begun.Copy()
	if _, err := commitStory(t.Context(), clean, events, 0); err != nil {
		t.Fatal(err)
	}
	for name, fault := range map[string]func(m *faultfs.Mem, n int){
		"dies":         func(m *faultfs.Mem, n int) { m.CrashAt(n, faultfs.Keep) },
		"cannot write": func(m *faultfs.Mem, n int) { m.FailAt(n, syscall.EIO, 1); m.CrashAt(1<<30, faultfs.Keep) },
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; n <= clean.Ops(); n++ {
				m := begun.Copy()
				fault(m, n)
				_, _ = commitStory(t.Context(), m, events, 0) // it may fail
				m.Heal()
				m.CrashAt(0, faultfs.Keep)
				m = m.Reboot()
				if _, err := commitStory(t.Context(), m, events, 0); err != nil {
					t.Fatalf("%d: %v", n, err)
				}
				m = m.Reboot()
				if _, err := commitStory(t.Context(), m, events, 0); err != nil { // what the failed sync of the branch took
					t.Fatalf("%d, after a power cut: %v", n, err)
				}
				checkStory(t, m, events)
				if t.Failed() {
					t.Fatalf("at operation %d", n)
				}
			}
		})
	}
}
