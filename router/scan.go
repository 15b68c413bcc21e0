package router

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// rescan makes everybody due for a scan, and checks what no hint is about (spec §3.1).
func (r *Router) rescan() error {
	scrub := r.agenda.Rescan()
	r.memory.Rescanned(r.state.Seq, r.state.Compact)
	if scrub && r.git.movedBack() {
		r.place.Restore() // the files; the alert makes a commit, which mends the branch
		r.alerts.raise(time.Now(), &protocol.AlertEvent{Code: protocol.CodeTakenBack, Text: "hived's branch was moved back to an older commit; the commits after it are made again from the log"})
	}
	return errors.Join(r.events.restoreDeleted(), r.lock.retake())
}

// scanMoved checks which directories of the agents due for it were modified, and makes
// scans of those due. It reports whether more agents wait.
func (r *Router) scanMoved(now time.Time) (more bool) {
	q := &r.agenda.Queues.Moved
	for range r.agenda.PerStep() {
		a := q.Take()
		if a == nil {
			return false
		}
		m := r.boxes.Moved(a.ID, now)
		if m.Place {
			r.attend(now, a.ID)
		}
		r.agenda.Moved(now, a, m)
	}
	return len(q.Waiting) > 0
}

// roster lists agents/, where that is due, for new agents and for those whose directory
// is gone (spec §1).
func (r *Router) roster(now time.Time) error {
	if !r.agenda.Root.Agents {
		return nil
	}
	r.agenda.Root.Agents = false
	dirs, changed, err := r.boxes.Agents(now)
	if err != nil {
		r.alerts.once(now, &protocol.AlertEvent{Code: protocol.CodeBadAgentDir, Path: protocol.PathAgents, Text: "list agents/: " + err.Error()})
		return nil //nolint:nilerr // the agents that are known go on
	}
	if changed {
		r.join(now, dirs)
	}
	if len(r.agenda.Agents) < len(r.state.Agents) {
		for _, id := range slices.Sorted(maps.Keys(r.state.Agents)) {
			if r.agenda.Agents[id] == nil {
				r.attend(now, id)
				r.agenda.Begin(id)
			}
		}
	}
	return nil
}

// join records agents that joined, and makes those due whose directory is missing.
func (r *Router) join(now time.Time, dirs []mailbox.AgentDir) {
	here := make(map[protocol.AgentID]bool, len(dirs))
	for _, dir := range dirs {
		here[dir.ID] = true
		switch {
		case r.state.Agents[dir.ID] != nil:
		case dir.Why != "":
			r.alerts.once(now, &protocol.AlertEvent{Code: protocol.CodeBadAgentDir, Path: protocol.PathAgents + "/" + protocol.SafeName(dir.Name), Text: protocol.SafeName(dir.Name) + " is no agent: " + dir.Why})
		default:
			r.decider.Record(now, &protocol.AgentEvent{Agent: dir.ID, Action: protocol.Joined})
		}
	}
	for _, id := range r.agenda.Order {
		if !here[id] {
			r.agenda.Queues.Moved.Add(r.agenda.Agents[id])
		}
	}
}

// attend makes the directories of an agent that are missing, and watches them.
func (c *core) attend(now time.Time, id protocol.AgentID) {
	if _, err := c.boxes.Ensure(id); err != nil {
		c.alerts.once(now, &protocol.AlertEvent{Code: protocol.CodeBadAgentDir, Agent: id, Path: protocol.AgentDir(id), Text: err.Error()})
	}
	c.watch.Add(id)
}
