package router

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/ledger"
	"github.com/hived/hived/mailbox"
	"github.com/hived/hived/protocol"
)

// inboxes notices what left the inboxes, and what does not belong there.
func (r *Router) inboxes(now time.Time) error {
	for range r.most() {
		a := r.wants.inbox.take()
		if a == nil {
			break
		}
		a.listed = now
		if err := r.inbox(now, a); err != nil {
			return err
		}
	}
	return nil
}

func (r *Router) inbox(now time.Time, a *attention) error {
	agent := r.state.Agents[a.id]
	if agent == nil {
		return nil
	}
	expected := func(file string) bool { _, ok := agent.Inbox.Get(file); return ok }
	scan, err := r.boxes.Inbox(a.id, now, agent.Inbox.Names(), a.force)
	if err != nil {
		r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeUnreadable, Agent: a.id, Path: protocol.InboxDir(a.id), Text: err.Error()})
		return nil //nolint:nilerr // one agent's trouble stops no other
	}
	if scan.Vanished {
		return r.inboxGone(now, a)
	}
	delete(r.alerted, alertKey(protocol.CodeInboxGone, a.id, protocol.InboxDir(a.id)))
	if scan.Broken {
		r.attend(now, a.id)
	}
	r.lookAgain(a, scan.Again)
	// What the disk still refuses to take was not deleted by its agent, and what
	// was moved while it was torn was not handled.
	scan.Handled = slices.DeleteFunc(scan.Handled, func(h mailbox.Handled) bool {
		x, owed := r.debts[protocol.InboxDir(a.id)+"/"+h.File]
		return owed && (h.How == protocol.HowDeleted || r.holdsPart(protocol.DoneDir(a.id)+"/"+h.File, x.data))
	})
	var deleted []string
	for _, h := range scan.Handled {
		if h.How == protocol.HowDeleted {
			deleted = append(deleted, h.File)
		}
	}
	believe := false
	if len(deleted) > 0 {
		believe, err = r.believeDeletion(now, a, deleted)
	} else if scan.Missing == 0 {
		err = r.missing(now, a, 0)
	}
	if err != nil {
		return err
	}
	for _, h := range scan.Handled {
		switch {
		case !expected(h.File):
		case h.How == protocol.HowDone:
			r.done(now, a.id, h)
		case believe:
			r.decider.Handled(now, a.id, h.File, h.How)
		}
	}
	for _, file := range scan.Unexpected {
		r.unexpected(now, a.id, file)
	}
	if a.force {
		a.force = false // unless something there has to rest first
		r.alteredIn(now, a)
	}
	return nil
}

// holdsPart tells whether a file holds a part of what it should, and not all.
func (r *Router) holdsPart(p string, data []byte) bool {
	have, _, err := durable.ReadFile(r.disk, p, int64(len(data)))
	return err == nil && mailbox.Torn(have, data) && !bytes.Equal(have, data)
}

// done records that a message was handled. What its agent did to the copy
// before it moved it is undone: the archive holds what was delivered.
func (r *Router) done(now time.Time, id protocol.AgentID, h mailbox.Handled) {
	l, _ := r.letter(id, h.File)
	r.decider.Handled(now, id, h.File, h.How)
	r.asDelivered(id, h.File, l)
}

// asDelivered writes a handled message again of which the archive holds other
// bytes.
func (r *Router) asDelivered(id protocol.AgentID, file string, l ledger.Letter) {
	p := protocol.DoneDir(id) + "/" + file
	have, _, err := durable.ReadFile(r.disk, p, int64(l.Size))
	if err == nil && protocol.BlobOf(have) == l.Blob || isNotExist(err) {
		return
	}
	if data, err := r.dataOf(l.Of); err == nil {
		r.put(debt{seq: l.Of, data: data}, p)
	}
}

// workTree tells whether the work tree shows hived's branch and nobody's git is
// about to change that. Git changes files first, the index after them, and the
// branch last: what is missing while index.lock is held, and for as long as
// Settle after it was last seen, may be another commit's doing (spec §4.7).
func (r *Router) workTree(now time.Time) (c gitcommit.Condition, ours bool) {
	c = r.git.repo.State()
	if !c.IndexLocked.IsZero() {
		r.locked = now
	}
	return c, c.Own() && now.Sub(r.locked) >= r.cfg.Settings.Settle
}

