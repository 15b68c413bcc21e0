package router

import (
	"bytes"
	"fmt"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/protocol"
)

// recover makes the disk agree with the log from the last sync point on (spec §3,
// recovery), and logs that the daemon started.
func (r *Router) recover(found eventlog.Recovery) error {
	now := time.Now()
	crashed := r.state.Running
	from := r.state.Settled
	redone, last, err := r.place.Redo(from)
	if err != nil {
		return err
	}
	if last > 0 {
		r.sync.notePlaced(last)
	}
	failpoint.Hit(failpoint.Redone)
	if found.Torn != "" {
		r.alerts.raise(now, &protocol.AlertEvent{Code: protocol.CodeTornTail, Path: found.Torn, Text: "the last line of the log was torn by a crash and was set aside; it was never acknowledged"})
	}
	r.intake.stopSuspect(now)
	r.events.foreign()
	if crashed {
		r.decider.Record(now, &protocol.HiveEvent{Action: protocol.Recovered, Note: fmt.Sprintf("the daemon did not stop cleanly; %d events after seq %s were checked against the disk", redone, from)})
	}
	r.decider.Record(now, &protocol.HiveEvent{Action: protocol.Started, Note: r.cfg.Version})
	if r.state.Agents[protocol.Human] == nil {
		r.decider.Record(now, &protocol.AgentEvent{Agent: protocol.Human, Action: protocol.Joined})
	}
	r.writeGuide(now)
	r.own.recordDeleted(now)
	if r.git.usable() {
		r.git.Pause(r.state.GitPaused)
		r.git.CatchUp(r.state.Seq)
	}
	r.agenda.Root.Agents, r.agenda.Root.Own = true, true
	if err := r.roster(now); err != nil {
		return err
	}
	if err := r.flush(now); err != nil {
		return err
	}
	failpoint.Hit(failpoint.RecoveryLogged)
	if err := r.place.RedoOriginals(from); err != nil {
		return err
	}
	if r.git.usable() && r.git.Progress().Head < r.state.Settled {
		r.place.Restore()
	}
	return nil
}

// restoreLast places files again where the last commits found the branch moved back,
// and ends the placer.
func (r *Router) restoreLast() {
	select {
	case <-r.git.rewound:
		r.place.Restore()
	default:
	}
	r.place.Close()
}

// writeGuide writes PROTOCOL.md and registry.json where they are not what this version
// and this log make of them.
func (r *Router) writeGuide(now time.Time) {
	files := []struct {
		path string
		want []byte
	}{{protocol.PathProtocol, r.believed.guide}}
	if r.state.ViewsAreFiles() {
		files = append(files, struct {
			path string
			want []byte
		}{protocol.PathRegistry, r.state.Registry()})
	}
	for _, f := range files {
		if r.state.Files[f.path].Blob != protocol.BlobOf(f.want) {
			c := protocol.NewContent(f.want)
			r.decider.Record(now, &protocol.FileEvent{Path: f.path, By: protocol.Hive, Content: &c})
			continue
		}
		have, _, err := durable.ReadFile(r.disk, f.path, int64(len(f.want))+1)
		if err != nil || !bytes.Equal(have, f.want) {
			r.place.Put(f.path, f.want)
		}
	}
}
