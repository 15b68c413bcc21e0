// Package ledger folds the log into a state: State = fold(events). It promises
// that the fold is pure (no clock, no disk, no randomness: the same events give the
// same State on any machine), that its memory is bounded by settings and by
// what is alive, never by history, and that the effect of an event on the
// versioned tree depends on that event alone (see [Changes]), apart from views,
// which depend on the state (see [State.View]). [Placements] returns an event's
// effect on the work tree, and [State.Belongs] where a placed file is later.
//
// Decisions from a State are left to package router.
package ledger

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// State is everything that hived knows from its log. It is not safe for
// concurrent use.
type State struct {
	Seq       protocol.Seq // the last event folded
	TS        time.Time    // its time
	Newest    ulid.ULID    // the largest id that hived gave out
	Settled   protocol.Seq // everything up to here is on the disk (spec §3, recovery)
	Format    int          // of the log from here on (spec §5.4)
	Agents    map[protocol.AgentID]*Agent
	Lead      protocol.AgentID // empty: none
	GitPaused bool
	Running   bool // started and not stopped
	Onto      string
	Counts    Counts
	Files     map[string]FileVersion // by path: versioned files that belong to no message and no task
	Tasks     *task.Book

	// The windows identify names by 64 bits of their hash, see keyOf. If two
	// names share them, the newer replaces the older. An id is then refused as
	// used before, and its sender is told; it is not taken for a duplicate, because
	// its content differs in the id at least. A reply that names no conversation,
	// or the count of hops, may go to the other thread. Nothing is lost silently.
	ids           *window[accepted]
	parents       *window[parent]
	conversations *window[conversation]
	pairs         *window[pair]
	stopped       map[protocol.ConversationID]*stopped
	goingOn       []protocol.ConversationID // whose kept messages are to be delivered, in this order
	kept          int                       // messages that are kept
	stopsVersion  uint64

	HumanCounts bool              // human said too much within an hour, and counts as an agent
	words       []instant         // messages from human that reset counts: the last ones, oldest first
	replied     *window[struct{}] // messages that are no replies, and who answered them
	busy        map[uint64]bool   // pairs that may be busy

	names    names
	roll     roll
	rosterAt protocol.Seq            // the event as of which registry.json is a view; zero: it has events of its own
	troubles map[troubleKey]*Trouble // of the last hour; older ones until something else goes wrong
	causes   map[string]time.Time    // of alerts that agents raised, and when each was last
}

// Counts are totals since the log began.
type Counts struct {
	Messages    uint64 // accepted, hive's own included
	Deliveries  uint64 // message and recipient
	Drops       uint64 // message and recipient
	Handled     uint64
	Quarantines uint64
	Duplicates  uint64
	Alerts      uint64
}

// Status says whether an agent takes part.
type Status string

// The statuses of an agent.
const (
	Active   Status = "active"
	OnHold   Status = "held"     // its outbox waits
	Archived Status = "archived" // retired: gets messages addressed to it, but is in no group
)

// Agent is one agent on the roster.
type Agent struct {
	ID     protocol.AgentID
	Role   string
	Caps   []string
	Slots  int // tasks that it may have in hand at once; zero: one
	Takes  int // one more than the tasks that it takes for now; zero: as many as it may
	Status Status
	Joined time.Time
	Older  []byte // other members of its entry in an older hive, a JSON object; mostly none

	Inbox Box // unread
	Done  Box // handled and still in .done/
	Sent  Box // originals in .sent/

	Stopped  bool      // by the breaker: what it sends to agents waits in its outbox
	echoes   int       // in units of 1/[Echo], as of echoedAt
	echoedAt time.Time // when echoes was last counted
	tokens   int       // messages from agents that it was given and may answer

	Missed int // consecutive offers of tasks that expired since it last did something

	Missing  int  // unread messages gone from its inbox that are not believed to be deleted
	Believed bool // somebody confirmed that they were deleted

	Accepted  uint64 // messages of this agent
	Delivered uint64 // messages to this agent
	Handled   uint64

	hinted   instant  // when it was last told that its message about a task is no command
	misled   instant  // when it was last told that there is no such command
	misspelt []string // fields that it was told may be misspelt
	day      string   // the day that dayBytes counts
	dayBytes int64
}

