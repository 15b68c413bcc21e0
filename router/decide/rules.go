package decide

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// message accepts a message that came in a file, and carries it out if it is a command
// (spec §4). content is the hash of the message if its sender chose the id, else empty.
func (d *Decider) message(now time.Time, a protocol.Arrival, content string) error {
	m := a.Message
	sent, err := d.archiveName(now, a, protocol.SentName(a.Name), a.SentTaken)
	if err != nil {
		return err
	}
	e := &protocol.MessageEvent{From: a.Agent, Sent: sent, Original: &a.Original, Raw: string(a.Raw), Content: content}
	seq, misspelt, err := d.route(now, e, m, &a)
	if err != nil {
		return err
	}
	if slices.Contains(e.Delivered, protocol.Hive) {
		if err := d.command(now, seq, e, m); err != nil {
			return err
		}
	}
	return d.tellMisspelt(now, seq, e, misspelt)
}

// route finds the thread and the recipients of a message, and what keeps it from each of
// them, and records it. e has what is known of it before: its sender, its text, and the
// file that it came in; a is that file, or nil if it came in none.
func (d *Decider) route(now time.Time, e *protocol.MessageEvent, m *protocol.Message, a *protocol.Arrival) (protocol.Seq, []protocol.Misspelt, error) {
	r := d.resolve(e.From, m)
	if err := d.countHuman(now, e.From, r); err != nil {
		return 0, nil, err
	}
	thread := d.state.Thread(now, e.From, r.to, m.InReplyTo, m.Conversation)
	e.To, e.InReplyTo, e.Hops, e.Conversation = m.To, m.InReplyTo, d.hops(e.From, m, thread), m.Conversation
	d.claimHops(e, m)
	if e.Conversation == "" {
		e.Conversation = thread.Conversation
	}
	if e.Conversation == "" {
		id, err := d.ids.next(now)
		if err != nil {
			return 0, nil, err
		}
		e.Conversation = protocol.ConversationID("conv-" + id.String())
	}
	if m.From != "" && m.From != string(e.From) {
		e.ClaimedFrom = m.From
	}
	first := d.state.FirstReply(e.From, r.to, m.InReplyTo)
	d.applyLimits(now, e, m, r)
	e.Delivered = r.to
	d.countEchoes(now, e, first)
	misspelt := d.misspelt(e.From, m)
	for _, x := range misspelt {
		e.Misspelt = append(e.Misspelt, x.Field)
	}
	modified := now
	if a != nil {
		modified = a.ModTime
	}
	seq, err := d.accept(now, e, m, modified)
	if err != nil {
		return 0, nil, err
	}
	if a != nil {
		d.setArrival(a)
	}
	if err := d.recordDrops(now, seq, e, r); err != nil {
		return 0, nil, err
	}
	if err := d.tellOfKept(now, seq, e, r.tellPerson); err != nil {
		return 0, nil, err
	}
	return seq, misspelt, nil
}

// accept fills in what the sender left out and records the message.
func (d *Decider) accept(now time.Time, e *protocol.MessageEvent, m *protocol.Message, modified time.Time) (protocol.Seq, error) {
	id, err := d.ids.next(now)
	if err != nil {
		return 0, err
	}
	e.File = id.String() + ".json"
	if e.ID = m.ID; e.ID == "" {
		e.ID = protocol.MessageID(id.String())
	}
	if e.Conversation == "" {
		e.Conversation = protocol.ConversationID("conv-" + id.String())
	}
	if e.Act = m.Act; e.Act == "" {
		e.Act = protocol.Inform
	}
	e.Subject = protocol.Fit(m.Subject, 200)
	if y := modified.UTC().Year(); y <= 1 || y > 9999 {
		modified = now // a file can have a time that no message can
	}
	if e.Set, err = fillIn(e, m, modified); err != nil {
		return 0, err
	}
	ev := d.nextEvent(now, e)
	delivered, err := protocol.Deliver(m, e.Set, ev.Seq, ev.TS)
	if err != nil {
		return 0, fmt.Errorf("write message %s: %w", e.ID, err)
	}
	e.Blob, e.Size = protocol.BlobOf(delivered), len(delivered)
	return d.record(ev, ledger.MessageChanges(e, delivered)), nil
}

