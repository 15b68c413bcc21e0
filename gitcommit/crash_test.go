package gitcommit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/protocol"
)

// story is what the crash tests do to a disk: a log of events, committed one
// by one, with the index and the packs looked after.
func story() []Event {
	segment := []byte("{\"seq\":1}\n")
	events := []Event{
		{Changes: []change{put("registry.json", "{}"), put("board.md", "plan")}},
		{Changes: []change{put("agents/a/inbox/1.json", "one"), put("agents/b/inbox/1.json", "one")}},
		{Changes: []change{move("agents/a/inbox/1.json", "agents/a/inbox/.done/1.json"), {Op: protocol.PutFile, Path: "log/000000000001.jsonl", Data: segment}}},
		{Changes: []change{del("agents/b/inbox/1.json"), put("tasks/t/task.json", "{}")}},
	}
	for i := range events {
		events[i].Seq, events[i].Sum = protocol.Seq(i+1), fmt.Sprintf("%032x", i+1)
	}
	return events
}

// tell commits what history lacks of the story and returns what is committed
// for certain.
func tell(ctx context.Context, disk durable.FS, events []Event, packs int) (protocol.Seq, error) {
	if err := Init(disk, false); err != nil {
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
	}
	if packs == 0 {
		return sure, nil
	}
	r.merging.Lock()
	defer r.merging.Unlock()
	found, err := allPacks(r, disk)
	if err != nil || len(found) < 2 {
		return sure, err
	}
	return sure, r.merge(ctx, found)
}

func allPacks(r *Repo, disk durable.FS) ([]pack, error) {
	names, err := packNames(disk)
	if err != nil {
		return nil, err
	}
	var out []pack
	for stem := range names {
		info, err := disk.Lstat(stem + ".pack")
		if err != nil {
			return nil, err
		}
		if p := (pack{stem: stem, size: info.Size}); !r.holdsDeltas(p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// newDisk gives a disk in memory with the sealed segment of the story on it.
func newDisk(t *testing.T) *faultfs.Mem {
	t.Helper()
	m := faultfs.New()
	if err := m.Mkdir("log", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := durable.Publish(m, "log/000000000001.jsonl", []byte("{\"seq\":1}\n"), 0o644, true); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncAll(); err != nil {
		t.Fatal(err)
	}
	return m
}

// judge holds a disk against the story.
func judge(t *testing.T, disk durable.FS, events []Event) {
	t.Helper()
	history := func(yield func(Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
	err := Check(t.Context(), disk, history, func(p Problem) { t.Errorf("check: %s: %s", p.Code, p.Text) })
	if err != nil {
		t.Fatal(err)
	}
}

// noDangling wants every commit in a pack to be in history.
func noDangling(t *testing.T, disk durable.FS) {
	t.Helper()
	history := make(map[protocol.Blob]bool)
	for c, err := range Commits(disk) {
		if err != nil {
			t.Fatal(err)
		}
		history[c.ID] = true
	}
	packs, err := newestPacks(disk)
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(disk)
	for _, p := range packs {
		x, err := readIdx(disk, packStem(p))
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.len() {
			id := protocol.Blob(x.name(i))
			if _, err := s.once(id, kindCommit); err == nil && !history[id] {
				t.Errorf("commit %s dangles", id)
			}
		}
	}
}

// After a crash at any operation of the disk, with any loss of what was not
// synced, what was committed is there and the rest can follow.
func TestCrashAnywhere(t *testing.T) {
	events := story()
	m := newDisk(t)
	before := m.Ops()
	if _, err := tell(t.Context(), m, events, 1); err != nil {
		t.Fatal(err)
	}
	judge(t, m, events)
	ops := m.Ops() - before
	for _, how := range []faultfs.Loss{faultfs.Drop, faultfs.Keep, faultfs.Torn(1), faultfs.Torn(2)} {
		t.Run(how.String(), func(t *testing.T) {
			for n := 1; n <= ops; n++ {
				m := newDisk(t)
				m.CrashAt(n, how)
				sure, err := tell(t.Context(), m, events, 1)
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
				if _, err := tell(t.Context(), m, events, 0); err != nil {
					t.Fatalf("after a crash at %d: %v", n, err)
				}
				judge(t, m, events)
				noDangling(t, m)
				if t.Failed() {
					t.Fatalf("after a crash at %d", n)
				}
			}
		})
	}
}

// A full disk, or one that fails, costs the batch and nothing else.
func TestFailuresGiveTheBatchBack(t *testing.T) {
	events := story()
	m := newDisk(t)
	before := m.Ops()
	if _, err := tell(t.Context(), m, events, 0); err != nil {
		t.Fatal(err)
	}
	ops := m.Ops() - before
	for n := 1; n <= ops; n++ {
		m := newDisk(t)
		m.FailAt(n, durable.ErrNoSpace, 1, func(op faultfs.Op, _ string) bool { return op != faultfs.OpSync })
		if _, err := tell(t.Context(), m, events, 0); err != nil && !errors.Is(err, durable.ErrNoSpace) {
			t.Fatalf("failure at %d: %v", n, err)
		}
		m.Heal()
		if _, err := tell(t.Context(), m, events, 0); err != nil {
			t.Fatalf("after a failure at %d: %v", n, err)
		}
		judge(t, m, events)
		if t.Failed() {
			t.Fatalf("after a failure at %d", n)
		}
	}
}
