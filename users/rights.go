package users

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// ID is a Unix user with the group that is its alone.
type ID struct{ UID, GID uint32 }

// Marker is a file that says of a hive that each of its agents has a user. It
// stands with the rights that it is about and not in hive.yaml, which travels
// with a clone: rights do not.
const Marker = protocol.PathAgents + "/.users"

// Right is what one path is to be.
type Right struct {
	durable.Rights

	Path string
	Dir  bool   // else a regular file
	Why  string // what it is good for, one line
}

// party is who a path is given to.
type party int

const (
	hives  party = iota // whoever runs hived, and nobody else
	shared              // the same, with the agent's group
	agents              // the agent
)

// row is a line of the table, for the hive or for each agent.
type row struct {
	path  string // below the hive, or below the agent's directory
	dir   bool
	owner party
	mode  fs.FileMode
	why   string
}

var hiveRows = []row{
	{".", true, hives, 0o755, "agents find what is below; hived alone makes, renames and removes names here"},
	{protocol.PathAgents, true, hives, 0o711, "each agent reaches its own directory; nobody becomes an agent by making one"},
	{Marker, false, hives, 0o644, "says that each agent has a user"},
	{protocol.PathProtocol, false, hives, 0o644, "agents read it"},
	{protocol.PathRegistry, false, hives, 0o644, "agents read it"},
	{protocol.PathBoard, false, hives, 0o644, "agents read it; the hive's owner writes it"},
	{protocol.PathSettings, false, hives, 0o600, "the hive's owner alone"},
	{protocol.PathLog, false, hives, 0o600, "holds every message of everybody"},
	{protocol.PathSegments, true, hives, 0o700, "holds every message of everybody"},
	{pathGit, true, hives, 0o700, "holds every message of everybody"},
	{protocol.PathScratch, true, hives, 0o700, "lock, snapshot, scratch"},
	{protocol.PathTasks, true, hives, 0o755, "agents read what is to be done, and where it stands; hived alone writes here"},
}

const pathGit = ".git"

var agentRows = []row{
	{"", true, shared, 0o770 | fs.ModeSticky, "the agent keeps files of its own here, and cannot take away what is not its own; nobody else looks in"},
	{"inbox", true, shared, 0o770, "hived puts messages in, the agent takes them out"},
	{"inbox/.done", true, shared, 0o770, "the agent puts there what it has handled"},
	{"outbox", true, agents, 0o700, "a file that does not belong to this user is no message of the agent's"},
	{"outbox/.sent", true, shared, 0o750, "the agent reads what it has sent, and what was set aside"},
}

// Rights says what each path of a hive is to be, that of the hive first, then
// agent by agent, directories before what they hold. The owner runs hived. An
// agent whose user is the owner has none of its own: nobody else looks in.
func Rights(owner ID, users map[protocol.AgentID]ID) []Right {
	list := make([]Right, 0, len(hiveRows)+len(users)*len(agentRows))
	for _, r := range hiveRows {
		list = append(list, r.right(r.path, owner, owner))
	}
	for _, id := range slices.Sorted(maps.Keys(users)) {
		list = append(list, RightsOf(id, owner, users[id])...)
	}
	return list
}

// RightsOf is the part of [Rights] about one agent.
func RightsOf(id protocol.AgentID, owner, user ID) []Right {
	list := make([]Right, 0, len(agentRows))
	for _, r := range agentRows {
		x := r.right(strings.TrimSuffix(protocol.AgentDir(id)+"/"+r.path, "/"), owner, user)
		if user == owner {
			x.Mode = 0o700
		}
		list = append(list, x)
	}
	return list
}

func (r row) right(path string, owner, user ID) Right {
	x := Right{Rights: durable.Rights{UID: owner.UID, GID: owner.GID, Mode: r.mode}, Path: path, Dir: r.dir, Why: r.why}
	switch r.owner {
	case hives:
	case shared:
		x.GID = user.GID
	case agents:
		x.UID, x.GID = user.UID, user.GID
	}
	return x
}

// Octal writes a mode as chmod takes it.
func Octal(m fs.FileMode) string {
	bits := uint32(m.Perm())
	for i, b := range []fs.FileMode{fs.ModeSticky, fs.ModeSetgid, fs.ModeSetuid} {
		if m&b != 0 {
			bits |= 0o1000 << i
		}
	}
	return fmt.Sprintf("%04o", bits)
}

// Difference is a path that is not as it is to be.
type Difference struct {
	Right

	Have durable.Info
}

// Differences holds what is there against what is wanted, in the order of the
// paths. What is missing, or is of another kind, is no matter of rights.
func Differences(disk durable.FS, want []Right) []Difference {
	var list []Difference
	for _, w := range want {
		info, err := disk.Lstat(w.Path)
		if err == nil && w.differs(info) {
			list = append(list, Difference{w, info})
		}
	}
	slices.SortStableFunc(list, func(a, b Difference) int { return cmp.Compare(a.Path, b.Path) })
	return list
}

func (r Right) differs(info durable.Info) bool {
	return r.fits(info) && info.Rights() != r.Rights
}

// fits tells whether it is the kind of thing that the right is about.
func (r Right) fits(info durable.Info) bool {
	if r.Dir {
		return info.Mode.IsDir()
	}
	return info.Mode.IsRegular()
}
