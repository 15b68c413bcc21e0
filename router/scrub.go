package router

import (
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/agenda"
)

// scrub rereads what belongs to some agents, to find what neither a hint nor a
// directory's time shows. It reports whether it is to go on at once.
func (r *Router) scrub(now time.Time) (more bool) {
	undisturbed := sync.OnceValue(r.git.undisturbed)
	ours := sync.OnceValue(func() bool { return r.git.tipIsOurs(now) })
	var gone []string
	more = r.agenda.Scrub(func(a *agenda.Agent) (files int) {
		cost := 3 // the directories
		if undisturbed() {
			cost += r.own.scanOf(now, a)
		}
		cost += r.inboxes.altered(now, a)
		gone = append(gone, r.takenAway(now, a, ours)...)
		r.sweeper.sweepIfDue(now, a.ID)
		return cost
	})
	r.recordTaken(now, gone)
	return more
}

// takenAway returns the paths of what agents and people removed from .done/ and .sent/.
// Two scans have to agree, and while a person has moved the branch nothing is
// concluded.
func (r *Router) takenAway(now time.Time, a *agenda.Agent, ours func() bool) (gone []string) {
	if !r.git.usable() {
		return nil
	}
	agent := r.state.Agents[a.ID]
	add := func(dir string, box *ledger.Box, names []string, err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.cfg.Log.Warn("cannot check what was taken away", slog.String("error", err.Error()))
		}
		for _, name := range names {
			if l, ok := box.Get(name); ok && l.Of <= r.state.Settled && !r.place.FilePending(dir+"/"+name) {
				gone = append(gone, dir+"/"+name)
			}
		}
	}
	if agent.Done.Len() > 0 {
		names, err := r.boxes.MissingDone(a.ID, now, agent.Done.Names(), ours)
		add(protocol.DoneDir(a.ID), &agent.Done, names, err)
	}
	if agent.Sent.Len() > 0 {
		names, err := r.boxes.MissingSent(a.ID, now, agent.Sent.Names(), ours)
		add(protocol.SentDir(a.ID), &agent.Sent, names, err)
	}
	return gone
}

// recordTaken records removed files as a sweep, so that the versioned tree is again
// what is on the disk.
func (r *Router) recordTaken(now time.Time, gone []string) {
	slices.Sort(gone)
	for part := range slices.Chunk(gone, 256) {
		r.decider.Record(now, &protocol.HiveEvent{Action: protocol.Swept, Paths: part, Note: "removed by somebody else"})
	}
}
