package matrix

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hived/hived/protocol"
)

// notAFile returns a row in which alice's m.json must be set aside unread.
func notAFile(name, given string, needs need, make func(h *hive, at string) error) row {
	return row{name: name, given: given, needs: needs, answer: "set aside unread as `not-a-file`, without waiting; its author is told", run: func(h *hive) {
		h.must(make(h, h.path(h.outbox(h.alice)+"/m.json")))
		h.others()
		q := h.setAside("m.json", protocol.CodeNotAFile, "")
		if q.Content != nil {
			h.t.Errorf("the log holds %q", q.Content.Bytes())
		}
	}}
}

// secret makes a file outside the hive, and returns its path.
func (h *hive) secret() string {
	h.t.Helper()
	name := filepath.Join(h.t.TempDir(), "secret")
	h.must(os.WriteFile(name, []byte(`{"id":"m","to":"`+h.bob+`","body":"password"}`), 0o600))
	return name
}

// withheld checks that nothing of the secret is in the hive's log.
func (h *hive) withheld() {
	h.t.Helper()
	if strings.Contains(h.read(protocol.PathLog), "password") {
		h.t.Error("the log holds what must not be read")
	}
}

var files = []row{
	notAFile("link-out", "a symbolic link to a file outside of the hive", "", func(h *hive, at string) error {
		h.t.Cleanup(h.withheld)
		return os.Symlink(h.secret(), at)
	}),
	notAFile("link-within", "a symbolic link to another file of the same outbox", "", func(h *hive, at string) error {
		h.write(h.outbox(h.alice)+"/.draft", `{"to":"`+h.bob+`","body":"x"}`)
		return os.Symlink(".draft", at)
	}),
	notAFile("link-to-nothing", "a symbolic link that leads nowhere", "", func(_ *hive, at string) error { return os.Symlink("nowhere", at) }),
	notAFile("link-to-itself", "a symbolic link to itself", "", func(_ *hive, at string) error { return os.Symlink("m.json", at) }),
	notAFile("fifo", "a FIFO that nobody writes to", "", func(_ *hive, at string) error { return syscall.Mkfifo(at, 0o644) }),
	notAFile("socket", "a socket", "", func(h *hive, at string) error {
		short := filepath.Join(h.t.TempDir(), "s") // a path has 108 bytes at most
		l, err := (&net.ListenConfig{}).Listen(h.t.Context(), "unix", short)
		if err != nil {
			return err
		}
		h.t.Cleanup(func() { _ = l.Close() })
		return os.Rename(short, at)
	}),
	notAFile("device", "the device /dev/zero under another name", root, func(h *hive, at string) error {
		err := syscall.Mknod(at, syscall.S_IFCHR|0o666, 1<<8|5)
		if errors.Is(err, fs.ErrPermission) {
			h.t.Skip("root may not make devices here")
		}
		return err
	}),
	notAFile("directory", "a directory with files in it", "", func(h *hive, at string) error {
		made := h.t.TempDir() // made whole, before it can be set aside
		return errors.Join(os.WriteFile(filepath.Join(made, "1.json"), []byte(`{"to":"`+h.bob+`","body":"x"}`), 0o644), os.Rename(made, at))
	}),
	{
		name: "hard-link", given: "a second name of a file that the sender may not read", answer: "set aside unread as `hard-link` once `settle` is over; its author is told",
		run: func(h *hive) {
			secret := h.path("secret-of-" + h.row)
			h.must(os.WriteFile(secret, []byte(`{"to":"`+h.bob+`","body":"password"}`), 0o600))
			h.must(os.Link(secret, h.path(h.outbox(h.alice)+"/m.json")))
			h.others()
			h.setAside("m.json", protocol.CodeHardLink, "second name")
			h.withheld()
		},
	},
	{
		name: "link-then-unlink", given: "a message is published by link and unlink, and has two names for a while", answer: "delivered once, when it has one name", on: own,
		set: func(s *protocol.Settings) { s.Settle = time.Minute },
		run: func(h *hive) {
			h.write("agents/alice/outbox/.m.tmp", `{"id":"m","to":"bob","body":"x"}`)
			h.must(os.Link(h.path("agents/alice/outbox/.m.tmp"), h.path("agents/alice/outbox/m.json")))
			h.others()
			h.stillSends() // a scan has seen both names
			h.remove("agents/alice/outbox/.m.tmp")
			h.message("alice", "m")
			if n := len(h.arrived("bob", "alice")); n != 2 {
				h.t.Errorf("bob has %d messages", n)
			}
		},
	},
	{
		name: "sparse-terabyte", given: "a file that claims a terabyte and holds nothing", answer: "set aside unread as `too-large`; its author is told",
		run: func(h *hive) {
			f, err := os.Create(h.path(h.outbox(h.alice) + "/m.json"))
			h.must(err)
			err = f.Truncate(1 << 40)
			h.must(f.Close())
			if errors.Is(err, syscall.EFBIG) {
				h.t.Skip("the file system has no files of a terabyte")
			}
			h.must(err)
			h.others()
			q := h.setAside("m.json", protocol.CodeTooLarge, "max_message_bytes")
			if q.Content != nil || q.Size != 1<<40 {
				h.t.Errorf("the event has %d bytes, and content: %v", q.Size, q.Content != nil)
			}
			h.remove(q.Path)
		},
	},
	{
		name: "exactly-the-most", given: "a message of exactly `max_message_bytes`", answer: "delivered",
		run: func(h *hive) {
			h.send(h.alice, "m.json", h.ofSize(h.set.MaxMessageBytes))
			h.others()
			h.message(h.alice, "m")
			if n := len(h.arrived(h.bob, h.alice)); n != 1 {
				h.t.Errorf("bob has %d messages", n)
			}
		},
	},
	{
		name: "one-byte-too-many", given: "a message of one byte more than `max_message_bytes`", answer: "set aside unread as `too-large`; its author is told",
		run: func(h *hive) {
			h.send(h.alice, "m.json", h.ofSize(h.set.MaxMessageBytes+1))
			h.others()
			h.setAside("m.json", protocol.CodeTooLarge, "max_message_bytes")
		},
	},
	{
		name: "nested-64-deep", given: "a message nested exactly as deep as allowed", answer: "delivered",
		run: func(h *hive) {
			h.send(h.alice, "m.json", `{"id":"m","to":"`+h.bob+`","body":`+strings.Repeat("[", 63)+strings.Repeat("]", 63)+`}`)
			h.others()
			h.message(h.alice, "m")
		},
	},
	{
		name: "writer-pauses", given: "a writer stops in the middle of a message, with the file open, for longer than `settle`, and goes on", answer: "delivered once, whole",
		run: func(h *hive) {
			f, err := os.Create(h.path(h.outbox(h.alice) + "/slow.json"))
			h.must(err)
			defer f.Close()
			_, err = f.WriteString(`{"id":"slow","to":"` + h.bob + `","bo`)
			h.must(err)
			h.others()
			h.write(h.outbox(h.alice)+"/never.json", `{"to":`) // written later, so settle is over for both
			h.quarantined(h.alice, "bad-never.json", protocol.CodeMalformed)
			h.stillSends()
			_, err = f.WriteString(`dy":"whole"}`)
			h.must(err)
			h.must(f.Close())
			h.message(h.alice, "slow")
			if n := len(h.arrived(h.bob, h.alice)); n != 2 || len(all(h, func(q *protocol.QuarantineEvent) bool { return string(q.Agent) == h.alice })) != 1 {
				h.t.Errorf("bob has %d messages", n)
			}
		},
	},
	{
		name: "writer-closes-and-comes-back", given: "a writer appends a message piece by piece and closes the file after each", answer: "delivered once, whole, as long as each pause is shorter than `settle`", on: own,
		set: func(s *protocol.Settings) { s.Settle = time.Minute },
		run: func(h *hive) {
			text := `{"id":"slow","to":"bob","body":"whole"}`
			for i := 0; i < len(text); i += 10 {
				f, err := os.OpenFile(h.path("agents/alice/outbox/slow.json"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
				h.must(err)
				_, err = f.WriteString(text[i:min(i+10, len(text))])
				h.must(errors.Join(err, f.Close()))
				h.others()
			}
			h.message("alice", "slow")
			if got := h.arrived("bob", "alice"); len(got) != 1 || !strings.Contains(got[0], `"body": "whole"`) {
				h.t.Errorf("bob has %q", got)
			}
		},
	},
	{
		name: "writer-never-ends", given: "a writer appends to one file for ever", answer: "left alone until it is over `max_message_bytes`, then set aside as `too-large`; its author is told",
		run: func(h *hive) {
			f, err := os.OpenFile(h.path(h.outbox(h.alice)+"/m.json"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
			h.must(err)
			defer f.Close()
			piece := strings.Repeat("[", 64<<10)
			h.others()
			h.eventually("the end of a file that grows", func() bool {
				_, err := f.WriteString(piece)
				h.must(err)
				return !h.exists(h.outbox(h.alice) + "/m.json")
			})
			h.setAside("m.json", protocol.CodeTooLarge, "max_message_bytes")
		},
	},
	{
		name: "written-on-after-acceptance", given: "a message is accepted whole, and its writer changes it through the open file", answer: "what was accepted is delivered, and the archive is set right from the log",
		run: func(h *hive) {
			f, err := os.Create(h.path(h.outbox(h.alice) + "/m.json"))
			h.must(err)
			defer f.Close()
			text := `{"id":"m","to":"` + h.bob + `","body":"accepted"}`
			h.when(h.alice, func() { _, err = f.WriteAt([]byte(strings.Replace(text, "accepted", "ACCEPTED", 1)), 0) })
			_, wrote := f.WriteString(text)
			h.must(wrote)
			h.message(h.alice, "m")
			h.must(err)
			h.others()
			if got := h.arrived(h.bob, h.alice); len(got) != 1 || !strings.Contains(got[0], `"accepted"`) {
				h.t.Errorf("bob has %q", got)
			}
			h.eventually("the archive set right", func() bool { return h.read(h.sent(h.alice)+"/m.json") == text })
		},
	},
	{
		name: "replaced-before-it-is-archived", given: "another file takes the place of an outbox file between reading and archiving", answer: "both are messages: the first is delivered, the second goes back to the outbox and follows", in: "mailbox.TestArchive",
	},
	{
		name: "another-users-file", given: "a file that belongs to another user lies in the outbox", needs: root, answer: "set aside unread as `unreadable`; its author is told",
		run: func(h *hive) {
			h.write(h.outbox(h.alice)+"/.m", `{"to":"`+h.bob+`","body":"password"}`)
			h.must(os.Chown(h.path(h.outbox(h.alice)+"/.m"), 65534, 65534))
			h.move(h.outbox(h.alice)+"/.m", h.outbox(h.alice)+"/m.json")
			h.others()
			h.setAside("m.json", protocol.CodeUnreadable, "belongs to user 65534")
			h.withheld()
		},
	},
	{
		name: "no-right-to-read", given: "a message has the mode 000", needs: user, answer: "it stays and is tried again; its author gets one notice `unreadable`; with its rights back it is delivered", on: still,
		run: func(h *hive) {
			h.asUser()
			h.write("agents/alice/outbox/.m", `{"id":"m","to":"bob","body":"x"}`)
			h.must(os.Chmod(h.path("agents/alice/outbox/.m"), 0))
			h.move("agents/alice/outbox/.m", "agents/alice/outbox/m.json")
			h.others()
			h.told("alice", protocol.CodeUnreadable)
			h.stillSends()
			h.must(os.Chmod(h.path("agents/alice/outbox/m.json"), 0o644))
			h.message("alice", "m")
			if n := len(all(h, isNotice("alice", protocol.CodeUnreadable))); n != 1 {
				h.t.Errorf("alice was told %d times", n)
			}
		},
	},
	{
		name: "umask-077", given: "a writer whose umask is 077, so that its message has the mode 0600", answer: "delivered, and readable as any delivered message",
		run: func(h *hive) {
			h.write(h.outbox(h.alice)+"/.m", `{"id":"m","to":"`+h.bob+`","body":"x"}`)
			h.must(os.Chmod(h.path(h.outbox(h.alice)+"/.m"), 0o600))
			h.move(h.outbox(h.alice)+"/.m", h.outbox(h.alice)+"/m.json")
			h.others()
			e := h.message(h.alice, "m")
			if info, err := os.Stat(h.path(h.inbox(h.bob) + "/" + e.File)); err != nil || info.Mode().Perm()&0o444 != 0o444 {
				h.t.Errorf("delivered with %v, %v", info, err)
			}
		},
	},
	{
		name: "strays", given: "`m.JSON`, `m.json.txt`, `m` and `.m.json` stay in an outbox", answer: "never sent; their owner gets one notice `stray-file` for each",
		run: func(h *hive) {
			for _, name := range []string{"m.JSON", "m.json.txt", "m", ".m.json"} {
				h.write(h.outbox(h.alice)+"/"+name, `{"to":"`+h.bob+`","body":"x"}`)
			}
			h.others()
			for _, name := range []string{"m.JSON", "m.json.txt", "m", ".m.json"} {
				await(h, "notice of "+name, func(e *protocol.MessageEvent) bool {
					return isNotice(h.alice, protocol.CodeStray)(e) && strings.Contains(e.Raw, `"file":"`+name+`"`)
				})
			}
			h.stillSends()
			if n := len(all(h, isNotice(h.alice, protocol.CodeStray))); n != 4 {
				h.t.Errorf("alice was told %d times", n)
			}
		},
	},
	{
		name: "files-of-all-times", given: "outbox files from the years 1901, 1970 and 2400", answer: "delivered; `settle` goes by hived's own clock",
		run: func(h *hive) {
			for i, year := range []int{1901, 1970, 2400} {
				name := fmt.Sprintf("%s/.%d", h.outbox(h.alice), year)
				h.write(name, fmt.Sprintf(`{"id":"m%d","to":"%s","body":"x"}`, i, h.bob))
				at := time.Date(year, 12, 31, 0, 0, 0, 0, time.UTC)
				h.must(os.Chtimes(h.path(name), at, at))
				h.move(name, fmt.Sprintf("%s/%d.json", h.outbox(h.alice), year))
			}
			h.others()
			for i := range 3 {
				h.message(h.alice, fmt.Sprintf("m%d", i))
			}
			h.write(h.outbox(h.alice)+"/.bad", `{`)
			at := time.Date(2400, 12, 31, 0, 0, 0, 0, time.UTC)
			h.must(os.Chtimes(h.path(h.outbox(h.alice)+"/.bad"), at, at))
			h.move(h.outbox(h.alice)+"/.bad", h.outbox(h.alice)+"/m.json")
			h.setAside("m.json", protocol.CodeMalformed, "too early")
		},
	},
	{
		name: "file-of-the-year-20000", given: "an outbox file whose time has a year that RFC 3339 cannot write", answer: "delivered, with a `created_at` that every reader can read", on: memory,
		run: func(h *hive) {
			h.mem.SetClock(func() time.Time { return time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC) })
			h.send("alice", "m.json", `{"id":"m","to":"bob","body":"x"}`)
			h.mem.SetClock(time.Now)
			h.others()
			h.up()
			h.message("alice", "m")
			got := h.arrived("bob", "alice")
			if _, err := protocol.DecodeMessage([]byte(got[0])); err != nil {
				h.t.Error(err)
			}
		},
	},
}

// ofSize returns a message of n bytes.
func (h *hive) ofSize(n int64) string {
	head, tail := `{"id":"m","to":"`+h.bob+`","body":"`, `"}`
	return head + strings.Repeat("x", int(n)-len(head)-len(tail)) + tail
}
