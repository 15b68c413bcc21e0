package decide

import (
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// Decision is one event, its changes to the versioned tree, and the outbox file that
// it takes in.
type Decision struct {
	Event   protocol.Event
	Changes []protocol.Change
	Views   []protocol.Change // on the last event of a batch: the views that the batch changed, as of this event
	Arrival *protocol.Arrival // nil if it takes in no file
}

// Decider turns what was found into events. It folds each event into the
// state at once, so that the next decision sees it. [Decider.Drain] returns the
// events, which must then be appended to the log, in order.
type Decider struct {
	state    *ledger.State
	settings protocol.Settings
	ids      *ids
	out      []Decision
	roster   bool // the roster changed since registry.json was written
	changed  *ledger.Views
	plan     *plan
	carried  int // tasks continued in this decision, or turn of timers, because others ended
	recall   Recall
	stops    stopsClock
	restored *ledger.Checkpoints // the checkpoints that patches refer to
}

// Recall reads logged events again; sequence numbers and events are in ascending
// order. Decisions depend on the log as well as on the state.
type Recall func([]protocol.Seq) ([]protocol.Event, error)

// New returns a Decider for a state that nobody else changes. Ids are drawn from
// entropy.
func New(state *ledger.State, settings protocol.Settings, entropy io.Reader, recall Recall) *Decider {
	d := &Decider{state: state, settings: settings, ids: newIDs(entropy, state.Newest), plan: newPlan(state), changed: ledger.NewViews(state), recall: recall}
	d.restored = ledger.NewCheckpoints(d.event)
	d.planAll()
	return d
}

// Drain returns the decisions since the last call. The last event carries the views
// that the batch changed; in a log of format 1 views are events themselves.
func (d *Decider) Drain(now time.Time) []Decision {
	if d.state.ViewsAreFiles() {
		d.logViews(now)
	}
	d.roster, d.plan.stale = false, nil
	out := d.out
	d.out = nil
	if len(out) > 0 {
		out[len(out)-1].Views = d.changed.Drain()
	}
	return out
}

// Pending returns the decisions that Drain has not returned yet. The caller must not
// change them.
func (d *Decider) Pending() []Decision { return d.out }

func (d *Decider) emit(now time.Time, body protocol.Body) protocol.Seq {
	ev := d.nextEvent(now, body)
	changes, err := ledger.Changes(ev)
	if err != nil {
		panic(err) // an event that was just decided is always valid
	}
	if e, ok := body.(*protocol.TaskEvent); ok && e.Checkpoint != nil {
		d.linkPatch(ev, e.Checkpoint, changes)
	}
	return d.record(ev, changes)
}

// linkPatch records in a patch the blob of the checkpoint file that it leads to, and
// caches the whole checkpoint in memory for the next patch.
func (d *Decider) linkPatch(ev protocol.Event, c *protocol.Checkpoint, changes []protocol.Change) {
	for i := range changes {
		if x := &changes[i]; c.Patch != nil && path.Base(x.Path) == protocol.TaskCheckpoint {
			x.Blob = protocol.BlobOf(x.Data)
			c.Blob = x.Blob
		}
	}
	if err := d.restored.Fill(ev); err != nil {
		panic(err) // it is whole already
	}
}

func (d *Decider) nextEvent(now time.Time, body protocol.Body) protocol.Event {
	return protocol.Event{Seq: d.state.Seq + 1, TS: now.UTC(), Body: body}
}

func (d *Decider) record(ev protocol.Event, changes []protocol.Change) protocol.Seq {
	e, aboutTask := ev.Body.(*protocol.TaskEvent)
	if aboutTask {
		d.plan.leave(d.state.Tasks.Get(e.Task))
	}
	d.state.Apply(ev)
	if aboutTask {
		d.plan.changed(e)
	}
	d.changed.Note(ev)
	d.out = append(d.out, Decision{Event: ev, Changes: changes})
	return ev.Seq
}

// setArrival records that the last event takes in a file.
func (d *Decider) setArrival(a *protocol.Arrival) { d.out[len(d.out)-1].Arrival = a }

// Arrival decides about one file of an outbox (spec §3, §4), and about the tasks that
// this affects, unless the file has to wait in the outbox. Where it answers
// [WaitForFormat] the caller seals the segment and asks again.
func (d *Decider) Arrival(now time.Time, a protocol.Arrival) (Wait, error) {
	if d.formatFor(a) > d.state.Format {
		return WaitForFormat, nil
	}
	waits, people, err := d.mustWait(now, a)
	switch {
	case err != nil:
		return NoWait, err
	case waits && people:
		return WaitWithPeople, nil
	case waits:
		return WaitAlone, nil
	}
	return NoWait, d.takeIn(now, a)
}

// takeIn decides about a file that need not wait. All its events are one decision.
func (d *Decider) takeIn(now time.Time, a protocol.Arrival) error {
	d.plan.lastHeard[a.Agent] = d.state.Tasks.Moment(now)
	first := len(d.out)
	d.carried = 0
	err := d.arrival(now, a)
	d.markAtomic(first)
	if err != nil {
		return err
	}
	d.plan.markResponsive(a.Agent)
	return d.dispatch(now)
}

// markAtomic makes the events from index first on one decision: after a crash the log
// has all of them or none.
func (d *Decider) markAtomic(first int) {
	for i := first; i < len(d.out)-1; i++ {
		d.out[i].Event.More = true
	}
}

func (d *Decider) arrival(now time.Time, a protocol.Arrival) error {
	if a.Fault != nil {
		return d.quarantine(now, a, *a.Fault, "")
	}
	m := a.Message
	content := ""
	if m.ID != "" {
		hash := protocol.ContentHash(m)
		content = hex.EncodeToString(hash[:])
		if of, seen, ok := d.state.Seen(a.Agent, m.ID); ok {
			if seen == [8]byte(hash[:]) {
				return d.duplicate(now, a, of)
			}
			detail := fmt.Sprintf("the id %s was used before, by seq %d, for a message that said something else; send it with a new id, or with none", m.ID, of)
			return d.quarantine(now, a, protocol.Fault{Code: protocol.CodeIDConflict, Detail: detail}, m.ID)
		}
	}
	return d.message(now, a, content)
}

// duplicate archives a message that was sent before, and tells its sender: ids make
// sends idempotent (spec §4.2).
func (d *Decider) duplicate(now time.Time, a protocol.Arrival, of protocol.Seq) error {
	sent, err := d.archiveName(now, a, protocol.SentName(a.Name), a.SentTaken)
	if err != nil {
		return err
	}
	d.emit(now, &protocol.DuplicateEvent{Of: of, Agent: a.Agent, ID: a.Message.ID, Sent: sent, Original: &a.Original, Raw: string(a.Raw)})
	d.setArrival(&a)
	return d.notice(now, notice{
		to: a.Agent, act: protocol.Inform, reply: a.Message.ID, code: protocol.CodeDuplicate,
		subject: "already sent",
		body:    fmt.Sprintf("Message %s was accepted before, as seq %d; nothing was delivered again. For a new message use a new id, or none.", a.Message.ID, of),
		data:    map[string]any{"of": of},
	})
}

// quarantine sets a file aside and tells its author why (spec §3.3).
func (d *Decider) quarantine(now time.Time, a protocol.Arrival, f protocol.Fault, id protocol.MessageID) error {
	as, err := d.archiveName(now, a, protocol.SentName(protocol.AsidePrefix+a.Name), a.BadTaken)
	if err != nil {
		return err
	}
	e := &protocol.QuarantineEvent{
		Agent: a.Agent, Code: f.Code, Detail: f.Detail, Path: protocol.SentDir(a.Agent) + "/" + as,
		ID: id, Size: a.Size, Line: f.Line, Column: f.Column, Original: &a.Original,
	}
	if a.Raw != nil {
		c := protocol.NewContent(a.Raw)
		e.Content = &c
	}
	// A person is told of their own file by the notice below.
	e.Told = f.Code != protocol.CodeInternalError && a.Agent != protocol.Human && d.worthTelling(now, protocol.KindQuarantine, f.Code, a.Agent)
	d.emit(now, e)
	d.setArrival(&a)
	if f.Code == protocol.CodeInternalError {
		text := fmt.Sprintf("outbox/%s of %s was set aside as %s: %s. Nothing else is stopped", a.Original.Name, a.Agent, e.Path, strings.TrimSuffix(f.Detail, "."))
		if err := d.Alert(now, &protocol.AlertEvent{Code: f.Code, Agent: a.Agent, Path: e.Path, Text: text}); err != nil {
			return err
		}
	}
	if e.Told {
		text := fmt.Sprintf("outbox/%s of %s was set aside as %s: %s. Its author is told.", a.Original.Name, a.Agent, e.Path, strings.TrimSuffix(f.Detail, "."))
		if err := d.tellTrouble(now, f.Code, a.Agent, e.Path, text); err != nil {
			return err
		}
	}
	return d.notice(now, notice{
		to: a.Agent, act: protocol.NotUnderstood, reply: id, code: f.Code,
		subject: "could not accept " + protocol.Quote(a.Original.Name),
		body:    fmt.Sprintf("outbox/%s was set aside as outbox/.sent/%s: %s.", a.Original.Name, as, strings.TrimSuffix(f.Detail, ".")),
		data:    map[string]any{"file": a.Original.Name, "moved_to": e.Path, "line": f.Line, "column": f.Column},
	})
}

// archiveName returns a free name in outbox/.sent: the wanted one, or that with an id
// (spec §3.6).
func (d *Decider) archiveName(now time.Time, a protocol.Arrival, want string, taken bool) (string, error) {
	if agent := d.state.Agents[a.Agent]; agent != nil {
		_, known := agent.Sent.Get(want)
		taken = taken || known
	}
	if !taken {
		return want, nil
	}
	id, err := d.ids.next(now)
	if err != nil {
		return "", err
	}
	ext := path.Ext(want)
	stem := strings.TrimSuffix(want, ext)
	for len(stem)+len(ext)+1+len(id.String()) > protocol.NameMax {
		_, last := utf8.DecodeLastRuneInString(stem)
		stem = stem[:len(stem)-last]
	}
	return stem + "-" + id.String() + ext, nil
}

// Stray tells an agent that a file in its outbox is not a message and never will be
// (spec §1).
func (d *Decider) Stray(now time.Time, id protocol.AgentID, s protocol.Stray) error {
	name := protocol.SafeName(s.Name)
	return d.notice(now, notice{
		to: id, act: protocol.Inform, code: s.Code,
		subject: "not sent: " + protocol.Quote(name),
		body:    fmt.Sprintf("outbox/%s is not sent: %s.", name, strings.TrimSuffix(s.Why, ".")),
		data:    map[string]any{"file": name},
	})
}

func (d *Decider) recordAgent(now time.Time, e *protocol.AgentEvent) {
	d.emit(now, e)
	if e.Action == protocol.InboxMissing {
		return // it changes neither the roster nor who has room
	}
	d.roster = true
	if e.Agent != "" {
		d.plan.updateAgent(e.Agent)
		d.plan.hand(e.Agent).lastPause = 0 // tasks may be for it now that were not before
	}
}

// Handled records that a message left an inbox or came back to it (spec §4.7).
func (d *Decider) Handled(now time.Time, id protocol.AgentID, file string, how protocol.How) {
	a := d.state.Agents[id]
	l, ok := a.Inbox.Get(file)
	if how == protocol.HowReopened {
		l, ok = a.Done.Get(file)
	}
	if ok {
		d.emit(now, &protocol.HandledEvent{Agent: id, Of: l.Of, ID: l.ID, File: file, How: how})
		d.plan.markResponsive(id)
	}
}

// Record records an event that needs no decision: about the hive as a whole, an agent
// that joined, messages missing from an inbox, or a new version of a file that is no
// message.
func (d *Decider) Record(now time.Time, body protocol.Body) {
	if e, ok := body.(*protocol.AgentEvent); ok {
		d.recordAgent(now, e)
		return
	}
	d.emit(now, body)
	if e, ok := body.(*protocol.FileEvent); ok {
		d.plan.markResponsive(e.By)
	}
}

// Alert records something that people should look at, and sends the lead, or human, a
// notice of it.
func (d *Decider) Alert(now time.Time, e *protocol.AlertEvent) error {
	e.Told = d.worthTelling(now, protocol.KindAlert, e.Code, e.Agent)
	first := len(d.out)
	text := e.Text
	e.Text += d.remedy(protocol.Human, e.Code, e.Agent)
	d.emit(now, e)
	if !e.Told {
		return nil
	}
	err := d.tellTrouble(now, e.Code, e.Agent, e.Path, text+d.remedy(d.lead(e.Agent), e.Code, e.Agent))
	d.markAtomic(first)
	return err
}

// SetAside records that a file in an inbox, which has the name of a message and other
// bytes, is moved to .done/, and alerts people. It returns the file's new name, and
// the number of the event that keeps its bytes; zero if data is nil (spec §4.7).
func (d *Decider) SetAside(now time.Time, id protocol.AgentID, file string, data []byte) (as string, seq protocol.Seq, err error) {
	fresh, err := d.ids.next(now)
	if err != nil {
		return "", 0, err
	}
	as = protocol.AsideName(fresh, file)
	text := protocol.SafeName(file) + " in the inbox of " + string(id) + " held other bytes than hived delivered; they stand in inbox/.done/" + as + ", and the message was written again"
	seq, err = d.setAside(now, id, file, protocol.DoneDir(id)+"/"+as, text, data)
	return as, seq, err
}

// setAside records all of that as one decision, so that the message is written again
// wherever a crash comes.
func (d *Decider) setAside(now time.Time, id protocol.AgentID, file, to, text string, data []byte) (seq protocol.Seq, err error) {
	first := len(d.out)
	if data != nil {
		c := protocol.NewContent(data)
		seq = d.emit(now, &protocol.QuarantineEvent{Agent: id, Code: protocol.CodeAltered, Detail: text, Path: to, Size: int64(len(data)), Content: &c})
	}
	err = d.Alert(now, &protocol.AlertEvent{Code: protocol.CodeAltered, Agent: id, Path: protocol.InboxDir(id) + "/" + file, Text: text})
	d.markAtomic(first)
	return seq, err
}
