package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// hiveDir returns the hive's directory: the one that was given, else HIVE_DIR,
// else the nearest parent directory that is a hive.
func (a *app) hiveDir(given string) (string, error) {
	if given == "" {
		given = a.hive
	}
	if given == "" {
		given = a.getenv("HIVE_DIR")
	}
	if given != "" {
		if !hive.Is(given) {
			return "", exitWith(protocol.ExitNotFound, "%s is not a hive; make one with `hived init %s`", protocol.Quote(given), protocol.Visible(given))
		}
		return given, nil
	}
	here, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the hive: %w", err)
	}
	dir, found := hive.Find(here)
	if !found {
		return "", exitWith(protocol.ExitNotFound, "no hive here or above %s; make one with `hived init`, or give --hive DIR", protocol.Quote(here))
	}
	return dir, nil
}

// open opens the hive.
func (a *app) open() (*durable.Disk, error) { return a.openAt("") }

func (a *app) openAt(given string) (*durable.Disk, error) {
	dir, err := a.hiveDir(given)
	if err != nil {
		return nil, err
	}
	disk, err := durable.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the hive: %w", err)
	}
	if hive.IsOlder(disk) {
		err := exitWith(protocol.ExitFailed, "this is an older hive: take it over with `hived init --adopt %s`", protocol.Visible(disk.Path(".")))
		return nil, errors.Join(err, disk.Close())
	}
	return disk, nil
}

// who returns the acting agent: --agent, else HIVE_AGENT, else human.
func (a *app) who() protocol.AgentID {
	for _, id := range []string{a.agent, a.getenv("HIVE_AGENT")} {
		if id != "" {
			return protocol.AgentID(id)
		}
	}
	return protocol.Human
}

// box opens the mailbox of the acting agent.
func (a *app) box(disk durable.FS) (*agent.Box, error) { return agent.Open(disk, a.who()) }

// withHive runs a command on the opened hive. Where an agent calls it, that is a
// sign of life of the agent, whatever the command does.
func (a *app) withHive(do func(c *cobra.Command, args []string, disk *durable.Disk) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		disk, err := a.open()
		if err != nil {
			return err
		}
		defer disk.Close() //nolint:errcheck // what was written is synced or renamed by now
		if _, err := protocol.ParseAgentID(string(a.who())); err == nil && a.who() != protocol.Human {
			_ = agent.Alive(disk, a.who())
		}
		return do(c, args, disk)
	}
}

// withBox is withHive with the mailbox of the acting agent.
func (a *app) withBox(do func(c *cobra.Command, args []string, box *agent.Box) error) func(*cobra.Command, []string) error {
	return a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		box, err := a.box(disk)
		if err != nil {
			return err
		}
		return do(c, args, box)
	})
}