// SlotsNow returns how many tasks the agent may have in hand at once: what was said last,
// by itself for now or by who put it on the roster.
func (a *Agent) SlotsNow() int {
	if a.Takes > 0 {
		return a.Takes - 1
	}
	return max(1, a.Slots)
}

// BoxFile is one file in a [Box]: a message, or what was set aside.
type BoxFile struct {
	Of   protocol.Seq       // the event that put it there
	ID   protocol.MessageID // empty in Sent, and for what was set aside
	Blob protocol.Blob      // the same
	Size int                // the same
	At   time.Time          // delivered; in Done: handled; in Sent: accepted
}

// FileVersion is the newest version of a file that is no message.
type FileVersion struct {
	Blob protocol.Blob
	At   time.Time
}

// Compact moves scattered memory together, so that the gaps can be given back to
// the system. It changes nothing else.
func (s *State) Compact() {
	for _, a := range s.Agents {
		for _, box := range []*Box{&a.Inbox, &a.Done, &a.Sent} {
			box.compact()
		}
	}
	size := 0
	for _, c := range s.conversations.all() {
		size += len(c.to)
	}
	all := make([]heard, 0, size)
	for _, c := range s.conversations.all() {
		from := len(all)
		all = append(all, c.to...)
		c.to = all[from:len(all):len(all)]
	}
}

// New returns the State before the first event.
func New(r protocol.RememberSettings) *State {
	s := &State{
		Agents:        map[protocol.AgentID]*Agent{},
		Files:         map[string]FileVersion{},
		Tasks:         task.NewBook(),
		ids:           newWindow[accepted](r.IDs),
		parents:       newWindow[parent](r.IDs),
		conversations: newWindow[conversation](r.Conversations),
		pairs:         newWindow[pair](r.Conversations),
		troubles:      map[troubleKey]*Trouble{},
		causes:        map[string]time.Time{},
		stopped:       map[protocol.ConversationID]*stopped{},
		replied:       newWindow[struct{}](r.Conversations),
		busy:          map[uint64]bool{},
	}
	s.setFormat(protocol.LogFormat, 1) // until the first event says another
	s.Tasks.Remember(r.Conversations)
	s.parents.forget = func(p parent) { s.names.release(p.conversation) }
	return s
}

// Apply folds the next event. An event out of order is a bug of the caller.
func (s *State) Apply(ev protocol.Event) {
	if ev.Seq != s.Seq+1 {
		panic("ledger: event " + ev.Seq.String() + " after " + s.Seq.String())
	}
	s.Seq, s.TS = ev.Seq, ev.TS
	protocol.Handle[struct{}](ev, folder{s})
}

// folder applies each kind of event to a State.
type folder struct{ s *State }

type none = struct{}

func (f folder) OnHive(ev protocol.Event, e *protocol.HiveEvent) none {
	s := f.s
	if e.Format > 0 {
		s.setFormat(e.Format, ev.Seq)
	}
	switch e.Action {
	case protocol.Initialised, protocol.Recovered, protocol.Sealed, protocol.Repaired:
	case protocol.Adopted:
		f.adopted(ev, e)
	case protocol.Started:
		s.Running = true
		s.Tasks.Started(ev.TS)
	case protocol.ClockJumped:
		s.Tasks.Jumped(time.Duration(e.Jump)*time.Millisecond, ev.TS)
	case protocol.Stopped:
		s.Running = false
	case protocol.Settled:
		s.Settled = e.Through
	case protocol.Swept:
		for _, p := range e.Paths {
			s.forget(p)
		}
	case protocol.GitPaused:
		s.GitPaused = true
	case protocol.GitResumed:
		s.GitPaused = false
	case protocol.Continued:
		if e.Conversation != "" {
			s.restart(e.Conversation)
			s.letGoOn(e.Conversation)
		}
		if e.Agent != "" {
			s.resetEchoes(e.Agent)
		}
		if e.By == protocol.Human {
			s.resetHuman()
		}
	}
	return none{}
}

