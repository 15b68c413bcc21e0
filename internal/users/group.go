package users

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// Group is a Unix group whose members are the users of all agents of a hive, and nobody
// else. The zero value is no group.
type Group struct {
	Name    string
	GID     uint32
	Members []string // names of users, sorted
}

// Finder finds a group by the name from [GroupName], as [FindGroup] does.
type Finder func(name string) (Group, error)

// ErrNoGroup means that the agents of a hive have no group yet.
var ErrNoGroup = errors.New("the agents of this hive have no Unix group in common")

// markedGroup begins the line of the marker that names the group.
const markedGroup = "group: "

// GroupName returns the name of the group in a hive's marker; empty if it has none.
func GroupName(disk durable.FS) string {
	data, _, err := durable.ReadFile(disk, Marker, 4096)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(line, markedGroup); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// FindGroup finds a group by the name from [GroupName]. The group of root, and one that
// is an agent's own, is an error.
func FindGroup(name string) (Group, error) {
	if name == "" {
		return Group{}, fmt.Errorf("%w: `hived init --users` makes one", ErrNoGroup)
	}
	if !strings.HasPrefix(name, groupPrefix) {
		return Group{}, fmt.Errorf("%s names %s as the agents' group, which `hived init --users` did not make; delete that line and run it again", Marker, protocol.Quote(name))
	}
	g, err := user.LookupGroup(name)
	if _, unknown := errors.AsType[user.UnknownGroupError](err); unknown {
		return Group{}, fmt.Errorf("%w: there is no %s, `hived init --users` makes it", ErrNoGroup, name)
	}
	if err != nil {
		return Group{}, fmt.Errorf("look up the group %s: %w", name, err)
	}
	gid, err := strconv.ParseUint(g.Gid, 10, 32)
	if err != nil || gid == 0 {
		return Group{}, fmt.Errorf("the group %s has the number %s; remove it: `groupdel %s`", name, g.Gid, name)
	}
	members, err := membersOf(name)
	return Group{name, uint32(gid), members}, err
}

// Common finds the group of all agents of a hive. gid is for [Rights]: if there are no
// agents yet, what is for them belongs to the owner alone.
func Common(disk durable.FS, owner ID, find Finder) (all Group, gid int64, err error) {
	if all, err = find(GroupName(disk)); err == nil {
		return all, int64(all.GID), nil
	}
	ids, listed := Agents(disk)
	if listed == nil && !slices.ContainsFunc(ids, func(id protocol.AgentID) bool { return id != protocol.Human }) {
		return Group{}, int64(owner.GID), nil
	}
	return Group{}, NoGroup, err
}

// groupFile lists the groups that groupadd made.
const groupFile = "/etc/group"

func membersOf(name string) ([]string, error) {
	data, err := os.ReadFile(groupFile)
	if err != nil {
		return nil, fmt.Errorf("see who is in the group %s: %w", name, err)
	}
	return membersIn(string(data), name), nil
}

// membersIn finds the line of a group in a text like /etc/group.
func membersIn(text, name string) []string {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) == 4 && fields[0] == name && fields[3] != "" {
			list := strings.Split(fields[3], ",")
			slices.Sort(list)
			return slices.Compact(list)
		}
	}
	return nil
}

// Wanted returns which users of a hive's agents are missing in the group, and which of
// its members are not the user of an agent here.
func (g Group) Wanted(names []string) (missing, strange []string) {
	for _, n := range slices.Sorted(slices.Values(names)) {
		if !slices.Contains(g.Members, n) {
			missing = append(missing, n)
		}
	}
	for _, n := range g.Members {
		if !slices.Contains(names, n) {
			strange = append(strange, n)
		}
	}
	return missing, strange
}