// takenByPerson tells whether messages are gone because a person's reset,
// revert or commit took them out of the branch: then its tip does not hold
// them, though hived had committed them.
func (r *Router) takenByPerson(id protocol.AgentID, files []string) bool {
	head, _ := r.git.standing()
	for _, file := range files {
		l, _ := r.letter(id, file)
		if l.Of > head {
			continue
		}
		if _, err := gitcommit.ReadFile(r.disk, protocol.InboxDir(id)+"/"+file); isNotExist(err) {
			return true
		}
	}
	return false
}

// historyTakenBack tells whether a person moved hived's branch back to an older
// commit, which takes files out of the work tree that nobody handled.
func (r *Router) historyTakenBack() bool {
	head, _ := r.git.standing()
	for c, err := range gitcommit.Commits(r.disk) {
		return err != nil || c.Last < head
	}
	return head > 0
}

// lookBack notices that history was taken back while nothing else happens:
// files come back, and the alert makes a commit, which mends the branch. Where
// neither the branch nor the committer moved since, nothing is read again.
func (r *Router) lookBack(now time.Time) {
	if r.git == nil {
		return
	}
	head, _ := r.git.standing() // before the tip: a commit in between moves that
	c := r.git.repo.State()
	is := standing{c.Tip, head}
	if !c.Own() || is == r.whole {
		return
	}
	if !r.historyTakenBack() {
		r.whole = is
		return
	}
	r.bringBack()
	r.alert(now, &protocol.AlertEvent{Code: protocol.CodeTakenBack, Text: "hived's branch was moved back to an older commit; the commits after it are made again from the log"})
}

// bringBack restores what a person's commit or reset took away. What cannot be
// restored now is looked for again.
func (r *Router) bringBack() {
	if err := r.restore(); err != nil {
		r.cfg.Log.Error("cannot restore what a person's commit took away", slog.String("error", err.Error()))
	}
}

// inboxGone fills an inbox that vanished (spec §4.7).
func (r *Router) inboxGone(now time.Time, a *attention) error {
	if _, err := r.boxes.Ensure(a.id); err != nil {
		r.alertOnce(now, &protocol.AlertEvent{Code: protocol.CodeInboxGone, Agent: a.id, Path: protocol.InboxDir(a.id), Text: "make the inbox of " + string(a.id) + " again: " + err.Error()})
		return nil //nolint:nilerr // one agent\'s trouble stops no other
	}
	r.watch.Add(a.id)
	r.alertOnce(now, &protocol.AlertEvent{
		Code: protocol.CodeInboxGone, Agent: a.id, Path: protocol.InboxDir(a.id),
		Text: fmt.Sprintf("the inbox of %s vanished; it was made again with its %d unread messages", a.id, r.state.Agents[a.id].Inbox.Len()),
	})
	r.refillFor(a.id)
	return nil
}

// unexpected is a file in an inbox that the log knows nothing of: one that its
// agent took back out of .done, or one that somebody planted.
func (r *Router) unexpected(now time.Time, id protocol.AgentID, file string) {
	if _, ok := r.state.Agents[id].Done.Get(file); ok {
		r.decider.Handled(now, id, file, protocol.HowReopened)
		return
	}
	r.alertOnce(now, &protocol.AlertEvent{
		Code: protocol.CodePlanted, Agent: id, Path: protocol.InboxDir(id) + "/" + protocol.SafeName(file),
		Text: protocol.SafeName(file) + " in the inbox of " + string(id) + " was not delivered by hived, which does not know who wrote it; messages are sent by writing them into one's own outbox",
	})
}

// altered sets a delivered file aside that holds other bytes, and writes the
// message again (spec §4.7).
func (r *Router) altered(id protocol.AgentID, file string) {
	l, _ := r.letter(id, file)
	p := protocol.InboxDir(id) + "/" + file
	data, err := r.dataOf(l.Of)
	if err != nil {
		r.cfg.Log.Error("cannot read a delivered message again", slog.String("path", p), slog.String("error", err.Error()))
		return
	}
	r.deliver(debt{seq: l.Of, agent: id, file: file, data: data}, p)
}