func (f folder) OnAgent(ev protocol.Event, e *protocol.AgentEvent) none {
	s := f.s
	if !s.ViewsAreFiles() {
		s.rosterAt = ev.Seq
	}
	if e.Action == protocol.LeadSet {
		s.Lead = e.Agent
		return none{}
	}
	a := s.Agents[e.Agent]
	if aboutInbox(e.Action) {
		if a != nil {
			a.inbox(e)
		}
		return none{}
	}
	if a == nil {
		a = &Agent{ID: e.Agent, Status: Active, Joined: ev.TS}
		s.Agents[e.Agent] = a
	}
	f.heard(a.ID)
	switch e.Action {
	case protocol.Joined, protocol.Changed:
		a.Role, a.Caps, a.Slots, a.Takes = e.Role, e.Caps, e.Slots, 0
		if e.Older != nil {
			a.Older = e.Older
		}
	case protocol.Held:
		a.Status = OnHold
	case protocol.Released, protocol.Restored:
		a.Status = Active
	case protocol.Archived:
		a.Status = Archived
	case protocol.SlotsSet:
		a.Takes = e.Slots + 1
	case protocol.LeadSet, protocol.InboxMissing, protocol.InboxBelieved, protocol.InboxPutBack, protocol.InboxUndeleted:
	}
	return none{}
}

// aboutInbox reports whether an action is about an inbox: what others do to it is
// no sign of the agent's life.
func aboutInbox(a protocol.AgentAction) bool {
	switch a {
	case protocol.InboxMissing, protocol.InboxBelieved, protocol.InboxPutBack, protocol.InboxUndeleted:
		return true
	case protocol.Joined, protocol.Changed, protocol.Held, protocol.Released, protocol.Archived, protocol.Restored, protocol.LeadSet, protocol.SlotsSet:
	}
	return false
}

// inbox notes what is missing from an inbox, and what somebody said
// about it.
func (a *Agent) inbox(e *protocol.AgentEvent) {
	switch e.Action {
	case protocol.InboxMissing:
		a.Missing = e.Count
	case protocol.InboxPutBack:
		a.Missing = 0
	case protocol.InboxBelieved:
		a.Believed = true
		return
	case protocol.InboxUndeleted:
	case protocol.Joined, protocol.Changed, protocol.Held, protocol.Released, protocol.Archived, protocol.Restored, protocol.LeadSet, protocol.SlotsSet:
	}
	a.Believed = a.Believed && a.Missing > 0
}

// OffersMissed is how many consecutive offers of tasks may expire before an agent
// is offered nothing more until it does something: those of at least three leases,
// because it has at most three unanswered offers at a time.
const OffersMissed = 9

// Silent reports whether an agent is active but gets no more offers of tasks,
// because it let [OffersMissed] expire.
func (a *Agent) Silent() bool { return a.Status == Active && a.Missed >= OffersMissed }

// There returns how many unread messages are in the inbox, as far as is known.
func (a *Agent) There() int { return a.Inbox.Len() - a.Missing }

func (f folder) OnMessage(ev protocol.Event, e *protocol.MessageEvent) none {
	s := f.s
	s.Counts.Messages++
	s.Counts.Deliveries += uint64(len(e.Delivered))
	s.took(e.File)
	f.heard(e.From)
	if a := s.Agents[e.From]; a != nil {
		a.Accepted++
		a.misspelt = append(a.misspelt, e.Misspelt[:min(len(e.Misspelt), MisspeltMost-len(a.misspelt))]...)
		if e.Sent != "" {
			a.Sent.put(e.Sent, BoxFile{Of: ev.Seq, At: ev.TS})
		}
	}
	for _, id := range e.Delivered {
		if a := s.Agents[id]; a != nil {
			a.Delivered++
			a.Inbox.put(e.File, BoxFile{Of: ev.Seq, ID: e.ID, Blob: e.Blob, Size: e.Size, At: ev.TS})
		}
	}
	s.remember(ev, e)
	s.echo(ev, e)
	switch {
	case e.Kept != nil:
		s.keep(ev, e)
	case e.Stops:
		s.toldOfStops(ev, e)
	}
	return none{}
}

func (f folder) OnDelivered(ev protocol.Event, e *protocol.DeliveredEvent) none {
	s := f.s
	s.Counts.Deliveries += uint64(len(e.To))
	s.took(e.File)
	c := s.thread(e.Conversation)
	for _, id := range e.To {
		if a := s.Agents[id]; a != nil {
			a.Delivered++
			a.Inbox.put(e.File, BoxFile{Of: ev.Seq, ID: e.ID, Blob: e.Blob, Size: e.Size, At: ev.TS})
		}
		c.give(heard{s.roll.add(id), 0, secondsOf(ev.TS), shorten(ev.Seq)})
	}
	s.giveTokens(e.To)
	s.release(e.Of, e.Conversation, e.To)
	return none{}
}

