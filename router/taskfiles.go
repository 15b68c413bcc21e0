package router

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
	"github.com/hived/hived/task"
)

// tasks does what is due with the tasks, and says whether more is at once. Whoever
// must be heard before is looked at in the same step: mail that waits comes before
// the end of a wait (spec §8.3).
func (r *Router) tasks(ctx context.Context, now time.Time) (more bool, err error) {
	if r.unsealed {
		return false, nil
	}
	if r.state.Format < protocol.LogFormat && r.decider.TasksDue(now) {
		if ready, err := r.newFormat(now); !ready {
			return false, err
		}
	}
	senses := decide.Senses{Pulse: r.pulse, Heard: r.heard}
	r.asked = false
	if more, err = r.decider.Tasks(now, senses); err != nil || !r.asked {
		return more, err
	}
	sent, now, err := r.outboxes(ctx, now)
	if err != nil {
		return false, err
	}
	more, err = r.decider.Tasks(now, senses)
	return more || sent, err
}

// pulse looks at an agent's alive file. Its time is on the clock of whoever touched
// it. Most are empty, and nothing but a small plain file is opened.
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

// ofTask tells whether a path is of a task's file.
func ofTask(p string) bool { return strings.HasPrefix(p, protocol.PathTasks+"/") }

// newestOf tells whether what an event wrote into a task's file is what belongs
// there.
func (r *Router) newestOf(seq protocol.Seq, p string) bool {
	id, _, _ := strings.Cut(strings.TrimPrefix(p, protocol.PathTasks+"/"), "/")
	t := r.state.Tasks.Get(protocol.TaskID(id))
	if t == nil {
		return false
	}
	return slices.Contains(t.Files(), task.File{Path: p, Seq: seq})
}

// redoTask writes the files of tasks again that a crash may have taken.
func (r *Router) redoTask(seq protocol.Seq, changes []protocol.Change) {
	for _, c := range changes {
		if ofTask(c.Path) && c.Data != nil && r.newestOf(seq, c.Path) {
			r.put(debt{seq: seq, data: c.Data}, c.Path)
		}
	}
}

// missingOfTasks writes the files of tasks again that somebody took away while no
// daemon ran.
func (r *Router) missingOfTasks() error {
	missing := map[protocol.Seq]bool{}
	for t := range r.state.Tasks.All() {
		for _, f := range t.Files() {
			if _, err := r.disk.Lstat(f.Path); f.Seq == 0 || !isNotExist(err) {
				continue
			}
			if _, view := r.state.View(f.Path); view {
				r.putView(f.Path)
				continue
			}
			missing[f.Seq] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	first := slices.Min(slices.Collect(maps.Keys(missing)))
	for rec, err := range eventlog.Read(r.disk, eventlog.Position{Seq: first - 1}) {
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if !missing[rec.Event.Seq] {
			continue
		}
		r.fill(rec.Event)
		changes, err := ledger.Changes(rec.Event)
		if err != nil {
			return err
		}
		r.redoTask(rec.Event.Seq, changes)
	}
	return nil
}

// putIn makes the directory of a task's file where it is missing.
func (r *Router) putIn(p string, data []byte) error {
	err := r.boxes.Put(p, data)
	if !isNotExist(err) || !ofTask(p) {
		return err
	}
	if err := r.boxes.MakeDir(path.Dir(p)); err != nil {
		return err
	}
	return r.boxes.Put(p, data)
}

// leave removes the directories of a task whose last file was swept, whichever
// that is: the removal of each may have to be tried again.
func (r *Router) leave(p string) {
	if !ofTask(p) {
		return
	}
	for dir := path.Dir(p); dir != protocol.PathTasks; dir = path.Dir(dir) {
		_ = r.disk.Remove(dir) // one that holds files stays
	}
}

// TaskStates counts the tasks in each state, for a status.
func TaskStates(s *ledger.State) map[string]int {
	counts := map[string]int{}
	for state, n := range s.Tasks.Stats.States {
		if n > 0 {
			counts[string(state)] = n
		}
	}
	return counts
}
