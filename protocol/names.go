package protocol

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"
)

// SafeName returns a file's name in a form that is inert in a log, on a terminal, on a
// page and in git: broken UTF-8, control and formatting characters, and the bytes that
// path rules or git would act on, become %XX. Ordinary names stay as they are.
func SafeName(name string) string {
	plain := true
	for _, r := range name {
		plain = plain && !unsafeRune(r)
	}
	if plain && name != "" {
		return name
	}
	var b strings.Builder
	for i, r := range name {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError && !strings.HasPrefix(name[i:], "\uFFFD") {
			size = 1
		}
		if !unsafeRune(r) {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(name[i : i+size]) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func unsafeRune(r rune) bool {
	return r == utf8.RuneError || r == '\\' || r == ':' || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// AsidePrefix begins the name of what is set aside (spec §3.3, §4.7).
const AsidePrefix = "bad-"

// AsideName returns the name under which a file of an inbox is set aside: with an id,
// so that it is free.
func AsideName(id ulid.ULID, file string) string {
	return AsidePrefix + id.String() + "-" + ShortName(SafeName(file))
}

// AsideFile returns the name of the file that an [AsideName] was made for.
func AsideFile(name string) string {
	return name[min(len(name), len(AsidePrefix)+ulid.EncodedSize+len("-")):]
}

// NameMax is the length of the longest name that hived gives a file, in bytes: what
// every common file system allows, minus room for a temporary name's affixes.
const NameMax = 255 - 16

// ShortName cuts a name to [NameMax] bytes, keeping its ending.
func ShortName(name string) string {
	if len(name) <= NameMax {
		return name
	}
	ext := path.Ext(name)
	if len(ext) > 16 {
		ext = ""
	}
	cut := NameMax - len(ext)
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + ext
}

// The directories of an agent (spec §1), each below agents/<id>/.
const (
	dirInbox  = "inbox"
	dirDone   = "inbox/.done"
	dirOutbox = "outbox"
	dirSent   = "outbox/.sent"
)

// AgentDir returns agents/<id>.
func AgentDir(id AgentID) string { return PathAgents + "/" + string(id) }

// InboxDir returns the directory to which an agent's messages are delivered.
func InboxDir(id AgentID) string { return AgentDir(id) + "/" + dirInbox }

// DoneDir returns the directory to which an agent moves what it has handled.
func DoneDir(id AgentID) string { return AgentDir(id) + "/" + dirDone }

// OwnerOf returns the agent whose directory a path is below; for a path that is below
// no agent's directory, the element where its id would be.
func OwnerOf(p string) AgentID {
	rest := strings.TrimPrefix(p, PathAgents+"/")
	id, _, _ := strings.Cut(rest, "/")
	return AgentID(id)
}

// IsTaskPath reports whether a path is that of a task's file.
func IsTaskPath(p string) bool { return strings.HasPrefix(p, PathTasks+"/") }

// WorkDir returns the directory of what an agent's programs keep for the tasks that it
// has. hived looks at nothing in it.
func WorkDir(id AgentID) string { return AgentDir(id) + "/.work" }

// OutboxDir returns the directory to which an agent writes what it sends.
func OutboxDir(id AgentID) string { return AgentDir(id) + "/" + dirOutbox }

// SentDir returns the directory of accepted originals and quarantined files.
func SentDir(id AgentID) string { return AgentDir(id) + "/" + dirSent }

// IsMessageName reports whether a file of this name in an outbox or an inbox is
// a message (spec §1): dot-files, *.tmp, *~ and other endings are not.
func IsMessageName(name string) bool {
	return strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, ".")
}

// SlotsMost is how many tasks an agent may have in hand at once, at most.
const SlotsMost = 1000

// BadRoles returns one line that says what is wrong with roles or capabilities; empty
// if nothing is. An empty one counts as none.
func BadRoles(list []string) string {
	for _, r := range list {
		if r == "" {
			continue
		}
		if _, err := ParseAgentID(r); err != nil || slices.Contains([]string{"hive", "broadcast"}, strings.ToLower(r)) {
			return "a role or capability is written like an agent's id, not " + Quote(r)
		}
	}
	return ""
}
