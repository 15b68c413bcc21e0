package router

import (
	"errors"
	"fmt"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
	"github.com/hived/hived/router/place"
)

// attendJoined makes the directories of agents that durable events put on the roster:
// the same batch may deliver to them.
func (r *Router) attendJoined(list []decide.Decision) {
	for _, d := range list {
		if e, ok := d.Event.Body.(*protocol.AgentEvent); ok && e.Action == protocol.Joined {
			r.attend(d.Event.TS, e.Agent)
		}
	}
}

// steps returns durable decisions as they are to be placed.
func steps(list []decide.Decision) []place.Step {
	steps := make([]place.Step, len(list))
	for i, d := range list {
		steps[i] = place.Step{Event: d.Event, Placements: ledger.Placements(d.Event, d.Changes), Views: d.Views, Arrival: d.Arrival}
	}
	return steps
}

// applyControl does what a durable event asks of the daemon, besides its files.
func (r *Router) applyControl(d decide.Decision) {
	if e, ok := d.Event.Body.(*protocol.HiveEvent); ok {
		r.applyHive(e)
	}
	if e, ok := d.Event.Body.(*protocol.AgentEvent); ok {
		r.agenda.Root.Agents = true
		r.agenda.Want(e.Agent)
	}
}

// applyHive pauses and resumes commits.
func (r *Router) applyHive(e *protocol.HiveEvent) {
	switch e.Action {
	case protocol.GitPaused, protocol.GitResumed:
		if r.git.usable() {
			r.git.Pause(e.Action == protocol.GitPaused)
		}
	case protocol.Initialised, protocol.Adopted, protocol.Started, protocol.Stopped, protocol.Recovered,
		protocol.Settled, protocol.Swept, protocol.Sealed, protocol.Repaired, protocol.Continued, protocol.ClockJumped:
	}
}

// aside decides and logs for a [place.Placer].
type aside struct{ *Router }

// SetAside logs that a file, which stands in an inbox under the name of a message, is
// moved to .done, and returns its name there.
func (r aside) SetAside(now time.Time, id protocol.AgentID, file string, data []byte) (as string, err error) {
	as, _, err = r.decider.SetAside(now, id, file, data)
	if err := errors.Join(err, r.flush(now)); err != nil {
		return "", err
	}
	if len(r.events.stuck) > 0 {
		return "", fmt.Errorf("set %s of %s aside: %w", protocol.Quote(file), id, durable.ErrNoSpace)
	}
	return as, nil
}
