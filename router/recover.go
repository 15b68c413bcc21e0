package router

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// recover makes the disk agree with the log from the last settled mark on
// (spec §3, recovery), and logs that the daemon started.
func (r *Router) recover(found eventlog.Recovery) error {
	now := time.Now()
	crashed := r.state.Running
	from := r.state.Settled
	redone, err := r.redo(from)
	if err != nil {
		return err
	}
	if found.Torn != "" {
		r.decider.Alert(now, &protocol.AlertEvent{Code: protocol.CodeTornTail, Path: found.Torn, Text: "the last line of the log was torn by a crash and was set aside; it was never acknowledged"})
	}
	if crashed {
		r.decider.Hive(now, &protocol.HiveEvent{Action: protocol.Recovered, Note: fmt.Sprintf("the daemon did not stop cleanly; %d events after seq %s were checked against the disk", redone, from)})
	}
	r.decider.Hive(now, &protocol.HiveEvent{Action: protocol.Started, Note: r.cfg.Version})
	if r.state.Agents[protocol.Human] == nil {
		r.decider.Join(now, protocol.Human)
	}
	r.writeGuide(now)
	r.goneBelow(now, "")
	if r.git != nil {
		r.git.pause(r.state.GitPaused)
		r.git.behind(r.state.Seq)
		r.busy = r.state.Seq
	}
	r.root.agents, r.root.own = true, true
	if err := r.roster(now); err != nil {
		return err
	}
	if err := r.flush(now); err != nil {
		return err
	}
	if crashed {
		if err := r.originalsLeft(from); err != nil {
			return err
		}
	}
	if r.git != nil && r.git.head < r.state.Settled {
		return r.restore()
	}
	return nil
}

// restore puts back what the log says is in the mailboxes and the disk does
// not hold: a person who moved the branch back to an older commit took it out
// of the work tree, and nobody handled it.
func (r *Router) restore() error {
	for rec, err := range eventlog.Read(r.disk, eventlog.Position{}) {
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		changes, err := ledger.Changes(rec.Event)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if p := r.placeOf(rec.Event.Seq, c); p != "" {
				r.putBack(debt{seq: rec.Event.Seq, data: c.Data}, p)
			}
		}
	}
	return nil
}

// restoreLast is for what the last commits of a stop found out.
func (r *Router) restoreLast() error {
	select {
	case <-r.back:
		return r.restore()
	default:
		return nil
	}
}

// placeOf tells where a file that an event put into a mailbox belongs now;
// nowhere if it is gone from there.
func (r *Router) placeOf(seq protocol.Seq, c protocol.Change) string {
	a := r.state.Agents[ownerOf(c.Path)]
	if c.Op != protocol.Put || a == nil {
		return ""
	}
	name := path.Base(c.Path)
	letter, unread := a.Inbox[name]
	done, handled := a.Done[name]
	switch path.Dir(c.Path) {
	case protocol.InboxDir(a.ID):
		if unread && letter.Of == seq {
			return c.Path
		}
		if handled && done.Of == seq {
			return protocol.DoneDir(a.ID) + "/" + name
		}
	case protocol.DoneDir(a.ID):
		if handled && done.Of == seq {
			return c.Path
		}
	case protocol.SentDir(a.ID):
		if a.Sent[name].Of == seq {
			return c.Path
		}
	}
	return ""
}

// putBack writes a file that is missing; what the agent moved from its inbox
// to .done and the log does not know of yet stays there.
func (r *Router) putBack(x debt, p string) {
	id, name := ownerOf(p), path.Base(p)
	for _, at := range []string{p, protocol.DoneDir(id) + "/" + name} {
		if _, err := r.disk.Lstat(at); !isNotExist(err) {
			return
		}
	}
	if _, err := r.boxes.Ensure(id); err != nil {
		return
	}
	r.put(x, p)
}

