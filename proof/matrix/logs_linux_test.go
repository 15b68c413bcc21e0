package matrix

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// lines returns the lines of the log.
func (h *hive) lines() []string {
	h.t.Helper()
	return strings.SplitAfter(strings.TrimSuffix(h.read(protocol.PathLog), "\n"), "\n")
}

// talked runs the daemon over some messages.
func (h *hive) talked() {
	h.t.Helper()
	h.up()
	h.stillSends()
	h.stillSends()
	h.down()
}

// spoilt returns a row in which the log is spoilt while no daemon runs, so that
// starts are refused until it is restored.
func spoilt(name, given, answer, says string, spoil func(h *hive)) row {
	return row{name: name, given: given, answer: answer, on: still, run: func(h *hive) {
		h.talked()
		sound := h.read(protocol.PathLog)
		spoil(h)
		h.others()
		h.refused(says)
		if h.exists(protocol.PathLog) && len(h.list("agents/carol/outbox")) == 0 {
			h.t.Error("the message was taken in though the start was refused")
		}
		h.write(protocol.PathLog, sound)
	}}
}

var logs = []row{
	{
		name: "torn-tail", given: "the log ends with half a line, as after a crash", on: still, answer: "set aside in `.hived/`, cut, with an alert `torn-tail`; it was never acknowledged",
		run: func(h *hive) {
			h.talked()
			h.write(protocol.PathLog, h.read(protocol.PathLog)+`{"seq":99,"ts":"2026-`)
			h.others()
			h.up()
			a := h.alert(protocol.CodeTornTail, ".hived/torn-")
			if h.read(a.Path) != `{"seq":99,"ts":"2026-` {
				h.t.Errorf("%s holds %q", a.Path, h.read(a.Path))
			}
		},
	},
	spoilt("bit-flipped", "one bit of a line in the middle of the log is flipped", "the start is refused and names file and line; with the sound log it starts", "log.jsonl line 5", func(h *hive) {
		lines := h.lines()
		b := []byte(lines[4])
		b[len(b)/2] ^= 1
		lines[4] = string(b)
		h.write(protocol.PathLog, strings.Join(lines, ""))
	}),
	spoilt("line-lost", "a line in the middle of the log is gone", "the start is refused and names file and line; with the sound log it starts", "log.jsonl line 5", func(h *hive) {
		lines := h.lines()
		h.write(protocol.PathLog, strings.Join(append(lines[:4:4], lines[5:]...), ""))
	}),
	{
		name: "line-twice", given: "a line in the middle of the log stands there twice", on: still, answer: "the second is set aside in `.hived/foreign-<seq>`, with an alert `log-foreign`; nothing is lost",
		run: func(h *hive) {
			h.talked()
			lines := h.lines()
			h.write(protocol.PathLog, strings.Join(append(lines[:5:5], lines[4:]...), "")+"\n")
			h.others()
			h.up()
			a := h.alert(protocol.CodeLogForeign, ".hived/foreign-")
			if h.read(a.Path) != lines[4] {
				h.t.Errorf("%s holds %q", a.Path, h.read(a.Path))
			}
			h.stillSends()
		},
	},
	spoilt("log-deleted", "`log.jsonl` is deleted while no daemon runs", "the start is refused and points to `hived repair --adopt`; no log is begun silently", "hived repair --adopt", func(h *hive) {
		h.remove(protocol.PathLog)
	}),
	spoilt("log-emptied", "`log.jsonl` is emptied", "the start is refused; no log is begun silently", "log", func(h *hive) {
		h.write(protocol.PathLog, "")
	}),
	spoilt("log-lost-its-end", "the last four lines of the log are gone", "the start is refused: no number is used twice", "its end is lost", func(h *hive) {
		lines := h.lines()
		h.write(protocol.PathLog, strings.Join(lines[:len(lines)-4], "")) // whose events git has
	}),
	spoilt("log-of-another-hive", "the log of another hive stands in its place", "the start is refused: git holds other events", "another log", func(h *hive) {
		dir := filepath.Join(h.t.TempDir(), "hive")
		h.m.copyTemplate(h.t, dir)
		disk, err := durable.Open(dir)
		h.must(err)
		defer disk.Close()
		other := &hive{daemon: &daemon{dir: dir, real: disk, disk: disk, set: h.set, due: map[string]bool{}}, t: h.t, m: h.m, row: h.row, alice: "alice", bob: "bob"}
		other.talked()
		other.talked()
		other.talked()
		h.write(protocol.PathLog, other.read(protocol.PathLog))
	}),
	spoilt("format-of-the-future", "the log says that its format is 4", "the start is refused: this hived reads 1 to 3", "format", func(h *hive) {
		h.resum(func(i int, line string) string {
			if i == 0 {
				return strings.Replace(line, `"format":2`, `"format":4`, 1)
			}
			return line
		})
	}),
	spoilt("kind-of-the-future", "the log holds an event of an unknown kind, with valid sums", "the start is refused and names the line", "log.jsonl line 5", func(h *hive) {
		h.resum(func(i int, line string) string {
			if i == 4 {
				return strings.Replace(line, `"kind":"`, `"kind":"x-`, 1)
			}
			return line
		})
	}),
	{
		name: "log-is-a-link", given: "`log.jsonl` is replaced by a link to itself elsewhere", on: still, answer: "the start is refused; nothing is followed",
		run: func(h *hive) {
			h.talked()
			elsewhere := filepath.Join(h.t.TempDir(), "log")
			h.must(os.Rename(h.path(protocol.PathLog), elsewhere))
			h.must(os.Symlink(elsewhere, h.path(protocol.PathLog)))
			h.others()
			h.refused("link")
			h.must(os.Remove(h.path(protocol.PathLog)))
			h.must(os.Rename(elsewhere, h.path(protocol.PathLog)))
		},
	},
	{
		name: "log-deleted-while-running", given: "`log.jsonl` is deleted under the daemon", on: own, answer: "written again from the open file, with an alert `log-restored`; nothing is lost",
		run: func(h *hive) {
			h.stillSends()
			h.remove(protocol.PathLog)
			h.others()
			h.stillSends()
			h.alert(protocol.CodeLogRestored, protocol.PathLog)
		},
	},
	{
		name: "log-written-by-others", given: "another program appends a line to `log.jsonl` under the daemon", on: own, answer: "set aside in `.hived/foreign-<seq>`, with an alert `log-foreign`; nothing is lost",
		run: func(h *hive) {
			h.stillSends()
			f, err := os.OpenFile(h.path(protocol.PathLog), os.O_APPEND|os.O_WRONLY, 0)
			h.must(err)
			_, err = f.WriteString("x\n")
			h.must(err)
			h.must(f.Close())
			h.others()
			h.stillSends()
			h.alert(protocol.CodeLogForeign, "")
		},
	},
	{
		name: "log-replaced-while-running", given: "another file takes the place of `log.jsonl` under the daemon", on: own, answer: "the daemon ends: two logs cannot both be right; with its own log back it starts",
		run: func(h *hive) {
			h.stillSends()
			h.must(os.WriteFile(h.path("other"), []byte("not the log\n"), 0o644))
			h.must(os.Link(h.path(protocol.PathLog), h.path("log.kept")))
			h.move("other", protocol.PathLog)
			h.paused = true
			h.others()
			h.endsItself("log.jsonl")
			h.paused = false
			h.move("log.kept", protocol.PathLog)
		},
	},
	{
		name: "snapshot-damaged", given: "`.hived/snapshot` is cut in half", on: still, answer: "ignored: the log is folded from its beginning",
		run: func(h *hive) {
			h.talked()
			s := h.read(".hived/snapshot")
			h.write(".hived/snapshot", s[:len(s)/2])
			h.others()
			h.up()
			h.stillSends()
		},
	},
	{
		name: "snapshot-of-the-future", given: "`.hived/snapshot` is of a log that has gone further", on: still, answer: "ignored: nothing of it is used",
		run: func(h *hive) {
			h.talked()
			dir := filepath.Join(h.t.TempDir(), "copy")
			h.must(os.CopyFS(dir, os.DirFS(h.dir)))
			h.talked() // the snapshot goes further
			future := h.read(".hived/snapshot")
			for _, name := range []string{"log.jsonl", ".git", "agents", ".hived", "registry.json"} {
				h.remove(name)
				h.must(os.Rename(filepath.Join(dir, name), h.path(name)))
			}
			h.sibling = 2
			h.write(".hived/snapshot", future)
			h.forget(len(h.lines()))
			h.others()
			h.up()
			h.send("alice", "later.json", `{"id":"later","to":"bob","body":"x"}`)
			h.message("alice", "later")
			if n := len(h.arrived("bob", "alice")); n != 3 {
				h.t.Errorf("bob has %d messages", n)
			}
		},
	},
	{
		name: "scratch-deleted-while-running", given: "`.hived/`, with the lock, is deleted under the daemon", on: own, answer: "the lock is taken again within `rescan`: no second daemon finds the hive free",
		run: func(h *hive) {
			h.remove(".hived")
			h.others()
			h.eventually("the lock", func() bool { _, held, err := durable.Holder(h.real, ".hived/lock"); return err == nil && held })
			h.refused("is locked")
			h.stillSends()
		},
	},
	{
		name: "scratch-deleted", given: "`.hived/` is deleted while no daemon runs", on: still, answer: "a start makes it again and loses nothing",
		run: func(h *hive) {
			h.talked()
			h.remove(".hived")
			h.others()
			h.up()
			h.stillSends()
		},
	},
	{
		name: "every-flipped-bit", given: "each bit of a log is flipped in turn", answer: "each is found, and named by its line", in: "eventlog.TestEveryFlip",
	},
}

// resum changes lines of the log and computes their sums again.
func (h *hive) resum(change func(i int, line string) string) {
	h.t.Helper()
	var sum protocol.Sum
	var out strings.Builder
	for i, line := range h.lines() {
		line = strings.TrimSuffix(change(i, line), "\n")
		at := strings.LastIndex(line, `,"sum":"`)
		sum = sumOf(sum, i == 0, line[:at]+"}")
		out.WriteString(line[:at] + `,"sum":"` + sum.String() + "\"}\n")
	}
	h.write(protocol.PathLog, out.String())
}

// sumOf returns the sum of a line that follows another (spec §5.2).
func sumOf(before protocol.Sum, first bool, line string) protocol.Sum {
	if !first {
		line = before.String() + line
	}
	sum := sha256.Sum256([]byte(line))
	return protocol.Sum(sum[:16])
}
