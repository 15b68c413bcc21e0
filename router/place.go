package router

import (
	"errors"
	"log/slog"
	"path"
	"strings"
	"time"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// letters writes what durable events deliver into the inboxes (spec §3.6). What
// the disk refuses is owed: one directory that cannot be written stops nobody
// else.
func (r *Router) letters(list []Decision) {
	var all []mailbox.Delivery
	var owed []debt // each of them, should it fail
	for _, d := range list {
		e, ok := d.Event.Body.(*protocol.MessageEvent)
		if !ok {
			continue
		}
		for _, c := range d.Changes {
			if c.Path != protocol.SentDir(e.From)+"/"+e.Sent {
				x := debt{seq: d.Event.Seq, agent: ownerOf(c.Path), file: e.File, data: c.Data}
				all = append(all, mailbox.Delivery{Agent: x.agent, File: x.file, Data: x.data})
				owed = append(owed, x)
			}
		}
	}
	for i, err := range r.boxes.DeliverAll(all) {
		if err != nil {
			r.deliver(owed[i], protocol.InboxDir(owed[i].agent)+"/"+owed[i].file)
		}
	}
}

// place makes the disk agree with one durable event whose letters are
// delivered.
func (r *Router) place(d Decision) {
	switch e := d.Event.Body.(type) {
	case *protocol.MessageEvent:
		r.file(e.From, e.Original, e.Sent, d.Event.Seq)
	case *protocol.QuarantineEvent:
		if e.Original != nil {
			r.file(e.Agent, e.Original, path.Base(e.Path), d.Event.Seq)
		}
	case *protocol.DuplicateEvent:
		r.file(e.Agent, e.Original, e.Sent, d.Event.Seq)
	case *protocol.FileEvent:
		if e.By == protocol.Hive {
			r.put(debt{seq: d.Event.Seq, data: d.Changes[0].Data}, e.Path)
		}
	case *protocol.HiveEvent:
		r.placeHive(e)
	case *protocol.AgentEvent:
		r.root.agents = true
		if a := r.agents[e.Agent]; a != nil {
			a.outbox, a.force = true, true
		}
	case *protocol.DropEvent, *protocol.HandledEvent, *protocol.AlertEvent:
	}
}

func (r *Router) placeHive(e *protocol.HiveEvent) {
	switch e.Action {
	case protocol.Swept:
		for _, p := range e.Paths {
			if err := r.boxes.Remove(p); err != nil {
				r.cfg.Log.Warn("sweep", slog.String("path", p), slog.String("error", err.Error()))
			}
		}
	case protocol.GitPaused, protocol.GitResumed:
		if r.git != nil {
			r.git.pause(e.Action == protocol.GitPaused)
		}
	case protocol.Initialised, protocol.Adopted, protocol.Started, protocol.Stopped, protocol.Recovered,
		protocol.Settled, protocol.Sealed, protocol.Repaired, protocol.Continued:
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
	if err := r.boxes.Put(p, x.data); err != nil {
		r.owe(x, p, err)
		return
	}
	delete(r.debts, p)
}

func (r *Router) owe(x debt, p string, err error) {
	if _, known := r.debts[p]; !known && !errors.Is(err, mailbox.ErrTaken) {
		r.cfg.Log.Warn("cannot place a file, it is tried again", slog.String("path", p), slog.String("error", err.Error()))
	}
	r.debts[p] = x
}

// file archives the outbox file that an event was made from. The arrivals of a
// batch stand in the order of their events.
func (r *Router) file(id protocol.AgentID, o *protocol.Original, as string, seq protocol.Seq) {
	if o == nil || len(r.arrivals) == 0 {
		return
	}
	x := r.arrivals[0]
	r.arrivals = r.arrivals[1:]
	r.archive(original{id, *o}, x, filed{as, seq})
}

// archive moves an accepted original to outbox/.sent. What cannot be moved is
// remembered, so that it is known when it is found again.
func (r *Router) archive(key original, x mailbox.Arrival, f filed) {
	if err := r.boxes.Archive(x, f.as); err != nil {
		if _, known := r.originals[key]; !known {
			r.cfg.Log.Warn("cannot archive a sent file, it is tried again", slog.String("agent", string(key.agent)), slog.String("file", key.file.Name), slog.String("error", err.Error()))
		}
		r.originals[key] = f
		return
	}
	delete(r.originals, key)
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
		return found, errNoEvent
	}
	seq, known := a.Sent[path.Base(p)]
	if !known {
		return found, errNoEvent
	}
	return r.readEvent(seq.Of)
}

// payDebts tries again what the disk refused. An inbox that had to be made
// anew is filled from the log.
func (r *Router) payDebts() {
	for _, x := range r.intruders {
		r.intruder(time.Now(), x.agent, x.file)
	}
	r.intruders = nil
	for id := range r.refills {
		delete(r.refills, id)
		r.refill(id)
	}
	for p, x := range r.debts {
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
	l, ok := a.Inbox[file]
	return l, ok
}

// refill delivers everything unread of one agent again.
func (r *Router) refill(id protocol.AgentID) {
	for file, l := range r.state.Agents[id].Inbox {
		data, err := r.dataOf(l.Of)
		if err != nil {
			r.cfg.Log.Error("cannot read a delivered message again", slog.String("seq", l.Of.String()), slog.String("error", err.Error()))
			continue
		}
		r.deliver(debt{seq: l.Of, agent: id, file: file, data: data}, protocol.InboxDir(id)+"/"+file)
	}
}

// dataOf gives the delivered bytes of the message that an event brought.
func (r *Router) dataOf(seq protocol.Seq) ([]byte, error) {
	ev, err := r.readEvent(seq)
	if err != nil {
		return nil, err
	}
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		return ledger.Delivered(ev, e)
	case *protocol.HiveEvent:
		if e.Adopted != nil {
			return e.Adopted.Content.Bytes(), nil
		}
	case *protocol.AgentEvent, *protocol.DropEvent, *protocol.QuarantineEvent, *protocol.DuplicateEvent,
		*protocol.HandledEvent, *protocol.FileEvent, *protocol.AlertEvent:
	}
	return nil, errNoEvent
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
	as, err := r.decider.AsideName(now, file)
	if err != nil {
		return
	}
	text := protocol.SafeName(file) + " in the inbox of " + string(id) + " held other bytes than hived delivered; they stand in inbox/.done/" + as + ", and the message was written again"
	if data != nil {
		r.decider.SetAside(now, id, protocol.CodeAltered, protocol.DoneDir(id)+"/"+as, text, data)
	}
	r.decider.Alert(now, &protocol.AlertEvent{Code: protocol.CodeAltered, Agent: id, Path: p, Text: text})
	if err := r.flush(now); err != nil || len(r.stuck) > 0 {
		return
	}
	if _, err := r.boxes.SetAside(id, file, as); err != nil {
		r.alerted[key] = true
		r.cfg.Log.Warn("cannot set a file aside", slog.String("path", p), slog.String("error", err.Error()))
	}
}