// writeGuide refreshes PROTOCOL.md and registry.json where they are not what
// this version and this log make of them.
func (r *Router) writeGuide(now time.Time) {
	for _, f := range []struct {
		path string
		want []byte
	}{{protocol.PathProtocol, protocol.Guide(r.cfg.Settings)}, {protocol.PathRegistry, r.state.Registry()}} {
		if r.state.Files[f.path].Blob != protocol.BlobOf(f.want) {
			r.decider.File(now, f.path, protocol.Hive, f.want)
			continue
		}
		have, _, err := durable.ReadFile(r.disk, f.path, int64(len(f.want))+1)
		if err != nil || !bytes.Equal(have, f.want) {
			r.put(debt{seq: r.state.Seq, data: f.want}, f.path)
		}
	}
}

// redo places again what may have been lost since the mark. It compares bytes,
// not existence: after a power cut a file can be there and empty.
func (r *Router) redo(from protocol.Seq) (n int, err error) {
	for rec, err := range eventlog.Read(r.disk, eventlog.Position{Seq: from}) {
		if err != nil {
			return n, fmt.Errorf("read the log: %w", err)
		}
		changes, err := ledger.Changes(rec.Event)
		if err != nil {
			return n, err
		}
		r.redoEvent(rec.Event, changes)
		if len(changes) > 0 {
			r.mark.touched(rec.Event)
		}
		n++
	}
	return n, nil
}

func (r *Router) redoEvent(ev protocol.Event, changes []protocol.Change) {
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		for _, c := range changes {
			if c.Path != protocol.SentDir(e.From)+"/"+e.Sent {
				r.redoLetter(debt{seq: ev.Seq, agent: ownerOf(c.Path), file: e.File, data: c.Data}, c.Path)
			}
		}
		r.expect(e.From, e.Original, filed{e.Sent, ev.Seq})
	case *protocol.QuarantineEvent:
		r.expect(e.Agent, e.Original, filed{path.Base(e.Path), ev.Seq})
	case *protocol.DuplicateEvent:
		r.expect(e.Agent, e.Original, filed{e.Sent, ev.Seq})
	case *protocol.HandledEvent:
		r.redoHandled(e)
	case *protocol.HiveEvent:
		if e.Action == protocol.Swept {
			r.redoSweep(e.Paths)
		}
	case *protocol.AgentEvent, *protocol.DropEvent, *protocol.FileEvent, *protocol.AlertEvent:
	}
}

// redoLetter delivers again what is unread and missing or damaged. Where the
// agent has moved it to .done meanwhile, it stays there.
func (r *Router) redoLetter(x debt, p string) {
	if _, err := r.boxes.Ensure(x.agent); err != nil {
		r.owe(x, p, err)
		return
	}
	_, handled := r.state.Agents[x.agent].Done[x.file]
	_, unread := r.letter(x.agent, x.file)
	switch {
	case handled:
		r.put(debt{seq: x.seq, data: x.data}, protocol.DoneDir(x.agent)+"/"+x.file)
		r.forgetFile(p)
	case unread:
		r.deliver(x, p)
	}
}

// redoHandled repeats an agent's own move of a message, which no one synced.
func (r *Router) redoHandled(e *protocol.HandledEvent) {
	a := r.state.Agents[e.Agent]
	if a == nil {
		return
	}
	inbox, done := protocol.InboxDir(e.Agent)+"/"+e.File, protocol.DoneDir(e.Agent)+"/"+e.File
	_, isDone := a.Done[e.File]
	_, isUnread := a.Inbox[e.File]
	var err error
	switch {
	case isDone:
		err = r.boxes.Move(inbox, done)
	case !isUnread && e.How == protocol.HowDeleted:
		err = r.boxes.Remove(inbox)
	}
	if err != nil && !isNotExist(err) {
		r.cfg.Log.Warn("cannot redo", slog.String("path", inbox), slog.String("error", err.Error()))
	}
}

func (r *Router) redoSweep(paths []string) {
	for _, p := range paths {
		a := r.state.Agents[ownerOf(p)]
		if a == nil {
			continue
		}
		_, done := a.Done[path.Base(p)]
		_, sent := a.Sent[path.Base(p)]
		if !done && !sent {
			r.forgetFile(p)
		}
	}
}

func (r *Router) forgetFile(p string) {
	if err := r.boxes.Remove(p); err != nil && !isNotExist(err) {
		r.cfg.Log.Warn("cannot redo", slog.String("path", p), slog.String("error", err.Error()))
	}
}

