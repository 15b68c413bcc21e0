package users

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"syscall"

	"github.com/hived/hived/protocol"
)

// Ready returns why this process cannot set up users, or nil if it can. It changes
// nothing.
func Ready(ids []protocol.AgentID) error {
	if os.Geteuid() != 0 {
		return errors.New("set up users: it takes root to make users and to give directories to them; run it with sudo")
	}
	names, err := AccountNames(ids)
	if err != nil {
		return fmt.Errorf("set up users: %w", err)
	}
	for id := range names {
		if _, err := Account(id); err != nil && !errors.Is(err, ErrNoUser) {
			return fmt.Errorf("set up users: %w", err)
		}
	}
	for _, tool := range []string{useradd, groupadd, gpasswd} {
		if _, err := find(tool); err != nil {
			return fmt.Errorf("set up users: %w", err)
		}
	}
	return nil
}

// The programs that make accounts.
const (
	useradd  = "useradd"
	groupadd = "groupadd"
	gpasswd  = "gpasswd"
)

// find looks for a program, also in directories that root's PATH may lack.
func find(tool string) (string, error) {
	for _, name := range []string{tool, "/usr/sbin/" + tool, "/sbin/" + tool} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no %s on this machine; install it (package passwd or shadow), or make the users by other means and run this again", tool)
}

// MakeAccounts finds or makes a system user, with a group of the same name, for
// each agent. It has no password and no shell; its home is home(id). made lists the
// new ones.
func MakeAccounts(ctx context.Context, ids []protocol.AgentID, home func(protocol.AgentID) string) (users map[protocol.AgentID]ID, made []string, err error) {
	users = make(map[protocol.AgentID]ID, len(ids))
	for _, id := range ids {
		users[id], err = Account(id)
		if errors.Is(err, ErrNoUser) {
			var name string
			if name, err = makeAccount(ctx, id, home(id)); err == nil {
				made = append(made, name)
				users[id], err = Account(id)
			}
		}
		if err != nil {
			return nil, made, err
		}
	}
	return users, made, nil
}

// MakeGroup finds or makes the group of all agents of a hive, and makes the users with
// these names its only members. name is that of [GroupName]; if it is empty, the group
// is new. joined lists the users that were not in it.
func MakeGroup(ctx context.Context, name string, names []string) (g Group, made bool, joined []string, err error) {
	if name == "" {
		name = newGroupName()
	}
	if g, err = FindGroup(name); errors.Is(err, ErrNoGroup) {
		if err = run(ctx, groupadd, "--system", name); err == nil {
			made = true
			g, err = FindGroup(name)
		}
	}
	if err != nil {
		return g, made, nil, err
	}
	joined, strange := g.Wanted(names)
	if len(joined)+len(strange) == 0 {
		return g, made, nil, nil
	}
	if err = run(ctx, gpasswd, "--members", strings.Join(names, ","), name); err == nil {
		g, err = FindGroup(name)
	}
	return g, made, joined, err
}

func makeAccount(ctx context.Context, id protocol.AgentID, home string) (name string, err error) {
	if name, err = AccountName(id); err != nil {
		return "", err
	}
	if _, err := user.LookupGroup(name); err != nil {
		if err := run(ctx, groupadd, "--system", name); err != nil {
			return "", err
		}
	}
	return name, run(ctx, useradd, "--system", "--gid", name, "--home-dir", home, "--no-create-home",
		"--shell", noLogin(), "--comment", "agent "+string(id)+" of a hive", name)
}

// noLogin returns a shell that lets nobody in; whoever starts the agent names another.
func noLogin() string {
	for _, shell := range []string{"/usr/sbin/nologin", "/sbin/nologin"} {
		if _, err := os.Stat(shell); err == nil {
			return shell
		}
	}
	return "/bin/false"
}

func run(ctx context.Context, tool string, args ...string) error {
	path, err := find(tool)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput() //nolint:gosec // names are letters, digits, - and _
	if err != nil {
		return fmt.Errorf("make the user or group %s: %s: %w: %s", args[len(args)-1], tool, err, strings.Join(strings.Fields(string(out)), " "))
	}
	return nil
}

// MayRun returns an error unless a running daemon may go on in a hive with users: as
// root, or as the owner of the hive.
func MayRun(pid int, owner ID) error {
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return nil //nolint:nilerr // it is gone, or not to be seen from here
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid == 0 || st.Uid == owner.UID {
		return nil
	}
	return fmt.Errorf("set up users: the daemon with process id %d runs as user %d and could not go on; stop it with `hived down`, and start it as root afterwards", pid, st.Uid)
}
