package router

import (
	"cmp"
	"slices"
	"time"

	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/protocol"
)

// sweepEvery is how often retention is looked at.
const sweepEvery = time.Minute

// sweep takes old files out of .sent/ and .done/ (spec §6, retention). Log and
// history keep them, so nothing is swept that history does not hold yet.
func (r *Router) sweep(now time.Time) {
	if now.Sub(r.swept).Abs() < sweepEvery {
		return
	}
	r.swept = now
	if r.git == nil {
		return
	}
	head, _ := r.git.standing()
	if head < r.state.Settled || len(r.debts) > 0 || len(r.originals) > 0 {
		return
	}
	old := now.Add(-sweepEvery) // committed since long
	for _, a := range r.state.Roster() {
		done := make(map[string]time.Time, len(a.Done))
		for name, l := range a.Done {
			done[name] = l.At
		}
		r.sweepBox(now, old, protocol.DoneDir(a.ID), done)
		sent := make(map[string]time.Time, len(a.Sent))
		for name, o := range a.Sent {
			sent[name] = o.At
		}
		r.sweepBox(now, old, protocol.SentDir(a.ID), sent)
	}
}

func (r *Router) sweepBox(now, old time.Time, dir string, files map[string]time.Time) {
	paths := Expired(r.cfg.Settings.Retention, now, files)
	paths = slices.DeleteFunc(paths, func(name string) bool { return files[name].After(old) })
	for part := range slices.Chunk(paths, 256) {
		for i := range part {
			part[i] = dir + "/" + part[i]
		}
		r.decider.Hive(now, &protocol.HiveEvent{Action: protocol.Swept, Paths: part})
	}
}

// takenAway notices what agents and people removed from .done/ and .sent/
// themselves, and records it like a sweep, so that the versioned tree is again
// what stands on the disk. Two looks have to agree, and while a person has moved
// the branch nothing is concluded.
func (r *Router) takenAway(now time.Time) {
	if r.git == nil || !r.branchIsOurs() {
		clear(r.missing)
		return
	}
	missing := map[string]bool{}
	for _, a := range r.state.Roster() {
		done := make(map[string]protocol.Seq, len(a.Done))
		for name, l := range a.Done {
			done[name] = l.Of
		}
		r.lookInto(protocol.DoneDir(a.ID), done, missing)
		sent := make(map[string]protocol.Seq, len(a.Sent))
		for name, o := range a.Sent {
			sent[name] = o.Of
		}
		r.lookInto(protocol.SentDir(a.ID), sent, missing)
	}
	var gone []string
	for p := range missing {
		if r.missing[p] {
			gone = append(gone, p)
			delete(missing, p)
		}
	}
	slices.Sort(gone)
	for part := range slices.Chunk(gone, 256) {
		r.decider.Hive(now, &protocol.HiveEvent{Action: protocol.Swept, Paths: part, Note: "removed by somebody else"})
	}
	r.missing = missing
}

// lookInto adds the settled files of a directory that are not there. It lists
// the directory only if its time moved since everything was there.
func (r *Router) lookInto(dir string, files map[string]protocol.Seq, missing map[string]bool) {
	info, err := r.disk.Lstat(dir)
	if err != nil || info.ModTime.Equal(r.complete[dir]) {
		return
	}
	entries, err := r.disk.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		delete(files, e.Name)
	}
	whole := true
	for name, of := range files {
		whole = false
		if of <= r.state.Settled {
			missing[dir+"/"+name] = true
		}
	}
	if whole {
		r.complete[dir] = info.ModTime
	}
}

// branchIsOurs tells whether the work tree shows hived's branch and the newest
// commit there is hived's own.
func (r *Router) branchIsOurs() bool {
	c := r.git.repo.State()
	if !c.Own() {
		return false
	}
	head, _ := r.git.standing()
	for own, err := range gitcommit.Commits(r.disk) {
		return err == nil && own.ID == c.Tip && own.Last >= head
	}
	return false
}

// Expired lists the files that retention lets go, oldest first: what is older
// than its age, and what is beyond the newest of its number.
func Expired(keep protocol.Retention, now time.Time, files map[string]time.Time) []string {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(files[b].Compare(files[a]), cmp.Compare(b, a))
	})
	n := 0
	for n < len(names) && n < keep.Files && now.Sub(files[names[n]]) <= keep.Age {
		n++
	}
	gone := names[n:]
	slices.Reverse(gone)
	return gone
}
