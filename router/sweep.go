package router

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/agenda"
)

// Each agent is swept once a minute, and before that when an archive exceeds its limit
// by an eighth: the cost of a commit and of a scan depends on how many files a directory
// has. The archives of a busy agent are gone through every crowdedEvery at most.
const (
	sweepEvery   = time.Minute
	crowdedEvery = 250 * time.Millisecond
)

// crowded reports whether a directory holds too many files to wait for the minute.
func crowded(keep protocol.Retention, files int) bool {
	return files > keep.Files+max(keep.Files/8, 8)
}

// crowdedBox is crowded for an archive, in which files that were set aside are counted
// apart.
func crowdedBox(keep protocol.Retention, box *ledger.Box) bool {
	if !crowded(keep, box.Len()) {
		return false
	}
	aside := 0
	for name := range box.Names() {
		if setAside(name) {
			aside++
		}
	}
	return crowded(keep, aside) || crowded(keep, box.Len()-aside)
}

// setAside reports whether a file of .sent or .done was set aside.
func setAside(name string) bool { return strings.HasPrefix(name, protocol.AsidePrefix) }

// sweeper removes old files from .sent and .done (spec §6, retention).
type sweeper struct {
	*core
	keep     protocol.Retention
	swept    map[protocol.AgentID]time.Time // when the last regular sweep was
	relieved map[protocol.AgentID]time.Time // when the last sweep because of an exceeded limit was
}

func newSweeper(c *core) sweeper {
	return sweeper{core: c, keep: c.cfg.Settings.Retention, swept: map[protocol.AgentID]time.Time{}, relieved: map[protocol.AgentID]time.Time{}}
}

// placed queues the agents of placements whose archive exceeds its limit.
func (s *sweeper) noteCrowded(list []ledger.Placement) {
	for _, p := range list {
		if p.Class != ledger.Original && p.Class != ledger.Aside && p.Class != ledger.Handled {
			continue
		}
		a, agent := s.agenda.Agents[p.Agent], s.state.Agents[p.Agent]
		if a != nil && agent != nil && (crowded(s.keep, agent.Done.Len()) || crowded(s.keep, agent.Sent.Len())) {
			s.agenda.Queues.Crowded.Add(a)
		}
	}
}

// sweepCrowded sweeps agents whose archives exceed their limit. An agent whose files are
// not committed yet is queued again with its next file.
func (s *sweeper) sweepCrowded(now time.Time) {
	for range agenda.ScansPerStep {
		a := s.agenda.Queues.Crowded.Take()
		if a == nil {
			return
		}
		if now.Sub(s.relieved[a.ID]).Abs() < crowdedEvery {
			continue
		}
		s.relieved[a.ID] = now
		agent := s.state.Agents[a.ID]
		if crowdedBox(s.keep, &agent.Done) || crowdedBox(s.keep, &agent.Sent) {
			s.sweep(now, a.ID)
		}
	}
}

// sweepIfDue sweeps an agent whose last sweep is a minute ago.
func (s *sweeper) sweepIfDue(now time.Time, id protocol.AgentID) {
	if now.Sub(s.swept[id]).Abs() >= sweepEvery && s.sweep(now, id) {
		s.swept[id] = now
	}
}

// sweep removes an agent's old files from .sent and .done. Log and history keep them, so
// nothing is swept before it is committed. It reports whether the agent could be swept:
// not while placements of its files wait to be retried.
func (s *sweeper) sweep(now time.Time, id protocol.AgentID) bool {
	if !s.git.usable() || s.place.Pending(id) {
		return false
	}
	head := s.git.Progress().Head
	agent := s.state.Agents[id]
	s.sweepBox(now, protocol.DoneDir(id), &agent.Done, func(name string, l ledger.BoxFile) bool {
		return l.Of <= head && !s.tookBack(id, name)
	})
	s.sweepBox(now, protocol.SentDir(id), &agent.Sent, func(_ string, l ledger.BoxFile) bool { return l.Of <= head })
	return true
}

// tookBack reports whether an agent has moved a message from .done back to its
// inbox, which is not recorded before it has settled there (spec §4.7).
func (s *sweeper) tookBack(id protocol.AgentID, name string) bool {
	_, err := s.disk.Lstat(protocol.InboxDir(id) + "/" + name)
	return err == nil
}

// sweepBox removes expired files from one archive, those that may be removed.
func (s *sweeper) sweepBox(now time.Time, dir string, box *ledger.Box, may func(name string, l ledger.BoxFile) bool) {
	if !anyExpired(s.keep, now, box) {
		return
	}
	files := make(map[string]time.Time, box.Len())
	for name, l := range box.All() {
		files[name] = l.At
	}
	paths := slices.DeleteFunc(Expired(s.keep, now, files), func(name string) bool {
		l, _ := box.Get(name)
		return !may(name, l)
	})
	for part := range slices.Chunk(paths, 256) {
		for i := range part {
			part[i] = dir + "/" + part[i]
		}
		s.decider.Record(now, &protocol.HiveEvent{Action: protocol.Swept, Paths: part})
	}
}

// anyExpired reports whether [Expired] would return anything, without sorting: nearly
// all agents keep within their limits.
func anyExpired(keep protocol.Retention, now time.Time, box *ledger.Box) bool {
	if box.Len() > keep.Files {
		return true
	}
	for _, l := range box.All() {
		if now.Sub(l.At) > keep.Age {
			return true
		}
	}
	return false
}

// Expired returns the names that retention removes, the oldest first: those older than
// its age, and those beyond the newest of its number. files has the time of each name.
// Files that were set aside are counted apart: an author who was told where one is must
// find it there, however much is sent meanwhile.
func Expired(keep protocol.Retention, now time.Time, files map[string]time.Time) []string {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(files[b].Compare(files[a]), cmp.Compare(b, a))
	})
	gone := names[:0]
	var newer [2]int // sent or handled, and set aside
	for _, name := range names {
		n := &newer[0]
		if setAside(name) {
			n = &newer[1]
		}
		if *n++; *n > keep.Files || now.Sub(files[name]) > keep.Age {
			gone = append(gone, name)
		}
	}
	slices.Reverse(gone)
	return gone
}
