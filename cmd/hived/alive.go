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
		Long: "Shows that an agent lives by touching its alive file, as every command that an agent runs does. With --while it\n" +
			"repeats that until the process has ended, and writes into the file how often: a holder of a task whose beats stop is missed\n" +
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
			return usageError("--while is %d; give the id of a running process, such as $$", pid)
		}
		if !process.Runs(pid) {
			return exitWith(protocol.ExitNotFound, "there is no process %d; give --while the id of a running process, such as $$", pid)
		}
		s, err := agentSettings(disk)
		if err != nil {
			return err
		}
		return box.KeepAlive(c.Context(), s.Tasks.HeartbeatTimeout, func() bool { return process.Runs(pid) })
	})
	c.Flags().IntVar(&pid, "while", 0, "beat until the process with this `pid` has ended")
	return c
}

// agentSettings reads hive.yaml for an agent, which need not be able to read it: it
// belongs to people. It has the defaults then.
func agentSettings(disk durable.FS) (protocol.Settings, error) {
	s, err := hive.Settings(disk)
	if errors.Is(err, fs.ErrPermission) {
		return protocol.DefaultSettings(), nil
	}
	return s, err
}
