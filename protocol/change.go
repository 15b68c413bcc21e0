package protocol

import (
	"crypto/sha1" //nolint:gosec // git names its objects by SHA-1
	"encoding/hex"
	"fmt"
	"path"
	"strings"
)

// Op says what a [Change] does.
type Op uint8

// The four things that can happen to a versioned path.
const (
	Put     Op = iota + 1 // Path holds Data
	PutFile               // Path holds what is there on the disk, for ever: a sealed segment
	Move                  // what From held, Path holds
	Delete                // Path holds nothing
)

// Change is what one event does to one path of the versioned tree: to the
// disk, to git and to a replay alike (spec §6).
type Change struct {
	Op   Op
	Path string // slash-separated, relative to the hive
	From string // for a Move
	Data []byte // for a Put; nobody may change it
	Blob Blob   // for a Put: the git id of Data, or zero if it is not computed yet
}

// Blob is the git object id of a file's content.
type Blob [sha1.Size]byte

// BlobOf computes the git object id of content.
func BlobOf(data []byte) Blob {
	h := sha1.New() //nolint:gosec // git names its objects by SHA-1
	h.Write(fmt.Appendf(nil, "blob %d\x00", len(data)))
	h.Write(data)
	return Blob(h.Sum(nil))
}

// String returns 40 hex digits.
func (b Blob) String() string { return hex.EncodeToString(b[:]) }

// IsZero reports whether the id is not computed yet.
func (b Blob) IsZero() bool { return b == Blob{} }

// MarshalText returns 40 hex digits.
func (b Blob) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, b[:]), nil }

// UnmarshalText reads 40 hex digits.
func (b *Blob) UnmarshalText(text []byte) error {
	if len(text) != 2*len(b) {
		return fmt.Errorf("read git object id %s: it has not 40 hex digits", Quote(string(text)))
	}
	if _, err := hex.Decode(b[:], text); err != nil {
		return fmt.Errorf("read git object id %s: %w", Quote(string(text)), err)
	}
	return nil
}

// Paths of the hive's own files (spec §1).
const (
	PathLog      = "log.jsonl"
	PathSegments = "log"
	PathAgents   = "agents"
	PathTasks    = "tasks"
	PathRegistry = "registry.json"
	PathProtocol = "PROTOCOL.md"
	PathBoard    = "board.md"
	PathSettings = "hive.yaml"
	PathScratch  = ".hived"
)

// Owned reports whether hived decides what git has at a path: its content in a commit
// is the state of the log at one sequence number (spec §6).
func Owned(p string) bool {
	switch p {
	case PathRegistry, PathProtocol, PathBoard:
		return true
	}
	top, _, below := strings.Cut(p, "/")
	return below && (top == PathAgents || top == PathTasks || top == PathSegments)
}

// Versionable reports whether git treats a name as an ordinary one, on every system
// (spec §6). Other names are never versioned, because git fsck refuses a tree that
// holds one.
func Versionable(p string) bool {
	if p == "" || p != path.Clean(p) || path.IsAbs(p) || strings.ContainsAny(p, "\x00\\") {
		return false
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == ".." || special(name) {
			return false
		}
	}
	return true
}

// special reports whether git, or git on macOS or Windows, would take a name for that
// of one of its own files.
func special(name string) bool {
	if ordinary(name) {
		return false
	}
	s := strings.ToLower(strings.Map(dropIgnorable, name))
	s, _, _ = strings.Cut(s, ":") // NTFS streams: .git::$INDEX_ALLOCATION
	s = strings.TrimRight(s, " .")
	switch s {
	case "", ".git", ".gitmodules", ".gitattributes", ".gitignore", ".mailmap":
		return true
	}
	stem, n, short := strings.Cut(s, "~")
	if !short || n == "" || strings.Trim(n, "0123456789") != "" {
		return false
	}
	for _, p := range []string{"git", "gi7eba", "gi7d29", "gi250a", "mailma", "maba30"} {
		if strings.HasPrefix(stem, p) || strings.HasPrefix(p, stem) && len(s) == 8 {
			return true
		}
	}
	return false
}

// ordinary is a fast check that covers most names that are not special: it reports
// whether a name begins with a letter or digit and holds nothing that any system might
// leave out or shorten.
func ordinary(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i == 0 || c != '.' && c != '-' && c != '_':
			return false
		}
	}
	return name != "" && name[len(name)-1] != '.'
}

// dropIgnorable removes the characters that HFS+ ignores in names.
func dropIgnorable(r rune) rune {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return -1
	}
	return r
}
