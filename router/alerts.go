package router

import (
	"log/slog"
	"time"

	"github.com/hived/hived/protocol"
)

// alertsMost is how many alerts that stay true are remembered.
const alertsMost = 1 << 16

// alerts brings alerts to people into the log: the loop raises its own, and other
// goroutines post theirs for the loop to raise.
type alerts struct {
	decide func(time.Time, *protocol.AlertEvent) error
	log    *slog.Logger
	posted chan *protocol.AlertEvent
	raised map[alertKey]bool // by once, and not ended yet
}

// alertKey is what an alert is about.
type alertKey struct {
	code  protocol.Code
	agent protocol.AgentID
	path  string
}

func newAlerts(log *slog.Logger, decide func(time.Time, *protocol.AlertEvent) error) alerts {
	return alerts{decide: decide, log: log, posted: make(chan *protocol.AlertEvent, 64), raised: map[alertKey]bool{}}
}

// post hands an alert to the loop, from any goroutine. One that finds no room is in
// the daemon's own log only.
func (x *alerts) post(a *protocol.AlertEvent) {
	select {
	case x.posted <- a:
	default:
		x.log.Warn("alert", slog.String("code", string(a.Code)), slog.String("text", a.Text))
	}
}

// raise records an alert. Where that fails the daemon goes on.
func (x *alerts) raise(now time.Time, a *protocol.AlertEvent) {
	if err := x.decide(now, a); err != nil {
		x.log.Error("cannot record an alert", slog.String("code", string(a.Code)), slog.String("error", err.Error()))
	}
}

// once records an alert about something that stays true, the first time only.
func (x *alerts) once(now time.Time, a *protocol.AlertEvent) {
	key := alertKey{a.Code, a.Agent, a.Path}
	if x.raised[key] {
		return
	}
	if len(x.raised) >= alertsMost {
		clear(x.raised)
	}
	x.raised[key] = true
	x.raise(now, a)
}

// ended forgets an alert of [alerts.once] whose cause is gone: the next time it is
// raised again.
func (x *alerts) ended(code protocol.Code, id protocol.AgentID, path string) {
	delete(x.raised, alertKey{code, id, path})
}

// drain records what was posted.
func (x *alerts) drain(now time.Time) {
	for {
		select {
		case a := <-x.posted:
			x.raise(now, a)
		default:
			return
		}
	}
}
