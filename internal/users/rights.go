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

// ID is a Unix user with its own group.
type ID struct{ UID, GID uint32 }

// Marker is a file that says that each agent of a hive has a user. It is next to the
// rights that it is about and not in hive.yaml, which is copied by a clone: rights are
// not.
const Marker = protocol.PathAgents + "/.users"

// Right is the owner and mode that one path must have.
type Right struct {
	durable.Rights

	Path string
	Dir  bool   // else a regular file
	Why  string // what it is good for, one line
	// Files is the mode of all files below a directory, whose own rights all
	// directories below it have too; zero: what is below is not checked.
	Files fs.FileMode
}

// party is who a path is given to.
type party int

const (
	hives  party = iota // whoever runs hived, and nobody else
	shared              // the same, with the agent's group
	agents              // the agent
	group               // whoever runs hived, with the group of all agents: a directory with all that is below
)

// groupFiles is the mode of the files below a directory of the group's.
const groupFiles fs.FileMode = 0o640

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
	{protocol.PathTasks, true, group, 0o750 | fs.ModeSetgid, "agents read what is to be done, and where it stands; hived alone writes here, and nobody else looks in"},
}

const pathGit = ".git"

var agentRows = []row{
	{"", true, shared, 0o770 | fs.ModeSticky, "the agent keeps files of its own here, and cannot take away what is not its own; nobody else looks in"},
	{"inbox", true, shared, 0o770, "hived puts messages in, the agent takes them out"},
	{"inbox/.done", true, shared, 0o770, "the agent puts there what it has handled"},
	{"outbox", true, agents, 0o700, "a file that does not belong to this user is no message of the agent's"},
	{"outbox/.sent", true, shared, 0o750, "the agent reads what it has sent, and what was set aside"},
}

// NoGroup stands for the gid of the group of all agents if they have none yet.
const NoGroup int64 = -1

// Rights says what each path of a hive is to be, that of the hive first, then
// agent by agent, directories before what they hold. The owner runs hived, and
// gid is the number of the group of all agents: with [NoGroup] nothing is said of
// what would be that group's. An agent whose user is the owner has none of its
// own: nobody else looks in.
func Rights(owner ID, gid int64, users map[protocol.AgentID]ID) []Right {
	list := make([]Right, 0, len(hiveRows)+len(users)*len(agentRows))
	for _, r := range hiveRows {
		if r.owner != group || gid != NoGroup {
			list = append(list, r.right(r.path, owner, ID{GID: uint32(gid)})) //nolint:gosec // it is the number of a group
		}
	}
	for _, id := range slices.Sorted(maps.Keys(users)) {
		list = append(list, RightsOf(id, owner, users[id])...)
	}
	return list
}

// RightsOf returns the part of [Rights] about one agent.
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
	case group:
		x.GID, x.Files = user.GID, groupFiles
	case agents:
		x.UID, x.GID = user.UID, user.GID
	}
	return x
}

// Octal returns a mode as chmod takes it.
func Octal(m fs.FileMode) string {
	bits := uint32(m.Perm())
	for i, b := range []fs.FileMode{fs.ModeSticky, fs.ModeSetgid, fs.ModeSetuid} {
		if m&b != 0 {
			bits |= 0o1000 << i
		}
	}
	return fmt.Sprintf("%04o", bits)
}

// Difference is a path whose rights are not as they must be.
type Difference struct {
	Right

	Have durable.Info
	// In is the directory of which everything below is to have the same rights;
	// empty for a path of the table's own.
	In string
}

// Differences compares what is there with what is wanted, in the order of the paths.
// What is missing, or is of another kind, is left out.
func Differences(disk durable.FS, want []Right) []Difference {
	var list []Difference
	for _, w := range want {
		info, err := disk.Lstat(w.Path)
		if err == nil && w.differs(info) {
			list = append(list, Difference{Right: w, Have: info})
		}
		if err == nil && w.Files != 0 && info.Mode.IsDir() {
			list = append(list, below(disk, w, w.Path)...)
		}
	}
	slices.SortStableFunc(list, func(a, b Difference) int { return cmp.Compare(a.Path, b.Path) })
	return list
}

// below holds all that is in a directory below top against the right of top. Links
// are not followed.
func below(disk durable.FS, top Right, dir string) []Difference {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return nil // one that cannot be listed has been told of, or is gone
	}
	var list []Difference
	for _, e := range entries {
		w := top
		w.Path, w.Dir = dir+"/"+e.Name, e.Type.IsDir()
		if !w.Dir {
			w.Mode = top.Files
		}
		info, err := disk.Lstat(w.Path)
		if err == nil && w.differs(info) {
			list = append(list, Difference{w, info, top.Path})
		}
		if w.Dir {
			list = append(list, below(disk, top, w.Path)...)
		}
	}
	return list
}

// Few keeps only the first of the differences below one directory, and counts the
// others: there may be as many as files.
func Few(list []Difference) (few []Difference, more map[string]int) {
	more = map[string]int{}
	seen := map[string]bool{}
	for _, d := range list {
		if d.In != "" && seen[d.In] {
			more[d.In]++
			continue
		}
		seen[d.In] = true
		few = append(few, d)
	}
	return few, more
}

func (r Right) differs(info durable.Info) bool {
	return r.fits(info) && info.Rights() != r.Rights
}

// fits reports whether it is the kind of thing that the right is about.
func (r Right) fits(info durable.Info) bool {
	if r.Dir {
		return info.Mode.IsDir()
	}
	return info.Mode.IsRegular()
}
