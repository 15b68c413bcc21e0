package mailbox

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
)

const home = "agents/alice/"

func (h *hive) ownNow() (changed, gone []string) {
	h.Helper()
	own, err := h.OwnFiles(alice, h.now)
	h.ok(err)
	for _, f := range own.Changed {
		name := strings.TrimPrefix(f.Path, home)
		if f.TooBig {
			name += " (too big)"
		}
		if f.BadName {
			name += " (bad name)"
		}
		changed = append(changed, name)
	}
	return changed, own.Gone
}

func TestOwnFiles(t *testing.T) {
	mem := faultfs.New()
	h := newHive(t, mem)
	mem.SetClock(func() time.Time { return h.now })
	for _, n := range []string{"memory.md", "identity.md", "alive", "x.tmp", "y~", ".z.swp", ".env", "git~1", "a\nb", "\xff"} {
		h.write(home+n, "text")
	}
	h.write(home+"big", strings.Repeat("x", 1<<10+1))
	h.ok(mem.Symlink(home+"link", "/etc/passwd"))
	h.write("secret", secret)
	h.ok(h.disk.Link("secret", home+"hard"))
	h.wait(time.Second)

	changed, _ := h.ownNow()
	h.equal("at first", changed, []string{"a\nb (bad name)", "big (too big)", "git~1 (bad name)", "identity.md", "memory.md", "\xff (bad name)"})
	changed, _ = h.ownNow()
	h.equal("unchanged", changed, []string(nil))

	h.write(home+"memory.md", "more")
	h.wait(time.Second)
	changed, _ = h.ownNow()
	h.equal("written", changed, []string{"memory.md"})

	h.ok(h.disk.Remove(home + "identity.md"))
	_, gone := h.ownNow()
	h.equal("gone at first", gone, []string(nil))
	h.wait(settle)
	_, gone = h.ownNow()
	h.equal("gone", gone, []string{home + "identity.md"})
	h.wait(settle)
	_, gone = h.ownNow()
	h.equal("gone once", gone, []string(nil))
}

func TestOwnFileDeletedAndWrittenAgain(t *testing.T) {
	h := memHive(t)
	h.write(home+"memory.md", "text")
	h.ownNow()
	h.ok(h.disk.Remove(home + "memory.md"))
	h.ownNow()
	h.wait(settle / 2)
	h.write(home+"memory.md", "text")
	h.ownNow()
	h.wait(settle)
	_, gone := h.ownNow()
	h.equal("gone", gone, []string(nil))
}

func TestOwnFileMovedAwayAndBack(t *testing.T) {
	h := memHive(t)
	h.write(home+"memory.md", "text")
	h.ownNow()
	h.wait(time.Second)
	h.ownNow()
	for range 2 {
		h.ok(h.disk.Rename(home+"memory.md", "memory.md"))
		_, gone := h.ownNow()
		h.equal("gone", gone, []string(nil))
		h.wait(settle)
		h.ok(h.disk.Rename("memory.md", home+"memory.md"))
		h.ownNow()
	}
}

func TestRacyOwnFile(t *testing.T) {
	mem := faultfs.New()
	h := newHive(t, mem)
	frozen := h.now
	mem.SetClock(func() time.Time { return frozen })
	h.write(home+"memory.md", "one")
	changed, _ := h.ownNow()
	h.equal("new", changed, []string{"memory.md"})
	h.write(home+"memory.md", "two") // same size, same tick
	h.wait(10 * time.Millisecond)
	h.ownNow()
	h.wait(10 * time.Millisecond)
	changed, _ = h.ownNow()
	h.equal("once more after the tick", changed, []string{"memory.md"})
	h.wait(time.Second)
	changed, _ = h.ownNow()
	h.equal("and no more", changed, []string(nil))
}

func TestOwnInclude(t *testing.T) {
	mem := faultfs.New()
	h := newHive(t, mem)
	mem.SetClock(func() time.Time { return h.now })
	h.opt.OwnInclude = []string{"notes/*.md", "*/*.json", "*/*/*", "memory.md"}
	for _, n := range []string{"notes", "notes/deep", "notes/.git"} {
		h.ok(h.disk.Mkdir(home+n, 0o755))
	}
	for _, n := range []string{"memory.md", "notes/a.md", "notes/b.txt", "notes/c.json", "notes/deep/d", "notes/.git/config", "inbox/i.json", "outbox/o.json", "outbox/.sent/s.json"} {
		h.write(home+n, "text")
	}
	h.ok(h.disk.MkdirAll("elsewhere", 0o755))
	h.write("elsewhere/x.md", secret)
	h.ok(mem.Symlink(home+"linked", "../../elsewhere"))
	h.wait(time.Second)
	changed, _ := h.ownNow()
	h.equal("own files", changed, []string{"memory.md", "notes/a.md", "notes/c.json", "notes/deep/d"})
}

func TestOwnFilesOfNobody(t *testing.T) {
	h := memHive(t)
	if _, err := h.OwnFiles("bob", h.now); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that it does not exist", err)
	}
}

func TestBoard(t *testing.T) {
	h := memHive(t)
	own, err := h.Board(h.now)
	h.ok(err)
	h.equal("no board", own, Own{Looked: 1})
	h.write("board.md", "plan")
	own, err = h.Board(h.now)
	h.ok(err)
	h.equal("path", own.Changed[0].Path, "board.md")
	data, info, err := h.ReadOwn("board.md")
	h.ok(err)
	h.equal("read", string(data), "plan")
	h.equal("size", info.Size, int64(4))
	h.ok(h.disk.Remove("board.md"))
	_, err = h.Board(h.now)
	h.ok(err)
	h.wait(settle)
	own, err = h.Board(h.now)
	h.ok(err)
	h.equal("gone", own, Own{Gone: []string{"board.md"}, Looked: 1})
}

func TestReadOwnRefuses(t *testing.T) {
	h := diskHive(t)
	h.write(home+"big", strings.Repeat("x", 1<<10+1))
	h.write("secret", secret)
	h.ok(os.Link(h.path("secret"), h.path(home+"hard")))
	h.ok(os.Symlink("../../secret", h.path(home+"link")))
	for name, want := range map[string]error{"big": durable.ErrTooLarge, "hard": durable.ErrNotRegular, "link": durable.ErrLink} {
		data, _, err := h.ReadOwn(home + name)
		if !errors.Is(err, want) || data != nil {
			t.Errorf("%s: %q, %v, want %v", name, data, err, want)
		}
	}
}
