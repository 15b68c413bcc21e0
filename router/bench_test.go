package router

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// BenchmarkPipeline measures what a hive is for beside the loop that everybody
// writes: for each message read it, write it to the inbox, rename the
// original, append to a log, `git add -A && git commit`. What is compared is
// measured in turns within one run, and every figure is the median of its
// rounds, because machines drift. The files of all rounds are left for the
// end: on some file systems a large deletion slows the next minutes down. With
// -v a table follows.
func BenchmarkPipeline(b *testing.B) {
	bench := &pipeline{B: b, dir: b.TempDir(), random: rand.New(rand.NewPCG(1, 2))}
	b.Run("burst", bench.burst)
	b.Run("burst-hived", bench.burstHived) // alone, for profiles
	b.Run("idle", bench.idle)
	for _, files := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("commit-%d", files), func(b *testing.B) { bench.commit(b, files) })
	}
	bench.table()
}

const (
	benchAgents   = 20
	benchMessages = 10_000
	benchLoop     = 100 // messages of the loop with a commit each
	benchRounds   = 5
	benchSize     = 1024 // bytes of a message
)

// pipeline is one run of [BenchmarkPipeline].
type pipeline struct {
	*testing.B
	dir    string
	dirs   int
	random *rand.Rand
	rows   []string
}

// fresh makes a directory that nothing was in.
func (p *pipeline) fresh(b *testing.B) string {
	b.Helper()
	p.dirs++
	dir := filepath.Join(p.dir, strconv.Itoa(p.dirs))
	must(b, os.Mkdir(dir, 0o755))
	return dir
}

// row takes note of medians for the table, and reports them.
func (p *pipeline) row(b *testing.B, name string, samples []float64, unit string) float64 {
	b.Helper()
	m := quantile(samples, 0.5)
	p.rows = append(p.rows, fmt.Sprintf("%s\t%s\t%.4g\t%.4g to %.4g\t%s", b.Name(), name, m, slices.Min(samples), slices.Max(samples), unit))
	b.ReportMetric(m, name+"-"+unit)
	return m
}

func (p *pipeline) ratio(b *testing.B, name string, value float64) {
	b.Helper()
	p.rows = append(p.rows, fmt.Sprintf("%s\t%s\t%.3g\t\t", b.Name(), name, value))
	b.ReportMetric(value, name)
}

func (p *pipeline) table() {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\twhat\tmedian\tfrom, to\tunit")
	fmt.Fprint(w, strings.Join(p.rows, "\n"))
	must(p.B, w.Flush())
	p.Log("\n" + text.String())
}

// quantile of samples, which are left as they are.
func quantile(samples []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func needGit(b *testing.B) {
	b.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		b.Skip("git is not installed: there is nothing to compare with")
	}
}

// burst is many messages that wait in the outboxes.
func (p *pipeline) burst(b *testing.B) {
	needGit(b)
	var inboxes, committed, loop, batched []float64
	for range benchRounds {
		in, git := p.hivedBurst(b)
		inboxes, committed = append(inboxes, in), append(committed, git)
		loop = append(loop, p.loopBurst(b, benchLoop, true))
		batched = append(batched, p.loopBurst(b, benchMessages, false))
	}
	in := p.row(b, "inboxes", inboxes, "msgs/s")
	git := p.row(b, "committed", committed, "msgs/s")
	each := p.row(b, "loop", loop, "msgs/s")
	once := p.row(b, "loop-batched", batched, "msgs/s")
	p.ratio(b, "committed/loop", git/each)
	p.ratio(b, "inboxes/loop", in/each)
	p.ratio(b, "committed/loop-batched", git/once)
	b.ReportMetric(0, "ns/op")
}

func (p *pipeline) burstHived(b *testing.B) {
	var inboxes, committed []float64
	for b.Loop() {
		in, git := p.hivedBurst(b)
		inboxes, committed = append(inboxes, in), append(committed, git)
	}
	p.row(b, "inboxes", inboxes, "msgs/s")
	p.row(b, "committed", committed, "msgs/s")
	b.ReportMetric(0, "ns/op")
}