// overlay has the members that hived adds to a message or overrides (spec §2).
type overlay struct {
	ID            string  `json:"id,omitzero"`
	Conversation  string  `json:"conversation,omitzero"`
	InReplyTo     *string `json:"in_reply_to,omitempty"`
	From          string  `json:"from"`
	Act           string  `json:"act,omitzero"`
	Subject       *string `json:"subject,omitzero"`
	Body          *string `json:"body,omitzero"`
	Hops          int     `json:"hops"`
	RequiresReply *bool   `json:"requires_reply,omitzero"`
	NeedsHuman    *bool   `json:"needs_human,omitzero"`
	CreatedAt     string  `json:"created_at,omitzero"`
}

func fillIn(e *protocol.MessageEvent, m *protocol.Message, modified time.Time) (jsontext.Value, error) {
	s := overlay{From: string(e.From), Hops: e.Hops}
	empty := ""
	if !m.Has("id") {
		s.ID = string(e.ID)
	}
	if !m.Has("conversation") {
		s.Conversation = string(e.Conversation)
	}
	if !m.Has("act") {
		s.Act = string(e.Act)
	}
	if !m.Has("subject") {
		s.Subject = &empty
	}
	if !m.Has("body") {
		s.Body = &empty
	}
	if !m.Has("requires_reply") {
		wants := e.Act.WantsReply()
		s.RequiresReply = &wants
	}
	if !m.Has("needs_human") {
		s.NeedsHuman = new(bool)
	}
	if !m.Has("created_at") {
		s.CreatedAt = protocol.Stamp(modified)
	}
	v, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write what is filled in for message %s: %w", e.ID, err)
	}
	if !m.Has("in_reply_to") {
		v = append(v[:len(v)-1], `,"in_reply_to":null}`...)
	}
	return v, nil
}

// hops returns the hops of a message, as hived counts them because agents forget to
// (spec §4.3). A message of a person has none.
func (d *Decider) hops(from protocol.AgentID, m *protocol.Message, t ledger.Thread) int {
	switch {
	case !d.state.CountsAsAgent(from) || toHiveAlone(m):
		return 0
	case t.Known:
		return min(t.Hops, math.MaxInt32-1) + 1
	case m.InReplyTo != "":
		return 1
	}
	return 0
}

// claimHops raises the hops of a message to what its sender claims, if that is more.
// The claim counts for this message alone: else one message could end a conversation
// of others.
func (d *Decider) claimHops(e *protocol.MessageEvent, m *protocol.Message) {
	if d.state.CountsAsAgent(e.From) && !toHiveAlone(m) && m.Hops > e.Hops {
		e.Hops, e.Claimed = m.Hops, m.Hops-e.Hops
	}
}

func toHiveAlone(m *protocol.Message) bool {
	return !m.NeedsHuman && !slices.ContainsFunc(m.To, func(to protocol.Address) bool { return to != protocol.Address(protocol.Hive) })
}

// recipients are the agents that a message is for, and those that do not get it.
type recipients struct {
	to       []protocol.AgentID
	archived []protocol.AgentID
	dropped  []dropped

	tellPerson bool // that the message is kept
}

type dropped struct {
	reason  protocol.Reason
	to      []protocol.Address
	detail  string                           // one sentence, with the remedy where there is no other
	remedy  func(by protocol.AgentID) string // what its reader can do; nil if the detail says so
	nearest []string
	tell    bool
	tellToo bool // a person, too
}

// text returns why it was dropped, and what the reader can do.
func (x *dropped) text(by protocol.AgentID) string {
	if x.remedy == nil {
		return x.detail
	}
	return x.detail + "; " + x.remedy(by)
}

func (r *recipients) add(id protocol.AgentID) {
	if !slices.Contains(r.to, id) {
		r.to = append(r.to, id)
	}
}

