package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/process"
	"github.com/hived/hived/internal/users"
	"github.com/hived/hived/protocol"
)

// usersJSON is what `init --users` prints.
type usersJSON struct {
	existing []string // in a directory that was no hive before

	Hive  string    `json:"hive"`
	Owner uint32    `json:"owner"` // the user that owns the hive and runs hived
	New   bool      `json:"new"`   // the directory was no hive before
	Over  takenOver `json:"taken_over,omitempty"`
	users.Prepared
	Set []rightJSON `json:"set"` // the rights that were changed
}

type rightJSON struct {
	Path string `json:"path"`
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
	Mode string `json:"mode"`
}

// initUsers makes a hive where there is none, and sets up the users and rights
// that are missing. It checks whatever can be checked before it changes anything.
func (a *app) initUsers(ctx context.Context, dir string, named []string, opt hive.Options) error {
	ids, err := newAgents(named)
	if err == nil {
		err = users.Ready(users.For(dir, ids))
	}
	if err != nil {
		return err
	}
	process.OthersMayRead()
	existing := hive.Strangers(dir)
	abs, over, fresh, err := hiveFor(dir, opt) //nolint:contextcheck // a hive is made whole or not at all
	if err != nil {
		return err
	}
	ids = users.For(dir, ids) // an older hive may have had agents without a directory
	if err := users.Ready(ids); err != nil {
		return err
	}
	disk, err := durable.Open(abs)
	if err != nil {
		return fmt.Errorf("open the hive: %w", err)
	}
	defer disk.Close() //nolint:errcheck // only rights were set
	owner, err := users.Owner(disk)
	if err != nil {
		return err
	}
	if pid, runs, err := hive.Daemon(disk); err != nil {
		return err
	} else if runs {
		if err := users.MayRun(pid, owner); err != nil {
			return err
		}
	}
	done, err := users.Prepare(ctx, disk, owner, ids)
	if err != nil {
		return err
	}
	out := usersJSON{Prepared: done, existing: existing, Hive: abs, Owner: owner.UID, New: fresh, Over: over, Set: []rightJSON{}}
	for _, d := range done.Changed {
		out.Set = append(out.Set, rightJSON{d.Path, d.UID, d.GID, users.Octal(d.Mode)})
	}
	return a.answer(out, func(p *printer) { out.print(p, dir, users.Reach(abs)) })
}

// newAgents parses the agent ids of a command line, and refuses reserved ones.
func newAgents(names []string) ([]protocol.AgentID, error) {
	var ids []protocol.AgentID
	for _, name := range names {
		id, err := protocol.ParseAgentID(name)
		if err != nil {
			return nil, err
		}
		if id.Reserved() || id == protocol.Human {
			return nil, usageError("%s is reserved; choose another id", protocol.Quote(name))
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// hiveFor returns the hive's full path, and makes the hive where there is none yet
// (fresh) or --adopt asks for it.
func hiveFor(dir string, opt hive.Options) (abs string, over takenOver, fresh bool, err error) {
	if abs, err = filepath.Abs(dir); err != nil {
		return "", nil, false, fmt.Errorf("make the hive: %w", err)
	}
	fresh = !hive.Is(dir)
	if fresh || opt.Adopt {
		if abs, over, err = makeHive(dir, opt); errors.Is(err, hive.ErrIsHive) {
			err = nil
		}
	}
	return abs, over, fresh, err
}

func (out *usersJSON) print(p *printer, dir string, reach error) {
	if out.New {
		p.line("%s is a hive now", out.Hive)
		out.Over.print(p)
		if len(out.existing) > 0 {
			p.line("not empty:       what was there before stays as it is and is not part of the hive: %s", strings.Join(out.existing, ", "))
		}
	}
	for _, name := range out.Made {
		p.line("made:            the user %s", name)
	}
	if out.GroupMade {
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

// printSet lists the rights that were changed on a hive that existed before.
func (out *usersJSON) printSet(p *printer) {
	few, more := users.Few(out.Changed)
	for _, d := range few {
		p.line("set:             %s to %d:%d %s", d.Path, d.UID, d.GID, users.Octal(d.Mode))
		if n := more[d.In]; n > 0 {
			p.line("                 and %d more below %s/", n, d.In)
		}
	}
	// A process gets its groups when it starts, so a running one lacks the new one.
	if again := slices.DeleteFunc(slices.Clone(out.Joined), func(name string) bool { return slices.Contains(out.Made, name) }); len(again) > 0 {
		p.line("start again:     programs of %s that run already: they cannot read tasks/ yet", strings.Join(again, ", "))
	}
}
