package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hived/hived/internal/sweep"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
)

// tiny are sizes that show that a row works, and nothing else.
var tiny = sizes{
	rounds: 2, longest: wait.Longest, burst: 40, agents: 4, loopBurst: 2,
	bigFiles: 80, loopBig: 1,
	live: 40, liveFiles: 40,
	idle:        4,
	commitFiles: []int{10, 500}, loopFiles: []int{10}, commits: 2,
	sizeMessages: 160,
	statusFiles:  60, statusCommits: 10,
	agedAgents: 4, agedEvents: 200, agedMessages: 120, agedRounds: 1, quiet: 40 * time.Millisecond, patience: 40,
	yearAgents: 4, yearMessages: 200,
	taskAgents: 3, tasksFew: 6, tasks: 12, refill: 20, reports: 5, rosterAgents: 3, timerAgents: 2, lease: 600 * time.Millisecond, work: 3, workOutput: 1 << 20,
}

// built is the program, for the rows that run it.
var built func() (string, error)

func TestMain(m *testing.M) {
	testenv.Cheap()
	dir, err := os.MkdirTemp("", "hived-bench-")
	if err != nil {
		panic(err)
	}
	built = sync.OnceValues(func() (string, error) {
		name := filepath.Join(dir, "hived")
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", name, "../../cmd/hived").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("build hived: %w\n%s", err, out)
		}
		return name, nil
	})
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

func program(tb testing.TB) string {
	tb.Helper()
	name, err := built()
	testenv.Must(tb, err)
	return name
}

func needGit(t *testing.T) {
	t.Helper()
	if _, err := gitProgram(); err != nil {
		t.Skip(err)
	}
}

// smoke runs rows with tiny sizes: each must come with figures, whatever they are.
func smoke(t *testing.T, program string, names ...string) {
	t.Helper()
	dir := t.TempDir()
	var told []Progress
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Minute, errors.New("three minutes are over"))
	defer cancel()
	list, err := run(ctx, Options{Only: names, Dir: dir, Program: program, Tell: func(p Progress) { told = append(told, p) }}, tiny)
	testenv.Must(t, err)
	var got []string
	for _, r := range list {
		got = append(got, r.Name)
		if r.Met == nil || r.What == "" || len(r.Parts) == 0 {
			t.Errorf("%s is incomplete: %+v", r.Name, r)
		}
		for _, p := range r.Parts {
			if p.Hived == nil && !strings.HasPrefix(p.Note, "not measured: ") {
				t.Errorf("%s, %s: neither a figure nor a reason", r.Name, p.Name)
			}
		}
	}
	if !slices.Equal(got, names) {
		t.Errorf("rows %v, want %v", got, names)
	}
	if !slices.IsSortedFunc(told, func(a, b Progress) int { return int(1e6*a.Share) - int(1e6*b.Share) }) {
		t.Errorf("progress went back: %+v", told)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left behind, %v", left, err)
	}
}

func TestRowsInThisProcess(t *testing.T) {
	t.Parallel()
	needGit(t)
	names := []string{"burst", "live", "tasks-timers", "tasks-willing", "log-bytes"}
	if sweep.Of(sweep.Rows) > 0 {
		names = []string{"burst", "burst-50k", "live", "idle-latency", "commit-flat", "git-status", "tasks-decide", "tasks-throughput", "tasks-timers", "tasks-willing", "log-bytes", "refill", "tails"}
	}
	smoke(t, "", names...)
}

func TestRowsWithTheProgram(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds hived")
	}
	if err := checkProc(); err != nil {
		t.Skip(err)
	}
	needGit(t)
	names := []string{"start"}
	if sweep.Of(sweep.Rows) > 0 {
		names = []string{"git-size", "replay", "start", "verify", "memory", "year", "tasks-memory"}
	}
	smoke(t, program(t), names...)
}

// What a machine lacks is said in words, is not met, and is no error.
func TestRowWithoutWhatItNeeds(t *testing.T) {
	list, err := run(t.Context(), Options{Only: []string{"start"}, Dir: t.TempDir()}, tiny)
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	r := list[0]
	if *r.Met || r.Hived != nil || !strings.HasPrefix(r.Note, "not measured: th") {
		t.Errorf("%+v", r)
	}
}

func TestRunWithoutRoom(t *testing.T) {
	if _, known := freeBytes(t.TempDir()); !known {
		t.Skip("this system does not tell")
	}
	much := tiny
	much.yearMessages = 1 << 45
	_, err := run(t.Context(), Options{Only: []string{"year"}, Dir: t.TempDir()}, much)
	if err == nil || !strings.Contains(err.Error(), "MiB are free") || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("got %v", err)
	}
}

