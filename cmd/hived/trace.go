package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/view"
)

// life is the life of one message: everything that the log says of it.
type life struct {
	ID           protocol.MessageID      `json:"id"`
	Seq          protocol.Seq            `json:"seq"`
	At           time.Time               `json:"accepted_at"`
	From         protocol.AgentID        `json:"from"`
	To           []protocol.Address      `json:"to"`
	Act          protocol.Act            `json:"act"`
	Subject      string                  `json:"subject"`
	Conversation protocol.ConversationID `json:"conversation"`
	InReplyTo    protocol.MessageID      `json:"in_reply_to,omitzero"`
	Hops         int                     `json:"hops"`
	Commit       string                  `json:"commit,omitzero"` // the one that holds its delivery
	Delivered    []*delivery             `json:"delivered"`
	Kept         []protocol.AgentID      `json:"kept,omitzero"` // at first, for these
	Dropped      []dropLife              `json:"dropped"`
	Again        []moment                `json:"sent_again"`
	Replies      []*life                 `json:"replies"`
}

// delivery is a message in one inbox.
type delivery struct {
	To      protocol.AgentID `json:"to"`
	After   *moment          `json:"after,omitzero"` // when, after it was kept
	Handled []handling       `json:"handled"`
}

// handling is one time that a message left an inbox, or came back.
type handling struct {
	moment

	How protocol.How `json:"how"`
}

// dropLife is a message that did not reach some of those it was meant for.
type dropLife struct {
	moment
	view.Drop
}

// moment is when something happened.
type moment struct {
	Seq protocol.Seq `json:"seq"`
	At  time.Time    `json:"at"`
}

func (a *app) traceCommand() *cobra.Command {
	var mermaid bool
	c := &cobra.Command{
		Use:   "trace ID|CONVERSATION|TASK",
		Short: "Shows the life of a message, of a thread or of a task",
		Long:  "Shows the life of a message, or of all messages of a thread: when it was accepted, to whom it was delivered,\nwhen it was handled, what answered it, why it was dropped, in which commit it stands. Of a task: all that happened\nto it, and what was refused. The beginning of an id is enough where only one message or task has it, of a task the end too.",
		Args:  takes(1, 1),
		RunE: a.withHive(func(_ *cobra.Command, args []string, disk *durable.Disk) error {
			t, err := traceOf(disk, args[0])
			if err != nil {
				return err
			}
			of, err := commits(disk, t.seqs())
			if err != nil {
				a.note("the commits are missing: %s", protocol.Visible(err.Error()))
			}
			t.stands(of)
			if t.task != nil {
				return a.showTaskLife(t.task, mermaid)
			}
			if mermaid {
				a.out.mermaid(t.roots)
				return nil
			}
			return a.answer(t.roots, func(p *printer) {
				for _, l := range t.roots {
					a.tree(p, l, "", "")
				}
			})
		}),
	}
	c.Flags().BoolVar(&mermaid, "mermaid", false, "print a Mermaid diagram: a sequence of messages, or the states of a task")
	return c
}

// trace is what a name means: the threads it belongs to, and those of their
// messages that are to be shown; or a task.
type trace struct {
	bySeq map[protocol.Seq]*life
	roots []*life
	task  *taskLife
}

// traceOf finds the message, conversation or task of that name, in two readings
// of the log: one to know which it is, one to collect its events. Memory goes by
// the thread, not by the log.
func traceOf(disk durable.FS, name string) (*trace, error) {
	found, err := lookUp(disk, name)
	if err != nil {
		return nil, err
	}
	t := &trace{bySeq: map[protocol.Seq]*life{}}
	if found.task != "" {
		t.task = &taskLife{ID: found.task, Events: []taskMoment{}}
	}
	if err := eachEvent(disk, func(ev protocol.Event) error {
		t.see(ev, found)
		return nil
	}); err != nil {
		return nil, err
	}
	t.grow(found)
	return t, nil
}

// seqs lists the events whose commits are to be shown, in the order of the log.
func (t *trace) seqs() []protocol.Seq {
	var list []protocol.Seq
	for _, l := range all(t.roots) {
		list = append(list, l.Seq)
	}
	if t.task != nil {
		for _, e := range t.task.Events {
			list = append(list, e.Seq)
		}
	}
	return list
}

// stands takes the commits in.
func (t *trace) stands(of map[protocol.Seq]string) {
	for _, l := range all(t.roots) {
		l.Commit = of[l.Seq]
	}
	if t.task != nil {
		for i := range t.task.Events {
			t.task.Events[i].Commit = of[t.task.Events[i].Seq]
		}
	}
}