func (f folder) OnDrop(ev protocol.Event, e *protocol.DropEvent) none {
	f.s.Counts.Drops += uint64(len(e.To))
	f.s.trouble(ev, troubleKey{protocol.KindDrop, protocol.Code(e.Reason), e.From}, len(e.To), e.Detail)
	f.s.stops(ev, e)
	return none{}
}

func (f folder) OnQuarantine(ev protocol.Event, e *protocol.QuarantineEvent) none {
	f.s.Counts.Quarantines++
	t := f.s.trouble(ev, troubleKey{protocol.KindQuarantine, e.Code, e.Agent}, 1, e.Path+": "+e.Detail)
	if e.Told {
		t.Told = ev.TS
	}
	// What has no content in the log is never swept: it is nowhere else.
	if e.Original != nil { // else somebody altered what the agent was to read
		f.heard(e.Agent)
	}
	if a, box, name := f.s.locate(e.Path); a != nil && e.Content != nil {
		switch box {
		case protocol.SentDir(a.ID):
			a.Sent.put(name, BoxFile{Of: ev.Seq, At: ev.TS})
		case protocol.DoneDir(a.ID):
			a.Done.put(name, BoxFile{Of: ev.Seq, At: ev.TS})
			id, _, _ := strings.Cut(strings.TrimPrefix(name, protocol.AsidePrefix), "-")
			f.s.took(id)
		}
	}
	return none{}
}

func (f folder) OnDuplicate(ev protocol.Event, e *protocol.DuplicateEvent) none {
	f.s.Counts.Duplicates++
	if a := f.s.Agents[e.Agent]; a != nil {
		a.Sent.put(e.Sent, BoxFile{Of: ev.Seq, At: ev.TS})
	}
	f.heard(e.Agent)
	return none{}
}

func (f folder) OnHandled(ev protocol.Event, e *protocol.HandledEvent) none {
	a := f.s.Agents[e.Agent]
	if a == nil {
		return none{}
	}
	switch e.How {
	case protocol.HowUndeleted:
		if _, there := a.Inbox.Get(e.File); !there {
			data := e.Content.Bytes()
			a.Inbox.put(e.File, BoxFile{Of: e.Of, ID: e.ID, Blob: protocol.BlobOf(data), Size: len(data), At: ev.TS})
			a.Handled--
			f.s.Counts.Handled--
		}
		return none{}
	case protocol.HowReopened, protocol.HowDone, protocol.HowDeleted:
	}
	f.heard(a.ID)
	switch e.How {
	case protocol.HowReopened:
		if l, ok := a.Done.Get(e.File); ok {
			a.Done.delete(e.File)
			l.At = ev.TS
			a.Inbox.put(e.File, l)
			a.Handled--
			f.s.Counts.Handled--
		}
		return none{}
	case protocol.HowDone, protocol.HowDeleted, protocol.HowUndeleted:
	}
	l, ok := a.Inbox.Get(e.File)
	if !ok {
		return none{}
	}
	a.Inbox.delete(e.File)
	if e.How == protocol.HowDeleted && a.Missing > 0 {
		a.Missing--
	}
	a.Missing = min(a.Missing, a.Inbox.Len())
	a.Believed = a.Believed && a.Missing > 0
	a.Handled++
	f.s.Counts.Handled++
	if e.How == protocol.HowDone {
		l.At = ev.TS
		a.Done.put(e.File, l)
	}
	return none{}
}

func (f folder) OnFile(ev protocol.Event, e *protocol.FileEvent) none {
	s := f.s
	if id, name := taskFile(e.Path); id != "" {
		if name == protocol.TaskView {
			s.Tasks.Wrote(id, ev.Seq)
		}
		return none{}
	}
	f.heard(e.By)
	if e.Deleted {
		delete(s.Files, e.Path)
		return none{}
	}
	data := e.Content.Bytes()
	s.Files[e.Path] = FileVersion{Blob: protocol.BlobOf(data), At: ev.TS}
	if a := s.Agents[e.By]; a != nil {
		a.spend(ev.TS, int64(len(data)))
	}
	return none{}
}

