package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/hived/hived/audit"
	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

type replayFlags struct {
	until  string
	into   string
	follow bool
	speed  float64
}

func (a *app) replayCommand() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay",
		Short: "Replays the log: shows the state at a point, writes its files, or shows the events again",
		Long:  "Folds the log again and shows the state at its end or at --until. It starts no agent and changes nothing in the hive.\nWith --into it writes the tree of the hive as it was; with --follow it shows the events at the pace at which they came.",
		Args:  argCount(0, 0),
		RunE: a.withHive(func(c *cobra.Command, _ []string, disk *durable.Disk) error {
			switch {
			case f.speed < 0:
				return usageError("--speed %v: write 0 or more; 0 is without pauses", f.speed)
			case f.follow && f.into != "":
				return usageError("--follow shows the log and --into writes it: give only one of them")
			case f.follow:
				return a.playBack(c.Context(), disk, f)
			}
			return a.replay(c.Context(), disk, f)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&f.until, "until", "", "end with this `SEQ or TIME` (RFC 3339)")
	flags.StringVar(&f.into, "into", "", "write the tree into this empty `directory`")
	flags.BoolVar(&f.follow, "follow", false, "show the events at the pace at which they came")
	flags.Float64Var(&f.speed, "speed", 1, "speed of --follow: 10 is ten times as fast, 0 is without pauses; no pause is longer than 5s")
	return c
}

// replay writes the tree as it was into a directory; without one it only shows
// the state.
func (a *app) replay(ctx context.Context, disk *durable.Disk, f replayFlags) error {
	end, err := parseUntil(f.until)
	if err != nil {
		return err
	}
	if f.into == "" {
		return a.showStateAt(disk, end)
	}
	r, err := audit.Replay(ctx, disk, f.into, end)
	if err != nil {
		return err
	}
	return a.answer(r, func(p *printer) {
		p.line("%s holds the hive as it was after event %d (%s): %d files, %d bytes", f.into, r.Seq, timeText(r.At), r.Files, r.Bytes)
	})
}

// showStateAt folds the log up to an end and prints the state there.
func (a *app) showStateAt(disk durable.FS, end audit.Until) error {
	state, err := audit.StateAt(disk, a.settings(disk).Remember, end)
	if err != nil {
		return err
	}
	out := struct {
		Seq        protocol.Seq `json:"seq"`
		At         time.Time    `json:"at"`
		Messages   uint64       `json:"messages"`
		Deliveries uint64       `json:"deliveries"`
		Drops      uint64       `json:"drops"`
		Handled    uint64       `json:"handled"`
		Agents     []view.Agent `json:"agents"`
	}{
		state.Seq, state.TS, state.Counts.Messages, state.Counts.Deliveries, state.Counts.Drops, state.Counts.Handled,
		view.Roster(state, nil), // what waits in an outbox is not in the log
	}
	return a.answer(out, func(p *printer) {
		p.line("after event %d (%s): %d messages accepted, %d deliveries, %d dropped, %d handled", out.Seq, timeText(out.At), out.Messages, out.Deliveries, out.Drops, out.Handled)
		rows := [][]string{{"AGENT", "STATUS", "ROLE", "UNREAD", "HANDLED", "SENT"}}
		for _, m := range out.Agents {
			rows = append(rows, []string{string(m.ID) + leadMark(m.Lead), string(m.Status), orDash(m.Role), digits(m.Unread), digits(m.Handled), digits(m.Sent)})
		}
		p.table(rows)
	})
}

// longestPause is the longest pause between two events that playBack makes.
const longestPause = 5 * time.Second

// playBack prints the events with the pauses that were between them.
func (a *app) playBack(ctx context.Context, disk durable.FS, f replayFlags) error {
	end, err := parseUntil(f.until)
	if err != nil {
		return err
	}
	var last time.Time
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err != nil {
			return err
		}
		ev := rec.Event
		if end.Before(ev) || a.out.err != nil {
			return nil
		}
		if !last.IsZero() && f.speed > 0 {
			gap := time.Duration(float64(ev.TS.Sub(last)) / f.speed)
			if pause.For(ctx, min(gap, longestPause)) != nil {
				return nil // the viewer has interrupted it
			}
		}
		last = ev.TS
		a.out.line("%s", a.eventLine(ev))
	}
	return nil
}

func parseUntil(s string) (audit.Until, error) {
	if s == "" {
		return audit.Until{}, nil
	}
	end, err := audit.ParseUntil(s)
	if err != nil {
		return end, usageError("--until %s: write a sequence number, or a time such as 2026-11-21T09:00:00Z", protocol.Quote(s))
	}
	return end, nil
}
