package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
)

// stage is how far a message is to have come before waiting ends.
type stage string

const (
	stageQueued   stage = ""
	stageAccepted stage = "accepted"
	stageHandled  stage = "handled"
	stageReply    stage = "reply"
)

func parseStage(s string) (stage, error) {
	names := []string{string(stageAccepted), string(stageHandled), string(stageReply)}
	if s == "" || slices.Contains(names, s) {
		return stage(s), nil
	}
	return "", usageError("--wait %s: %s%s", protocol.Quote(s), "it is one of accepted, handled, reply", didYouMean(s, names, "say one of them"))
}

func (s stage) wanted() string {
	if s == stageReply {
		return "answered"
	}
	return string(s)
}

// fate is what became of a message: what the log says of it so far.
type fate struct {
	ID        protocol.MessageID `json:"id"`
	File      string             `json:"file"`  // in the outbox
	State     string             `json:"state"` // queued, accepted, handled, replied, refused
	Seq       protocol.Seq       `json:"seq,omitzero"`
	Delivered []protocol.AgentID `json:"delivered,omitzero"`
	Handled   []protocol.AgentID `json:"handled,omitzero"`
	Dropped   []droppedJSON      `json:"dropped,omitzero"`
	Code      string             `json:"code,omitzero"`   // of a refusal
	Detail    string             `json:"detail,omitzero"` // of a refusal: what is wrong and what to do
	Reply     *replyJSON         `json:"reply,omitzero"`

	kept  []protocol.Seq // that delivered it after it was kept
	by    protocol.AgentID
	to    []protocol.Address
	until stage
}

type droppedJSON struct {
	To     []protocol.Address `json:"to"`
	Reason protocol.Reason    `json:"reason"`
	Detail string             `json:"detail,omitzero"`
	Kept   bool               `json:"kept,omitzero"` // until somebody lets the thread go on
}

type replyJSON struct {
	ID      protocol.MessageID `json:"id"`
	From    protocol.AgentID   `json:"from"`
	Act     protocol.Act       `json:"act"`
	Subject string             `json:"subject,omitzero"`
	Body    string             `json:"body,omitzero"`
}

func newFate(by protocol.AgentID, sent agent.Sent, to []protocol.Address, until stage) *fate {
	return &fate{ID: sent.ID, File: sent.File, State: "queued", by: by, to: to, until: until}
}

// see takes the next event of the log and tells whether waiting is over.
func (f *fate) see(ev protocol.Event) bool {
	switch e := ev.Body.(type) {
	case *protocol.QuarantineEvent:
		if f.original(e.Agent, e.Original) {
			f.refuse(e.Code, e.Detail)
		}
	case *protocol.DuplicateEvent:
		if f.original(e.Agent, e.Original) {
			f.Seq = e.Of
			f.refuse(protocol.CodeDuplicate, fmt.Sprintf("it was accepted before, as seq %d, and nothing was delivered again; send a new message with a new id, or with none", e.Of))
		}
	case *protocol.MessageEvent:
		f.seeMessage(ev, e)
	case *protocol.DropEvent:
		if f.Seq > 0 && e.Of == f.Seq {
			f.Dropped = append(f.Dropped, droppedJSON{To: e.To, Reason: e.Reason, Detail: e.Detail})
			f.refuse(protocol.Code(e.Reason), e.Detail)
		}
	case *protocol.DeliveredEvent:
		if f.Seq > 0 && e.Of == f.Seq {
			f.kept = append(f.kept, ev.Seq)
		}
	case *protocol.HandledEvent:
		if f.Seq > 0 && (e.Of == f.Seq || slices.Contains(f.kept, e.Of)) && (e.How == protocol.HowDone || e.How == protocol.HowDeleted) {
			f.Handled = append(f.Handled, e.Agent)
		}
	}
	return f.over()
}

// original tells whether an event was made from the file that was sent: its
// name is like no other, whatever the id.
func (f *fate) original(by protocol.AgentID, o *protocol.Original) bool {
	return by == f.by && o != nil && o.Name == f.File
}

func (f *fate) seeMessage(ev protocol.Event, e *protocol.MessageEvent) {
	switch {
	case f.original(e.From, e.Original):
		f.Seq, f.Delivered, f.State = ev.Seq, e.Delivered, "accepted"
		if e.Kept != nil {
			f.keep(e)
		}
	case f.Seq > 0 && e.InReplyTo == f.ID && slices.Contains(e.Delivered, f.by):
		// What hive says of a message is no answer to it, unless it was asked.
		if e.From == protocol.Hive && !slices.Contains(f.to, protocol.Address(protocol.Hive)) {
			return
		}
		f.Reply = reply(e)
	}
}

