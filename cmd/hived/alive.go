package main

import (
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/process"
	"github.com/hived/hived/protocol"
)

func (a *app) aliveCommand() *cobra.Command {
	var pid int
	c := &cobra.Command{
		Use:   "alive",
		Short: "Shows that an agent lives, once or for as long as a process runs",
		Long: "Shows that an agent lives by touching its alive file, as every command does that an agent calls. With --while it\n" +
			"does so again and again until that process has ended, and says how often: a holder of a task that beats is missed\n" +
			"after heartbeat_timeout, any other after turn_heartbeat.",
		Args: argCount(0, 0),
	}
	c.RunE = a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
		box, err := a.box(disk)
		if err != nil {
			return err
		}
		if !c.Flags().Changed("while") {
			return agent.Alive(disk, box.ID())
		}
		if pid <= 0 {
			return usageError("--while is %d; it is the id of a process that runs, such as $$", pid)
		}
		if !process.Runs(pid) {
			return exitWith(protocol.ExitNotFound, "there is no process %d; --while wants the id of one that runs, such as $$", pid)
		}
		s, err := hive.Settings(disk)
		if errors.Is(err, fs.ErrPermission) { // hive.yaml belongs to people, and an agent need not be able to read it
			s, err = protocol.DefaultSettings(), nil
		}
		if err != nil {
			return err
		}
		return box.KeepAlive(c.Context(), s.Tasks.HeartbeatTimeout, func() bool { return process.Runs(pid) })
	})
	c.Flags().IntVar(&pid, "while", 0, "beat until the process with this `pid` has ended")
	return c
}
