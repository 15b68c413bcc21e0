package router

import (
	"cmp"
	"slices"
	"time"

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
