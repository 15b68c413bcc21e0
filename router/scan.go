package router

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// rescan is the pass that counts, where hints are only hints (spec §3.1).
func (r *Router) rescan() error {
	r.agenda.rescans++
	r.agenda.root.believed = true
	if r.agenda.rescans%scrubEvery == 0 {
		r.agenda.scrubAll()
	} else {
		r.agenda.scanAll()
	}
	r.agenda.allowScrub()
	r.memory.rescanned(r.state.Seq, r.state.Compact)
	if r.agenda.rescans%scrubEvery == 0 && r.git.movedBack() {
		r.place.Restore() // files; the alert makes a commit, which mends the branch
		r.alerts.raise(time.Now(), &protocol.AlertEvent{Code: protocol.CodeTakenBack, Text: "hived's branch was moved back to an older commit; the commits after it are made again from the log"})
	}
	return errors.Join(r.events.hold(), r.lock.hold())
}

// scanMoved finds out where anything moved. It reports whether somebody waits for it.
func (r *Router) scanMoved(now time.Time) (more bool) {
	q := &r.agenda.queues
	for range r.agenda.perStep() {
		a := q.moved.take()
		if a == nil {
			return false
		}
		m := r.boxes.Moved(a.id, now)
		if m.Place {
			r.attend(now, a.id)
		}
		if m.Outbox {
			r.agenda.wantOutbox(a)
		}
		if m.Inbox {
			r.agenda.wantInbox(now, a)
		}
		if m.Own {
			q.own.add(a)
		}
		if m.Any() || a.pace > 0 {
			r.schedulePoll(now, a, m.Any())
		}
	}
	return q.moved.len() > 0
}

// schedulePoll schedules polling of an agent without a working watch: often while
// things happen there, and no more than others when it is quiet.
func (r *Router) schedulePoll(now time.Time, a *attention, moved bool) {
	pace := 2 * a.pace
	switch {
	case r.watch.Watched(a.id):
		pace = 0
	case moved:
		pace = pollFast
		r.watch.AddHot(a.id)
	}
	r.agenda.poll(now, a, pace)
}

// roster notices new agents and those whose directory is gone (spec §1).
func (r *Router) roster(now time.Time) error {
	if !r.agenda.root.agents {
		return nil
	}
	r.agenda.root.agents = false
	dirs, changed, err := r.boxes.Agents(now)
	if err != nil {
		r.alerts.once(now, &protocol.AlertEvent{Code: protocol.CodeBadAgentDir, Path: protocol.PathAgents, Text: "list agents/: " + err.Error()})
		return nil //nolint:nilerr // what is there already goes on
	}
	if changed {
		r.join(now, dirs)
	}
	if len(r.agenda.agents) < len(r.state.Agents) {
		for _, id := range slices.Sorted(maps.Keys(r.state.Agents)) {
			if r.agenda.agents[id] == nil {
				r.attend(now, id)
				r.agenda.begin(id)
			}
		}
	}
	return nil
}

// join compares a new list of agents/ with the roster.
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
	for _, id := range r.agenda.order {
		if !here[id] {
			r.agenda.queues.moved.add(r.agenda.agents[id])
		}
	}
}

// attend makes the directories of an agent that are missing, and has them
// watched.
func (r *Router) attend(now time.Time, id protocol.AgentID) {
	if _, err := r.boxes.Ensure(id); err != nil {
		r.alerts.once(now, &protocol.AlertEvent{Code: protocol.CodeBadAgentDir, Agent: id, Path: protocol.AgentDir(id), Text: err.Error()})
	}
	r.watch.Add(id)
}
