package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/protocol"
)

// hiveModel says what a hive must decide about what its agents do, by the words of spec
// §3 and §4: it has plain maps, and no rule taken from the code that decides. It follows
// the log, because the daemon chooses the order of acceptance, and compares each decision
// there with its own.
type hiveModel struct {
	settings protocol.Settings
	agents   map[protocol.AgentID]*modelAgent
	lead     protocol.AgentID
	seq      protocol.Seq
	running  bool
	paused   bool   // git is paused: a start puts back what history does not hold
	crashed  bool   // there was a crash since the last daemon that ended well
	keeps    int    // the fewest files that retention left in a box since then
	newest   string // inbox name: they only go up

	files   map[uint64]*modelFile // every file that was put into an outbox, by inode
	ids     map[modelSender]modelID
	parents map[modelSender]modelHeard
	talks   map[protocol.ConversationID]*modelTalk
	kept    []modelKept
	going   []modelKept             // kept messages that are to be delivered next
	told    map[[3]string]time.Time // when the lead, or a person, was told of trouble: kind, code and agent
	tally   map[string]int          // how much happened, by kind
}

type modelAgent struct {
	id                protocol.AgentID
	status            string
	role              string
	caps              []string
	inbox, done, sent map[string]*modelBoxFile
	own               map[string]string     // own files, as logged
	sentNames         map[string]bool       // every name that was ever used in .sent
	moves             map[string]*modelMove // of files of the inbox, not judged yet
	writes            map[string][]string   // of own files, likewise; "-" stands for a deletion
	missed            map[string]bool       // own files that are gone, not recorded yet
	scribbles         map[string][]string   // texts written over files of the inbox
	got, handled      int                   // deliveries, and those of them that are handled
	joined            bool                  // it is on the roster, and not only a directory
}

// modelBoxFile is a file in a box.
type modelBoxFile struct {
	of   protocol.Seq
	at   time.Time
	blob protocol.Blob
	bare bool // set aside without its bytes, which the log does not have
	lost bool // a crash may take its bytes, which its writer did not sync
}

// modelMove has the places where an agent put a message; the last is where it is. If a
// crash may have undone the moves (lost), it may be in any of them.
type modelMove struct {
	places []string // inbox, done, gone
	lost   bool
}

// modelFile is a file that an agent wrote into its outbox.
type modelFile struct {
	agent    protocol.AgentID
	name     string
	draft    *draft
	contents []string // what it may hold: as written, and as a crash left it
	run      int      // number of daemons that had run when it was written
	synced   bool     // by its writer
	maybe    bool     // a crash took it unless it was accepted before
	accepted protocol.Seq
}

type modelSender struct {
	from protocol.AgentID
	id   string
}

type modelID struct {
	of      protocol.Seq
	content string
}

// modelHeard is a message that later ones of its thread follow.
type modelHeard struct {
	of           protocol.Seq
	conversation protocol.ConversationID
	hops         int
	at           time.Time
}

type modelTalk struct {
	restarted protocol.Seq
	person    time.Time // when the lead or a person was told that the thread is stopped
	stops     map[protocol.AgentID]*modelStops
	heard     map[protocol.AgentID]modelHeard
}

// modelStops is what a sender was told of its stopped messages.
type modelStops struct {
	told time.Time
	rest int
}

// modelKept is a message that is kept.
type modelKept struct {
	about   *protocol.MessageEvent
	of      protocol.Seq
	expires time.Time
	to      []protocol.AgentID
}

func newHiveModel(settings protocol.Settings) *hiveModel {
	return &hiveModel{
		settings: settings,
		agents:   map[protocol.AgentID]*modelAgent{},
		files:    map[uint64]*modelFile{},
		ids:      map[modelSender]modelID{},
		parents:  map[modelSender]modelHeard{},
		talks:    map[protocol.ConversationID]*modelTalk{},
		told:     map[[3]string]time.Time{},
		tally:    map[string]int{},
	}
}

// agent returns an agent, which need not have joined.
func (m *hiveModel) agent(id protocol.AgentID) *modelAgent {
	a := m.agents[id]
	if a == nil {
		a = &modelAgent{
			id: id, inbox: map[string]*modelBoxFile{}, done: map[string]*modelBoxFile{}, sent: map[string]*modelBoxFile{},
			own: map[string]string{}, sentNames: map[string]bool{}, moves: map[string]*modelMove{},
			writes: map[string][]string{}, scribbles: map[string][]string{}, missed: map[string]bool{},
		}
		m.agents[id] = a
	}
	return a
}

// here returns the agents of the roster that are not archived, in name order.
func (m *hiveModel) here() []*modelAgent {
	var list []*modelAgent
	for _, id := range slices.Sorted(maps.Keys(m.agents)) {
		if a := m.agents[id]; a.joined && a.status != "archived" {
			list = append(list, a)
		}
	}
	return list
}

func (m *hiveModel) known(id protocol.AgentID) bool {
	return m.agents[id] != nil && m.agents[id].joined
}

func (m *hiveModel) talk(conv protocol.ConversationID) *modelTalk {
	if m.talks[conv] == nil {
		m.talks[conv] = &modelTalk{heard: map[protocol.AgentID]modelHeard{}, stops: map[protocol.AgentID]*modelStops{}}
	}
	return m.talks[conv]
}

// verdict is what must become of a file.
type verdict struct {
	seq          protocol.Seq // of the event about the file
	kind         string       // message, duplicate, or the code of a quarantine
	of           protocol.Seq
	conversation protocol.ConversationID // empty: a new one
	hops         int
	counted      int // hops that hived counted, without claimed ones
	delivered    []protocol.AgentID
	kept         []protocol.AgentID
	keptTold     bool
	expires      time.Time
	drops        []modelDrop
	notices      []modelNotice
	effects      []string // of a command
	told         bool     // the lead or a person is told too that a file is set aside
}

