package router

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// readViews returns the number of the log's last event, the `file` events that it has, and
// its state.
func readViews(t *testing.T, disk durable.FS) (last protocol.Seq, files map[string]int, state *ledger.State) {
	t.Helper()
	files, state = map[string]int{}, ledger.New(memSettings().Remember)
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		testenv.Must(t, err)
		last = rec.Event.Seq
		state.Apply(rec.Event)
		if e, ok := rec.Event.Body.(*protocol.FileEvent); ok {
			files[e.Path]++
		}
	}
	return last, files, state
}

// sameViews checks that each view on the disk is as the end of the log gives it.
func sameViews(disk durable.FS, state *ledger.State) error {
	var errs []error
	n := 0
	for p := range state.AllViews {
		n++
		want, _ := state.View(p)
		if have, _, err := durable.ReadFile(disk, p, -1); err != nil || string(have) != string(want) {
			errs = append(errs, fmt.Errorf("%s is %q, %w; the log gives %q", p, have, err, want))
		}
	}
	if n == 0 {
		errs = append(errs, errors.New("there are no views"))
	}
	return errors.Join(errs...)
}

// TestViewsHaveNoEvents checks that the views of the roster and of tasks are right, and not
// in the log, in commits of few events and of many, made by a committer that was told of
// them and by one that reads the log because it was behind.
func TestViewsHaveNoEvents(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 3, 512} {
		for _, paused := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				disk := memHive(t)
				set := memSettings()
				set.Git.CommitBatch = batch
				n := 0
				say := func(who, text string) {
					n++
					put(t, disk, fmt.Sprintf("agents/%s/outbox/%03d.json", who, n), text)
				}
				run := func() {
					testenv.Must(t, runWith(disk, set))
					<-time.After(time.Second)
				}
				if paused {
					say("human", `{"to":"hive","event":"git-pause"}`)
				}
				say("alice", `{"to":"hive","event":"create","data":{"tasks":[{"title":"one","to":["bob"]},{"title":"two","to":["bob"]},{"title":"three"}]}}`)
				run()
				say("bob", `{"to":"hive","event":"claim"}`)
				say("human", `{"to":"hive","event":"agent-add","data":{"agent":"bob","role":"maker"}}`)
				say("bob", `{"to":"alice","body":"between"}`)
				run()
				say("bob", `{"to":"hive","event":"claim"}`)
				say("human", `{"to":"hive","event":"agent-hold","data":{"agent":"alice"}}`)
				run()
				if paused {
					say("human", `{"to":"hive","event":"git-resume"}`)
				}
				run()
				run()
				last, files, state := readViews(t, disk)
				for p := range files {
					if p == protocol.PathRegistry || strings.HasPrefix(p, protocol.PathTasks) {
						t.Errorf("the log holds %s", p)
					}
				}
				if err := errors.Join(sameViews(disk, state), sameCommits(disk, last)); err != nil {
					t.Errorf("batches of %d, paused %v: %v", batch, paused, err)
				}
			})
		}
	}
}

// TestViewsComeBack checks that a start brings back views that somebody removed while no
// daemon ran, and a roster that somebody wrote over.
func TestViewsComeBack(t *testing.T) {
	t.Parallel()
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"to":"hive","event":"create","data":{"title":"one","to":["bob"]}}`)
	testenv.Must(t, runOnce(disk))
	_, _, state := readViews(t, disk)
	for p := range state.AllViews {
		testenv.Must(t, disk.Remove(p))
	}
	put(t, disk, protocol.PathRegistry, "{}")
	testenv.Must(t, runOnce(disk))
	_, _, state = readViews(t, disk)
	if err := sameViews(disk, state); err != nil {
		t.Error(err)
	}
}

// TestViewLeftBehindByACrash checks that the next start writes a view that a power cut left
// as it was before events that are in the log.
func TestViewLeftBehindByACrash(t *testing.T) {
	t.Parallel()
	disk := memHive(t)
	put(t, disk, "agents/alice/outbox/1.json", `{"to":"hive","event":"create","data":{"title":"one","to":["bob"]}}`)
	testenv.Must(t, runOnce(disk))
	before := map[string][]byte{}
	_, _, state := readViews(t, disk)
	for p := range state.AllViews {
		before[p], _ = state.View(p)
	}
	put(t, disk, "agents/bob/outbox/2.json", `{"to":"hive","event":"claim"}`)
	disk = crashAfter(t, disk, memSettings(), faultfs.Keep, func(ev protocol.Event) bool {
		e, ok := ev.Body.(*protocol.TaskEvent)
		return ok && e.Event == task.Claim
	})
	for p, data := range before {
		put(t, disk, p, string(data))
	}
	testenv.Must(t, runOnce(disk))
	_, _, state = readViews(t, disk)
	if err := sameViews(disk, state); err != nil {
		t.Error(err)
	}
}

// TestOldHiveKeepsItsViewsUntilTheyChange checks that what a log of format 1 says of a view
// holds until an event of format 2 changes it.
func TestOldHiveKeepsItsViewsUntilTheyChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := oldHive(t)
		testenv.Must(t, runOnce(disk))
		if _, files, state := readViews(t, disk); files[protocol.PathRegistry] == 0 || !state.ViewsAreFiles() {
			t.Fatalf("a log of format 1 holds %v", files)
		}
		put(t, disk, "agents/alice/outbox/1.json", `{"to":"bob","body":"x"}`)
		testenv.Must(t, runOnce(disk))
		_, files, state := readViews(t, disk)
		if _, ok := state.View(protocol.PathRegistry); ok {
			t.Error("the roster has become a view, though nothing changed it")
		}
		put(t, disk, "agents/human/outbox/1.json", `{"to":"hive","event":"agent-hold","data":{"agent":"bob"}}`)
		put(t, disk, "agents/alice/outbox/2.json", `{"to":"hive","event":"create","data":{"title":"one","to":["bob"]}}`)
		testenv.Must(t, runOnce(disk))
		last, now, state := readViews(t, disk)
		if now[protocol.PathRegistry] != files[protocol.PathRegistry] || len(now) != len(files) {
			t.Errorf("the log holds %v, and held %v", now, files)
		}
		if err := errors.Join(sameViews(disk, state), sameCommits(disk, last)); err != nil {
			t.Error(err)
		}
	})
}