// target is what a name turned out to mean.
type target struct {
	conversations map[protocol.ConversationID]bool
	messages      map[protocol.Seq]bool // to begin with; empty: the whole conversation
	task          protocol.TaskID       // that and nothing else
}

// finder collects what a name may mean.
type finder struct {
	name  string
	whole bool   // it is a conversation
	exact target // messages of just that name
	begin map[protocol.MessageID]protocol.ConversationID
	seqs  map[protocol.Seq]bool // of begin
	tasks map[protocol.TaskID]bool
}

func (f *finder) see(ev protocol.Event) {
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		switch {
		case string(e.Conversation) == f.name:
			f.whole = true
		case string(e.ID) == f.name || e.File == f.name+".json" || e.File == f.name:
			f.exact.conversations[e.Conversation], f.exact.messages[ev.Seq] = true, true
		case len(f.begin) < 2 && f.name != "" && strings.HasPrefix(string(e.ID), f.name):
			f.begin[e.ID], f.seqs[ev.Seq] = e.Conversation, true
		}
	case *protocol.TaskEvent:
		if e.From == "" && len(f.tasks) < 2 && taskFits(e.Task, f.name) {
			f.tasks[e.Task] = true
		}
	}
}

// means says what it is.
func (f *finder) means() (target, error) {
	switch {
	case f.whole:
		return target{conversations: map[protocol.ConversationID]bool{protocol.ConversationID(f.name): true}}, nil
	case len(f.exact.messages) > 0:
		return f.exact, nil
	case len(f.begin)+len(f.tasks) > 1:
		return target{}, usageError("%s fits several ids; write more of it", protocol.Quote(f.name))
	}
	for _, conv := range f.begin {
		return target{conversations: map[protocol.ConversationID]bool{conv: true}, messages: f.seqs}, nil
	}
	for id := range f.tasks {
		return target{task: id}, nil
	}
	return target{}, exitWith(exitNotFound, "the log has no message, conversation or task %s; `hived log --kind message` and `hived task list` list them", protocol.Quote(f.name))
}

func newFinder(name string) *finder {
	return &finder{
		name:  name,
		exact: target{conversations: map[protocol.ConversationID]bool{}, messages: map[protocol.Seq]bool{}},
		begin: map[protocol.MessageID]protocol.ConversationID{},
		seqs:  map[protocol.Seq]bool{},
		tasks: map[protocol.TaskID]bool{},
	}
}

func lookUp(disk durable.FS, name string) (target, error) {
	f := newFinder(name)
	err := eachEvent(disk, func(ev protocol.Event) error {
		f.see(ev)
		return nil
	})
	if err != nil {
		return target{}, err
	}
	return f.means()
}

// see collects the next event if it belongs to the thread.
func (t *trace) see(ev protocol.Event, want target) {
	now := moment{ev.Seq, ev.TS}
	if t.task != nil {
		t.task.see(now, ev.Body)
		return
	}
	switch e := ev.Body.(type) {
	case *protocol.MessageEvent:
		if want.conversations[e.Conversation] {
			t.bySeq[ev.Seq] = newLife(now, e)
		}
	case *protocol.DeliveredEvent:
		if l := t.bySeq[e.Of]; l != nil {
			t.bySeq[ev.Seq] = l // what is handled is this
			l.delivered(now, e)
		}
	case *protocol.DropEvent:
		if l := t.bySeq[e.Of]; l != nil {
			l.Dropped = append(l.Dropped, dropLife{now, view.Drop{To: e.To, Reason: e.Reason, Detail: e.Detail}})
		}
	case *protocol.DuplicateEvent:
		if l := t.bySeq[e.Of]; l != nil {
			l.Again = append(l.Again, now)
		}
	case *protocol.HandledEvent:
		if l := t.bySeq[e.Of]; l != nil {
			for _, d := range l.Delivered {
				if d.To == e.Agent {
					d.Handled = append(d.Handled, handling{now, e.How})
				}
			}
		}
	}
}

func newLife(now moment, e *protocol.MessageEvent) *life {
	l := &life{
		ID: e.ID, Seq: now.Seq, At: now.At, From: e.From, To: e.To, Act: e.Act, Subject: e.Subject, Conversation: e.Conversation,
		InReplyTo: e.InReplyTo, Hops: e.Hops, Delivered: []*delivery{}, Dropped: []dropLife{}, Again: []moment{}, Replies: []*life{},
	}
	for _, id := range e.Delivered {
		l.Delivered = append(l.Delivered, &delivery{To: id, Handled: []handling{}})
	}
	if e.Kept != nil {
		l.Kept = e.Kept.To
	}
	return l
}

