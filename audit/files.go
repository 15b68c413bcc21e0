package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// files compares the files of a hive with the state that follows from the log.
type files struct {
	disk    durable.FS
	fold    *fold
	running bool // a daemon holds the hive
}

// place is the location of a versioned path.
type place struct {
	agent protocol.AgentID
	box   box
	name  string
}

// box is the kind of a place, which decides what a difference there means.
type box int

const (
	boxNone  box = iota // one of hived's own: registry.json, PROTOCOL.md
	boxOwn              // board.md and the agents' own files
	boxInbox            // unread
	boxDone
	boxSent
	boxLog  // sealed segments
	boxTask // the files of a task, which hived alone writes
)

func placeOf(p string) place {
	switch p {
	case protocol.PathRegistry, protocol.PathProtocol:
		return place{}
	case protocol.PathBoard:
		return place{box: boxOwn}
	}
	top, rest, _ := strings.Cut(p, "/")
	switch top {
	case protocol.PathSegments:
		return place{box: boxLog}
	case protocol.PathTasks:
		return place{box: boxTask}
	}
	name, _, _ := strings.Cut(rest, "/")
	id := protocol.AgentID(name)
	dir, base := path.Split(p)
	at := place{agent: id, name: base}
	switch strings.TrimSuffix(dir, "/") {
	case protocol.InboxDir(id):
		at.box = boxInbox
	case protocol.DoneDir(id):
		at.box = boxDone
	case protocol.SentDir(id):
		at.box = boxSent
	default:
		at.box = boxOwn
	}
	return at
}

// maxFile is the largest file that is read, in bytes: hived writes none larger.
const maxFile = 64 << 20

// match is how a file compares with what it should be.
type match int

const (
	absent match = iota
	same
	other
)

// compareFile compares a file with a git id. Where it differs, the text says how.
func (f *files) compareFile(p string, want protocol.Blob) (match, string, error) {
	data, _, err := durable.ReadFile(f.disk, p, maxFile)
	switch {
	case err == nil && protocol.BlobOf(data) == want:
		return same, "", nil
	case err == nil:
		return other, fmt.Sprintf("it holds %d bytes that are not those of the log", len(data)), nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return absent, "", nil
	case errors.Is(err, durable.ErrTooLarge), errors.Is(err, durable.ErrLink), errors.Is(err, durable.ErrNotRegular), errors.Is(err, fs.ErrPermission):
		return other, errorText(err), nil
	}
	return absent, "", err
}

// errorText returns the text of an error of the disk, without the file's name.
func errorText(err error) string {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err.Error()
	}
	return err.Error()
}

// check returns what is wrong with one path, or nil.
func (f *files) check(p string) (*Finding, error) {
	want, expected, err := f.fold.tree.Lookup(p)
	if err != nil {
		return nil, err
	}
	at := placeOf(p)
	if !expected {
		return f.unexpected(p, at)
	}
	if at.box == boxLog {
		return nil, nil //nolint:nilnil // the check of the log covers it
	}
	is, why, err := f.compareFile(p, want)
	if err != nil || is == same {
		return nil, err
	}
	seq, id := f.deliveryAt(p, at)
	found := f.differs(p, at, is, why, want).about(seq, id)
	return &found, nil
}

// deliveryAt returns the message that belongs at a place in an inbox or its archive.
func (f *files) deliveryAt(p string, at place) (protocol.Seq, protocol.MessageID) {
	if at.box != boxInbox && at.box != boxDone {
		return 0, ""
	}
	l, _ := f.fold.state.BoxFile(p)
	return l.Of, l.ID
}

// differs returns the finding of a file that is missing or has other bytes.
func (f *files) differs(p string, at place, is match, why string, want protocol.Blob) Finding {
	switch {
	case at.box == boxOwn && is == other:
		return found(protocol.CodeNewVersion, p, "it was changed since its last version")
	case at.box == boxOwn:
		return found(protocol.CodeNewVersion, p, "it was deleted since its last version")
	case at.box == boxTask && is == absent:
		return found(protocol.CodeTaskFile, p, "it is not there")
	case at.box == boxTask:
		return found(protocol.CodeTaskFile, p, "%s", why)
	case is == other && (at.box == boxDone || at.box == boxSent):
		return found(protocol.CodeArchiveAltered, p, "%s", why)
	case is == other:
		return found(protocol.CodeFileAltered, p, "%s", why)
	case at.box == boxInbox:
		return f.missingFromInbox(p, at, want)
	case at.box == boxDone && f.exists(protocol.InboxDir(at.agent)+"/"+at.name):
		return found(protocol.CodeReopened, p, "it was moved back to the inbox")
	case at.box == boxDone, at.box == boxSent:
		return found(protocol.CodeTakenAway, p, "somebody took it away; log and git have it")
	}
	return found(protocol.CodeFileMissing, p, "it is not there")
}

func (f *files) exists(p string) bool {
	_, err := f.disk.Lstat(p)
	return err == nil
}

// missingFromInbox returns the finding of an unread message that is not in its
// inbox.
func (f *files) missingFromInbox(p string, at place, want protocol.Blob) Finding {
	seq, _ := f.deliveryAt(p, at)
	done := protocol.DoneDir(at.agent) + "/" + at.name
	is, why, _ := f.compareFile(done, want) // what cannot be read counts as gone
	switch {
	case is == same:
		return found(protocol.CodeHandledSoon, p, "it was moved to .done")
	case is == other:
		return found(protocol.CodeFileAltered, done, "%s", why)
	case seq > f.fold.state.Settled:
		// A running daemon may not have placed it yet, however long one waits.
		return found(protocol.CodeAgainSoon, p, "it is not there, nor in .done; it was delivered after the last settled mark")
	case f.massDeletionOpen(at.agent):
		x := found(protocol.CodeMassDeletion, p, "it vanished with many others, and nobody has said whether %s deleted it", at.agent)
		x.Remedy = strings.ReplaceAll(x.Remedy, "ID", string(at.agent))
		return x
	case f.running:
		return found(protocol.CodeFileMissing, p, "it is not there, nor in .done, and the daemon did not log that it was handled")
	}
	return found(protocol.CodeGoneSoon, p, "it was deleted")
}

// massDeletionOpen reports whether so many messages vanished from an inbox at once
// that hived does not believe that the agent deleted them, and waits for a person.
func (f *files) massDeletionOpen(id protocol.AgentID) bool {
	a := f.fold.state.Agents[id]
	return a != nil && a.Missing > 0 && !a.Believed
}

// unexpected returns the finding of a path at which the log has nothing, or nil.
func (f *files) unexpected(p string, at place) (*Finding, error) {
	if !f.exists(p) {
		return nil, nil //nolint:nilnil // nothing is wrong
	}
	one := found(protocol.CodeNewVersion, p, "it is new")
	if at.box == boxInbox {
		one = found(protocol.CodeFilePlanted, p, "hived did not deliver it, and does not know who wrote it")
		if l, done := f.fold.state.BoxFile(protocol.DoneDir(at.agent) + "/" + at.name); done {
			one = found(protocol.CodeReopened, p, "it was moved back from .done").about(l.Of, l.ID)
		}
	}
	return &one, nil
}
