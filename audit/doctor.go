package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/users"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

var zeroTime time.Time

// Doctor checks the machine and, where disk is a hive, the hive, for what is wrong
// or soon will be. It is quick: what takes reading everything is left to [Verify].
// It changes nothing and may be called beside the daemon.
func Doctor(ctx context.Context, disk *durable.Disk) []Finding {
	return newDoctor(disk).examine(ctx)
}

func newDoctor(disk *durable.Disk) *doctor {
	return &doctor{disk: disk, now: time.Now(), euid: os.Geteuid(), account: users.Account, group: users.FindGroup}
}

func (d *doctor) examine(ctx context.Context) []Finding {
	disk := d.disk
	m := inspectMachine(disk.Path("."))
	m.agents = len(agentIDs(disk))
	d.list = m.findings()
	if _, err := disk.Lstat(protocol.PathAgents); err != nil {
		return append(d.list, found(protocol.CodeNotAHive, disk.Path("."), "there is no agents/ here: only the machine was checked"))
	}
	if d.cannotLookIn() {
		return append(d.list, found(protocol.CodeOtherUser, disk.Path("."), "the hive belongs to another user, and each agent has one of its own: only the machine was checked"))
	}
	for _, check := range []func(){d.settings, d.daemon, d.rights, d.agents, d.outboxes, d.log, d.segments, d.clock, d.git, d.outerRepository, d.tempFiles} {
		if ctx.Err() != nil {
			break
		}
		check()
	}
	return d.list
}

type doctor struct {
	disk    *durable.Disk
	now     time.Time
	list    []Finding
	running bool
	last    time.Time // of the log's last event
	euid    int       // of the caller; -1 where the platform has none
	account func(protocol.AgentID) (users.ID, error)
	group   users.Finder
}

func (d *doctor) add(f Finding) { d.list = append(d.list, f) }

func (d *doctor) addOK(code protocol.Code, where, format string, args ...any) {
	d.add(Finding{Code: code, Level: protocol.LevelOK, Where: where, Text: fmt.Sprintf(format, args...)})
}

func (d *doctor) settings() {
	if _, err := hive.Settings(d.disk); err != nil {
		d.add(found(protocol.CodeSettings, protocol.PathSettings, "%v", err))
		return
	}
	if idle := hive.IdleKeys(d.disk); len(idle) > 0 {
		d.addOK(protocol.CodeSettings, protocol.PathSettings, "in order, but %s", strings.Join(idle, "; "))
		return
	}
	d.addOK(protocol.CodeSettings, protocol.PathSettings, "in order")
}

func (d *doctor) daemon() {
	pid, held, err := durable.Holder(d.disk, protocol.LockFile)
	d.running = held
	switch {
	case err != nil:
		f := found(protocol.CodeDaemon, protocol.LockFile, "%v", err)
		f.Level, f.Remedy = protocol.LevelFault, "check the rights of "+protocol.PathScratch
		d.add(f)
	case held:
		d.addOK(protocol.CodeDaemon, protocol.LockFile, "process %d holds the hive", pid)
	default:
		d.addOK(protocol.CodeDaemon, protocol.LockFile, "no daemon runs; the lock is free, whatever the file says")
	}
}

func (d *doctor) agents() {
	bad, err := badAgents(d.disk)
	if err != nil {
		f := found(protocol.CodeBadAgentDir, protocol.PathAgents, "%v", err)
		f.Level, f.Remedy = protocol.LevelFault, "agents/ has to be a directory that hived can read"
		d.add(f)
	}
	for _, x := range bad {
		d.add(found(protocol.CodeBadAgentDir, protocol.PathAgents+"/"+protocol.SafeName(x.Name), "it is no agent: %s", x.Why))
	}
	for _, id := range agentIDs(d.disk) {
		for _, dir := range agentDirs(id) {
			info, err := d.disk.Lstat(dir)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				d.add(found(protocol.CodeDirectoryMissing, dir, "it is not there"))
			case err == nil && !info.Mode.IsDir():
				f := found(protocol.CodeBadAgentDir, dir, "there is a %s where a directory belongs", modeText(info.Mode))
				f.Remedy = "move it away; hived makes the directory"
				d.add(f)
			}
		}
	}
}

func modeText(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	}
	return "device, socket or FIFO"
}

// outboxes counts the messages that wait, and the strays that are never sent.
func (d *doctor) outboxes() {
	for _, id := range agentIDs(d.disk) {
		if n := mailbox.Pending(d.disk, id); n > 0 {
			d.add(found(protocol.CodeOutboxWaiting, protocol.OutboxDir(id), "messages that wait to be taken in: %d", n))
		}
		list, err := d.disk.ReadDir(protocol.OutboxDir(id))
		if err != nil {
			continue // reported with the agents
		}
		var strays []string
		for _, e := range list {
			if stray(e) {
				strays = append(strays, protocol.SafeName(e.Name))
			}
		}
		if len(strays) > 0 {
			d.add(found(protocol.CodeStrayFiles, protocol.OutboxDir(id), "not messages: %s", few(strays)))
		}
	}
}

// stray reports whether an entry of an outbox is neither a message nor one that is
// still being written (spec §1).
func stray(e durable.Entry) bool {
	name := e.Name
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, "~") {
		return false
	}
	return !protocol.IsMessageName(name) || !e.Type.IsRegular()
}

// clockSlack is how far clocks may differ without a finding.
const clockSlack = time.Minute

// clock checks that the clock is not behind the log or the files.
func (d *doctor) clock() {
	if d.last.Sub(d.now) > clockSlack {
		d.add(found(protocol.CodeClockBehindLog, protocol.PathLog, "its last event was at %s, the clock says %s", protocol.Stamp(d.last), protocol.Stamp(d.now)))
	}
	var late []string
	for _, dir := range hiveDirs(d.disk) {
		if info, err := d.disk.Lstat(dir); err == nil && info.ModTime.Sub(d.now) > clockSlack {
			late = append(late, dir)
		}
	}
	if len(late) > 0 {
		d.add(found(protocol.CodeClockBehindFiles, late[0], "%d directories were changed in the future: %s", len(late), few(late)))
	}
	if d.last.Sub(d.now) <= clockSlack && len(late) == 0 {
		d.addOK(protocol.CodeClockBehindLog, "", "the clock is not behind the log or the files")
	}
}

// outerRepository looks for a git repository that the hive is inside of.
func (d *doctor) outerRepository() {
	for dir := filepath.Dir(d.disk.Path(".")); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, pathGit)); err == nil {
			d.add(found(protocol.CodeNestedRepository, dir, "the hive lies inside another git repository"))
			return
		}
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

func (d *doctor) tempFiles() {
	list := leftovers(d.disk)
	if d.running {
		list = nil // they may be the daemon's, which is about to rename them
	}
	if len(list) > 0 {
		d.add(found(protocol.CodeLeftoverFiles, path.Dir(list[0]), "%d temporary files of a hived that crashed: %s", len(list), few(list)))
	}
}