// delivered takes in that a message that was kept was delivered.
func (l *life) delivered(now moment, e *protocol.DeliveredEvent) {
	for _, id := range e.To {
		l.Delivered = append(l.Delivered, &delivery{To: id, After: &now, Handled: []handling{}})
	}
}

// grow hangs replies below what they answer and finds where to begin.
func (t *trace) grow(want target) {
	order := make([]*life, 0, len(t.bySeq))
	for seq, l := range t.bySeq {
		if seq == l.Seq {
			order = append(order, l)
		}
	}
	slices.SortFunc(order, func(x, y *life) int { return int(x.Seq) - int(y.Seq) }) //nolint:gosec // a log is shorter than 2^63
	newest := map[protocol.MessageID]*life{}
	for _, l := range order {
		parent := newest[l.InReplyTo]
		if parent != nil && l.InReplyTo != "" {
			parent.Replies = append(parent.Replies, l)
		}
		if want.messages[l.Seq] || len(want.messages) == 0 && parent == nil {
			t.roots = append(t.roots, l)
		}
		newest[l.ID] = l
	}
}

// tree prints a message and, below it, what became of it and what answered.
func (a *app) tree(p *printer, l *life, first, rest string) {
	title := fmt.Sprintf("%s → %s: %s", l.From, list(l.To), l.Act)
	if l.Subject != "" {
		title += " " + protocol.Quote(l.Subject)
	}
	p.line("%s%s", first, a.style.paint(bold, title))
	lines := a.stations(l)
	for i, line := range lines {
		branch := "├ "
		if i == len(lines)-1 && len(l.Replies) == 0 {
			branch = "└ "
		}
		p.line("%s%s%s", rest, branch, line)
	}
	for i, r := range l.Replies {
		if i == len(l.Replies)-1 {
			a.tree(p, r, rest+"└─ ", rest+"   ")
		} else {
			a.tree(p, r, rest+"├─ ", rest+"│  ")
		}
	}
}

// stations are the lines of what became of a message.
func (a *app) stations(l *life) []string {
	when := func(m moment) string { return a.style.paint(dim, fmt.Sprintf("%s  %6d", clock(m.At), m.Seq)) }
	accepted := fmt.Sprintf("%s  accepted as %s, %d hops", when(moment{l.Seq, l.At}), l.ID, l.Hops) + inCommit(l.Commit)
	lines := []string{accepted}
	if len(l.Kept) > 0 {
		lines = append(lines, fmt.Sprintf("%s  kept for %s: the conversation was stopped", when(moment{l.Seq, l.At}), list(l.Kept)))
	}
	for _, d := range l.Delivered {
		at := moment{l.Seq, l.At}
		if d.After != nil {
			at = *d.After
		}
		line := fmt.Sprintf("%s  delivered to %s", when(at), d.To)
		if len(d.Handled) == 0 && !d.To.Reserved() {
			line += ", unread"
		}
		lines = append(lines, line)
		for _, h := range d.Handled {
			lines = append(lines, fmt.Sprintf("%s  %s", when(h.moment), how(d.To, h.How)))
		}
	}
	for _, d := range l.Dropped {
		lines = append(lines, fmt.Sprintf("%s  %s", when(d.moment), a.style.paint(red, fmt.Sprintf("not delivered to %s: %s", list(d.To), d.Reason))+": "+protocol.Visible(d.Detail)))
	}
	for _, m := range l.Again {
		lines = append(lines, when(m)+"  sent again, and not delivered again")
	}
	return lines
}

func how(who protocol.AgentID, h protocol.How) string {
	switch h {
	case protocol.HowDone:
		return "handled by " + string(who)
	case protocol.HowDeleted:
		return "deleted by " + string(who)
	case protocol.HowReopened:
		return "reopened by " + string(who)
	case protocol.HowUndeleted:
		return "delivered again to " + string(who) + ", who had deleted it"
	}
	return string(h)
}

// all lists a message and everything below it in the order of the log.
func all(roots []*life) []*life {
	var out []*life
	for _, l := range roots {
		out = append(append(out, l), all(l.Replies)...)
	}
	slices.SortFunc(out, func(x, y *life) int { return int(x.Seq) - int(y.Seq) }) //nolint:gosec // a log is shorter than 2^63
	return slices.CompactFunc(out, func(x, y *life) bool { return x.Seq == y.Seq })
}
