package router

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// statusIdle is how often the status is written while nothing happens.
const statusIdle = 5 * time.Second

// tellStatus says how the daemon is, at most once a second.
func (r *Router) tellStatus(now time.Time) {
	age := now.Sub(r.told).Abs()
	if age < time.Second || age < statusIdle && !r.news() {
		return
	}
	r.writeStatus(now)
}

// writeStatus says how the daemon is now.
func (r *Router) writeStatus(now time.Time) {
	r.told, r.toldSeq, r.toldLag = now, r.state.Seq, r.lag()
	s := Status{
		PID: os.Getpid(), Version: r.cfg.Version, Started: r.started, At: now, Seq: r.state.Seq,
		Watching: "watching", Owed: len(r.debts) + len(r.originals), Problems: []string{},
	}
	if why := r.watch.Degraded(); why != "" {
		s.Watching = why
		s.Problems = append(s.Problems, "watching: "+why)
	}
	if r.full() {
		s.Intake = "paused: the disk is full"
		s.Problems = append(s.Problems, "the disk is full, so nothing is taken in: make room; everything goes on by itself then")
	}
	r.gitStatus(&s)
	if s.Owed > 0 {
		s.Problems = append(s.Problems, fmt.Sprintf("%d files wait for a directory that cannot be written: look at the rights of agents/*/inbox and agents/*/outbox/.sent", s.Owed))
	}
	s.Agents = Roster(r.state, r.pending)
	s.Tasks, s.Held = TaskStates(r.state), r.decider.Held()
	s.NeedsYou = decide.NeedsYou(r.state, r.cfg.Settings, now)
	if err := writeStatus(r.disk, s); err != nil && !r.full() {
		r.cfg.Log.Warn("cannot write the status", slog.String("error", err.Error()))
	}
}

// news tells whether the status that was written is not true any more.
func (r *Router) news() bool {
	return r.state.Seq != r.toldSeq || r.lag() != r.toldLag || r.full()
}

// full reports whether intake pauses until the log has room.
func (r *Router) full() bool { return len(r.stuck) > 0 || r.unsealed }

// lag is how many events git is behind. One that is worth no commit of its own
// does not count.
func (r *Router) lag() protocol.Seq {
	if r.git == nil {
		return 0
	}
	head, _ := r.git.standing()
	if head >= r.busy {
		return 0
	}
	return r.busy - head
}

func (r *Router) gitStatus(s *Status) {
	if r.git == nil {
		s.Git = r.gitErr.Error()
		s.Problems = append(s.Problems, "git: "+s.Git+"; delivery goes on, `hived repair` builds the history again from the log while no daemon runs")
		return
	}
	_, trouble := r.git.standing()
	s.GitSeq = s.Seq - r.lag()
	switch {
	case r.state.GitPaused:
		s.Git = "paused by a person: `hived git resume` lets it go on"
	case trouble != "":
		s.Git = trouble
	default:
		s.Git = r.git.repo.State().String()
	}
	if s.Git != "" {
		s.Problems = append(s.Problems, "git: "+s.Git)
	}
}

// pending counts what waits in an outbox, where anything can.
func (r *Router) pending(id protocol.AgentID) int {
	a := r.agents[id]
	if a != nil && !r.wants.outbox.has(a) && a.again.IsZero() && r.state.Agents[id].Status != ledger.OnHold && !r.heldBack[id] {
		return 0
	}
	return Pending(r.disk, id)
}