// keep takes note of those who get the message only if its thread goes on.
func (f *fate) keep(e *protocol.MessageEvent) {
	to := make([]protocol.Address, len(e.Kept.To))
	for i, id := range e.Kept.To {
		to[i] = protocol.Address(id)
	}
	detail := fmt.Sprintf("conversation %s is stopped; it is kept, and `hived continue %s` has it delivered", e.Conversation, e.Conversation)
	f.Dropped = append(f.Dropped, droppedJSON{To: to, Reason: e.Kept.Reason, Detail: detail, Kept: true})
	f.refuse(protocol.Code(e.Kept.Reason), detail)
}

func reply(e *protocol.MessageEvent) *replyJSON {
	r := &replyJSON{ID: e.ID, From: e.From, Act: e.Act, Subject: e.Subject}
	if m, err := protocol.DecodeMessage([]byte(e.Raw)); err == nil {
		r.Subject, r.Body = m.Subject, m.Text()
	}
	return r
}

func (f *fate) refuse(code protocol.Code, detail string) {
	f.State, f.Code, f.Detail = "refused", string(code), detail
}

// over tells whether the stage that was waited for is reached, or never will
// be.
func (f *fate) over() bool {
	if f.Code != "" {
		return f.Seq == 0 || f.Code == string(protocol.CodeDuplicate) || f.accounted()
	}
	if f.Seq == 0 || !f.accounted() {
		return false
	}
	switch f.until {
	case stageQueued, stageAccepted:
		return true
	case stageHandled:
		for _, id := range f.Delivered {
			if id != protocol.Hive && !slices.Contains(f.Handled, id) {
				return false
			}
		}
		f.State = "handled"
	case stageReply:
		if f.Reply == nil {
			return false
		}
		f.State = "replied"
	}
	return true
}

// accounted tells whether the log has said of everybody whom the message was
// meant for that he got it or did not. Of a group it is enough that one did.
func (f *fate) accounted() bool {
	for _, to := range f.to {
		dropped := slices.ContainsFunc(f.Dropped, func(d droppedJSON) bool { return slices.Contains(d.To, to) })
		if !dropped && !slices.Contains(f.Delivered, protocol.AgentID(to)) && !isGroup(to) {
			return false
		}
	}
	return len(f.Delivered)+len(f.Dropped) > 0
}

func isGroup(to protocol.Address) bool {
	_, role := to.Role()
	return role || to != protocol.Address(protocol.Hive) && protocol.AgentID(to).Reserved()
}

// refusal is the error of a message that not everybody got whom it was meant
// for.
func (f *fate) refusal() error {
	if f.Code == "" {
		return nil
	}
	got := ""
	if len(f.Delivered) > 0 {
		got = " (delivered to " + list(f.Delivered) + ")"
	}
	var all []string
	for _, d := range f.Dropped {
		all = append(all, fmt.Sprintf("not delivered to %s: %s: %s", list(d.To), d.Reason, d.Detail))
	}
	if len(all) == 0 {
		all = []string{f.Code + ": " + f.Detail}
	}
	return exitWith(exitRefused, "%s%s: %s", f.ID, got, strings.Join(all, "; "))
}

// show prints what came of a message below its id.
func (f *fate) show(p *printer) {
	switch {
	case f.Seq == 0 || f.Code != "":
		return
	case f.Reply != nil && f.until == stageReply:
		p.line("%s %s: %s", f.Reply.From, f.Reply.Act, protocol.Visible(f.Reply.Subject))
		p.text(f.Reply.Body)
	case f.State == "handled":
		p.line("handled by %s", list(f.Handled))
	default:
		p.line("accepted as %d, delivered to %s", f.Seq, list(f.Delivered))
	}
}

// list writes names with commas.
func list[S ~string](names []S) string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, protocol.Visible(string(n)))
	}
	return strings.Join(out, ", ")
}

// followPoll is how often a waiting command looks at the log.
const followPoll = 20 * time.Millisecond

// here gives a place in the log that everything yet to come is after. Where a
// daemon runs it says how far it is; else it is the beginning.
func here(disk *durable.Disk) (eventlog.Position, error) {
	pid, runs, err := daemon(disk)
	if err != nil || !runs {
		return eventlog.Position{}, err
	}
	s, err := router.ReadStatus(disk)
	if err != nil || s.PID != pid {
		return eventlog.Position{}, nil //nolint:nilerr // it has just started
	}
	return eventlog.Position{Seq: s.Seq}, nil
}

// waitFor follows the log until see has seen enough, or time is up.
func waitFor(ctx context.Context, disk durable.FS, from eventlog.Position, timeout time.Duration, see func(protocol.Event) bool) error {
	ctx, cancel := limit(ctx, timeout)
	defer cancel()
	for rec, err := range eventlog.Follow(ctx, disk, from, nil, followPoll) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		if see(rec.Event) {
			return nil
		}
	}
	return context.Cause(ctx)
}

// noticeCode is the `data.code` of what hive says (spec §4.6).
func noticeCode(m *protocol.Message) string {
	var data struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(m.Data, &data) != nil {
		return ""
	}
	return data.Code
}
