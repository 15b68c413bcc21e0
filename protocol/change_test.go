package protocol

import (
	"strings"
	"testing"
)

// TestVersionable has the names that git fsck refuses, or that git on some system
// treats as its own (spec §6).
func TestVersionable(t *testing.T) {
	tests := []struct {
		path string
		want bool
	}{
		{"board.md", true},
		{"agents/a/memory.md", true},
		{"agents/a/inbox/.done/01M7YTDWETXB6X0DED5R1Q054W.json", true},
		{"agents/CON/NUL.txt", true},
		{"agents/a/bad-\x1b[2J\n.json", true},
		{"agents/a/memory.md~", true},
		{"agents/a/memory.md~1~", true},
		{"agents/a/notes~2", true},
		{"agents/a/git", true},
		{"agents/a/x.git", true},
		{"agents/a/.github", true},
		{"agents/a/.gitkeep", true},
		{"agents/a/.git2", true},
		{"agents/a/g~1", true},

		{"", false},
		{".", false},
		{"..", false},
		{"a/..", false},
		{"../a", false},
		{"a/../b", false},
		{"/a", false},
		{"a/", false},
		{"a//b", false},
		{"./a", false},
		{"a\x00b", false},
		{`a\b`, false},
		{`.git\config`, false},

		{".git", false},
		{".git/config", false},
		{"agents/a/.git/hooks/post-commit", false},
		{"agents/a/.GIT", false},
		{"agents/a/.gIt", false},
		{"agents/a/.git.", false},
		{"agents/a/.git ", false},
		{"agents/a/.git. . ", false},
		{"agents/a/...", false},
		{"agents/a/ ", false},
		{"agents/a/.git::$INDEX_ALLOCATION", false},
		{"agents/a/.git:x", false},
		{"agents/a/git~1", false},
		{"agents/a/GIT~1", false},
		{"agents/a/git~12", false},
		{"agents/a/git~1.", false},
		{"agents/a/.gitmodules", false},
		{"agents/a/.GitModules", false},
		{"agents/a/.gitattributes", false},
		{"agents/a/.gitignore", false},
		{"agents/a/.mailmap", false},
		{"agents/a/gitmod~1", false},
		{"agents/a/GITATT~3", false},
		{"agents/a/gi7eba~1", false},
		{"agents/a/gi7eb~10", false},
		{"agents/a/gi7d29~9", false},
		{"agents/a/gi250a~2", false},
		{"agents/a/mailma~1", false},
		{"agents/a/MABA30~1", false},
		{"agents/a/~1000000", false},
		{"agents/a/.g\u200cit", false},
		{"agents/a/\ufeff.git", false},
		{"agents/a/.git\u206f", false},
		{"agents/a/.\u202egit", false},
		{"agents/a/.g\u200ditmodules", false},
	}
	for _, tt := range tests {
		if got := Versionable(tt.path); got != tt.want {
			t.Errorf("%q: %v, want %v", tt.path, got, tt.want)
		}
	}
}

func TestOwned(t *testing.T) {
	for p, want := range map[string]bool{
		"registry.json": true, "PROTOCOL.md": true, "board.md": true, "agents/a/inbox/x.json": true, "tasks/x/task.json": true, "log/000000000001.jsonl": true,
		"agents": false, "log": false, "log.jsonl": false, "hive.yaml": false, "README.md": false, "src/board.md": false, "agentsx/a": false, ".hived/lock": false, "": false,
	} {
		if Owned(p) != want {
			t.Errorf("%q owned: %v", p, !want)
		}
	}
}

func TestBlob(t *testing.T) {
	// The ids that `git hash-object` prints.
	for data, want := range map[string]string{
		"":              "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
		"hello, hive\n": "84df238a7f82b008c53af759566ed9affae4a417",
	} {
		b := BlobOf([]byte(data))
		if b.String() != want || b.IsZero() {
			t.Errorf("%q: %s", data, b)
		}
		text, err := b.MarshalText()
		var back Blob
		if err2 := back.UnmarshalText(text); err != nil || err2 != nil || back != b {
			t.Errorf("%s came back as %s: %v, %v", b, back, err, err2)
		}
	}
	if !(Blob{}).IsZero() {
		t.Error("IsZero is false for the zero id")
	}
	for _, bad := range []string{"", "12", strings.Repeat("z", 40), strings.Repeat("0", 41)} {
		var b Blob
		if err := b.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was accepted as an id", bad)
		}
	}
}
