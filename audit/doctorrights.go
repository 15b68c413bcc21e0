package audit

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/users"
	"github.com/hived/hived/protocol"
)

// rights checks who may read and write what: against the table of package users
// where each agent has a user, else against what a single user needs.
func (d *doctor) rights() {
	before := len(d.list)
	for _, dir := range hiveDirs(d.disk) {
		info, err := d.disk.Lstat(dir)
		if err != nil || !info.Mode.IsDir() {
			continue // reported with the agents
		}
		if perm := info.Mode.Perm(); perm&ownerDir != ownerDir || !canWrite(d.disk.Path(dir)) {
			d.add(found(protocol.CodeNotWritable, dir, "its mode is %04o and hived may not write there", perm))
		}
	}
	if users.Marked(d.disk) {
		d.rightsPerUser()
	} else {
		d.rightsOneUser()
	}
	if len(d.list) == before {
		d.addOK(protocol.CodeNotWritable, "", "every directory of the hive can be written by its owner, and by nobody else")
	}
}

// cannotLookIn reports whether the caller may see nothing of a hive in which each
// agent has a user.
func (d *doctor) cannotLookIn() bool {
	owner, err := users.Owner(d.disk)
	return err == nil && users.Marked(d.disk) && d.euid > 0 && d.euid != int(owner.UID)
}

// rightsPerUser compares every path of the table with the disk (spec §1.7).
func (d *doctor) rightsPerUser() {
	owner, err := users.Owner(d.disk)
	if err != nil {
		return // reported before
	}
	ids, err := users.Agents(d.disk)
	if err != nil {
		return // reported with the agents
	}
	who := make(map[protocol.AgentID]users.ID, len(ids))
	for _, id := range ids {
		who[id] = owner
		if id == protocol.Human {
			continue
		}
		if who[id], err = d.account(id); err != nil {
			d.add(found(protocol.CodeUserMissing, protocol.AgentDir(id), "%v", err))
			who[id] = owner // until it has a user, only the owner may look in
		}
	}
	list, more := users.Few(users.Differences(d.disk, users.Rights(owner, d.commonGroup(who, owner), who)))
	for _, x := range list {
		d.add(rightsFinding(x, more[x.In]))
	}
	if err := users.Reach(d.disk.Path(".")); err != nil {
		d.add(found(protocol.CodeNotReached, d.disk.Path("."), "%v", err))
	}
}

func rightsFinding(x users.Difference, more int) Finding {
	f := found(protocol.CodeRightsDiffer, x.Path, "it belongs to user %d and group %d with mode %s, and should to %d and %d with %s: %s",
		x.Have.UID, x.Have.GID, users.Octal(x.Have.Rights().Mode), x.UID, x.GID, users.Octal(x.Mode), x.Why)
	if more > 0 {
		f.Text += fmt.Sprintf("; %d more below %s/ differ too", more, x.In)
	}
	return f
}

// commonGroup returns the group of all agents, and compares its members with the
// agents' users.
func (d *doctor) commonGroup(who map[protocol.AgentID]users.ID, owner users.ID) int64 {
	all, gid, err := users.Common(d.disk, owner, d.group)
	if err != nil {
		text := err.Error()
		if info, err := d.disk.Lstat(protocol.PathTasks); err == nil && info.Mode&0o005 != 0 {
			text += "; until then every user of this machine can read what is below, by its mode " + users.Octal(info.Rights().Mode)
		}
		d.add(found(protocol.CodeGroupDiffers, protocol.PathTasks, "%s", text))
		return gid
	}
	var names []string
	for id, user := range who {
		if user == owner {
			continue // the agent has no user, which was reported
		}
		if name, err := users.AccountName(id); err == nil {
			names = append(names, name)
		}
	}
	missing, strange := all.Wanted(names)
	if len(missing) > 0 {
		d.add(found(protocol.CodeGroupDiffers, protocol.PathTasks, "not in the group %s, so they cannot read it: %s", all.Name, few(missing)))
	}
	if len(strange) > 0 {
		d.add(found(protocol.CodeGroupDiffers, protocol.PathTasks, "in the group %s, so they can read it, but not agents of this hive: %s", all.Name, few(strange)))
	}
	return gid
}

