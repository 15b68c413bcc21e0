package router

import (
	"errors"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// newcomers makes the directories of agents that durable events put on the
// roster: the same events may deliver to them already.
func (r *Router) newcomers(list []decide.Decision) {
	for _, d := range list {
		if e, ok := d.Event.Body.(*protocol.AgentEvent); ok && e.Action == protocol.Joined {
			r.attend(d.Event.TS, e.Agent)
		}
	}
}

// letters writes what durable events deliver into the inboxes (spec §3.6). What
// the disk refuses is owed: one directory that cannot be written stops nobody
// else.
func (r *Router) letters(list []decide.Decision) {
	var all []mailbox.Delivery
	var owed []debt // each of them, should it fail
	for _, d := range list {
		for _, c := range lettersOf(d.Event, d.Changes) {
			x := debt{seq: d.Event.Seq, agent: ownerOf(c.Path), file: path.Base(c.Path), data: c.Data}
			all = append(all, mailbox.Delivery{Agent: x.agent, File: x.file, Data: x.data})
			owed = append(owed, x)
		}
	}
	for i, err := range r.boxes.DeliverAll(all) {
		if err != nil {
			r.deliver(owed[i], protocol.InboxDir(owed[i].agent)+"/"+owed[i].file)
		}
	}
}

// lettersOf are those changes of an event that put messages into inboxes.
func lettersOf(ev protocol.Event, changes []protocol.Change) []protocol.Change {
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		if n := len(changes); n > 0 && e.Sent != "" && changes[n-1].Path == protocol.SentDir(e.From)+"/"+e.Sent {
			return changes[:n-1]
		}
		return changes
	case *protocol.DeliveredEvent:
		return changes
	case *protocol.HandledEvent:
		if e.How == protocol.HowUndeleted {
			return changes
		}
	case *protocol.HiveEvent, *protocol.AgentEvent, *protocol.DropEvent, *protocol.QuarantineEvent, *protocol.DuplicateEvent,
		*protocol.FileEvent, *protocol.TaskEvent, *protocol.TaskRejectedEvent, *protocol.AlertEvent:
	}
	return nil
}

// originalsOf moves the outbox files that durable events were made from to
// outbox/.sent (spec §3.6). The arrivals of a batch stand in the order of their
// events.
func (r *Router) originalsOf(list []decide.Decision) {
	var all []mailbox.Filing
	var keys []original
	var files []filed
	for _, d := range list {
		var o *protocol.Original
		f := filed{seq: d.Event.Seq}
		switch e := d.Event.Body.(type) {
		case *protocol.MessageEvent:
			o, f.as = e.Original, e.Sent
		case *protocol.QuarantineEvent:
			o, f.as = e.Original, path.Base(e.Path)
		case *protocol.DuplicateEvent:
			o, f.as = e.Original, e.Sent
		case *protocol.HiveEvent, *protocol.AgentEvent, *protocol.DropEvent, *protocol.HandledEvent, *protocol.DeliveredEvent, *protocol.FileEvent, *protocol.TaskEvent, *protocol.TaskRejectedEvent, *protocol.AlertEvent:
		}
		if o == nil || len(r.arrivals) == 0 {
			continue
		}
		x := r.arrivals[0]
		r.arrivals = r.arrivals[1:]
		all = append(all, mailbox.Filing{Arrival: x, As: f.as})
		keys = append(keys, originalFile(x.Agent, *o))
		files = append(files, f)
	}
	for i, err := range r.boxes.ArchiveAll(all) {
		r.archived(keys[i], files[i], err)
	}
}

// sweepsOf removes the files that durable events let go.
func (r *Router) sweepsOf(list []decide.Decision) {
	var all []string
	var owed []debt // each of them, should it fail
	for _, d := range list {
		if e, ok := d.Event.Body.(*protocol.HiveEvent); ok && e.Action == protocol.Swept {
			all = append(all, e.Paths...)
			owed = append(owed, slices.Repeat([]debt{{seq: d.Event.Seq, swept: true}}, len(e.Paths))...)
		}
	}
	for i, err := range r.boxes.RemoveAll(all) {
		if err != nil {
			r.owe(owed[i], all[i], err)
			continue
		}
		r.leave(all[i])
	}
}

