package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// findMember returns one member of the roster.
func findMember(disk durable.FS, id string) (agent.Member, error) {
	list, err := agent.Roster(disk)
	if err != nil {
		return agent.Member{}, err
	}
	names := make([]string, 0, len(list))
	for _, m := range list {
		if string(m.ID) == id {
			return m, nil
		}
		names = append(names, string(m.ID))
	}
	return agent.Member{}, exitWith(protocol.ExitNotFound, "there is no agent %s%s", protocol.Quote(id), didYouMean(id, names, "`hived agent list` shows all"))
}

func (a *app) agentCommand() *cobra.Command {
	return commandGroup(&cobra.Command{Use: "agent", Short: "The roster: who takes part, in which role"},
		a.agentAdd(), a.agentList(), a.agentShow(),
		a.agentVerb("hold", "Puts an agent on hold: what it sends waits in its outbox", "is on hold: what it sends waits"),
		a.agentVerb("release", "Ends a hold", "is released"),
		a.agentVerb("archive", "Retires an agent: no group includes it, what is sent to it is filed", "is archived"),
		a.agentVerb("restore", "Brings an archived agent back", "is back"),
		a.agentSlots(),
		a.agentVerb("lead", "Makes an agent the lead", "is the lead"),
	)
}

func (a *app) agentAdd() *cobra.Command {
	var data commandData
	c := &cobra.Command{
		Use:   "add ID",
		Short: "Puts an agent on the roster, or changes its role and capabilities",
		Long:  "Puts an agent on the roster. For an agent that is on it already, it changes only what the flags name.",
		Args:  argCount(1, 1),
	}
	timeout := timeoutFlag(c)
	c.Flags().StringVar(&data.Role, "role", "", "its role: @`role` reaches it")
	c.Flags().StringSliceVar(&data.Caps, "cap", nil, "a `capability`: @capability reaches it; may be repeated")
	c.Flags().IntVar(&data.Slots, "slots", 0, "how `many` tasks it may have in hand at once (default 1)")
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		id, err := protocol.ParseAgentID(args[0])
		if err != nil {
			return err
		}
		if id.Reserved() {
			return usageError("%s is reserved; choose another id", protocol.Quote(args[0]))
		}
		if data.Slots < 0 {
			return usageError("--slots %d: write how many tasks it may have in hand, 1 or more", data.Slots)
		}
		data.Agent = id
		// The command sets everything, so what was not named is sent as it is.
		if m, err := findMember(disk, args[0]); err == nil {
			if !c.Flags().Changed("role") {
				data.Role = m.Role
			}
			if !c.Flags().Changed("cap") {
				data.Caps = m.Caps
			}
			if !c.Flags().Changed("slots") {
				data.Slots = m.Slots
			}
		}
		return a.command(c.Context(), disk, "agent-add", data, *timeout, string(id)+" is on the roster; it sends from "+protocol.OutboxDir(id)+"/")
	})
	return c
}

func (a *app) agentSlots() *cobra.Command {
	c := &cobra.Command{
		Use:   "slots N [ID]",
		Short: "Says how many tasks an agent takes in hand for now; 0: none",
		Long:  "Says how many tasks an agent takes in hand at once from now on, this one where none is named. It holds until it is said again, or until `hived agent add` sets the agent's place in the roster. With 0 it is offered nothing.",
		Args:  argCount(1, 2),
	}
	timeout := timeoutFlag(c)
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 0 || n > protocol.SlotsMost {
			return usageError("slots %s: write how many tasks it takes in hand, 0 to %d", protocol.Quote(args[0]), protocol.SlotsMost)
		}
		data, who := map[string]any{"slots": n}, "this agent"
		if len(args) > 1 {
			m, err := findMember(disk, args[1])
			if err != nil {
				return err
			}
			data["agent"], who = m.ID, string(m.ID)
		}
		return a.command(c.Context(), disk, "agent-slots", data, *timeout, fmt.Sprintf("%s takes %d tasks in hand for now", who, n))
	})
	return c
}