// rightsOneUser checks what users other than the owner may do.
func (d *doctor) rightsOneUser() {
	root, err := d.disk.Lstat(".")
	if err != nil {
		return // reported before
	}
	for _, p := range hivePaths(d.disk) {
		if info, err := d.disk.Lstat(p); err == nil && info.Mode&fs.ModeSymlink == 0 {
			d.list = append(d.list, writableByOthers(p, info, root)...)
		}
	}
	if reachable(d.disk.Path(".")) {
		d.list = append(d.list, readableByOthers(d.disk.Path("."), root, openSecrets(d.disk))...)
	}
}

// readableByOthers returns what every user of the machine can read in a hive that
// he can reach. The secrets are files below it that he can read where its mode lets
// him pass.
func readableByOthers(dir string, root durable.Info, secrets []string) (list []Finding) {
	perm := root.Mode.Perm()
	if perm&0o005 == 0o005 {
		list = append(list, found(protocol.CodeOthersRead, dir, "every user of this machine can read the messages in it: its mode is %04o", perm))
	}
	if perm&0o001 != 0 && len(secrets) > 0 {
		list = append(list, found(protocol.CodeOpenSecret, secrets[0], "every user of this machine can read %d files of a kind in which programs keep secrets: %s", len(secrets), few(secrets)))
	}
	return list
}

// writableByOthers returns what is wrong with the rights of one path in a hive of
// one user. Where a path belongs to another user, that is the finding, and not
// what its group may do. A group with the number of its user is that user's own, as
// on the many systems that give each user one.
func writableByOthers(p string, info, root durable.Info) (list []Finding) {
	perm := info.Mode.Perm()
	if perm&0o002 != 0 && info.Mode&fs.ModeSticky == 0 {
		list = append(list, found(protocol.CodeWorldWritable, p, "its mode is %04o", perm))
	}
	if info.UID != root.UID {
		return append(list, found(protocol.CodeOwnerDiffers, p, "it belongs to user %d, and the hive to user %d", info.UID, root.UID))
	}
	if perm&0o020 != 0 && info.GID != info.UID {
		list = append(list, found(protocol.CodeGroupWritable, p, "its mode is %04o, and its group is %d", perm, info.GID))
	}
	return list
}

// hivePaths lists the paths that must be safe from other users: the directories of
// the hive, and the files that hived trusts or tells agents to trust.
func hivePaths(disk durable.FS) []string {
	return append(hiveDirs(disk), pathGit, pathGit+"/config", protocol.PathSettings, protocol.PathLog, protocol.PathRegistry, protocol.PathProtocol)
}

// reachable reports whether every user can reach a directory.
func reachable(dir string) bool {
	for at := filepath.Dir(dir); ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if at == filepath.Dir(at) {
			return true
		}
	}
}

// openSecrets lists the dot-files of agents that others can read: tools keep
// secrets there (spec §6.3).
func openSecrets(disk durable.FS) (list []string) {
	for _, id := range agentIDs(disk) {
		home, err := disk.Lstat(protocol.AgentDir(id))
		if err != nil || home.Mode&0o001 == 0 {
			continue
		}
		entries, err := disk.ReadDir(protocol.AgentDir(id))
		if err != nil {
			continue // reported with the agents
		}
		for _, e := range entries {
			p := protocol.AgentDir(id) + "/" + e.Name
			if info, err := disk.Lstat(p); err == nil && strings.HasPrefix(e.Name, ".") && info.Regular() && info.Mode&0o004 != 0 && e.Name != ".gitignore" {
				list = append(list, protocol.AgentDir(id)+"/"+protocol.SafeName(e.Name))
			}
		}
	}
	return list
}