type modelDrop struct {
	reason protocol.Reason
	to     []string // sorted
	told   bool
}

type modelNotice struct {
	to    protocol.AgentID
	code  protocol.Code
	about bool // the notice answers the message, in its conversation
}

// setAside returns the verdict on a file that is no message: its author is told, and
// once an hour the lead, or a person.
func (m *hiveModel) setAside(from protocol.AgentID, code protocol.Code, now time.Time) verdict {
	v := verdict{kind: string(code), notices: []modelNotice{{to: from, code: code}}}
	if v.told = from != protocol.Human && m.tells(protocol.KindQuarantine, code, from, now); v.told {
		v.notices = append(v.notices, modelNotice{to: m.decides(from), code: code})
	}
	return v
}

// decides returns who is told of trouble about an agent: the lead, if it can act and is
// not that agent, or else human.
func (m *hiveModel) decides(about protocol.AgentID) protocol.AgentID {
	if a := m.agents[m.lead]; a != nil && a.status == "active" && m.lead != about {
		return m.lead
	}
	return protocol.Human
}

// tells reports whether somebody is to be told of trouble now, and notes the time.
func (m *hiveModel) tells(kind protocol.Kind, code protocol.Code, about protocol.AgentID, now time.Time) bool {
	key := [3]string{string(kind), string(code), string(about)}
	if last, known := m.told[key]; known && now.Sub(last).Abs() < time.Hour {
		return false
	}
	m.told[key] = now
	return true
}

// decide returns the verdict of spec §4 on one file: from is its sender, d what it says,
// now when it was found, and seq the number that its event gets.
func (m *hiveModel) decide(from protocol.AgentID, d *draft, now time.Time, seq protocol.Seq) verdict {
	switch {
	case d == nil:
		return m.setAside(from, "malformed", now)
	case d.Big:
		return m.setAside(from, "too-large", now)
	}
	if before, used := m.ids[modelSender{from, d.ID}]; used && d.ID != "" {
		if before.content == d.says() {
			return verdict{kind: "duplicate", of: before.of, notices: []modelNotice{{to: from, code: "duplicate"}}}
		}
		return m.setAside(from, "id-conflict", now)
	}
	v := verdict{kind: "message"}
	archived := m.resolve(from, d, &v)
	parent, follows := m.parent(from, v.delivered, d, now)
	if v.conversation = d.Conversation; v.conversation == "" && follows {
		v.conversation = parent.conversation
	}
	switch {
	case from == protocol.Human || d.toHiveAlone():
	case follows:
		v.counted = min(parent.hops+1, math.MaxInt32)
	case d.InReplyTo != "":
		v.counted = 1
	}
	if v.hops = v.counted; from != protocol.Human && !d.toHiveAlone() {
		v.hops = max(d.Hops, v.hops)
	}
	m.limit(from, d, now, &v)
	m.tellOfDrops(from, &v)
	if slices.ContainsFunc(v.delivered, func(id protocol.AgentID) bool { return slices.Contains(archived, id) }) {
		v.notices = append(v.notices, modelNotice{from, protocol.CodeArchivedRecipient, true})
	}
	if d.Event != "" && slices.Contains(v.delivered, protocol.Hive) {
		m.command(from, d, &v)
	}
	return v
}

// parent returns the message that a new one follows (spec §4.3).
func (m *hiveModel) parent(from protocol.AgentID, to []protocol.AgentID, d *draft, now time.Time) (modelHeard, bool) {
	p, ok := m.answered(from, to, d.InReplyTo)
	if !ok && d.Conversation != "" && m.talks[d.Conversation] != nil {
		p, ok = m.talks[d.Conversation].heard[from]
	}
	if ok && p.of <= m.talk(p.conversation).restarted {
		p.hops = 0
	}
	p.hops = max(0, p.hops-max(0, int(now.Truncate(time.Second).Sub(p.at.Truncate(time.Second))/time.Hour)))
	return p, ok
}

// answered returns which of the messages with an id a reply to it means.
func (m *hiveModel) answered(from protocol.AgentID, to []protocol.AgentID, id protocol.MessageID) (best modelHeard, ok bool) {
	newest := func(fits func(modelSender, modelHeard) bool) bool {
		for k, p := range m.parents {
			if k.id == string(id) && p.of > best.of && fits(k, p) {
				best = p
			}
		}
		return best.of > 0
	}
	ok = newest(func(k modelSender, _ modelHeard) bool { return slices.Contains(to, k.from) }) ||
		newest(func(k modelSender, _ modelHeard) bool { return k.from == from }) ||
		newest(func(_ modelSender, p modelHeard) bool { return m.talk(p.conversation).heard[from].of > 0 })
	return best, ok
}