func (f folder) OnTask(ev protocol.Event, e *protocol.TaskEvent) none {
	if e.Event == task.Create || e.Event == task.Adopted {
		f.s.took(string(e.Task))
	}
	var holder protocol.AgentID
	if t := f.s.Tasks.Get(e.Task); t != nil {
		holder = t.Holder
	}
	// hived writes no event that the table does not have; one that somebody
	// else wrote into a log changes nothing.
	if f.s.Tasks.Apply(ev, e) == nil {
		if code, lost := taken(e); lost {
			f.s.trouble(ev, troubleKey{protocol.KindTask, code, holder}, 1, e.Reason).Task = e.Task
		}
	}
	if e.Event == task.OfferExpired {
		for _, id := range e.Agents {
			if a := f.s.Agents[id]; a != nil {
				a.Missed++
			}
		}
	}
	return none{}
}

// heard notes that an agent did something.
func (f folder) heard(id protocol.AgentID) {
	if a := f.s.Agents[id]; a != nil {
		a.Missed = 0
	}
}

// MisspeltMost is how many fields an agent is told may be misspelt.
const MisspeltMost = 16

// Misspelt returns the fields that an agent was told may be misspelt. The caller
// must not change them.
func (a *Agent) Misspelt() []string { return a.misspelt }

// ToldOf reports whether an agent was told that a field may be misspelt.
func (a *Agent) ToldOf(field string) bool { return slices.Contains(a.misspelt, field) }

// Hinted returns when an agent was last told that its message about a task is no
// command; zero if never.
func (a *Agent) Hinted() time.Time { return a.hinted.time() }

// HintEvery is how often an agent is told at most that there is no such command.
const HintEvery = time.Hour

// HintDue reports whether an agent is to be told that there is no such command: once
// in HintEvery. A log of the oldest format does not remember it, and it always is.
func (a *Agent) HintDue(now time.Time) bool { return now.Sub(a.misled.time()).Abs() >= HintEvery }

func (f folder) OnTaskRejected(ev protocol.Event, e *protocol.TaskRejectedEvent) none {
	if a := f.s.Agents[e.By]; a != nil && e.Code == protocol.CodeNoCommand {
		a.hinted = instantOf(ev.TS)
	} else if a != nil && e.Code == protocol.CodeUnknownCommand && f.s.Format >= 2 && a.HintDue(ev.TS) {
		a.misled = instantOf(ev.TS)
	}
	f.s.Tasks.Rejected(e)
	return none{}
}

func (f folder) OnAlert(ev protocol.Event, e *protocol.AlertEvent) none {
	f.s.Counts.Alerts++
	t := f.s.trouble(ev, troubleKey{protocol.KindAlert, e.Code, e.Agent}, 1, e.Text)
	if e.Told {
		t.Told = ev.TS
	}
	if e.Cause != "" {
		f.s.causeRaised(ev, e.Cause)
	}
	if a := f.s.Agents[e.Agent]; a != nil && e.Code == protocol.CodeEchoCap {
		a.Stopped = true
	}
	if e.Code == protocol.CodeHumanCounts {
		f.s.HumanCounts = true
	}
	if dir, id := path.Split(e.Path); e.Code == protocol.CodeInternalError && dir == protocol.PathTasks+"/" {
		f.s.Tasks.Stop(protocol.TaskID(id))
	}
	return none{}
}

// adopted takes over one message of an older hive in its place.
func (f folder) adopted(ev protocol.Event, e *protocol.HiveEvent) {
	s := f.s
	if e.Adopted == nil {
		s.Onto = e.Onto
		return
	}
	file := e.Adopted
	a, box, name := s.locate(file.Path)
	if a == nil {
		return
	}
	boxed := BoxFile{Of: ev.Seq, ID: file.ID, Blob: protocol.BlobOf(file.Content.Bytes()), Size: len(file.Content.Bytes()), At: ev.TS}
	switch box {
	case protocol.InboxDir(a.ID):
		a.Inbox.put(name, boxed)
		a.Delivered++
	case protocol.DoneDir(a.ID):
		a.Done.put(name, boxed)
		a.Delivered++
		a.Handled++
	case protocol.SentDir(a.ID):
		a.Sent.put(name, BoxFile{Of: ev.Seq, At: ev.TS})
	}
	if file.ID != "" {
		s.rememberAdopted(ev.Seq, file, a.ID, box)
	}
}