// resolve returns the agents that the addresses of a message mean, and drops the
// addresses that mean nobody (spec §4.4).
func (d *Decider) resolve(from protocol.AgentID, m *protocol.Message) *recipients {
	r := &recipients{}
	unknown := dropped{reason: protocol.NoInbox, tell: true}
	var hints []string
	seen := map[protocol.Address]bool{}
	to := m.To
	if m.NeedsHuman {
		to = append(slices.Clone(to), protocol.Address(protocol.Human))
	}
	for _, address := range to {
		if seen[address] {
			continue
		}
		seen[address] = true
		if hint := d.expand(from, address, r); hint != nil {
			unknown.to = append(unknown.to, address)
			if len(hints) < 5 {
				hints = append(hints, hint())
				unknown.nearest = append(unknown.nearest, protocol.Nearest(string(address), d.addressees(), 3)...)
			}
		}
	}
	if len(unknown.to) > 0 {
		unknown.detail = strings.Join(hints, "; ")
		if more := len(unknown.to) - len(hints); more > 0 {
			unknown.detail += fmt.Sprintf("; and %d more", more)
		}
		r.dropped = append(r.dropped, unknown)
	}
	return r
}

// expand adds the agents that one address means. If it means nobody, hint returns why,
// and what to do; it is a function because it costs time.
func (d *Decider) expand(from protocol.AgentID, address protocol.Address, r *recipients) (hint func() string) {
	if role, ok := address.Role(); ok {
		return d.expandRole(role, r)
	}
	switch id := protocol.AgentID(address); id {
	case protocol.Hive:
		r.add(id)
		return nil
	case protocol.Broadcast:
		return d.expandBroadcast(from, r)
	case protocol.Lead, protocol.God:
		if d.state.Lead == "" {
			return func() string { return "no lead is set; write to human, or " + d.howToSetLead(from) }
		}
		r.add(d.state.Lead)
		return nil
	default:
		a := d.state.Agents[id]
		if a == nil {
			return func() string { return d.unknownAgent(string(id)) }
		}
		if a.Status == ledger.Archived {
			r.archived = append(r.archived, id)
		}
		r.add(id)
		return nil
	}
}

func (d *Decider) expandBroadcast(from protocol.AgentID, r *recipients) func() string {
	n := 0
	for _, a := range d.state.Roster() {
		if a.ID != from && a.ID != protocol.Human && a.Status != ledger.Archived {
			r.add(a.ID)
			n++
		}
	}
	if n == 0 {
		return hintText("there is no other active agent to broadcast to")
	}
	return nil
}

func (d *Decider) expandRole(role string, r *recipients) func() string {
	var roles []string
	n := 0
	for _, a := range d.state.Roster() {
		if a.Status == ledger.Archived {
			continue
		}
		if a.Has(role) {
			r.add(a.ID)
			n++
		}
		roles = append(append(roles, a.Caps...), a.Role)
	}
	if n > 0 {
		return nil
	}
	return func() string {
		return "no active agent has the role or capability " + protocol.Quote(role) + didYouMean(role, roles, listsAll)
	}
}

func hintText(text string) func() string { return func() string { return text } }

func (d *Decider) unknownAgent(name string) string {
	return d.unknownAgentOf(name, d.addressees())
}

// unknownAgentOf returns that there is no such agent, and which of the names is
// nearest.
func (d *Decider) unknownAgentOf(name string, names []string) string {
	return "there is no agent " + protocol.Quote(name) + didYouMean(name, names, listsAll)
}

// addressees returns all names that a message can be sent to, except roles.
func (d *Decider) addressees() []string {
	return d.agentNames(protocol.Broadcast, protocol.Lead, protocol.Hive)
}

// agentNames are those of the roster, and others.
func (d *Decider) agentNames(others ...protocol.AgentID) []string {
	var names []string
	for _, id := range others {
		names = append(names, string(id))
	}
	for _, a := range d.state.Roster() {
		names = append(names, string(a.ID))
	}
	return names
}

// listsAll says where to find all agents and roles.
const listsAll = "registry.json lists all"

// didYouMean returns the known names nearest to a name. If none is near it lists all
// of them, or, if they are many, says where to find them.
func didYouMean(name string, known []string, where string) string {
	slices.Sort(known)
	known = slices.DeleteFunc(slices.Compact(known), func(s string) bool { return s == "" })
	if len(known) > 0 && len(known) <= 12 {
		where = "there are " + strings.Join(known, ", ")
	}
	return protocol.DidYouMean(protocol.Nearest(name, known, 3), where)
}

