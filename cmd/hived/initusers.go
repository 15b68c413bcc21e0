package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/users"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
)

// usersJSON is what `init --users` prints.
type usersJSON struct {
	stood []string // in a directory that was no hive before

	Hive   string            `json:"hive"`
	Owner  uint32            `json:"owner"` // the user that it belongs to, and that runs hived
	New    bool              `json:"new"`   // it was no hive before
	Over   takenOver         `json:"taken_over,omitempty"`
	Agents map[string]string `json:"agents"` // the user of each
	Group  string            `json:"group"`  // that all of these are in
	Made   []string          `json:"made"`   // users that are new
	Joined []string          `json:"joined"` // users that were not in the group
	Set    []rightJSON       `json:"set"`    // rights that were others before

	groupMade bool
	differed  []users.Difference
}

type rightJSON struct {
	Path string `json:"path"`
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
	Mode string `json:"mode"`
}

// initUsers makes a hive where there is none, and sets up what is missing of
// users and rights. Whatever can be known to fail is found before anything is
// changed.
func (a *app) initUsers(ctx context.Context, dir string, named []string, adopt bool) error {
	ids, err := usersFor(dir, named)
	if err == nil {
		err = users.Ready(ids)
	}
	if err != nil {
		return err
	}
	othersMayRead()
	stood := strangers(dir)
	abs, over, fresh, err := hiveFor(dir, adopt) //nolint:contextcheck // a hive is made whole or not at all
	if err != nil {
		return err
	}
	// An older hive may have had agents without a directory.
	if ids, err = usersFor(dir, named); err == nil {
		err = users.Ready(ids)
	}
	if err != nil {
		return err
	}
	disk, err := durable.Open(abs)
	if err != nil {
		return fmt.Errorf("open the hive: %w", err)
	}
	defer disk.Close() //nolint:errcheck // only rights were set
	out := usersJSON{stood: stood, Hive: abs, New: fresh, Over: over, Agents: map[string]string{}, Made: []string{}, Joined: []string{}, Set: []rightJSON{}}
	if err := a.setUp(ctx, disk, ids, &out); err != nil {
		return err
	}
	return a.answer(out, func(p *printer) { out.print(p, dir, users.Reach(abs)) })
}

