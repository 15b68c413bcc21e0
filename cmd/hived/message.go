package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/pause"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// parseStage parses --wait: the state of a message that ends the wait.
func parseStage(s string) (view.State, error) {
	switch s {
	case "":
		return view.Queued, nil
	case "accepted":
		return view.Accepted, nil
	case "handled":
		return view.Handled, nil
	case "reply":
		return view.Replied, nil
	}
	return "", usageError("--wait %s: %s%s", protocol.Quote(s), "it is one of accepted, handled, reply", didYouMean(s, []string{"accepted", "handled", "reply"}, "say one of them"))
}

// stageWord returns the word for the state that is waited for.
func stageWord(until view.State) string {
	if until == view.Replied {
		return "answered"
	}
	return string(until)
}

// explain adds what to do about a message where the log does not say it: the
// message was sent before, or is kept.
func explain(m *view.Message) {
	if m.Code == protocol.CodeDuplicate {
		m.Detail = fmt.Sprintf("it was accepted before, as seq %d, and nothing was delivered again; send a new message with a new id, or with none", m.Seq)
	}
	for i := range m.Dropped {
		d := &m.Dropped[i]
		if !d.Kept {
			continue
		}
		d.Detail = fmt.Sprintf("conversation %s is stopped; it is kept, and `hived continue %s` has it delivered", d.Thread, d.Thread)
		if i == len(m.Dropped)-1 {
			m.Detail = d.Detail
		}
	}
}

// notDelivered returns the error of a message that some recipient did not get, or
// nil.
func notDelivered(m *view.Message) error {
	if m.Code == "" {
		return nil
	}
	got := ""
	if len(m.Delivered) > 0 {
		got = " (delivered to " + joinNames(m.Delivered) + ")"
	}
	var all []string
	for _, d := range m.Dropped {
		all = append(all, fmt.Sprintf("not delivered to %s: %s: %s", joinNames(d.To), d.Reason, d.Detail))
	}
	if len(all) == 0 {
		all = []string{string(m.Code) + ": " + m.Detail}
	}
	return exitWith(protocol.ExitRefused, "%s%s: %s", m.ID, got, strings.Join(all, "; "))
}

// message prints, below the id of a message, the state that was waited for.
func (p *printer) message(m *view.Message, until view.State) {
	switch {
	case m.Seq == 0 || m.Code != "":
		return
	case m.Reply != nil && until == view.Replied:
		p.line("%s %s: %s", m.Reply.From, m.Reply.Act, protocol.Visible(m.Reply.Subject))
		p.body(m.Reply.Body)
	case m.State == view.Handled:
		p.line("handled by %s", joinNames(m.Handled))
	default:
		p.line("accepted as %d, delivered to %s", m.Seq, joinNames(m.Delivered))
	}
}

// joinNames joins names with commas, made safe for a terminal.
func joinNames[S ~string](names []S) string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, protocol.Visible(string(n)))
	}
	return strings.Join(out, ", ")
}

// followPoll is how often a waiting command polls the log.
const followPoll = 20 * time.Millisecond

// logPosition returns a position in the log that every future event comes after:
// the one in the status of a running daemon, else the beginning.
func logPosition(disk *durable.Disk) (eventlog.Position, error) {
	pid, runs, err := hive.Daemon(disk)
	if err != nil || !runs {
		return eventlog.Position{}, err
	}
	s, err := view.ReadStatus(disk)
	if err != nil || s.PID != pid {
		return eventlog.Position{}, nil //nolint:nilerr // it has just started
	}
	return eventlog.Position{Seq: s.Seq}, nil
}

// waitFor follows the log until the folder is done, or time is up.
func waitFor(ctx context.Context, disk durable.FS, from eventlog.Position, timeout time.Duration, f view.Folder) error {
	ctx, cancel := pause.Limit(ctx, timeout)
	defer cancel()
	return view.Wait(ctx, eventlog.Follow(ctx, disk, from, nil, followPoll), f)
}
