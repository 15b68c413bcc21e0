package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// AgentDir is one name below agents/.
type AgentDir struct {
	Name string           // as on the disk
	ID   protocol.AgentID // of an agent that can be one; else empty
	// Why says on one line why it cannot be an agent; else it is empty. With an
	// ID it can be one only if it is on the roster already.
	Why string
}

// Agents lists agents/ in name order (spec §1). Dot-files are left out; what
// cannot be an agent's directory is in the list with the reason. changed is
// false if the list is the same as before, which costs one stat if the directory's
// mtime has not moved. The caller must not change the list.
func (b *Boxes) Agents(now time.Time) (list []AgentDir, changed bool, err error) {
	info, err := b.statDir(protocol.PathAgents)
	if err != nil {
		return nil, false, err
	}
	if !b.agents.moved(info, now) {
		return b.listed, false, nil
	}
	entries, err := b.fs.ReadDir(protocol.PathAgents)
	if err != nil {
		return nil, false, err
	}
	first := b.listed == nil
	b.agents.listed(now)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name, ".") {
			list = append(list, agentDir(e))
		}
	}
	changed = first || !slices.Equal(b.listed, list)
	b.listed = list
	b.dropAbsent()
	return list, changed, nil
}

func agentDir(e durable.Entry) AgentDir {
	d := AgentDir{Name: e.Name}
	id, err := protocol.ParseAgentID(e.Name)
	switch {
	case e.Type&fs.ModeSymlink != 0:
		d.Why = "it is a symbolic link: make a directory in its place"
	case !e.Type.IsDir():
		d.Why = "it is not a directory: move it out of agents/"
	case err != nil:
		d.Why = err.Error()
	case id == protocol.God: // an older hive's lead can be called so
		d.ID, d.Why = id, "the name is reserved: rename the directory"
	case id.Reserved():
		d.Why = "the name is reserved: rename the directory"
	default:
		d.ID = id
	}
	return d
}

// dropAbsent forgets the agents whose directories are gone.
func (b *Boxes) dropAbsent() {
	for id := range b.boxes {
		_, found := slices.BinarySearchFunc(b.listed, string(id), func(d AgentDir, name string) int {
			return strings.Compare(d.Name, name)
		})
		if !found {
			delete(b.boxes, id)
		}
	}
}

// marker is an empty file in each inbox. If it is missing, the inbox is not the
// one that hived made. The inode does not show that: a directory that is deleted
// and made again can have the old one's, and on ext4 it has.
const marker = ".hived"

// Ensure makes the missing directories of an agent and returns the names of those
// that it made, "inbox" also if somebody else made it anew. Unread messages that are
// not in such an inbox were not handled: [Boxes.Inbox] reports that the inbox
// vanished, and puts the marker when nothing is missing (spec §4.7). An outbox or
// inbox that it made is durable, because its agent cannot know that what it syncs
// there is in a directory that nobody synced. A link or file in such a place is an
// error and stays as it is.
func (b *Boxes) Ensure(id protocol.AgentID) (made []string, err error) {
	home := protocol.AgentDir(id)
	dirs := [...]string{home, protocol.InboxDir(id), protocol.DoneDir(id), protocol.OutboxDir(id), protocol.SentDir(id)}
	for _, dir := range dirs {
		fresh, err := b.ensureDir(id, dir)
		if err != nil {
			return made, fmt.Errorf("make the directories of agent %s: %w", id, err)
		}
		if fresh {
			made = append(made, strings.TrimPrefix(strings.TrimPrefix(dir, home), "/"))
		}
	}
	if err := b.syncMade(home, made); err != nil {
		return made, fmt.Errorf("make the directories of agent %s: %w", id, err)
	}
	if in := &b.box(id).inbox; !in.remade && !b.marked(id) {
		in.remade = true
		if !slices.Contains(made, "inbox") {
			made = append(made, "inbox")
		}
	}
	return made, nil
}

func (b *Boxes) syncMade(home string, made []string) error {
	if slices.Contains(made, "inbox") || slices.Contains(made, "outbox") {
		if err := b.fs.SyncDir(home); err != nil {
			return err
		}
	}
	if slices.Contains(made, "") {
		return b.fs.SyncDir(protocol.PathAgents)
	}
	return nil
}

func (b *Boxes) mkdir(id protocol.AgentID, dir string) error {
	if b.opt.Mkdir != nil {
		return b.opt.Mkdir(id, dir)
	}
	return b.fs.Mkdir(dir, dirPerm)
}

func (b *Boxes) ensureDir(id protocol.AgentID, dir string) (made bool, err error) {
	_, err = b.statDir(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	err = b.mkdir(id, dir)
	if errors.Is(err, fs.ErrNotExist) && dir == protocol.AgentDir(id) { // agents/ is gone too
		if err = b.fs.MkdirAll(protocol.PathAgents, dirPerm); err == nil {
			err = b.mkdir(id, dir)
		}
	}
	if errors.Is(err, fs.ErrExist) { // somebody else made it in between
		_, err = b.statDir(dir)
		return false, err
	}
	return err == nil, err
}