// applyLimits removes the recipients that a rule keeps the message from (spec §4.3,
// §4.5).
func (d *Decider) applyLimits(now time.Time, e *protocol.MessageEvent, m *protocol.Message, r *recipients) {
	switch {
	case d.dropExpired(now, m, r):
	case e.Hops > d.settings.HopCap:
		d.keepOrDrop(now, e, r)
	default:
		d.dropAtInboxCap(r)
	}
}

// dropExpired drops a message that has expired, and reports whether it did.
func (d *Decider) dropExpired(now time.Time, m *protocol.Message, r *recipients) bool {
	if m.ExpiresAt.IsZero() || !now.After(m.ExpiresAt) {
		return false
	}
	d.drop(r, dropped{
		reason: protocol.Expired, tell: true,
		detail: fmt.Sprintf("it expired at %s and was found at %s; send it again with a later expires_at, or none", m.ExpiresAt.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339)),
	}, func(protocol.AgentID) bool { return true })
	return true
}

// drop moves the recipients that fit from the list to the dropped ones.
func (d *Decider) drop(r *recipients, why dropped, fits func(protocol.AgentID) bool) {
	stay := r.to[:0:0]
	for _, id := range r.to {
		if fits(id) {
			why.to = append(why.to, protocol.Address(id))
		} else {
			stay = append(stay, id)
		}
	}
	r.to = stay
	r.archived = slices.DeleteFunc(r.archived, fits)
	if len(why.to) > 0 {
		r.dropped = append(r.dropped, why)
	}
}

func (d *Decider) dropAtInboxCap(r *recipients) {
	d.drop(r, dropped{
		reason: protocol.InboxFull, tell: true,
		detail: fmt.Sprintf("its inbox holds %d unread messages, which is the cap; send it again when some are handled", d.settings.InboxCap),
	}, func(id protocol.AgentID) bool {
		a := d.state.Agents[id]
		return a != nil && a.There() >= d.settings.InboxCap
	})
}

// recordDrops records what was not delivered, and tells the sender (spec §4.4-4.6).
// It tells the sender too if a recipient is archived.
func (d *Decider) recordDrops(now time.Time, seq protocol.Seq, e *protocol.MessageEvent, r *recipients) error {
	for _, x := range r.dropped {
		d.emit(now, &protocol.DropEvent{Of: seq, ID: e.ID, From: e.From, To: x.to, Conversation: e.Conversation, Reason: x.reason, Detail: x.text(e.From), Told: x.tell})
		if !x.tell {
			continue
		}
		n := notice{
			to: e.From, act: protocol.Failure, reply: e.ID, conversation: e.Conversation, code: protocol.Code(x.reason),
			subject: "not delivered to " + listNames(x.to),
			data:    map[string]any{"of": seq, "to": x.to},
		}
		n.body = "Message " + string(e.ID) + " was not delivered to " + listNames(x.to) + ": "
		if len(x.nearest) > 0 {
			n.data["nearest"] = x.nearest
		}
		if err := d.tellBoth(now, e, n, x.tellToo, x.text); err != nil {
			return err
		}
	}
	if len(r.archived) == 0 {
		return nil
	}
	to := make([]protocol.Address, 0, len(r.archived))
	for _, id := range r.archived {
		to = append(to, protocol.Address(id))
	}
	return d.notice(now, notice{
		to: e.From, act: protocol.Inform, reply: e.ID, conversation: e.Conversation, code: protocol.CodeArchivedRecipient,
		subject: listNames(to) + " is archived",
		body:    "Message " + string(e.ID) + " was filed for " + listNames(to) + ", which is archived: nobody may read it. Write to somebody else, or " + d.howToManage(e.From, "bring it back", hiveLine("agent-restore", string(r.archived[0])), "agent-restore", agentData(r.archived[0])) + ".",
		data:    map[string]any{"of": seq, "to": to},
	})
}

func fullStop(sentence string) string {
	if strings.HasSuffix(sentence, "?") || strings.HasSuffix(sentence, ".") {
		return ""
	}
	return "."
}

// listNames lists at most five names, and counts the others.
func listNames[S ~string](list []S) string {
	return protocol.Few(list, 5, func(name string) string { return protocol.Fit(name, 70) })
}
