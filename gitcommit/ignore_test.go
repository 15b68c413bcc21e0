package gitcommit

import (
	"testing"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/durable/faultfs"
	"github.com/hived/hived/internal/testenv"
)

func TestIgnore(t *testing.T) {
	disk := faultfs.New()
	testenv.Must(t, disk.MkdirAll("agents/a", 0o755))
	write := func(name, text string) {
		t.Helper()
		testenv.Must(t, durable.Publish(disk, name, []byte(text), 0o644, false))
	}
	write(".gitignore", "# secrets\n*.env\n/agents/*/cache.bin\r\n!keep.env\n")
	write("agents/a/.gitignore", "draft*\n/only-here\n")
	g := NewIgnore(disk)
	for name, want := range map[string]bool{
		"agents/a/x.env": true, "agents/a/keep.env": false, "agents/a/cache.bin": true, "board.md": false,
		"agents/a/draft.md": true, "agents/b/draft.md": false, "agents/a/only-here": true, "agents/a/memory.md": false,
	} {
		if got := g.Names(name); got != want {
			t.Errorf("%s: named %v, want %v", name, got, want)
		}
	}
	write("agents/a/.gitignore", "memory.md\n")
	if !g.Names("agents/a/memory.md") || g.Names("agents/a/draft.md") {
		t.Error("a changed .gitignore was not read again")
	}
}
