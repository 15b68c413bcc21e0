package users

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"

	"github.com/hived/hived/protocol"
)

// ErrNoUser means that an agent has no Unix user.
var ErrNoUser = errors.New("has no Unix user")

// Account returns the user of an agent. A user that is not the agent's alone (root, or
// one whose group has another name) is an error too.
func Account(id protocol.AgentID) (ID, error) {
	name, err := AccountName(id)
	if err != nil {
		return ID{}, err
	}
	u, err := user.Lookup(name)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		return ID{}, fmt.Errorf("agent %s %w: there is no user %s; `hived init --users` makes it", id, ErrNoUser, name)
	}
	if err != nil {
		return ID{}, fmt.Errorf("look up the user of agent %s: %w", id, err)
	}
	g, err := user.LookupGroupId(u.Gid)
	if err != nil {
		return ID{}, fmt.Errorf("look up the group of the user %s: %w", name, err)
	}
	if g.Name != name {
		return ID{}, fmt.Errorf("the user %s is in the group %s with others; give it one of its own: `groupadd %s && usermod -g %s %s`", name, g.Name, name, name, name)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return ID{}, fmt.Errorf("look up the user %s: %w", name, err)
	}
	if uid == 0 || gid == 0 {
		return ID{}, fmt.Errorf("the user %s is root by another name; remove it: `userdel %s`", name, name)
	}
	return ID{uint32(uid), uint32(gid)}, nil
}