// resolve turns addresses into agents (spec §4.4), and returns those that were named and
// are archived.
func (m *hiveModel) resolve(from protocol.AgentID, d *draft, v *verdict) (archived []protocol.AgentID) {
	var unknown []string
	for _, to := range d.addresses() {
		ids := m.means(from, to)
		if len(ids) == 0 && !slices.Contains(unknown, to) {
			unknown = append(unknown, to)
		}
		for _, id := range ids {
			if !slices.Contains(v.delivered, id) {
				v.delivered = append(v.delivered, id)
			}
			if string(id) == to && id != protocol.Hive && m.agents[id].status == "archived" {
				archived = append(archived, id)
			}
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		v.drops = append(v.drops, modelDrop{protocol.NoInbox, unknown, true})
	}
	return archived
}

func (m *hiveModel) means(from protocol.AgentID, to string) (ids []protocol.AgentID) {
	role, isRole := strings.CutPrefix(to, "@")
	for _, a := range m.here() {
		switch {
		case isRole && (a.role == role || slices.Contains(a.caps, role)),
			to == "broadcast" && a.id != from && a.id != protocol.Human:
			ids = append(ids, a.id)
		}
	}
	switch {
	case to == "hive":
		ids = []protocol.AgentID{protocol.Hive}
	case (to == "lead" || to == "god") && m.lead != "":
		ids = []protocol.AgentID{m.lead}
	case m.known(protocol.AgentID(to)):
		ids = []protocol.AgentID{protocol.AgentID(to)}
	}
	return ids
}

// limit removes the recipients that a limit keeps the message from, in the order of spec
// §4.5.
func (m *hiveModel) limit(from protocol.AgentID, d *draft, now time.Time, v *verdict) {
	take := func(reason protocol.Reason, told bool, fits func(protocol.AgentID) bool) {
		var to []string
		var stay []protocol.AgentID
		for _, id := range v.delivered {
			if fits(id) {
				to = append(to, string(id))
			} else {
				stay = append(stay, id)
			}
		}
		if v.delivered = stay; len(to) > 0 {
			slices.Sort(to)
			v.drops = append(v.drops, modelDrop{reason, to, told})
		}
	}
	within := func(told time.Time) bool { return !told.IsZero() && now.Sub(told).Abs() < time.Hour }
	switch {
	case !d.Expires.IsZero() && now.After(d.Expires):
		take(protocol.Expired, true, func(protocol.AgentID) bool { return true })
		return
	case v.hops > m.settings.HopCap:
		talk := &modelTalk{}
		if v.conversation != "" {
			talk = m.talk(v.conversation)
		}
		v.keptTold, v.expires = talk.stops[from] == nil, d.Expires
		v.kept = slices.DeleteFunc(slices.Clone(v.delivered), func(id protocol.AgentID) bool { return id == protocol.Hive })
		v.delivered = slices.DeleteFunc(v.delivered, func(id protocol.AgentID) bool { return id != protocol.Hive })
		if len(v.kept) > 0 && v.keptTold {
			v.notices = append(v.notices, modelNotice{from, protocol.Code(protocol.HopCap), true})
			if w := m.decides(from); w != from && !within(talk.person) {
				v.notices = append(v.notices, modelNotice{w, protocol.Code(protocol.HopCap), true})
			}
		}
		return
	}
	take(protocol.InboxFull, true, func(id protocol.AgentID) bool {
		return id != protocol.Hive && len(m.agents[id].inbox) >= m.settings.InboxCap
	})
}

func (m *hiveModel) tellOfDrops(from protocol.AgentID, v *verdict) {
	for _, x := range v.drops {
		if !x.told {
			continue
		}
		v.notices = append(v.notices, modelNotice{from, protocol.Code(x.reason), true})
	}
}

// command adds to the verdict what a command leads to (spec §8).
func (m *hiveModel) command(from protocol.AgentID, d *draft, v *verdict) {
	code, effect := m.obey(from, d, v)
	if code == "" {
		v.effects = append(v.effects, effect)
		if !d.wantsReply() {
			return
		}
		code = protocol.CodeOK
	}
	v.notices = append(v.notices, modelNotice{from, code, true})
}

func (m *hiveModel) obey(from protocol.AgentID, d *draft, v *verdict) (refused protocol.Code, effect string) {
	actions := map[string]string{
		"agent-add": "joined", "agent-hold": "held", "agent-release": "released",
		"agent-archive": "archived", "agent-restore": "restored", "agent-lead": "lead",
	}
	action := actions[d.Event]
	switch {
	case action == "" && !slices.Contains([]string{"continue", "git-pause", "git-resume"}, d.Event):
		return protocol.CodeUnknownCommand, ""
	case from != protocol.Human && from != m.lead:
		return protocol.CodeNotAllowed, ""
	case d.Event == "continue" && m.talks[d.About] == nil && d.About != v.conversation:
		return protocol.CodeBadCommand, ""
	case d.Event == "continue":
		return "", "continued " + string(d.About)
	case action == "":
		return "", d.Event + "d"
	case action == "joined" && m.known(d.Agent):
		return "", "changed " + string(d.Agent)
	case action == "joined":
		return "", "joined " + string(d.Agent)
	case !m.known(d.Agent):
		return protocol.CodeUnknownAgent, ""
	}
	status := m.agents[d.Agent].status
	fits := map[string]bool{
		"held": status == "active", "released": status == "held", "archived": status != "archived",
		"restored": status == "archived", "lead": status != "archived",
	}
	if !fits[action] || d.Agent == protocol.Human && action != "lead" {
		return protocol.CodeBadCommand, ""
	}
	return "", action + " " + string(d.Agent)
}

// draft is a message that an agent writes; nil stands for a file that is no message.
type draft struct {
	ID           string
	Conversation protocol.ConversationID
	InReplyTo    protocol.MessageID
	From         string
	To           []string
	Act          string
	Hops         int
	Reply        string // requires_reply: true, false, or nothing
	NeedsHuman   bool
	Expires      time.Time
	Event        string
	Agent        protocol.AgentID        // what a command is about
	About        protocol.ConversationID // likewise
	Role         string
	Body         string
	Big          bool   // over max_message_bytes
	Spelling     int    // selects another JSON text for the same message
	Created      string // created_at, which does not count when messages are compared
}

func (d *draft) addresses() []string {
	if d.NeedsHuman {
		return append(slices.Clone(d.To), string(protocol.Human))
	}
	return d.To
}

func (d *draft) toHiveAlone() bool {
	return !slices.ContainsFunc(d.addresses(), func(to string) bool { return to != string(protocol.Hive) })
}

func (d *draft) wantsReply() bool {
	if d.Reply != "" {
		return d.Reply == "true"
	}
	return d.Act == "request" || d.Act == "query" || d.Act == "propose"
}

// says returns what counts when two messages of one id are compared (spec §4.2).
func (d *draft) says() string {
	c := *d
	c.Spelling, c.Created = 0, ""
	return fmt.Sprintf("%+v", c)
}

// bytes returns the content of the file.
func (d *draft) bytes() string {
	members := map[string]any{"to": d.To, "body": d.Body}
	set := func(name string, v any, said bool) {
		if said {
			members[name] = v
		}
	}
	set("id", d.ID, d.ID != "")
	set("conversation", d.Conversation, d.Conversation != "")
	set("in_reply_to", d.InReplyTo, d.InReplyTo != "")
	set("from", d.From, d.From != "")
	set("act", d.Act, d.Act != "")
	set("hops", d.Hops, d.Hops > 0)
	set("requires_reply", d.Reply == "true", d.Reply != "")
	set("needs_human", true, d.NeedsHuman)
	set("expires_at", d.Expires.Format(time.RFC3339), !d.Expires.IsZero())
	set("created_at", d.Created, d.Created != "")
	set("event", d.Event, d.Event != "")
	data := map[string]any{}
	if d.Agent != "" {
		data["agent"] = d.Agent
	}
	if d.About != "" {
		data["conversation"] = d.About
	}
	if d.Role != "" {
		data["role"] = d.Role
	}
	set("data", data, len(data) > 0)
	if d.Big {
		members["body"] = strings.Repeat("x", 3000)
	}
	names := slices.Sorted(maps.Keys(members))
	space := ""
	if d.Spelling > 0 {
		slices.Reverse(names)
		space = strings.Repeat(" ", d.Spelling)
	}
	var parts []string
	for _, name := range names {
		v, err := json.Marshal(members[name])
		if err != nil {
			panic(err)
		}
		parts = append(parts, fmt.Sprintf("%q:%s%s", name, space, v))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// judge checks the events since the last call.
func (m *hiveModel) judge(list []protocol.Event) error {
	for len(list) > 0 {
		n := 1 + slices.IndexFunc(list, func(ev protocol.Event) bool { return !ev.More })
		if n == 0 {
			return fmt.Errorf("the decision that begins with event %s has no end", list[0].Seq)
		}
		if err := m.decision(list[:n]); err != nil {
			return fmt.Errorf("event %s, %s: %w", list[0].Seq, list[0].Body.Kind(), err)
		}
		list = list[n:]
	}
	return nil
}

// decision judges the events of one decision.
func (m *hiveModel) decision(group []protocol.Event) error {
	first := group[0]
	if m.seq++; first.Seq != m.seq {
		return fmt.Errorf("the event should have number %s", m.seq)
	}
	switch e := first.Body.(type) {
	case *protocol.MessageEvent:
		if e.From == protocol.Hive {
			return m.toldOfStops(group, e)
		}
		return m.found(e.From, e.Original, e.Raw, group)
	case *protocol.DuplicateEvent:
		return m.found(e.Agent, e.Original, e.Raw, group)
	case *protocol.QuarantineEvent:
		if e.Original == nil {
			return m.altered(group, e)
		}
		raw := notRead
		if e.Content != nil {
			raw = string(e.Content.Bytes())
		}
		return m.found(e.Agent, e.Original, raw, group)
	case *protocol.HandledEvent:
		return m.moved(first, e)
	case *protocol.FileEvent:
		return m.wrote(e)
	case *protocol.AgentEvent:
		return m.joins(e)
	case *protocol.HiveEvent:
		return m.lived(first, e)
	case *protocol.AlertEvent:
		return m.alarmed(group, e)
	case *protocol.DropEvent:
		return m.goesOn(group, e.Of)
	case *protocol.DeliveredEvent:
		return m.goesOn(group, e.Of)
	}
	return nil
}

// toldOfStops judges a notice to a sender about further stopped messages.
func (m *hiveModel) toldOfStops(group []protocol.Event, e *protocol.MessageEvent) error {
	x := m.talk(e.Conversation).stops[protocol.AgentID(e.To[0])]
	if !e.Stops || x == nil || x.rest == 0 || group[0].TS.Sub(x.told) < time.Hour {
		return errors.New("hive speaks without a reason")
	}
	*x = modelStops{told: group[0].TS}
	v := verdict{notices: []modelNotice{{protocol.AgentID(e.To[0]), protocol.Code(protocol.HopCap), false}}}
	m.seq--
	return m.rest(append([]protocol.Event{{}}, group...), v)
}

// goesOn judges what is decided about a kept message whose thread goes on.
func (m *hiveModel) goesOn(group []protocol.Event, of protocol.Seq) error {
	if len(m.going) == 0 || m.going[0].of != of {
		return fmt.Errorf("the kept message of event %s should not be delivered now", of)
	}
	k := m.going[0]
	m.going = m.going[1:]
	v := verdict{seq: of, delivered: k.to}
	m.lateFor(k, group[0].TS, &v)
	m.tellOfDrops(k.about.From, &v)
	m.tally["goes on"]++
	if e, ok := group[0].Body.(*protocol.DeliveredEvent); ok {
		if e.ID != k.about.ID || e.From != k.about.From || e.Conversation != k.about.Conversation || e.Blob != k.about.Blob || !sameSet(e.To, v.delivered) {
			return fmt.Errorf("delivered %+v, want %+v of %+v", e, v, k.about)
		}
		if err := m.deliver(group[0], &protocol.MessageEvent{File: e.File, Delivered: e.To, Blob: e.Blob}); err != nil {
			return err
		}
		for _, to := range e.To {
			m.talk(e.Conversation).heard[to] = modelHeard{group[0].Seq, e.Conversation, 0, group[0].TS}
		}
		return m.restOf(group, k.about, v)
	}
	if len(v.delivered) > 0 {
		return fmt.Errorf("the kept message is not delivered to %v", v.delivered)
	}
	m.seq--
	return m.restOf(append([]protocol.Event{{}}, group...), k.about, v)
}

// lateFor removes the recipients that a kept message can no longer reach.
func (m *hiveModel) lateFor(k modelKept, now time.Time, v *verdict) {
	full := func(id protocol.AgentID) bool { return len(m.agents[id].inbox) >= m.settings.InboxCap }
	reason := protocol.InboxFull
	if !k.expires.IsZero() && now.After(k.expires) {
		full, reason = func(protocol.AgentID) bool { return true }, protocol.Expired
	}
	var to []string
	for _, id := range v.delivered {
		if full(id) {
			to = append(to, string(id))
		}
	}
	v.delivered = slices.DeleteFunc(slices.Clone(v.delivered), full)
	if slices.Sort(to); len(to) > 0 {
		v.drops = append(v.drops, modelDrop{reason, to, true})
	}
}

const notRead = "-" // in place of the contents of a file that was too large

// found judges what was decided about a file of an outbox.
func (m *hiveModel) found(from protocol.AgentID, o *protocol.Original, raw string, group []protocol.Event) error {
	f := m.files[o.Ino]
	switch {
	case f == nil || f.agent != from || f.name != o.Name:
		return fmt.Errorf("nobody wrote %s of %s", o.Name, from)
	case f.accepted > 0 && (f.draft == nil || !f.draft.Big || raw == notRead):
		return fmt.Errorf("%s of %s was accepted already, as event %s", o.Name, from, f.accepted)
	case m.agent(from).status == "held":
		return fmt.Errorf("%s is held", from)
	}
	d := f.draft // what a crash left of a file that is too large is unknown
	switch at := slices.Index(f.contents, raw); {
	case d != nil && d.Big && raw == notRead:
	case at < 0:
		return fmt.Errorf("%s of %s never held %q", o.Name, from, raw)
	case at > 0:
		d = nil // a crash left only a part of it
	}
	v := m.decide(from, d, group[0].TS, group[0].Seq)
	if err := m.inOrder(f, v); err != nil {
		return err
	}
	f.accepted = group[0].Seq
	m.tally[v.kind]++
	if err := m.first(f, d, group[0], v); err != nil {
		return err
	}
	return m.rest(group, v)
}

// inOrder checks that the messages of a sender come in name order (spec §3.9).
func (m *hiveModel) inOrder(f *modelFile, v verdict) error {
	if v.kind == "malformed" {
		return nil // it is read only after it settled
	}
	for _, g := range m.files {
		if g.agent == f.agent && g.run <= f.run && g.accepted == 0 && !g.maybe && len(g.contents) == 1 && g.draft != nil && g.name < f.name {
			return fmt.Errorf("%s of %s came before %s", f.name, f.agent, g.name)
		}
	}
	return nil
}

// first compares the event about the file itself with the verdict.
func (m *hiveModel) first(f *modelFile, d *draft, ev protocol.Event, v verdict) error {
	a := m.agent(f.agent)
	switch e := ev.Body.(type) {
	case *protocol.DuplicateEvent:
		if v.kind != "duplicate" || e.Of != v.of || string(e.ID) != d.ID {
			return fmt.Errorf("a duplicate of event %s, want %+v", e.Of, v)
		}
		return m.archived(a, f.name, e.Sent, &modelBoxFile{of: ev.Seq, at: ev.TS, blob: protocol.BlobOf([]byte(e.Raw))})
	case *protocol.QuarantineEvent:
		if string(e.Code) != v.kind || e.Told != v.told {
			return fmt.Errorf("set aside as %s (%s), want %+v", e.Code, e.Detail, v)
		}
		l := &modelBoxFile{of: ev.Seq, at: ev.TS, bare: e.Content == nil, lost: e.Content == nil && !f.synced}
		if e.Content != nil {
			l.blob = protocol.BlobOf(e.Content.Bytes())
		}
		if path.Dir(e.Path) != protocol.SentDir(a.id) || l.bare != (v.kind == "too-large") {
			return fmt.Errorf("set aside as %s, with content: %t", e.Path, !l.bare)
		}
		if v.kind == "id-conflict" { // hived does not look whether the name is free
			a.sentNames["bad-"+f.name] = true
		}
		return m.archived(a, "bad-"+f.name, path.Base(e.Path), l)
	case *protocol.MessageEvent:
		if v.kind != "message" {
			return fmt.Errorf("accepted, want %+v", v)
		}
		return errors.Join(m.accepts(a, d, ev, e, v), m.archived(a, f.name, e.Sent, &modelBoxFile{of: ev.Seq, at: ev.TS, blob: protocol.BlobOf([]byte(e.Raw))}))
	}
	return nil
}

// archived puts an original into .sent, and checks that it keeps its name if that is free
// (spec §3.6).
func (m *hiveModel) archived(a *modelAgent, name, as string, l *modelBoxFile) error {
	stem := strings.TrimSuffix(name, path.Ext(name))
	switch {
	case a.sent[as] != nil && !a.sent[as].lost:
		return fmt.Errorf("%s is in .sent of %s already", as, a.id)
	case as != name && (!a.sentNames[name] || !strings.HasPrefix(as, stem+"-")):
		return fmt.Errorf("archived as %s, not as %s", as, name)
	}
	a.sentNames[as], a.sent[as] = true, l
	return nil
}

// accepts compares an accepted message with the verdict and remembers it.
func (m *hiveModel) accepts(a *modelAgent, d *draft, ev protocol.Event, e *protocol.MessageEvent, v verdict) error {
	conv := v.conversation
	if conv == "" && strings.HasPrefix(string(e.Conversation), "conv-") && m.talks[e.Conversation] == nil {
		conv = e.Conversation
	}
	id := protocol.MessageID(d.ID)
	if id == "" {
		id = protocol.MessageID(strings.TrimSuffix(e.File, ".json"))
	}
	if e.ID != id || e.Conversation != conv || e.Hops != v.hops || e.Claimed != v.hops-v.counted || !sameSet(e.Delivered, v.delivered) || len(v.kept) > 0 != (e.Kept != nil) {
		return fmt.Errorf("id %s in %s, %d hops, delivered to %v; want id %s and %+v", e.ID, e.Conversation, e.Hops, e.Delivered, id, v)
	}
	if claims := d.From != "" && d.From != string(a.id); claims != (e.ClaimedFrom == d.From && d.From != "") {
		return fmt.Errorf("claimed from %q, want %q", e.ClaimedFrom, d.From)
	}
	if err := m.deliver(ev, e); err != nil {
		return err
	}
	if d.ID != "" {
		m.ids[modelSender{a.id, d.ID}] = modelID{ev.Seq, d.says()}
	}
	if a.id == protocol.Human {
		m.restart(conv, ev.Seq)
	}
	if e.Kept != nil {
		if !sameSet(e.Kept.To, v.kept) || e.Kept.Reason != protocol.HopCap || e.Kept.Told != v.keptTold {
			return fmt.Errorf("kept: %+v, want %+v", *e.Kept, v)
		}
		m.keep(ev, e, v)
	}
	heard := modelHeard{ev.Seq, conv, v.counted, ev.TS}
	m.parents[modelSender{a.id, string(id)}] = heard
	talk := m.talk(conv)
	for _, to := range e.Delivered {
		talk.heard[to] = heard
	}
	return nil
}

// keep notes that a message is kept.
func (m *hiveModel) keep(ev protocol.Event, e *protocol.MessageEvent, v verdict) {
	m.tally["kept"]++
	talk := m.talk(e.Conversation)
	m.kept = append(m.kept, modelKept{e, ev.Seq, v.expires, e.Kept.To})
	if x := talk.stops[e.From]; x != nil {
		x.rest++
		return
	}
	talk.stops[e.From] = &modelStops{told: ev.TS}
	if talk.person.IsZero() || ev.TS.Sub(talk.person).Abs() >= time.Hour {
		talk.person = ev.TS
	}
}

// goOn notes that what is kept of a thread is to be delivered next.
func (m *hiveModel) goOn(conv protocol.ConversationID) {
	clear(m.talk(conv).stops)
	for _, k := range m.kept {
		if k.about.Conversation == conv {
			m.going = append(m.going, k)
		}
	}
	m.kept = slices.DeleteFunc(m.kept, func(k modelKept) bool { return k.about.Conversation == conv })
}

// deliver puts a message into the inboxes, and checks that its name is larger than all
// before.
func (m *hiveModel) deliver(ev protocol.Event, e *protocol.MessageEvent) error {
	if e.File <= m.newest {
		return fmt.Errorf("%s is not larger than %s, which came before", e.File, m.newest)
	}
	m.newest = e.File
	for _, to := range e.Delivered {
		if to == protocol.Hive {
			continue
		}
		a := m.agent(to)
		a.inbox[e.File] = &modelBoxFile{of: ev.Seq, at: ev.TS, blob: e.Blob}
		a.got++
	}
	return nil
}

// restart makes the hops of a conversation count from zero, and forgets which senders were
// told of its stops, except of those still to be told.
func (m *hiveModel) restart(conv protocol.ConversationID, seq protocol.Seq) {
	talk := m.talk(conv)
	talk.restarted, talk.person = seq, time.Time{}
	for id, x := range talk.stops {
		if x.rest == 0 {
			delete(talk.stops, id)
		}
	}
}

func sameSet[T ~string](a, b []T) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// rest judges what else belongs to the decision: drops, notices, and what a command did.
func (m *hiveModel) rest(group []protocol.Event, v verdict) error {
	about, _ := group[0].Body.(*protocol.MessageEvent)
	v.seq = group[0].Seq
	return m.restOf(group, about, v)
}

func (m *hiveModel) restOf(group []protocol.Event, about *protocol.MessageEvent, v verdict) error {
	for i := 1; i < len(group); i++ {
		ev := group[i]
		if m.seq++; ev.Seq != m.seq {
			return fmt.Errorf("event %s should be number %s", ev.Seq, m.seq)
		}
		var err error
		switch e := ev.Body.(type) {
		case *protocol.DropEvent:
			err = m.dropped(ev, e, about, group[i-1], &v)
		case *protocol.MessageEvent:
			err = m.noticed(ev, e, about, group[i+1:], &v)
		case *protocol.AgentEvent:
			err = m.effect(string(e.Action)+" "+string(e.Agent), about != nil && e.Of == v.seq && e.By == about.From, &v)
			m.agentDid(e)
		case *protocol.HiveEvent:
			what := string(e.Action)
			if e.Action == protocol.Continued {
				what += " " + string(e.Conversation)
				m.restart(e.Conversation, ev.Seq)
				m.goOn(e.Conversation)
			}
			err = m.effect(what, about != nil && e.Of == v.seq && e.By == about.From, &v)
		default:
			err = errors.New("it does not belong there")
		}
		if err != nil {
			return fmt.Errorf("with event %s, %s: %w", ev.Seq, ev.Body.Kind(), err)
		}
	}
	if len(v.drops)+len(v.notices)+len(v.effects) > 0 {
		return fmt.Errorf("missing in the decision: %+v", v)
	}
	return nil
}

func (m *hiveModel) dropped(ev protocol.Event, e *protocol.DropEvent, about *protocol.MessageEvent, before protocol.Event, v *verdict) error {
	if e.From == protocol.Hive { // checked with its notice
		n, ok := before.Body.(*protocol.MessageEvent)
		if !ok || n.ID != e.ID || e.Of != before.Seq || e.Reason != protocol.InboxFull {
			return errors.New("a notice was not dropped by the event before")
		}
		return nil
	}
	var to []string
	for _, x := range e.To {
		to = append(to, string(x))
	}
	slices.Sort(to)
	i := slices.IndexFunc(v.drops, func(d modelDrop) bool {
		return d.reason == e.Reason && d.told == e.Told && slices.Equal(d.to, to)
	})
	if i < 0 || e.Of != v.seq || e.ID != about.ID || e.Conversation != about.Conversation {
		return fmt.Errorf("%s for %v, told: %t; want %+v", e.Reason, e.To, e.Told, v)
	}
	v.drops = slices.Delete(v.drops, i, i+1)
	m.tally[string(e.Reason)]++
	return nil
}

// noticed judges a message of hive (spec §4.6): a notice is delivered, or dropped if the
// inbox is full.
func (m *hiveModel) noticed(ev protocol.Event, e *protocol.MessageEvent, about *protocol.MessageEvent, after []protocol.Event, v *verdict) error {
	var said struct {
		To   protocol.AgentID `json:"to"`
		Data struct {
			Code protocol.Code `json:"code"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(e.Raw), &said); err != nil || e.From != protocol.Hive {
		return fmt.Errorf("the message of hive is no notice: %w", err)
	}
	i := slices.IndexFunc(v.notices, func(n modelNotice) bool {
		answers := !n.about || about != nil && e.InReplyTo == about.ID && e.Conversation == about.Conversation
		return n.to == said.To && n.code == said.Data.Code && answers
	})
	if i < 0 {
		return fmt.Errorf("%s to %s in answer to %s; want %+v", said.Data.Code, said.To, e.InReplyTo, v)
	}
	v.notices = slices.Delete(v.notices, i, i+1)
	m.tally["notice "+string(said.Data.Code)]++
	if len(m.agent(said.To).inbox) >= m.settings.InboxCap {
		if len(after) == 0 || len(e.Delivered) > 0 {
			return errors.New("the inbox is full")
		}
		d, ok := after[0].Body.(*protocol.DropEvent)
		if !ok || d.Of != ev.Seq {
			return errors.New("it is neither delivered nor dropped")
		}
	} else if !slices.Equal(e.Delivered, []protocol.AgentID{said.To}) {
		return fmt.Errorf("delivered to %v", e.Delivered)
	}
	return m.deliver(ev, e)
}

func (m *hiveModel) effect(what string, commanded bool, v *verdict) error {
	i := slices.Index(v.effects, what)
	if i < 0 || !commanded {
		return fmt.Errorf("%s, want %+v", what, v)
	}
	v.effects = slices.Delete(v.effects, i, i+1)
	m.paused = what == "git-paused" || m.paused && what != "git-resumed"
	m.tally[strings.Fields(what)[0]]++
	return nil
}

// agentDid applies an event about an agent.
func (m *hiveModel) agentDid(e *protocol.AgentEvent) {
	if e.Action == protocol.LeadSet {
		m.lead = e.Agent
		return
	}
	a := m.agent(e.Agent)
	switch e.Action {
	case protocol.Joined:
		a.joined, a.status = true, "active"
		a.role, a.caps = e.Role, e.Caps
	case protocol.Changed:
		a.role, a.caps = e.Role, e.Caps
	case protocol.Held:
		a.status = "held"
	case protocol.Archived:
		a.status = "archived"
	case protocol.Released, protocol.Restored:
		a.status = "active"
	case protocol.LeadSet, protocol.SlotsSet:
	case protocol.InboxMissing, protocol.InboxBelieved, protocol.InboxPutBack, protocol.InboxUndeleted: // no history of the model has any
	}
}

// joins applies the joining of an agent whose directory was found.
func (m *hiveModel) joins(e *protocol.AgentEvent) error {
	if e.Action != protocol.Joined || e.By != "" || m.agent(e.Agent).joined {
		return fmt.Errorf("%s %s by %q, of nothing", e.Agent, e.Action, e.By)
	}
	m.agentDid(e)
	return nil
}

// moved judges an event about what an agent did with a message (spec §4.7).
func (m *hiveModel) moved(ev protocol.Event, e *protocol.HandledEvent) error {
	a := m.agent(e.Agent)
	how := map[protocol.How]string{protocol.HowDone: "done", protocol.HowDeleted: "gone", protocol.HowReopened: "inbox"}
	to, move := how[e.How], a.moves[e.File]
	if move == nil || !slices.Contains(move.places, to) {
		return fmt.Errorf("%s of %s is %s, and %s did not do that", e.File, e.Agent, e.How, e.Agent)
	}
	from := a.inbox
	if to == "inbox" {
		from = a.done
	}
	l := from[e.File]
	if l == nil || l.of != e.Of {
		return fmt.Errorf("%s of %s was %s and was not there", e.File, e.Agent, e.How)
	}
	delete(from, e.File)
	m.tally[string(e.How)]++
	switch to {
	case "inbox":
		a.inbox[e.File] = l
		a.handled--
		return nil
	case "done":
		a.done[e.File] = &modelBoxFile{of: l.of, at: ev.TS, blob: l.blob}
	}
	a.handled++
	return nil
}

// altered judges that a file was taken out of an inbox because it was not what was
// delivered. People are told in the same decision.
func (m *hiveModel) altered(group []protocol.Event, e *protocol.QuarantineEvent) error {
	ev := group[0]
	if len(group) < 2 {
		return errors.New("it has no alert")
	}
	alert, ok := group[1].Body.(*protocol.AlertEvent)
	if m.seq++; !ok || group[1].Seq != m.seq {
		return errors.New("it has no alert")
	}
	if err := m.alarmed(group[1:], alert); err != nil {
		return err
	}
	a := m.agent(e.Agent)
	name := path.Base(e.Path)
	if e.Code != protocol.CodeAltered || path.Dir(e.Path) != protocol.DoneDir(a.id) || a.done[name] != nil || len(name) < 32 {
		return fmt.Errorf("%s set aside as %s", e.Code, e.Path)
	}
	file := name[len("bad-")+26+1:]
	if !slices.Contains(a.scribbles[file], string(e.Content.Bytes())) {
		return fmt.Errorf("nobody wrote %q over %s", e.Content.Bytes(), file)
	}
	a.done[name] = &modelBoxFile{of: ev.Seq, at: ev.TS, blob: protocol.BlobOf(e.Content.Bytes())}
	m.tally["altered"]++
	return nil
}

const noFile = "-" // among the contents of an own file

// wrote judges an event about a new version of an own file.
func (m *hiveModel) wrote(e *protocol.FileEvent) error {
	if e.By == protocol.Hive {
		if e.Path != protocol.PathRegistry && e.Path != protocol.PathProtocol {
			return fmt.Errorf("%s is no view of hived", e.Path)
		}
		return nil
	}
	if e.Path == protocol.PathBoard && e.By == "" {
		return nil
	}
	a := m.agent(e.By)
	is := noFile
	if !e.Deleted {
		is = string(e.Content.Bytes())
	}
	if !strings.HasPrefix(e.Path, protocol.AgentDir(a.id)+"/") || !slices.Contains(a.writes[e.Path], is) {
		return fmt.Errorf("%s of %s holds %q, which nobody wrote: %q", e.Path, a.id, is, a.writes[e.Path])
	}
	if a.own[e.Path] = is; e.Deleted {
		delete(a.own, e.Path)
	}
	m.tally["own"]++
	return nil
}

// lived judges an event about the hive as a whole.
func (m *hiveModel) lived(ev protocol.Event, e *protocol.HiveEvent) error {
	switch e.Action {
	case protocol.Started:
		if m.running {
			return errors.New("the crash before it is not told")
		}
		m.running = true
	case protocol.Stopped:
		if !m.running {
			return errors.New("no daemon ran")
		}
		m.running = false
	case protocol.Recovered:
		if !m.crashed {
			return errors.New("there was no crash")
		}
		m.running = false
	case protocol.Settled:
		if e.Through >= ev.Seq {
			return fmt.Errorf("settled through %s", e.Through)
		}
	case protocol.Swept:
		return m.swept(ev, e.Paths)
	case protocol.Initialised, protocol.Sealed:
	case protocol.Adopted, protocol.Repaired, protocol.ClockJumped, protocol.GitPaused, protocol.GitResumed, protocol.Continued:
		return fmt.Errorf("%s without a command", e.Action)
	}
	m.tally[string(e.Action)]++
	return nil
}

// swept judges retention (spec §6.10), which may remove only files that are old or not
// among the newest.
func (m *hiveModel) swept(ev protocol.Event, paths []string) error {
	age := m.settings.Retention.Age
	for _, p := range paths {
		id, name := protocol.OwnerOf(p), path.Base(p)
		box := map[string]map[string]*modelBoxFile{protocol.DoneDir(id): m.agent(id).done, protocol.SentDir(id): m.agent(id).sent}[path.Dir(p)]
		l := box[name]
		if l == nil || l.bare {
			return fmt.Errorf("%s was swept and was not there", p)
		}
		newer := 0
		for other, x := range box {
			if !x.bare && (x.at.After(l.at) || x.at.Equal(l.at) && other > name) {
				newer++
			}
		}
		if newer < m.keeps && ev.TS.Sub(l.at) <= age {
			return fmt.Errorf("%s was swept, and only %d files are newer", p, newer)
		}
		delete(box, name)
		m.tally["swept"]++
	}
	return nil
}

// alarmed judges an alert, for which there are few reasons. Once an hour the lead, or a
// person, is told of it.
func (m *hiveModel) alarmed(group []protocol.Event, e *protocol.AlertEvent) error {
	switch {
	case (e.Code == protocol.CodeTornTail || e.Code == "git-index-rebuilt") && m.crashed:
	case e.Code == protocol.CodeAltered && len(m.agent(e.Agent).scribbles[path.Base(e.Path)]) > 0:
	default:
		return fmt.Errorf("%s: %s", e.Code, e.Text)
	}
	m.tally["alert "+string(e.Code)]++
	var v verdict
	if m.tells(protocol.KindAlert, e.Code, e.Agent, group[0].TS) {
		v.notices = []modelNotice{{to: m.decides(e.Agent), code: e.Code}}
	}
	if e.Told != (len(v.notices) > 0) {
		return fmt.Errorf("told: %t", e.Told)
	}
	return m.rest(group, v)
}
