package matrix

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hived/hived/protocol"
)

var processes = []row{
	{
		name: "second-daemon", given: "a second daemon is started on a hive that has one", on: still, answer: "it exits with 75 and names the first",
		run: func(h *hive) {
			p := h.program("", "up", h.dir)
			h.start(p)
			h.running()
			h.exits(75, strconv.Itoa(p.Process.Pid), "up", h.dir)
			h.others()
		},
	},
	{
		name: "lock-left-behind", given: "`.hived/lock` names a process that lives, but is no daemon", on: still, answer: "it starts: the kernel's lock counts, not the file",
		run: func(h *hive) {
			h.write(".hived/lock", "1\n")
			h.others()
			h.up()
			h.stillSends()
		},
	},
	{
		name: "stopped-and-continued", given: "the daemon is stopped by SIGSTOP while messages are written, and goes on by SIGCONT", on: still, answer: "it keeps the hive: a second one is refused; then everything arrives once",
		run: func(h *hive) {
			p := h.program("", "up", h.dir)
			h.start(p)
			h.running()
			h.must(p.Process.Signal(syscall.SIGSTOP))
			h.paused = true
			h.others()
			h.send("alice", "m.json", `{"id":"m","to":"bob","body":"x"}`)
			h.exits(75, "holds this hive", "up", "--once", h.dir)
			h.must(p.Process.Signal(syscall.SIGCONT))
			h.paused = false
			h.message("alice", "m")
		},
	},
	{
		name: "terminated-in-a-batch", given: "SIGTERM comes while it carries 500 messages", on: still, answer: "it ends in good order, in bounded time, with 0; the next start takes in the rest, each once",
		run: func(h *hive) {
			h.crowd(500)
			p := h.program("", "up", h.dir)
			h.start(p)
			await(h, "first message", func(e *protocol.MessageEvent) bool { return e.From == "alice" })
			h.down()
			await(h, "stop", func(e *protocol.HiveEvent) bool { return e.Action == protocol.Stopped })
			h.others()
			h.up()
			h.uncrowd(500)
		},
	},
	{
		name: "killed-in-a-batch", given: "SIGKILL comes while it carries 250 messages, and again in each of three recoveries", on: still, answer: "the next start says that it recovered, and takes in the rest, each once",
		run: func(h *hive) {
			h.crowd(250)
			p := h.program("", "up", h.dir)
			h.start(p)
			await(h, "first message", func(e *protocol.MessageEvent) bool { return e.From == "alice" })
			h.kill(p)
			for i := range 3 {
				p := h.program("", "up", h.dir)
				h.must(p.Start())
				select {
				case <-h.t.Context().Done():
				case <-time.After(time.Duration(i+1) * 4 * time.Millisecond): // at any moment, whatever it does then
				}
				h.must(p.Process.Kill())
				_ = p.Wait()
			}
			h.others()
			h.up()
			h.uncrowd(250)
			await(h, "recovery", func(e *protocol.HiveEvent) bool { return e.Action == protocol.Recovered })
		},
	},
	{
		name: "few-open-files", given: "the daemon may have 30 files open, and 100 agents send at once", on: still, answer: "it works with what it has: everything arrives once",
		run: func(h *hive) {
			for i := range 100 {
				h.write(fmt.Sprintf("agents/new-%03d/outbox/m.json", i), fmt.Sprintf(`{"id":"m%d","to":"bob","body":"x"}`, i))
			}
			h.start(h.program("ulimit -n 30", "up", h.dir))
			h.others()
			h.eventually("their messages", func() bool { return len(h.list(h.inbox("bob"))) == 100 })
			h.stillSends()
		},
	},
	{
		name: "no-open-files", given: "the daemon may have 7 files open", on: still, answer: "it refuses to start, on one line; started with more, it has lost nothing",
		run: func(h *hive) {
			p := h.program("ulimit -n 7", "up", "--once", h.dir)
			err := p.Run()
			h.others()
			if said := strings.TrimSpace(p.said.String()); err == nil || strings.Contains(said, "goroutine") || !strings.Contains(said, "too many open files") {
				h.t.Errorf("hived ended with %v and printed %q", err, said)
			}
			h.up()
			h.stillSends()
		},
	},
	{
		name: "settings-broken-while-running", given: "`hive.yaml` gets an unknown key while the daemon runs", on: still, answer: "the daemon goes on; the next start is refused and names the line",
		run: func(h *hive) {
			p := h.program("", "up", h.dir)
			h.start(p)
			h.running()
			h.write("hive.yaml", yaml+"hop_cup: 3\n")
			h.others()
			h.stillSends()
			h.down()
			h.exits(1, "hive.yaml: not valid settings: line 4", "up", h.dir)
			h.write("hive.yaml", yaml)
		},
	},
	{
		name: "directory-of-the-daemon-gone", given: "the directory in which `hived up` was started is deleted", on: still, answer: "nothing: the daemon has the hive open, not the directory that it was started in",
		run: func(h *hive) {
			p := h.program("", "up", h.dir)
			p.Dir = h.t.TempDir() + "/here"
			h.must(mkdir(p.Dir))
			h.start(p)
			h.running()
			h.must(syscall.Rmdir(p.Dir))
			h.others()
			h.stillSends()
		},
	},
}

func mkdir(dir string) error { return syscall.Mkdir(dir, 0o755) }

// crowd has alice send n messages.
func (h *hive) crowd(n int) {
	h.t.Helper()
	h.set.InboxCap = 10000
	h.write("hive.yaml", yaml+"inbox_cap: 10000\n")
	for i := range n {
		h.write(fmt.Sprintf("agents/alice/outbox/%04d.json", i), fmt.Sprintf(`{"id":"m%d","to":"bob","body":"x"}`, i))
	}
}

// uncrowd checks that all of them are in bob's inbox, each once.
func (h *hive) uncrowd(n int) {
	h.t.Helper()
	h.eventually("all of them", func() bool { return len(h.list(h.inbox("bob"))) >= n })
	h.stillSends()
	seen := map[string]int{}
	for _, text := range h.arrived("bob", "alice") {
		id, _, _ := strings.Cut(strings.TrimPrefix(text, "{\n  \"id\": \""), `"`)
		seen[id]++
	}
	for id, times := range seen {
		if times != 1 {
			h.t.Errorf("bob has %s %d times", id, times)
		}
	}
	if len(seen) != n+1 {
		h.t.Errorf("bob has %d messages", len(seen))
	}
}