// fill writes messages into the outboxes of a directory.
func (p *pipeline) fill(b *testing.B, dir string, messages int) {
	b.Helper()
	for i := range benchAgents {
		for _, sub := range []string{"inbox", "outbox/.sent"} {
			must(b, os.MkdirAll(filepath.Join(dir, "agents", benchAgent(i), sub), 0o755))
		}
	}
	for i := range messages {
		from := i % benchAgents
		to := (from + 1 + i/benchAgents%(benchAgents-1)) % benchAgents
		name := fmt.Sprintf("%05d.json", i)
		must(b, os.WriteFile(filepath.Join(dir, "agents", benchAgent(from), "outbox", name), p.message(i, to), 0o644))
	}
}

func benchAgent(i int) string { return fmt.Sprintf("agent-%02d", i) }

// message writes what an agent might: no two are the same.
func (p *pipeline) message(i, to int) []byte {
	var text strings.Builder
	for text.Len() < benchSize-130 {
		fmt.Fprintf(&text, "word-%x ", p.random.Uint32N(1<<16))
	}
	m := fmt.Sprintf(`{"id":"burst-%06d","to":"%s","act":"inform","subject":"number %d of a burst","body":"%s`, i, benchAgent(to), i, text.String())
	return []byte(m[:min(len(m), benchSize-2)] + `"}`)
}

// hivedBurst gives the messages a second that were in their inboxes, durable
// in the log, and that were committed. The clock begins with the daemon.
func (p *pipeline) hivedBurst(b *testing.B) (inboxes, committed float64) {
	b.Helper()
	h := p.hive(b, benchAgents)
	p.fill(b, h.dir, benchMessages)
	begin := time.Now()
	h.up(b, protocol.DefaultSettings())
	var last protocol.Seq
	for range benchMessages {
		last = <-h.messages
	}
	inboxes = benchMessages / time.Since(begin).Seconds()
	h.committed(last)
	committed = benchMessages / time.Since(begin).Seconds()
	h.down(b)
	countInboxes(b, h.dir, benchMessages)
	return inboxes, committed
}

func countInboxes(b *testing.B, dir string, want int) {
	b.Helper()
	got, err := filepath.Glob(filepath.Join(dir, "agents/*/inbox/*.json"))
	must(b, err)
	if len(got) != want {
		b.Fatalf("%d messages are in the inboxes, want %d", len(got), want)
	}
}

// benchHive is a hive with a daemon.
type benchHive struct {
	dir      string
	disk     *durable.Disk
	router   *Router
	messages chan protocol.Seq // of each message that is in its inboxes
	cancel   context.CancelFunc
	done     chan error
}

func (p *pipeline) hive(b *testing.B, agents int) *benchHive {
	b.Helper()
	h := &benchHive{dir: p.fresh(b)}
	for i := range agents {
		must(b, os.MkdirAll(filepath.Join(h.dir, "agents", benchAgent(i), "outbox"), 0o755))
	}
	var err error
	h.disk, err = durable.Open(h.dir)
	must(b, err)
	b.Cleanup(func() { must(b, h.disk.Close()) })
	must(b, Init(h.disk, InitOptions{Settings: protocol.DefaultSettings(), Now: time.Now()}))
	return h
}

func (h *benchHive) up(b *testing.B, settings protocol.Settings) {
	b.Helper()
	h.messages = make(chan protocol.Seq, benchMessages)
	var err error
	h.router, err = New(h.disk, Config{Settings: settings, OnEvent: func(ev protocol.Event) {
		if _, ok := ev.Body.(*protocol.MessageEvent); ok {
			h.messages <- ev.Seq
		}
	}})
	must(b, err)
	var ctx context.Context
	ctx, h.cancel = context.WithCancel(context.Background())
	h.done = make(chan error, 1)
	go func() { h.done <- h.router.Run(ctx) }()
}

