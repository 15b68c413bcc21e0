package router

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"time"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/failpoint"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
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
	if err := r.missingOfTasks(); err != nil {
		return err
	}
	failpoint.Hit(failpoint.Redone)
	if found.Torn != "" {
		r.alert(now, &protocol.AlertEvent{Code: protocol.CodeTornTail, Path: found.Torn, Text: "the last line of the log was torn by a crash and was set aside; it was never acknowledged"})
	}
	r.sayForeign()
	if crashed {
		r.decider.Record(now, &protocol.HiveEvent{Action: protocol.Recovered, Note: fmt.Sprintf("the daemon did not stop cleanly; %d events after seq %s were checked against the disk", redone, from)})
	}
	r.decider.Record(now, &protocol.HiveEvent{Action: protocol.Started, Note: r.cfg.Version})
	if r.state.Agents[protocol.Human] == nil {
		r.decider.Record(now, &protocol.AgentEvent{Agent: protocol.Human, Action: protocol.Joined})
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
	failpoint.Hit(failpoint.RecoveryLogged)
	if len(r.originals) > 0 { // also after a stop that was not marked
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
			p := r.placeOf(rec.Event.Seq, c)
			if p == "" {
				continue
			}
			data, err := r.dataIn(rec.Event, c)
			if err != nil {
				return err
			}
			r.putBack(debt{seq: rec.Event.Seq, data: data}, p)
		}
	}
	for p := range r.state.AllViews {
		r.putView(p)
	}
	return nil
}

// putView writes a view as it is now, where the disk does not hold that.
func (r *Router) putView(p string) {
	want, ok := r.state.View(p)
	if !ok {
		return
	}
	have, _, err := durable.ReadFile(r.disk, p, int64(len(want))+1)
	if err != nil || !bytes.Equal(have, want) {
		r.put(debt{seq: r.state.Seq, data: want}, p)
	}
}

// dataIn gives the bytes of a change, of which an event may have the git id alone.
func (r *Router) dataIn(ev protocol.Event, c protocol.Change) ([]byte, error) {
	if c.Data != nil || path.Base(c.Path) != protocol.TaskCheckpoint {
		return c.Data, nil
	}
	return r.decider.Wholes().DataIn(ev, c.Path)
}

// fill makes the checkpoint whole that comes with an event. Where that cannot be
// done its file is not written again, and nothing else is stopped.
func (r *Router) fill(ev protocol.Event) {
	if err := r.decider.Wholes().Fill(ev); err != nil {
		r.cfg.Log.Warn("cannot write a checkpoint again", slog.String("error", err.Error()))
	}
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
	if c.Op == protocol.Put && ofTask(c.Path) && r.newestOf(seq, c.Path) {
		return c.Path
	}
	a := r.state.Agents[ownerOf(c.Path)]
	if c.Op != protocol.Put || a == nil {
		return ""
	}
	name := path.Base(c.Path)
	letter, unread := a.Inbox.Get(name)
	done, handled := a.Done.Get(name)
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
		if sent, kept := a.Sent.Get(name); kept && sent.Of == seq {
			return c.Path
		}
	}
	return ""
}