// expect remembers an accepted original that may still stand in its outbox, so
// that it is archived and not accepted again.
func (r *Router) expect(id protocol.AgentID, o *protocol.Original, f filed) {
	if o == nil {
		return
	}
	a := r.state.Agents[id]
	if a == nil {
		return
	}
	r.originals[original{id, *o}] = f
}

// originalsLeft archives the originals that a crash left in the outboxes, and
// writes again those that it took.
func (r *Router) originalsLeft(from protocol.Seq) error {
	now := time.Now()
	for _, id := range r.order {
		for more := true; more; {
			scan, err := r.boxes.Arrivals(id, now, batchEvents)
			if err != nil {
				break
			}
			for _, x := range scan.Arrivals {
				key := original{id, x.Original}
				if f, known := r.originals[key]; known {
					r.archive(key, x, f)
				}
			}
			more = scan.More
		}
		r.boxes.Forget(id)
	}
	unsettled := r.stillThere()
	for rec, err := range eventlog.Read(r.disk, eventlog.Position{Seq: from}) {
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		r.rewriteSent(rec.Event, unsettled)
	}
	return nil
}

// stillThere gives those of the expected originals that stand in their
// outboxes but are not handed out yet: what is not a message has to rest
// first. They are archived when they are found again.
func (r *Router) stillThere() map[original]bool {
	there := map[original]bool{}
	for _, id := range r.order {
		entries, err := r.disk.ReadDir(protocol.OutboxDir(id))
		if err != nil {
			continue
		}
		for _, e := range entries {
			info, err := r.disk.Lstat(protocol.OutboxDir(id) + "/" + e.Name)
			if err != nil {
				continue
			}
			for key := range r.originals {
				if key.agent == id && key.file.Ino == info.Ino && key.file.Name == protocol.SafeName(e.Name) {
					there[key] = !r.emptied(protocol.OutboxDir(id)+"/"+e.Name, info)
				}
			}
		}
	}
	return there
}

// emptied removes an original that a power cut left without its bytes: its
// writer had not synced it, but it was accepted, and the log has it whole. Left
// in its outbox it would be called broken, and be sent again.
func (r *Router) emptied(name string, info durable.Info) bool {
	if !info.Regular() || info.Size > r.cfg.Settings.MaxMessageBytes {
		return false
	}
	data, _, err := durable.ReadFile(r.disk, name, r.cfg.Settings.MaxMessageBytes)
	if err != nil || len(bytes.Trim(data, "\x00")) > 0 {
		return false
	}
	return r.boxes.Remove(name) == nil
}

// rewriteSent makes sure that the archive holds what was accepted.
func (r *Router) rewriteSent(ev protocol.Event, unsettled map[original]bool) {
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		r.sentAgain(e.From, e.Original, e.Sent, []byte(e.Raw), unsettled)
	case *protocol.DuplicateEvent:
		r.sentAgain(e.Agent, e.Original, e.Sent, []byte(e.Raw), unsettled)
	case *protocol.QuarantineEvent:
		var raw []byte
		if e.Content != nil {
			raw = e.Content.Bytes()
		}
		r.sentAgain(e.Agent, e.Original, path.Base(e.Path), raw, unsettled)
	case *protocol.HiveEvent, *protocol.AgentEvent, *protocol.DropEvent, *protocol.HandledEvent, *protocol.FileEvent, *protocol.AlertEvent:
	}
}

func (r *Router) sentAgain(id protocol.AgentID, o *protocol.Original, as string, raw []byte, unsettled map[original]bool) {
	a := r.state.Agents[id]
	if a == nil || o == nil {
		return
	}
	key := original{id, *o}
	if _, still := r.originals[key]; !still || unsettled[key] {
		return // it was found in its outbox and moved, or will be
	}
	delete(r.originals, key)
	if _, kept := a.Sent[as]; kept {
		x := mailbox.Arrival{Agent: id, Name: o.Name, Original: *o, Raw: raw, Size: int64(len(raw))}
		if err := r.boxes.Archive(x, as); err != nil {
			r.cfg.Log.Warn("cannot redo", slog.String("path", protocol.SentDir(id)+"/"+as), slog.String("error", err.Error()))
		}
	}
}