func TestRunInterrupted(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	tell := func(Progress) { cancel(stop) }
	if _, err := run(ctx, Options{Only: []string{"idle-latency"}, Dir: dir, Tell: tell}, tiny); !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left behind, %v", left, err)
	}
}

func TestNames(t *testing.T) {
	got := slices.Sorted(slices.Values(Names()))
	want := []string{"burst", "burst-50k", "commit-flat", "git-size", "git-status", "idle-latency", "live", "log-bytes", "memory", "refill", "replay", "start", "steps", "tails", "tasks-decide", "tasks-memory", "tasks-throughput", "tasks-timers", "tasks-willing", "verify", "work", "year"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, r := range rows {
		if r.what(full) == "" || r.behind == "" || r.brief == 0 || r.full == 0 || r.disk(full) <= 0 && r.needs&past == 0 {
			t.Errorf("%s is incomplete", r.name)
		}
	}
}

// BenchmarkSuite runs the suite in its short form, one sub-benchmark a row.
func BenchmarkSuite(b *testing.B) {
	name := program(b)
	for _, row := range Names() {
		b.Run(row, func(b *testing.B) {
			for b.Loop() {
				list, err := Run(b.Context(), Options{Short: true, Only: []string{row}, Program: name})
				testenv.Must(b, err)
				report(b, list[0])
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// report gives the figures of a row to the testing package, whose units hold
// no spaces.
func report(b *testing.B, r Result) {
	b.Helper()
	word := func(s string) string {
		return strings.NewReplacer(" ", "-", ",", "", "(", "", ")", "", "&", "").Replace(s)
	}
	for _, p := range r.Parts {
		name := word(p.Name + " " + p.Unit)
		switch {
		case p.Hived == nil:
			b.Logf("%s: %s", r.Name, p.Note)
			continue
		case p.Name == allocatedBytes:
			name = "B/msg"
		case p.Name == allocations:
			name = "allocs/msg"
		}
		b.ReportMetric(*p.Hived, name)
		if p.Ratio != nil {
			b.ReportMetric(*p.Ratio, word(p.Name+" ratio"))
		}
	}
}

// The rest is estimated from what rows cost and how fast the machine is; the
// hive that rows share is paid for by the first of them.
func TestClock(t *testing.T) {
	var got Progress
	rows := []row{{name: "a", full: 10 * time.Second, needs: past}, {name: "b", full: 30 * time.Second, needs: past}}
	c := newClock(Options{Tell: func(p Progress) { got = p }}, rows)
	tell := c.begin(rows[0])
	tell(0, "first %d", 1)
	if got.Row != "a" || got.Doing != "first 1" || got.Share != 0 || got.Left != agedFull+40*time.Second {
		t.Errorf("at the beginning: %+v", got)
	}
	c.end()
	tell = c.begin(rows[1])
	c.began = time.Now().Add(-2 * (agedFull + 10*time.Second)) // twice as slow as thought
	tell(0, "second")
	if left := got.Left.Round(time.Second); got.Row != "b" || left != 60*time.Second {
		t.Errorf("after the first row: %+v", got)
	}
	tell(2, "over")
	if got.Share != 1 || got.Left != 0 {
		t.Errorf("at the end: %+v", got)
	}
}

// Each task that time told of counts once: on a slow machine a lease may end
// before its reminder.
func TestTimersCountTasks(t *testing.T) {
	x := &board{fired: map[protocol.TaskID]bool{}}
	for _, e := range []*protocol.TaskEvent{
		{Task: "one", From: "pending", Event: reminded},
		{Task: "one", From: "pending", Event: leaseExpired},
		{Task: "two", From: "pending", Event: leaseExpired},
		{Task: "two", From: "unassigned", Event: "offer"},
	} {
		x.onEvent(protocol.Event{Body: e})
	}
	if x.timers != 2 {
		t.Errorf("%d tasks, want 2", x.timers)
	}
}

// A row that waits for what does not come ends, and says what there was to see.
func TestWaitEnds(t *testing.T) {
	b := &bench{sizes: tiny, dir: t.TempDir()}
	b.sizes.longest = 50 * time.Millisecond
	h, err := b.newHive(t.Context(), 1, "")
	testenv.Must(t, err)
	h.onEvent(protocol.Event{Seq: 7, Body: &protocol.HandledEvent{Agent: "alice"}})
	err = errors.Join(h.until(t.Context(), "pigs to fly", func() bool { return false }), h.close())
	if !errors.Is(err, wait.ErrInVain) || !strings.Contains(err.Error(), "wait for pigs to fly") || !strings.Contains(err.Error(), "\n7 ") || !strings.Contains(err.Error(), "goroutine") {
		t.Errorf("got %v", err)
	}
}