// filesOf writes hived's own files as durable events leave them: of a file that
// several of them wrote, the last version.
func (r *Router) filesOf(list []decide.Decision) {
	var all []mailbox.File
	var owed []debt // each of them, should it fail
	at := map[string]int{}
	for _, d := range list {
		for _, c := range slices.Concat(ownChanges(d), d.Views) {
			if c.Op != protocol.Put {
				continue
			}
			i, again := at[c.Path]
			if !again {
				i = len(all)
				at[c.Path] = i
				all, owed = append(all, mailbox.File{}), append(owed, debt{})
			}
			all[i] = mailbox.File{Name: c.Path, Data: c.Data}
			owed[i] = debt{seq: d.Event.Seq, data: c.Data}
		}
	}
	for i, err := range r.boxes.PutAll(all) {
		if err != nil {
			r.owe(owed[i], all[i].Name, err)
			continue
		}
		delete(r.debts, all[i].Name)
	}
}

// ownChanges are those of an event that are files of hived's own.
func ownChanges(d decide.Decision) []protocol.Change {
	switch e := d.Event.Body.(type) {
	case *protocol.FileEvent:
		if e.By == protocol.Hive {
			return d.Changes
		}
	case *protocol.TaskEvent:
		return d.Changes
	case *protocol.HiveEvent, *protocol.AgentEvent, *protocol.MessageEvent, *protocol.QuarantineEvent, *protocol.DuplicateEvent,
		*protocol.DropEvent, *protocol.HandledEvent, *protocol.DeliveredEvent, *protocol.TaskRejectedEvent, *protocol.AlertEvent:
	}
	return nil
}

// heed does what a durable event asks of the daemon, besides its files.
func (r *Router) heed(d decide.Decision) {
	switch e := d.Event.Body.(type) {
	case *protocol.HiveEvent:
		r.placeHive(e)
	case *protocol.AgentEvent:
		r.root.agents = true
		r.lookAt(e.Agent)
		if e.Action == protocol.InboxPutBack {
			r.refillFor(e.Agent)
		}
	case *protocol.FileEvent, *protocol.TaskEvent, *protocol.MessageEvent, *protocol.QuarantineEvent, *protocol.DuplicateEvent,
		*protocol.DropEvent, *protocol.HandledEvent, *protocol.DeliveredEvent, *protocol.TaskRejectedEvent, *protocol.AlertEvent:
	}
}

func (r *Router) placeHive(e *protocol.HiveEvent) {
	switch e.Action {
	case protocol.GitPaused, protocol.GitResumed:
		if r.git != nil {
			r.git.pause(e.Action == protocol.GitPaused)
		}
	case protocol.Initialised, protocol.Adopted, protocol.Started, protocol.Stopped, protocol.Recovered,
		protocol.Settled, protocol.Swept, protocol.Sealed, protocol.Repaired, protocol.Continued, protocol.ClockJumped:
	}
}

// ownerOf is the agent below whose directory a path lies.
func ownerOf(p string) protocol.AgentID {
	rest := strings.TrimPrefix(p, protocol.PathAgents+"/")
	id, _, _ := strings.Cut(rest, "/")
	return protocol.AgentID(id)
}

// deliver puts a message into an inbox, or owes it.
func (r *Router) deliver(x debt, p string) {
	err := r.boxes.Redeliver(x.agent, x.file, x.data)
	switch {
	case err == nil:
		delete(r.debts, p)
		return
	case errors.Is(err, mailbox.ErrTaken):
		r.intruders = append(r.intruders, x)
	}
	r.owe(x, p, err)
}

// put writes one of hived's own files, or owes it.
func (r *Router) put(x debt, p string) {
	if err := r.putIn(p, x.data); err != nil {
		r.owe(x, p, err)
		return
	}
	delete(r.debts, p)
}

// sweepFile removes a swept file, or owes that, unless something is to stand
// under its name again.
func (r *Router) sweepFile(x debt, p string) {
	if a := r.state.Agents[ownerOf(p)]; a != nil && kept(a, p) {
		delete(r.debts, p)
		return
	}
	if err := r.boxes.Remove(p); err != nil {
		r.owe(x, p, err)
		return
	}
	r.leave(p)
	delete(r.debts, p)
}

// kept tells whether the log has a file in .done or .sent.
func kept(a *ledger.Agent, p string) bool {
	_, done := a.Done.Get(path.Base(p))
	_, sent := a.Sent.Get(path.Base(p))
	return path.Dir(p) == protocol.DoneDir(a.ID) && done || path.Dir(p) == protocol.SentDir(a.ID) && sent
}

func (r *Router) owe(x debt, p string, err error) {
	if _, known := r.debts[p]; !known && !errors.Is(err, mailbox.ErrTaken) {
		r.cfg.Log.Warn("cannot place or remove a file, it is tried again", slog.String("path", p), slog.String("error", err.Error()))
	}
	r.debts[p] = x
}

