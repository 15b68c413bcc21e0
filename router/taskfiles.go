package router

import (
	"context"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// tasks does what is due with tasks, and reports whether more is due at once. Outboxes
// that must be read before a wait may end are read in the same step: mail that is there
// comes before the end of a wait (spec §8.3).
func (r *Router) tasks(ctx context.Context, now time.Time) (more bool, err error) {
	if r.events.awaits > 0 {
		return false, nil
	}
	if r.state.Format < protocol.BasicFormat && r.decider.TasksDue(now) {
		if ready, err := r.newFormat(now, protocol.BasicFormat); !ready {
			return false, err
		}
	}
	senses := decide.Senses{Pulse: r.pulse, Heard: r.intake.heard}
	r.intake.asked = false
	if more, err = r.decider.Tasks(now, senses); err != nil || !r.intake.asked {
		return more, suspectTask(r.disk, err)
	}
	sent, now, err := r.intake.take(ctx, now)
	if err != nil {
		return false, err
	}
	more, err = r.decider.Tasks(now, senses)
	return more || sent, suspectTask(r.disk, err)
}

// pulse reads an agent's alive file. Its time is by the clock of whoever touched it.
// Most are empty; only small regular files are opened.
func (r *Router) pulse(id protocol.AgentID) decide.Pulse {
	name := protocol.AliveFile(id)
	info, err := r.disk.Lstat(name)
	if err != nil {
		return decide.Pulse{}
	}
	p := decide.Pulse{Touched: info.ModTime}
	if !info.Regular() || info.Size == 0 || info.Size > protocol.AliveMost {
		return p
	}
	if text, _, err := durable.ReadFile(r.disk, name, protocol.AliveMost); err == nil {
		p.Every = protocol.BeatOf(text)
	}
	return p
}