// committed waits until git holds an event.
func (h *benchHive) committed(seq protocol.Seq) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if head, _ := h.router.git.standing(); head >= seq {
			return
		}
		<-tick.C
	}
}

func (h *benchHive) down(b *testing.B) {
	b.Helper()
	h.cancel()
	must(b, <-h.done)
}

// loopBurst is the loop that everybody writes. With each it commits every
// message, else all of them once.
func (p *pipeline) loopBurst(b *testing.B, messages int, each bool) (rate float64) {
	b.Helper()
	dir := p.fresh(b)
	gitIn(b, dir, "init", "-q")
	p.fill(b, dir, messages)
	begin := time.Now()
	log, err := os.OpenFile(filepath.Join(dir, "log.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(b, err)
	for i := range benchAgents {
		outbox := filepath.Join(dir, "agents", benchAgent(i), "outbox")
		entries, err := os.ReadDir(outbox)
		must(b, err)
		for _, e := range entries {
			if filepath.Ext(e.Name()) != ".json" {
				continue
			}
			loopMessage(b, dir, outbox, e.Name(), log)
			if each {
				commitAll(b, dir)
			}
		}
	}
	if !each {
		commitAll(b, dir)
	}
	rate = float64(messages) / time.Since(begin).Seconds()
	must(b, log.Close())
	countInboxes(b, dir, messages)
	return rate
}

func loopMessage(b *testing.B, dir, outbox, name string, log *os.File) {
	b.Helper()
	raw, err := os.ReadFile(filepath.Join(outbox, name))
	must(b, err)
	var m map[string]any
	must(b, json.Unmarshal(raw, &m))
	to, _ := m["to"].(string)
	must(b, os.WriteFile(filepath.Join(dir, "agents", to, "inbox", name), raw, 0o644))
	must(b, os.Rename(filepath.Join(outbox, name), filepath.Join(outbox, ".sent", name)))
	line, err := json.Marshal(map[string]any{"ts": time.Now(), "kind": "message", "message": m})
	must(b, err)
	_, err = log.Write(append(line, '\n'))
	must(b, err)
}

func commitAll(b *testing.B, dir string) {
	b.Helper()
	gitIn(b, dir, "add", "-A")
	gitIn(b, dir, "commit", "-q", "-m", "messages")
}

// gitIn runs the git program, without syncs and untouched by the user's
// settings.
func gitIn(b *testing.B, dir string, args ...string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "git", append([]string{"-c", "core.fsync=none", "-c", "gc.auto=0"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "LC_ALL=C",
		"GIT_AUTHOR_NAME=p", "GIT_AUTHOR_EMAIL=p@example.org", "GIT_COMMITTER_NAME=p", "GIT_COMMITTER_EMAIL=p@example.org")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// benchIdle is how many single messages idle sends. The least of a p99.
const benchIdle = 200

// idle is one message on a hive where nothing else happens: from the rename
// into the outbox until it is in the inbox. Between two of them a line is
// appended to a file of the same disk and synced, which is the least that any
// durable delivery costs.
func (p *pipeline) idle(b *testing.B) {
	h := p.hive(b, 2)
	settings := protocol.DefaultSettings()
	settings.Git.CommitDelay = 10 * time.Millisecond // so that it is idle again soon
	h.up(b, settings)
	defer h.down(b)
	file, err := h.disk.Append(protocol.PathScratch + "/bench")
	must(b, err)
	defer file.Close()
	var hived, sync []float64
	for i := range benchIdle {
		hived = append(hived, p.hivedIdle(b, h, i))
		text := p.message(i, 1)
		begin := time.Now()
		_, err := file.Write(text)
		must(b, err)
		must(b, file.Sync())
		sync = append(sync, ms(time.Since(begin)))
	}
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		p.row(b, q.name, []float64{quantile(hived, q.at)}, "ms")
		p.row(b, "fdatasync-"+q.name, []float64{quantile(sync, q.at)}, "ms")
	}
	b.ReportMetric(0, "ns/op")
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (p *pipeline) hivedIdle(b *testing.B, h *benchHive, i int) float64 {
	b.Helper()
	outbox := filepath.Join(h.dir, "agents", benchAgent(0), "outbox")
	temp := filepath.Join(outbox, ".message.tmp")
	must(b, os.WriteFile(temp, p.message(i, 1), 0o644))
	begin := time.Now()
	must(b, os.Rename(temp, filepath.Join(outbox, fmt.Sprintf("%05d.json", i))))
	seq := <-h.messages
	took := ms(time.Since(begin))
	h.committed(seq)
	return took
}

// benchCommits are made in each round of commit.
const benchCommits = 20

// commit is what one change costs in a hive of so many files.
func (p *pipeline) commit(b *testing.B, files int) {
	b.Helper()
	needGit(b)
	hived, loop := p.hivedCommits(b, files), p.loopCommits(b, files)
	var ours, theirs []float64
	for range benchRounds {
		for i, commit := range []func(){hived, loop} {
			begin := time.Now()
			n := benchCommits
			if i == 1 {
				n = 2
			}
			for range n {
				commit()
			}
			took := ms(time.Since(begin)) / float64(n)
			if i == 0 {
				ours = append(ours, took)
			} else {
				theirs = append(theirs, took)
			}
		}
	}
	p.ratio(b, "loop/hived", p.row(b, "loop", theirs, "ms")/p.row(b, "hived", ours, "ms"))
	b.ReportMetric(0, "ns/op")
}

// benchPath spreads files over twenty agents and directories of 500.
func benchPath(i int) string {
	return fmt.Sprintf("agents/%s/notes-%04d/%d.json", benchAgent(i%benchAgents), i/benchAgents/500, i)
}

// hivedCommits gives a function that makes one commit of one change.
func (p *pipeline) hivedCommits(b *testing.B, files int) func() {
	b.Helper()
	disk, err := durable.Open(p.fresh(b))
	must(b, err)
	b.Cleanup(func() { must(b, disk.Close()) })
	must(b, gitcommit.Init(disk, false))
	repo, err := gitcommit.Open(disk, gitcommit.Options{})
	must(b, err)
	seq := protocol.Seq(0)
	commit := func(changes ...protocol.Change) {
		seq++
		batch := gitcommit.Batch{First: seq, Last: seq, Sum: protocol.Sum{1}.String(), At: time.Now(), Subject: "hive: one", Lines: []string{"one"}, Changes: changes}
		_, err := repo.Commit(b.Context(), batch)
		must(b, err)
	}
	var all []protocol.Change
	for i := range files {
		all = append(all, protocol.Change{Op: protocol.Put, Path: benchPath(i), Data: fmt.Appendf(nil, "%d\n", i)})
	}
	commit(all...)
	return func() {
		i := p.random.IntN(files)
		commit(protocol.Change{Op: protocol.Put, Path: benchPath(i), Data: p.message(i, 0)})
	}
}

func (p *pipeline) loopCommits(b *testing.B, files int) func() {
	b.Helper()
	dir := p.fresh(b)
	gitIn(b, dir, "init", "-q")
	for i := range files {
		if i/benchAgents%500 == 0 {
			must(b, os.MkdirAll(filepath.Join(dir, filepath.Dir(benchPath(i))), 0o755))
		}
		must(b, os.WriteFile(filepath.Join(dir, benchPath(i)), fmt.Appendf(nil, "%d\n", i), 0o644))
	}
	commitAll(b, dir)
	return func() {
		i := p.random.IntN(files)
		must(b, os.WriteFile(filepath.Join(dir, benchPath(i)), p.message(i, 0), 0o644))
		commitAll(b, dir)
	}
}
