package router

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
	"github.com/hived/hived/view"
)

// statusIdle is how often the status is written while nothing happens.
const statusIdle = 5 * time.Second

// report holds what the status file says.
type report struct {
	started time.Time    // when the daemon did
	at      time.Time    // when the status was written
	seq     protocol.Seq // and what it said
	lag     protocol.Seq
}

// refreshStatus writes the status file, at most once a second, where it is not true any
// more, and every [statusIdle] in any case.
func (r *Router) refreshStatus(now time.Time) {
	age := now.Sub(r.report.at).Abs()
	if age < time.Second || age < statusIdle && !r.statusChanged() {
		return
	}
	r.writeStatus(now)
}

// writeStatus writes the status file.
func (r *Router) writeStatus(now time.Time) {
	r.report.at, r.report.seq, r.report.lag = now, r.state.Seq, r.git.progress().Lag
	backlog := r.place.Backlog()
	s := view.Status{
		PID: os.Getpid(), Version: r.cfg.Version, Started: r.report.started, At: now, Seq: r.state.Seq,
		Watching: "watching", Backlog: backlog.Files + backlog.Originals, Problems: []string{},
	}
	if why := r.watch.Degraded(); why != "" {
		s.Watching = why
		s.Problems = append(s.Problems, problem(view.NotWatching, why))
	}
	if r.events.full() {
		s.Intake = "paused: the disk is full"
		s.Problems = append(s.Problems, problem(view.DiskFull, ""))
	}
	r.git.status(&s, r.state.GitPaused)
	if s.Backlog > 0 {
		s.Problems = append(s.Problems, problem(view.NotWritable, strconv.Itoa(s.Backlog)))
	}
	for _, id := range r.state.Tasks.AllStopped() {
		s.Problems = append(s.Problems, problem(view.TaskStopped, string(id)))
	}
	s.Agents = view.Roster(r.state, r.pending)
	s.Tasks, s.Held = r.state.Tasks.Stats.Counts(), r.decider.Held()
	s.NeedsYou = decide.NeedsYou(r.state, r.cfg.Settings, now)
	if err := writeStatus(r.disk, s); err != nil && !r.events.full() {
		r.cfg.Log.Warn("cannot write the status", slog.String("error", err.Error()))
	}
}

// problem returns a problem as the status file has it: a code and a value. Readers put
// it in words.
func problem(code view.ProblemCode, value string) string {
	if value == "" {
		return string(code)
	}
	return string(code) + ": " + value
}

func writeStatus(disk durable.FS, s view.Status) error {
	data, err := json.Marshal(s, jsontext.Multiline(true))
	if err != nil {
		return fmt.Errorf("write the daemon's status: %w", err)
	}
	return durable.Publish(disk, protocol.StatusFile, append(data, '\n'), 0o644, durable.Unsynced)
}

// statusChanged reports whether the status file is not true any more.
func (r *Router) statusChanged() bool {
	return r.state.Seq != r.report.seq || r.git.progress().Lag != r.report.lag || r.events.full()
}

// pending returns how many files wait in an outbox. It lists only outboxes in which
// any can.
func (r *Router) pending(id protocol.AgentID) int {
	a := r.agenda.Agents[id]
	if a != nil && !r.agenda.Unread(a) && r.state.Agents[id].Status != ledger.OnHold && !r.intake.heldBack[id] {
		return 0
	}
	return mailbox.Pending(r.disk, id)
}
