package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/settings"
	"github.com/hived/hived/task"
)

// gateTimeout is how long a gate may run by default.
const gateTimeout = 10 * time.Minute

// gateFlags say how `task complete` runs the gate.
type gateFlags struct {
	run     bool
	timeout time.Duration
}

// passGate runs the gate of a task, if its brief has one, in the directory of the
// agent that acts, and gives what `complete` reports of it. The gate is a shell
// command that somebody else wrote: it is run where its author is trusted, or the
// caller says so (spec §8.2).
func (a *app) passGate(ctx context.Context, disk *durable.Disk, id protocol.TaskID, f gateFlags) (*protocol.GateResult, error) {
	brief, err := agent.Brief(disk, id)
	if errors.Is(err, fs.ErrNotExist) || err == nil && brief.Gate == "" {
		return nil, nil // the daemon knows whether there is such a task
	}
	if err != nil {
		return nil, err
	}
	if v, err := agent.View(disk, id); err == nil && v.Holder != a.who() {
		return nil, nil // it is refused, and what it would run is none of this agent's business
	}
	author := gateAuthor(brief)
	trusted, err := a.trusts(disk, author)
	if err != nil {
		return nil, err
	}
	if !trusted && !f.run {
		who := "somebody unknown"
		if author != "" {
			who = protocol.Visible(string(author))
		}
		return nil, exitWith(exitRefused, "the gate of %s is a shell command of %s, whom this hive does not trust: `%s`; read it, and say --run-gate if it may be run, or a person puts its author into work.trust of hive.yaml", id, who, protocol.Visible(brief.Gate))
	}
	exit, err := a.runGate(ctx, id, brief.Gate, f.timeout)
	if err != nil {
		return nil, err
	}
	if exit != 0 {
		return nil, exitWith(exitRefused, "the gate `%s` ended with exit status %d, so nothing was reported; mend that, or say what is wrong with `hived task fail %s`", protocol.Visible(brief.Gate), exit, id)
	}
	return &protocol.GateResult{Exit: &exit, SHA256: protocol.GateSum(brief.Gate)}, nil
}

// gateAuthor tells who wrote the gate of a brief; nobody knows it of a task that
// was resumed before briefs said so.
func gateAuthor(b *task.Brief) protocol.AgentID {
	if b.GateBy == "" && b.Resumes == "" && b.GateSHA256 == "" {
		return b.Creator
	}
	return b.GateBy
}

// trusts tells whether a shell command of an agent's may be run without asking: of
// people, the lead, oneself, and whom hive.yaml names in work.trust.
func (a *app) trusts(disk durable.FS, author protocol.AgentID) (bool, error) {
	if author == protocol.Human || author == a.who() {
		return true, nil
	}
	if author == "" {
		return false, nil
	}
	list, err := roster(disk)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(list, func(m member) bool { return m.Lead && m.ID == author }) {
		return true, nil
	}
	trust, err := settings.Trust(disk)
	return slices.Contains(trust, author), err
}

// runGate runs a gate in the directory of the agent that acts, and gives its exit
// status. What it prints goes to standard error.
func (a *app) runGate(ctx context.Context, id protocol.TaskID, gate string, limit time.Duration) (int, error) {
	hive, err := a.directory("")
	if err != nil {
		return 0, err
	}
	if hive, err = filepath.Abs(hive); err != nil {
		return 0, fmt.Errorf("find the hive: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", gate) //nolint:gosec // a gate is a shell command, and its author was looked at
	c.Dir = filepath.Join(hive, filepath.FromSlash(protocol.AgentDir(a.who())))
	c.Env = append(os.Environ(), "HIVE_DIR="+hive, "HIVE_AGENT="+string(a.who()), "HIVE_TASK="+string(id))
	c.Stdout, c.Stderr = a.stderr, a.stderr
	c.WaitDelay = time.Second
	inOwnGroup(c)
	err = c.Run()
	if ctx.Err() != nil {
		return 0, exitWith(exitTimedOut, "the gate `%s` did not end within %s, so nothing was reported; --gate-timeout gives it longer", protocol.Visible(gate), limit)
	}
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		return 0, fmt.Errorf("run the gate of %s: %w", id, err)
	}
	if code := c.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	return 128, nil // ended by a signal
}