// putBack writes a file that is missing; what the agent moved from its inbox
// to .done, or back, and the log does not know of yet stays there.
func (r *Router) putBack(x debt, p string) {
	if ofTask(p) {
		r.put(x, p)
		return
	}
	id, name := ownerOf(p), path.Base(p)
	for _, at := range []string{p, protocol.DoneDir(id) + "/" + name, protocol.InboxDir(id) + "/" + name} {
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
	r.putView(protocol.PathRegistry)
	files := []struct {
		path string
		want []byte
	}{{protocol.PathProtocol, r.guide}}
	if r.state.ViewsAreFiles() {
		files = append(files, struct {
			path string
			want []byte
		}{protocol.PathRegistry, r.state.Registry()})
	}
	for _, f := range files {
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
	swept := map[string]bool{}
	views := ledger.NewViews(r.state)
	for rec, err := range eventlog.Read(r.disk, eventlog.Position{Seq: from}) {
		if err != nil {
			return n, fmt.Errorf("read the log: %w", err)
		}
		views.Note(rec.Event)
		r.fill(rec.Event)
		changes, err := ledger.Changes(rec.Event)
		if err != nil {
			return n, err
		}
		r.redoEvent(rec.Event, changes)
		if e, ok := rec.Event.Body.(*protocol.HiveEvent); ok && e.Action == protocol.Swept {
			r.redoSweep(rec.Event.Seq, e.Paths, swept)
		}
		if len(changes) > 0 || ledger.ChangesView(rec.Event) != "" {
			r.mark.touched(rec.Event)
		}
		n++
	}
	for _, c := range views.Take() {
		r.put(debt{seq: r.state.Seq, data: c.Data}, c.Path)
	}
	for key, f := range r.originals {
		f.swept = swept[protocol.SentDir(key.agent)+"/"+f.as]
		r.originals[key] = f
	}
	return n, nil
}

func (r *Router) redoEvent(ev protocol.Event, changes []protocol.Change) {
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		r.redoLetters(ev, changes)
		r.expect(e.From, e.Original, filed{as: e.Sent, seq: ev.Seq})
	case *protocol.QuarantineEvent:
		r.expect(e.Agent, e.Original, filed{as: path.Base(e.Path), seq: ev.Seq})
		if e.Code == protocol.CodeAltered {
			r.redoAside(ev.Seq, e)
		}
	case *protocol.DuplicateEvent:
		r.expect(e.Agent, e.Original, filed{as: e.Sent, seq: ev.Seq})
	case *protocol.DeliveredEvent:
		r.redoLetters(ev, changes)
	case *protocol.HandledEvent:
		r.redoHandled(ev, e)
	case *protocol.AlertEvent:
		if e.Code == protocol.CodeAltered {
			r.redoAltered(e)
		}
	case *protocol.TaskEvent, *protocol.FileEvent:
		r.redoTask(ev.Seq, changes)
	case *protocol.AgentEvent:
		if e.Action == protocol.InboxPutBack {
			r.refillFor(e.Agent)
		}
	case *protocol.HiveEvent, *protocol.DropEvent, *protocol.TaskRejectedEvent:
	}
}

// redoAside moves what was set aside out of an inbox once more: its bytes are in
// the event.
func (r *Router) redoAside(seq protocol.Seq, e *protocol.QuarantineEvent) {
	a := r.state.Agents[e.Agent]
	if a == nil || e.Content == nil || !kept(a, e.Path) {
		return
	}
	r.put(debt{seq: seq, data: e.Content.Bytes()}, e.Path)
	inbox := protocol.InboxDir(e.Agent) + "/" + decide.AsideFile(path.Base(e.Path))
	have, _, err := durable.ReadFile(r.disk, inbox, r.cfg.Settings.MaxMessageBytes)
	if err == nil && bytes.Equal(have, e.Content.Bytes()) {
		r.forgetFile(inbox)
	}
}

// redoAltered writes the message again that stood under the name of what was set
// aside: it may be older than the mark, and would count as deleted.
func (r *Router) redoAltered(e *protocol.AlertEvent) {
	file := path.Base(e.Path)
	if _, unread := r.letter(e.Agent, file); unread {
		r.altered(e.Agent, file)
	}
}

func (r *Router) redoLetters(ev protocol.Event, changes []protocol.Change) {
	for _, c := range lettersOf(ev, changes) {
		r.redoLetter(debt{seq: ev.Seq, agent: ownerOf(c.Path), file: path.Base(c.Path), data: c.Data}, c.Path)
	}
}

// redoLetter delivers again what is unread and missing or damaged. Where the
// agent has moved it to .done meanwhile, it stays there.
func (r *Router) redoLetter(x debt, p string) {
	if _, err := r.boxes.Ensure(x.agent); err != nil {
		r.owe(x, p, err)
		return
	}
	_, handled := r.state.Agents[x.agent].Done.Get(x.file)
	_, unread := r.letter(x.agent, x.file)
	switch {
	case handled:
		r.put(debt{seq: x.seq, data: x.data}, protocol.DoneDir(x.agent)+"/"+x.file)
		r.forgetFile(p)
	case unread:
		r.deliver(x, p)
	}
}

// redoHandled repeats an agent's own move of a message, which no one synced,
// and what was written again because its agent had changed it.
func (r *Router) redoHandled(ev protocol.Event, e *protocol.HandledEvent) {
	a := r.state.Agents[e.Agent]
	if a == nil {
		return
	}
	inbox, done := protocol.InboxDir(e.Agent)+"/"+e.File, protocol.DoneDir(e.Agent)+"/"+e.File
	l, isDone := a.Done.Get(e.File)
	_, isUnread := a.Inbox.Get(e.File)
	var err error
	switch {
	case isDone:
		err = r.boxes.Move(inbox, done)
		r.asDelivered(e.Agent, e.File, l)
	case isUnread && e.How == protocol.HowUndeleted:
		r.deliver(debt{seq: ev.Seq, agent: e.Agent, file: e.File, data: e.Content.Bytes()}, inbox)
	case !isUnread && e.How == protocol.HowDeleted:
		// A power cut can have brought it back, and its agent moved it since.
		err = errors.Join(r.boxes.Remove(inbox), r.boxes.Remove(done))
	}
	if err != nil && !isNotExist(err) {
		r.cfg.Log.Warn("cannot redo", slog.String("path", inbox), slog.String("error", err.Error()))
	}
}

// redoSweep removes again what a sweep took out of .sent and .done, and notes
// it. The file may have come back where it was before: in the inbox, if the
// agent's move is lost, or in the outbox, which shows when it is found there.
func (r *Router) redoSweep(seq protocol.Seq, paths []string, swept map[string]bool) {
	for _, p := range paths {
		id, name := ownerOf(p), path.Base(p)
		if ofTask(p) {
			r.sweepFile(debt{seq: seq, swept: true}, p)
			continue
		}
		a := r.state.Agents[id]
		switch {
		case a == nil:
			continue
		case kept(a, p):
			r.redoReused(seq, p)
			continue
		}
		r.sweepFile(debt{seq: seq, swept: true}, p)
		swept[p] = true
		if _, unread := a.Inbox.Get(name); path.Dir(p) == protocol.DoneDir(id) && !unread {
			r.sweepFile(debt{seq: seq, swept: true}, protocol.InboxDir(id)+"/"+name)
		}
	}
}

// redoReused removes a swept file that a power cut brought back, and under whose
// name another was archived since: it would be taken for a message that nobody
// has read, and be sent once more.
func (r *Router) redoReused(seq protocol.Seq, p string) {
	have, _, err := durable.ReadFile(r.disk, p, r.cfg.Settings.MaxMessageBytes)
	now, failed := r.archivedBy(p)
	if err != nil || failed != nil || puts(now, p, have) {
		return
	}
	for rec, err := range eventlog.Read(r.disk, eventlog.Position{}) {
		if err != nil || rec.Event.Seq >= seq {
			return
		}
		if puts(rec.Event, p, have) {
			r.forgetFile(p)
			return
		}
	}
}

// puts tells whether an event gives a file these bytes.
func puts(ev protocol.Event, p string, data []byte) bool {
	changes, err := ledger.Changes(ev)
	return err == nil && slices.ContainsFunc(changes, func(c protocol.Change) bool {
		return c.Op == protocol.Put && c.Path == p && bytes.Equal(c.Data, data)
	})
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
	r.originals[originalFile(id, *o)] = f
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
				key := originalFile(id, x.Original)
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

// stillThere archives those of the expected originals that stand in their
// outboxes and are not handed out: what is not a message has to rest first, and
// that of an agent on hold waits. It gives those that cannot be archived now,
// which is done when they are found again.
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
			for key, f := range r.originals {
				if key.agent == id && key.file.Ino == info.Ino && key.file.Name == protocol.SafeName(e.Name) && r.untouched(protocol.OutboxDir(id)+"/"+e.Name, info, key, f) {
					raw, _ := r.rawOf(f.seq)
					r.archive(key, protocol.Arrival{Agent: id, Name: e.Name, Original: key.file, Raw: raw, Size: info.Size}, f)
					_, there[key] = r.originals[key]
				}
			}
		}
	}
	return there
}