// agentVerb makes a command about one agent that takes only its id.
func (a *app) agentVerb(name, short, done string) *cobra.Command {
	c := &cobra.Command{Use: name + " ID", Short: short, Args: argCount(1, 1), ValidArgsFunction: a.completeAgents}
	timeout := timeoutFlag(c)
	c.RunE = a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
		m, err := findMember(disk, args[0])
		if err != nil {
			return err
		}
		return a.command(c.Context(), disk, "agent-"+name, commandData{Agent: m.ID}, *timeout, string(m.ID)+" "+done)
	})
	return c
}

func (a *app) agentList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Lists all agents with role, capabilities and status",
		Args:  argCount(0, 0),
		RunE: a.withHive(func(_ *cobra.Command, _ []string, disk *durable.Disk) error {
			list, err := agent.Roster(disk)
			if err != nil {
				return err
			}
			return a.answer(list, func(p *printer) {
				rows := [][]string{{"AGENT", "STATUS", "ROLE", "CAPABILITIES"}}
				for _, m := range list {
					rows = append(rows, []string{string(m.ID) + leadMark(m.Lead), m.Status, orDash(m.Role), orDash(strings.Join(m.Caps, ","))})
				}
				p.table(rows)
			})
		}),
	}
}

// leadMark returns the mark of the lead, or nothing.
func leadMark(lead bool) string {
	if lead {
		return "*"
	}
	return ""
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return protocol.Visible(s)
}

// memberJSON is what `agent show` prints.
type memberJSON struct {
	agent.Member

	Unread  int       `json:"unread"`
	Pending int       `json:"pending"` // in the outbox
	Alive   time.Time `json:"alive_at,omitzero"`
}

func (a *app) agentShow() *cobra.Command {
	return &cobra.Command{
		Use:               "show ID",
		Short:             "Shows one agent and what waits for it and from it",
		Args:              argCount(1, 1),
		ValidArgsFunction: a.completeAgents,
		RunE: a.withHive(func(_ *cobra.Command, args []string, disk *durable.Disk) error {
			m, err := findMember(disk, args[0])
			if err != nil {
				return err
			}
			out := memberJSON{Member: m}
			if out.Unread, out.Pending, err = countWaiting(disk, m.ID); err != nil {
				return err
			}
			if info, err := disk.Lstat(protocol.AgentDir(m.ID) + "/alive"); err == nil {
				out.Alive = info.ModTime
			}
			return a.answer(out, func(p *printer) {
				p.table([][]string{
					{"agent:", string(m.ID)},
					{"status:", m.Status},
					{"lead:", map[bool]string{true: "yes", false: "no"}[m.Lead]},
					{"role:", orDash(m.Role)},
					{"capabilities:", orDash(strings.Join(m.Caps, ", "))},
					{"slots:", slotsText(m)},
					{"joined:", orDash(m.Joined)},
					{"unread:", digits(out.Unread)},
					{"waiting in its outbox:", digits(out.Pending)},
					{"alive:", timeText(out.Alive)},
				})
			})
		}),
	}
}

// slotsText returns how many tasks an agent may have in hand at once.
func slotsText(m agent.Member) string {
	if m.Takes == nil {
		return digits(max(1, m.Slots))
	}
	return fmt.Sprintf("%d for now, of %d", *m.Takes, max(1, m.Slots))
}

// countWaiting counts the messages that wait for an agent and from it.
func countWaiting(disk durable.FS, id protocol.AgentID) (unread, pending int, err error) {
	box, err := agent.Open(disk, id)
	if err != nil {
		return 0, 0, err
	}
	in, err := box.Unread()
	if err != nil {
		return 0, 0, err
	}
	out, err := box.Pending()
	return len(in), len(out), err
}

// completeAgents completes agent ids.
func (a *app) completeAgents(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return completeIDs(a, agent.Names)
}

// completeIDs completes ids from a list read from the hive.
func completeIDs[T ~string](a *app, list func(durable.FS) ([]T, error)) ([]string, cobra.ShellCompDirective) {
	disk, err := a.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer disk.Close() //nolint:errcheck // nothing was written
	names, err := list(disk)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, string(n))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