// archive moves an accepted original to outbox/.sent, or out of the hive if
// retention has let it go since.
func (r *Router) archive(key original, x protocol.Arrival, f filed) {
	err := r.boxes.Archive(x, f.as)
	if err == nil && f.swept {
		r.sweepFile(debt{seq: f.seq, swept: true}, protocol.SentDir(x.Agent)+"/"+f.as)
	}
	r.archived(key, f, err)
}

// archived takes note of what became of an original. One that cannot be moved
// is remembered, so that it is known when it is found again.
func (r *Router) archived(key original, f filed, err error) {
	if err == nil {
		delete(r.originals, key)
		return
	}
	if _, known := r.originals[key]; !known {
		r.cfg.Log.Warn("cannot archive a sent file, it is tried again", slog.String("agent", string(key.agent)), slog.String("file", key.file.Name), slog.String("error", err.Error()))
	}
	r.originals[key] = f
}

// recheck sets right archived originals that their writers went on changing
// (spec §3.6).
func (r *Router) recheck(now time.Time) {
	for _, p := range r.boxes.Recheck(now) {
		ev, err := r.archivedBy(p)
		if err != nil {
			r.cfg.Log.Warn("cannot set an archived file right", slog.String("path", p), slog.String("error", err.Error()))
			continue
		}
		changes, err := ledger.Changes(ev)
		if err != nil {
			continue
		}
		for _, c := range changes {
			if c.Path == p {
				r.put(debt{seq: ev.Seq, data: c.Data}, p)
			}
		}
	}
}

// archivedBy finds the event that put a file into outbox/.sent.
func (r *Router) archivedBy(p string) (protocol.Event, error) {
	var found protocol.Event
	a := r.state.Agents[ownerOf(p)]
	if a == nil {
		return found, ledger.ErrNoEvent
	}
	seq, known := a.Sent.Get(path.Base(p))
	if !known {
		return found, ledger.ErrNoEvent
	}
	return r.readEvent(seq.Of)
}

// payDebts tries again what the disk refused.
func (r *Router) payDebts() {
	for _, x := range r.intruders {
		r.intruder(time.Now(), x.agent, x.file)
	}
	r.intruders = nil
	for p, x := range r.debts {
		if x.swept {
			r.sweepFile(x, p)
			continue
		}
		if x.agent != "" {
			if _, unread := r.letter(x.agent, x.file); !unread {
				delete(r.debts, p) // it was handled meanwhile
				continue
			}
			r.deliver(x, p)
			continue
		}
		r.put(x, p)
	}
}

func (r *Router) letter(id protocol.AgentID, file string) (ledger.Letter, bool) {
	a := r.state.Agents[id]
	if a == nil {
		return ledger.Letter{}, false
	}
	return a.Inbox.Get(file)
}

// dataOf gives the delivered bytes of the message that the event of a number
// brought.
func (r *Router) dataOf(seq protocol.Seq) ([]byte, error) {
	ev, err := r.readEvent(seq)
	if err != nil {
		return nil, err
	}
	return ledger.DeliveredBytes(ev)
}

// intruder sets aside what stands in an inbox under the name of a message but
// is not that message (spec §4.7). Its bytes are in the log before it moves.
func (r *Router) intruder(now time.Time, id protocol.AgentID, file string) {
	p := protocol.InboxDir(id) + "/" + file
	key := alertKey(protocol.CodeAltered, id, p)
	if r.alerted[key] {
		return // it is logged, and still cannot be moved
	}
	data, _, err := durable.ReadFile(r.disk, p, r.cfg.Settings.MaxMessageBytes)
	if err != nil && !errors.Is(err, durable.ErrNotRegular) && !errors.Is(err, durable.ErrLink) && !errors.Is(err, durable.ErrTooLarge) {
		return
	}
	if l, _ := r.letter(id, file); err == nil && protocol.BlobOf(data) == l.Blob {
		return // recovery, or its agent, has set it right since
	}
	as, err := r.decider.AsideName(now, file)
	if err != nil {
		return
	}
	text := protocol.SafeName(file) + " in the inbox of " + string(id) + " held other bytes than hived delivered; they stand in inbox/.done/" + as + ", and the message was written again"
	seq, err := r.decider.SetAside(now, id, file, protocol.DoneDir(id)+"/"+as, text, data)
	if err := errors.Join(err, r.flush(now)); err != nil || len(r.stuck) > 0 {
		return
	}
	_, err = r.boxes.SetAside(id, file, as)
	if isNotExist(err) && data != nil {
		// It was taken away in between; the log holds it, and so does .done.
		r.put(debt{seq: seq, data: data}, protocol.DoneDir(id)+"/"+as)
		return
	}
	if err != nil {
		r.alerted[key] = true
		r.cfg.Log.Warn("cannot set a file aside", slog.String("path", p), slog.String("error", err.Error()))
	}
}