// untouched tells whether a file that has the name and the inode of an original
// is that still. One of which a power cut left a part is removed: its writer had
// not synced it, but it was accepted, and the log has it whole. Left in its
// outbox it would be called broken, or be sent again.
func (r *Router) untouched(name string, info durable.Info, key original, f filed) bool {
	if !info.Regular() || info.Size > r.cfg.Settings.MaxMessageBytes {
		return protocol.Stamp(info.ModTime) == key.file.MTime
	}
	data, _, err := durable.ReadFile(r.disk, name, r.cfg.Settings.MaxMessageBytes)
	if err != nil {
		return true
	}
	sum := sha256.Sum256(data)
	if protocol.Stamp(info.ModTime) == key.file.MTime && hex.EncodeToString(sum[:]) == key.file.SHA256 {
		return true
	}
	raw, err := r.rawOf(f.seq)
	left := len(bytes.Trim(data, "\x00")) == 0 || err == nil && mailbox.Torn(data, raw)
	return left && r.boxes.Remove(name) != nil
}

// rawOf gives the bytes that an event took out of an outbox, none where they
// were not read.
func (r *Router) rawOf(seq protocol.Seq) ([]byte, error) {
	ev, err := r.readEvent(seq)
	if err != nil {
		return nil, err
	}
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		return []byte(e.Raw), nil
	case *protocol.DuplicateEvent:
		return []byte(e.Raw), nil
	case *protocol.QuarantineEvent:
		if e.Content != nil {
			return e.Content.Bytes(), nil
		}
		return nil, nil
	case *protocol.HiveEvent, *protocol.AgentEvent, *protocol.DropEvent, *protocol.HandledEvent, *protocol.DeliveredEvent, *protocol.FileEvent, *protocol.TaskEvent, *protocol.TaskRejectedEvent, *protocol.AlertEvent:
	}
	return nil, ledger.ErrNoEvent
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
	case *protocol.HiveEvent, *protocol.AgentEvent, *protocol.DropEvent, *protocol.HandledEvent, *protocol.DeliveredEvent, *protocol.FileEvent, *protocol.TaskEvent, *protocol.TaskRejectedEvent, *protocol.AlertEvent:
	}
}

func (r *Router) sentAgain(id protocol.AgentID, o *protocol.Original, as string, raw []byte, unsettled map[original]bool) {
	a := r.state.Agents[id]
	if a == nil || o == nil {
		return
	}
	key := originalFile(id, *o)
	if _, still := r.originals[key]; !still || unsettled[key] {
		return // it was found in its outbox and moved, or will be
	}
	delete(r.originals, key)
	if _, kept := a.Sent.Get(as); kept {
		x := protocol.Arrival{Agent: id, Name: o.Name, Original: *o, Raw: raw, Size: int64(len(raw))}
		if err := r.boxes.Archive(x, as); err != nil {
			r.cfg.Log.Warn("cannot redo", slog.String("path", protocol.SentDir(id)+"/"+as), slog.String("error", err.Error()))
		}
	}
}