// usersFor lists the agents that are to have a user: those that have a
// directory and those that are named. Human is who the hive belongs to.
func usersFor(dir string, named []string) ([]protocol.AgentID, error) {
	var ids []protocol.AgentID
	for _, name := range named {
		id, err := protocol.ParseAgentID(name)
		if err != nil {
			return nil, err
		}
		if id.Reserved() || id == protocol.Human {
			return nil, usageError("%s is reserved; choose another id", protocol.Quote(name))
		}
		ids = append(ids, id)
	}
	if disk, err := durable.Open(dir); err == nil {
		defer disk.Close() //nolint:errcheck // only read
		if there, err := users.Agents(disk); err == nil {
			ids = append(ids, there...)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return slices.DeleteFunc(ids, func(id protocol.AgentID) bool { return id == protocol.Human }), nil
}

// hiveFor gives the hive's full path, and makes it where it is none yet.
func hiveFor(dir string, adopt bool) (abs string, over takenOver, fresh bool, err error) {
	if abs, err = filepath.Abs(dir); err != nil {
		return "", nil, false, fmt.Errorf("make the hive: %w", err)
	}
	fresh = !isHive(dir)
	if fresh || adopt {
		if abs, over, err = makeHive(dir, adopt); errors.Is(err, router.ErrIsHive) {
			err = nil
		}
	}
	return abs, over, fresh, err
}

func (a *app) setUp(ctx context.Context, disk *durable.Disk, ids []protocol.AgentID, out *usersJSON) error {
	owner, err := users.Owner(disk)
	if err != nil {
		return err
	}
	if pid, runs, err := daemon(disk); err != nil {
		return err
	} else if runs {
		if err := users.MayRun(pid, owner); err != nil {
			return err
		}
	}
	who, made, err := users.MakeAccounts(ctx, ids, func(id protocol.AgentID) string { return disk.Path(protocol.AgentDir(id)) })
	out.Made = append(out.Made, made...)
	if err != nil {
		return err
	}
	for id := range who {
		name, err := users.AccountName(id)
		if err != nil {
			return err
		}
		out.Agents[string(id)] = name
	}
	var all users.Group
	if len(who) > 0 {
		var joined []string
		all, out.groupMade, joined, err = users.MakeGroup(ctx, users.GroupName(disk), slices.Sorted(maps.Values(out.Agents)))
		out.Group, out.Joined = all.Name, append(out.Joined, joined...)
		if err != nil {
			return err
		}
	}
	who[protocol.Human], out.Owner = owner, owner.UID
	list, err := users.SetUp(disk, all, who)
	out.differed = list
	for _, d := range list {
		out.Set = append(out.Set, rightJSON{d.Path, d.UID, d.GID, users.Octal(d.Mode)})
	}
	return err
}

func (out *usersJSON) print(p *printer, dir string, reach error) {
	if out.New {
		p.line("%s is a hive now", out.Hive)
		out.Over.print(p)
		if len(out.stood) > 0 {
			p.line("not empty:       what stood there stays as it is and is no part of the hive: %s", strings.Join(out.stood, ", "))
		}
	}
	for _, name := range out.Made {
		p.line("made:            the user %s", name)
	}
	if out.groupMade {
		p.line("made:            the group %s, of all of them", out.Group)
	}
	if !out.New {
		out.printSet(p)
	}
	if out.New {
		p.line("set:             owner and mode of %d paths", len(out.Set))
	}
	if !out.New && len(out.Made) == 0 && len(out.Joined) == 0 && len(out.Set) == 0 {
		p.line("nothing to do:   each of %d agents has its user, and the rights are in order", len(out.Agents))
	}
	if reach != nil {
		p.line("warning:         %v", reach)
	}
	if out.Owner == 0 {
		p.line("run it as root:  hived up %s", dir)
	} else {
		p.line("run it as user %d: hived up %s", out.Owner, dir)
	}
	if len(out.Agents) == 0 {
		p.line("let an agent in: hived init --users %s ID", dir)
		return
	}
	id := slices.Min(slices.Collect(maps.Keys(out.Agents)))
	p.line("start an agent:  sudo -u %s env HIVE_DIR=%s HIVE_AGENT=%s PROGRAM", out.Agents[id], out.Hive, id)
}

// printSet says what was set on a hive that was there.
func (out *usersJSON) printSet(p *printer) {
	few, more := users.Few(out.differed)
	for _, d := range few {
		p.line("set:             %s to %d:%d %s", d.Path, d.UID, d.GID, users.Octal(d.Mode))
		if n := more[d.In]; n > 0 {
			p.line("                 and %d more below %s/", n, d.In)
		}
	}
	// What a process may do is settled when it starts.
	if again := slices.DeleteFunc(slices.Clone(out.Joined), func(name string) bool { return slices.Contains(out.Made, name) }); len(again) > 0 {
		p.line("start again:     programs of %s that run already: they cannot read tasks/ yet", strings.Join(again, ", "))
	}
}

// closeHive closes what is the hive's own to agents that have users, and what is
// the agents' to all others (spec §1.7).
func closeHive(ctx context.Context, disk *durable.Disk, log *slog.Logger) error {
	list, err := users.Keep(disk, users.FindGroup, func(err error) {
		log.WarnContext(ctx, "tasks/ is not closed to others than the agents", slog.String("error", err.Error()))
	})
	few, more := users.Few(list)
	for _, d := range few {
		log.WarnContext(ctx, "rights were not as they are to be, and are now", slog.String("path", d.Path), slog.String("mode", users.Octal(d.Have.Rights().Mode)), slog.String("now", users.Octal(d.Mode)), slog.Int("more_below", more[d.In]))
	}
	return err
}

// makeDirs makes directories of agents for the daemon (spec §1.7).
func makeDirs(ctx context.Context, disk *durable.Disk, log *slog.Logger) func(protocol.AgentID, string) error {
	return users.Maker(disk, users.FindGroup, users.Account, func(id protocol.AgentID, err error) {
		log.WarnContext(ctx, "a directory is closed to its agents", slog.String("agent", string(id)), slog.String("error", err.Error()))
	})
}
