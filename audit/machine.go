package audit

import (
	"os/exec"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// machine holds the limits of the machine that a hive depends on. A number that the
// platform does not report is negative.
type machine struct {
	dir        string
	git        string // the program; empty: there is none
	watches    int64  // fs.inotify.max_user_watches
	instances  int64  // fs.inotify.max_user_instances
	openFiles  int64  // of this process
	fileSystem string // of the hive
	blockBytes int64  // free for this user
	inodes     int64  // free
	agents     int
}

// Below these limits doctor warns.
const (
	watchesPerAgent = 3 // its directory, inbox and outbox
	fewInstances    = 16
	fewOpenFiles    = 256
	fewBytes        = 256 << 20
	fewInodes       = 10_000
)

// fileSystems says what to expect of a hive on unusual file systems.
var fileSystems = map[string]string{
	"nfs":     "changes made on other machines give no events and locks may not hold between machines: run one hived, with a rescan of a few seconds",
	"smb":     "changes made on other machines give no events and locks may not hold between machines: run one hived, with a rescan of a few seconds",
	"9p":      "changes made on the host give no events: hived polls every rescan",
	"fuse":    "whether changes give events depends on the program behind it: hived polls every rescan",
	"tmpfs":   "it is gone when the machine stops",
	"overlay": "it may be gone with the container: put the hive on a volume",
}

// DiskFull reports whether the file system of a hive has no room left. Where the
// platform does not report it, there is room.
func DiskFull(disk *durable.Disk) bool {
	m := unknownMachine(disk.Path("."))
	m.measure()
	return m.full()
}

// fullBelow is the number of free bytes below which a disk counts as full: too few
// for one write of hived's, and for its status.
const fullBelow = 64 << 10

func (m *machine) full() bool {
	return m.inodes == 0 || m.blockBytes >= 0 && m.blockBytes < fullBelow
}

func unknownMachine(dir string) *machine {
	return &machine{dir: dir, watches: -1, instances: -1, openFiles: -1, blockBytes: -1, inodes: -1}
}

func inspectMachine(dir string) *machine {
	m := unknownMachine(dir)
	if p, err := exec.LookPath("git"); err == nil {
		m.git = p
	}
	m.measure()
	return m
}

// findings returns a finding for each limit, good or bad.
func (m *machine) findings() []Finding {
	var list []Finding
	say := func(bad bool, code protocol.Code, where, format string, args ...any) {
		f := found(code, where, format, args...)
		if !bad {
			f.Level, f.Remedy = protocol.LevelOK, ""
		}
		list = append(list, f)
	}
	if m.git == "" {
		say(true, protocol.CodeGitProgram, "", "there is no git program")
	} else {
		say(false, protocol.CodeGitProgram, "", "%s", m.git)
	}
	if m.watches >= 0 {
		need := int64(watchesPerAgent * (m.agents + 1))
		say(m.watches < need, protocol.CodeWatchLimit, "", "%d directories may be watched, %d agents need up to %d", m.watches, m.agents, need)
	}
	if m.instances >= 0 {
		say(m.instances < fewInstances, protocol.CodeWatchInstances, "", "%d programs of one user may watch", m.instances)
	}
	if m.openFiles >= 0 {
		say(m.openFiles < fewOpenFiles, protocol.CodeOpenFiles, "", "%d files may be open at once", m.openFiles)
	}
	if m.fileSystem != "" {
		meaning, special := fileSystems[m.fileSystem]
		say(special, protocol.CodeFileSystem, m.dir, "%s%s", m.fileSystem, withMeaning(meaning))
	}
	if m.blockBytes >= 0 {
		say(m.blockBytes < fewBytes, protocol.CodeDiskSpace, m.dir, "%d MiB are free", m.blockBytes>>20)
	}
	if m.inodes >= 0 {
		say(m.inodes < fewInodes, protocol.CodeDiskInodes, m.dir, "%d inodes are free", m.inodes)
	}
	return list
}

func withMeaning(meaning string) string {
	if meaning == "" {
		return ""
	}
	return ": " + meaning
}
