package users

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

const marked = "Each agent of this hive is a Unix user of its own: its name is hive- and the agent's id.\nWritten by `hived init --users`, which sets the rights again where they differ.\nAll of these users are in one group, and nobody else:\n" + markedGroup

// Marked reports whether each agent of a hive is to have a user (spec §1.7).
func Marked(disk durable.FS) bool {
	info, err := disk.Lstat(Marker)
	return err == nil && info.Regular()
}

// Owner returns the owner of a hive with users, that of its directory. A hive that is
// not marked yet will be root's.
func Owner(disk durable.FS) (ID, error) {
	if !Marked(disk) {
		return ID{}, nil
	}
	info, err := disk.Lstat(".")
	if err != nil {
		return ID{}, fmt.Errorf("see whose the hive is: %w", err)
	}
	return ID{info.UID, info.GID}, nil
}

// Agents returns the agents that have a directory in the hive, in name order, human
// included.
func Agents(disk durable.FS) ([]protocol.AgentID, error) {
	entries, err := disk.ReadDir(protocol.PathAgents)
	if err != nil {
		return nil, fmt.Errorf("list the agents: %w", err)
	}
	var ids []protocol.AgentID
	for _, e := range entries {
		id, err := protocol.ParseAgentID(e.Name)
		if err == nil && e.Type.IsDir() && (!id.Reserved() || id == protocol.God) { // an older hive's lead can be called so
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// For returns the agents that must have a user: those that have a directory in the
// hive, and those in named. human has none, since it is the owner of the hive.
func For(dir string, named []protocol.AgentID) []protocol.AgentID {
	ids := slices.Clone(named)
	if disk, err := durable.Open(dir); err == nil {
		defer disk.Close() //nolint:errcheck // only read
		if there, err := Agents(disk); err == nil {
			ids = append(ids, there...)
		}
	}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id protocol.AgentID) bool { return id == protocol.Human })
}

// Prepared is what [Prepare] found and did.
type Prepared struct {
	Agents    map[string]string `json:"agents"` // the user of each
	Group     string            `json:"group"`  // that all of these are in
	Made      []string          `json:"made"`   // users that are new
	Joined    []string          `json:"joined"` // users that were not in the group
	GroupMade bool              `json:"-"`
	Changed   []Difference      `json:"-"` // rights that were others before
}

// Prepare makes missing users and their group, and sets the rights, for these agents of
// a hive and its owner.
func Prepare(ctx context.Context, disk *durable.Disk, owner ID, ids []protocol.AgentID) (Prepared, error) {
	out := Prepared{Agents: map[string]string{}, Made: []string{}, Joined: []string{}}
	who, made, err := MakeAccounts(ctx, ids, func(id protocol.AgentID) string { return disk.Path(protocol.AgentDir(id)) })
	out.Made = append(out.Made, made...)
	if err != nil {
		return out, err
	}
	for id := range who {
		name, err := AccountName(id)
		if err != nil {
			return out, err
		}
		out.Agents[string(id)] = name
	}
	var all Group
	if len(who) > 0 {
		var joined []string
		all, out.GroupMade, joined, err = MakeGroup(ctx, GroupName(disk), slices.Sorted(maps.Values(out.Agents)))
		out.Group, out.Joined = all.Name, append(out.Joined, joined...)
		if err != nil {
			return out, err
		}
	}
	who[protocol.Human] = owner
	out.Changed, err = SetUp(disk, all, who)
	return out, err
}

// SetUp gives each of the agents to its user, and the rest of the hive to its
// owner, and marks the hive. A hive that was not marked becomes root's.
// Directories of the agents that are missing are made. What an agent had before
// it had a user stays its own. What is for all agents is given to their group, which a
// hive without agents need not have. SetUp may run while the daemon runs, and again. It
// returns what it changed, in the order of the paths.
func SetUp(disk *durable.Disk, all Group, users map[protocol.AgentID]ID) ([]Difference, error) {
	owner, first, err := begin(disk, all.Name)
	if err != nil {
		return nil, fmt.Errorf("mark the hive as one with users: %w", err)
	}
	for _, id := range slices.Sorted(maps.Keys(users)) {
		if err := prepare(disk, id, owner, users[id]); err != nil {
			return first, fmt.Errorf("prepare the directories of agent %s: %w", id, err)
		}
	}
	_, gid, err := Common(disk, owner, func(string) (Group, error) {
		if all.Name == "" {
			return all, ErrNoGroup
		}
		return all, nil
	})
	if err != nil {
		return first, err
	}
	list, err := set(disk, Rights(owner, gid, users))
	return append(first, list...), err
}

// prepare makes what is missing of an agent's directories, and hands over what
// is there. Where the agent put something else in the place of one, the
// daemon and the doctor tell of it: no other agent waits for that.
func prepare(disk *durable.Disk, id protocol.AgentID, owner, user ID) error {
	for _, r := range RightsOf(id, owner, user) {
		err := disk.Mkdir(r.Path, 0o700)
		if errors.Is(err, durable.ErrLink) || errors.Is(err, syscall.ENOTDIR) {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return handOver(disk, id, user)
}

// begin marks a hive. It is root's before it is marked: what a marked hive
// belongs to is what stands there.
func begin(disk *durable.Disk, group string) (owner ID, first []Difference, err error) {
	if owner, err = Owner(disk); err != nil || Marked(disk) && GroupName(disk) == group {
		return owner, nil, err
	}
	if first, err = set(disk, Rights(owner, NoGroup, nil)[:1]); err != nil {
		return owner, first, err
	}
	return owner, first, durable.Publish(disk, Marker, []byte(marked+group+"\n"), 0o644, durable.Synced)
}

// Keep closes to agents what is the hive's own and was made anew since it was
// set up, and to all others what is the agents', before a daemon writes there:
// .hived may be deleted, .git be built again, tasks/ be brought back from a copy.
// Where the agents have no group yet, what would be that group's stays as it is,
// and that is told to warn. Where the hive has no users it does nothing.
func Keep(disk *durable.Disk, find Finder, warn func(error)) ([]Difference, error) {
	if !Marked(disk) {
		return nil, nil
	}
	owner, err := Owner(disk)
	if err == nil {
		err = disk.Mkdir(protocol.PathScratch, 0o700)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("keep agents out of what is the hive's own: %w; run hived as root, or as who the hive belongs to", err)
	}
	_, gid, without := Common(disk, owner, find)
	if without != nil {
		warn(without)
	}
	list, err := set(disk, Rights(owner, gid, nil))
	if err != nil {
		return list, fmt.Errorf("keep agents out of what is the hive's own: %w; run hived as root, or as who the hive belongs to", err)
	}
	return list, nil
}

// Maker returns what makes a directory for a daemon that runs: one of an agent's or,
// where the id is empty, one that is for all agents. In a hive with users it is as
// it is to be there, else its mode is 0755. An agent that has no user yet has its
// directories closed to everybody. That, and whatever else keeps a directory that
// was made from its agents, is told to warn.
func Maker(disk *durable.Disk, find Finder, account func(protocol.AgentID) (ID, error), warn func(protocol.AgentID, error)) func(protocol.AgentID, string) error {
	return func(id protocol.AgentID, dir string) error {
		if !Marked(disk) {
			return disk.Mkdir(dir, 0o755)
		}
		if err := disk.Mkdir(dir, 0o700); err != nil {
			return err
		}
		var err error
		if id == "" {
			_, err = Keep(disk, find, func(err error) { warn(id, err) })
		} else {
			err = keep(disk, id, account)
		}
		if err != nil {
			warn(id, err)
		}
		return nil
	}
}

// keep sets the rights of all directories of an agent: what holds the new one
// may be as new.
func keep(disk *durable.Disk, id protocol.AgentID, account func(protocol.AgentID) (ID, error)) error {
	owner, err := Owner(disk)
	if err != nil {
		return err
	}
	user := owner
	var without error
	if id != protocol.Human {
		user, without = account(id)
	}
	switch {
	case errors.Is(without, ErrNoUser):
		user = owner
	case without != nil: // the new directory stays closed, the others as they are
		return without
	}
	_, err = set(disk, RightsOf(id, owner, user))
	return cmp.Or(err, without)
}

// set sets what differs. One path that cannot be set, because its agent put
// something in the way, keeps no other from being set.
func set(disk *durable.Disk, want []Right) (done []Difference, err error) {
	for _, d := range Differences(disk, want) {
		switch failed := disk.SetRights(d.Path, d.Rights); {
		case failed == nil:
			done = append(done, d)
		case d.In != "" && (errors.Is(failed, durable.ErrHardLink) || errors.Is(failed, durable.ErrLink)):
			// Nobody can look in, and the doctor tells of it.
		case err == nil && !errors.Is(failed, fs.ErrNotExist):
			err = failed
		}
	}
	return done, err
}

// handOver gives an agent that had no user what it had written before: its own
// files. What waits in its outbox becomes root's, which is taken from any
// outbox: the directory and its files cannot change hands at once. Where the
// outbox is the user's already nothing is given: who could have put it there?
func handOver(disk *durable.Disk, id protocol.AgentID, user ID) error {
	box, err := disk.Lstat(protocol.OutboxDir(id))
	if err != nil || box.UID == user.UID {
		return err
	}
	if err := give(disk, protocol.OutboxDir(id), ID{GID: user.GID}, filesAlone); err != nil {
		return err
	}
	return give(disk, protocol.AgentDir(id), user, allBelow)
}

// reach is how much of a directory is given away.
type reach int

const (
	filesAlone reach = iota
	allBelow         // the directories too, with all they hold
)

// give gives away the regular files in a directory and what else is within reach.
// Links, files with a second name, and the directories of the table stay as they
// are.
func give(disk *durable.Disk, dir string, to ID, r reach) error {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := dir + "/" + e.Name
		boxes := filepath.Dir(filepath.Dir(dir)) == "." && (e.Name == "inbox" || e.Name == "outbox")
		if boxes || !e.Type.IsRegular() && (r != allBelow || !e.Type.IsDir()) {
			continue
		}
		info, err := disk.Lstat(name)
		if err == nil {
			err = disk.SetRights(name, durable.Rights{UID: to.UID, GID: to.GID, Mode: info.Rights().Mode &^ (fs.ModeSetuid | fs.ModeSetgid)})
		}
		if err == nil && e.Type.IsDir() {
			err = give(disk, name, to, r)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, durable.ErrHardLink) && !errors.Is(err, durable.ErrLink) {
			return err
		}
	}
	return nil
}

// Reach returns why the users of agents cannot reach a hive, or could put another in
// its place: directories above it that are closed, or open to all.
func Reach(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("find the way to the hive: %w", err)
	}
	for at := filepath.Dir(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case err != nil:
			return fmt.Errorf("look at %s: %w", at, err)
		case info.Mode()&0o001 == 0:
			return fmt.Errorf("%s is closed to others (mode %04o), so agents do not reach the hive below it; make the hive elsewhere, or `chmod o+x` it", at, info.Mode().Perm())
		case info.Mode()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0:
			return fmt.Errorf("everybody can rename what is in %s (mode %04o), the hive too; make the hive elsewhere, or `chmod o-w` it", at, info.Mode().Perm())
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}
