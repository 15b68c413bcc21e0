package protocol

import (
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Kind is the kind of an event: what it is about (spec §5).
type Kind string

// The kinds. The list is closed: see [Handler].
const (
	KindHive       Kind = "hive"
	KindAgent      Kind = "agent"
	KindMessage    Kind = "message"
	KindDrop       Kind = "drop"
	KindQuarantine Kind = "quarantine"
	KindDuplicate  Kind = "duplicate"
	KindHandled    Kind = "handled"
	KindDelivered  Kind = "delivered"
	KindFile       Kind = "file"
	KindAlert      Kind = "alert"

	KindTask         Kind = "task"
	KindTaskRejected Kind = "task-rejected"
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{KindHive, KindAgent, KindMessage, KindDrop, KindQuarantine, KindDuplicate, KindHandled, KindDelivered, KindFile, KindTask, KindTaskRejected, KindAlert}
}

// Event is one line of the log: what happened, numbered and dated.
type Event struct {
	Seq Seq
	TS  time.Time
	// More says that the next event belongs to the same decision: a message and
	// its drops are in the log together or not at all (spec §5).
	More bool
	Body Body
}

// Body is the content of one kind of event. Only the types of this package implement
// it.
//
//sumtype:decl
type Body interface {
	Kind() Kind
	sealed()
}

// Handler has one method for each kind of event. Code that folds events implements it,
// so that a kind without a handler does not compile.
type Handler[T any] interface {
	OnHive(Event, *HiveEvent) T
	OnAgent(Event, *AgentEvent) T
	OnMessage(Event, *MessageEvent) T
	OnDrop(Event, *DropEvent) T
	OnQuarantine(Event, *QuarantineEvent) T
	OnDuplicate(Event, *DuplicateEvent) T
	OnHandled(Event, *HandledEvent) T
	OnDelivered(Event, *DeliveredEvent) T
	OnFile(Event, *FileEvent) T
	OnTask(Event, *TaskEvent) T
	OnTaskRejected(Event, *TaskRejectedEvent) T
	OnAlert(Event, *AlertEvent) T
}

// Handle calls the handler of the event's kind. It is the only switch over
// kinds.
func Handle[T any](ev Event, h Handler[T]) T {
	switch b := ev.Body.(type) {
	case *HiveEvent:
		return h.OnHive(ev, b)
	case *AgentEvent:
		return h.OnAgent(ev, b)
	case *MessageEvent:
		return h.OnMessage(ev, b)
	case *DropEvent:
		return h.OnDrop(ev, b)
	case *QuarantineEvent:
		return h.OnQuarantine(ev, b)
	case *DuplicateEvent:
		return h.OnDuplicate(ev, b)
	case *HandledEvent:
		return h.OnHandled(ev, b)
	case *DeliveredEvent:
		return h.OnDelivered(ev, b)
	case *FileEvent:
		return h.OnFile(ev, b)
	case *TaskEvent:
		return h.OnTask(ev, b)
	case *TaskRejectedEvent:
		return h.OnTaskRejected(ev, b)
	case *AlertEvent:
		return h.OnAlert(ev, b)
	}
	panic("protocol: an event without a body")
}

// newBody returns an empty body of a kind; nil for an unknown kind.
func newBody(k Kind) Body {
	switch k {
	case KindHive:
		return &HiveEvent{}
	case KindAgent:
		return &AgentEvent{}
	case KindMessage:
		return &MessageEvent{}
	case KindDrop:
		return &DropEvent{}
	case KindQuarantine:
		return &QuarantineEvent{}
	case KindDuplicate:
		return &DuplicateEvent{}
	case KindHandled:
		return &HandledEvent{}
	case KindDelivered:
		return &DeliveredEvent{}
	case KindFile:
		return &FileEvent{}
	case KindTask:
		return &TaskEvent{}
	case KindTaskRejected:
		return &TaskRejectedEvent{}
	case KindAlert:
		return &AlertEvent{}
	}
	return nil
}

// HiveAction is what happened to the hive as a whole.
type HiveAction string

// The actions of a `hive` event.
const (
	Initialised HiveAction = "initialised"
	Adopted     HiveAction = "adopted"    // Adopted says which file
	Started     HiveAction = "started"    //
	Stopped     HiveAction = "stopped"    //
	Recovered   HiveAction = "recovered"  // Note says from what
	Settled     HiveAction = "settled"    // everything up to Through is on the disk
	Sealed      HiveAction = "sealed"     // Segment says what was closed
	Swept       HiveAction = "swept"      // Paths left the work tree
	Repaired    HiveAction = "repaired"   // Note says what was mended
	GitPaused   HiveAction = "git-paused" // a person has the repository
	GitResumed  HiveAction = "git-resumed"
	Continued   HiveAction = "continued"    // Conversation, or Agent, starts its count again
	ClockJumped HiveAction = "clock-jumped" // the clock of the machine was set by Jump milliseconds; zero: hived itself stood still
)

// HiveEvent is a `hive` event.
type HiveEvent struct {
	Action       HiveAction     `json:"action"`
	Format       int            `json:"format,omitzero"` // of initialised, adopted without a file, and sealed
	Through      Seq            `json:"through,omitzero"`
	Segment      *Segment       `json:"segment,omitzero"`
	Adopted      *AdoptedFile   `json:"adopted,omitzero"`
	Onto         string         `json:"onto,omitzero"` // commit that an adopted history is built upon
	Paths        []string       `json:"paths,omitzero"`
	Conversation ConversationID `json:"conversation,omitzero"`
	Agent        AgentID        `json:"agent,omitzero"`
	By           AgentID        `json:"by,omitzero"`
	Of           Seq            `json:"of,omitzero"` // the message that commanded it
	Jump         int64          `json:"jump_ms,omitzero"`
	Note         string         `json:"note,omitzero"`
}

// Segment names a sealed segment of the log.
type Segment struct {
	Name   string `json:"name"` // below log/
	First  Seq    `json:"first"`
	Last   Seq    `json:"last"`
	SHA256 string `json:"sha256"` // 64 hex digits
}

// AdoptedFile is one message of an older hive, left in its place.
type AdoptedFile struct {
	Path         string         `json:"path"`
	ID           MessageID      `json:"id,omitzero"`
	From         AgentID        `json:"from,omitzero"`
	Conversation ConversationID `json:"conversation,omitzero"`
	Hops         int            `json:"hops,omitzero"`
	Content      Content        `json:"content"`
}

// AgentAction is what happened to one agent.
type AgentAction string

// The actions of an `agent` event.
const (
	Joined   AgentAction = "joined"
	Changed  AgentAction = "changed" // role or capabilities
	Held     AgentAction = "held"
	Released AgentAction = "released"
	Archived AgentAction = "archived"
	Restored AgentAction = "restored"
	LeadSet  AgentAction = "lead"  // an empty Agent: there is no lead now
	SlotsSet AgentAction = "slots" // it takes Slots tasks in hand for now, which may be none

	InboxMissing   AgentAction = "inbox-missing"   // so many messages are gone from the inbox, and it is not believed that they were deleted; none: all is well again
	InboxBelieved  AgentAction = "inbox-believed"  // somebody says that the agent deleted them
	InboxPutBack   AgentAction = "inbox-put-back"  // somebody wants them back
	InboxUndeleted AgentAction = "inbox-undeleted" // somebody wants messages back that count as deleted
)

// AgentEvent is an `agent` event.
type AgentEvent struct {
	Agent  AgentID     `json:"agent"`
	Action AgentAction `json:"action"`
	Role   string      `json:"role,omitzero"`
	Caps   []string    `json:"caps,omitzero"`
	Slots  int         `json:"slots,omitzero"` // tasks that it may have in hand; zero: one
	Count  int         `json:"count,omitzero"` // of messages, for the actions about an inbox
	By     AgentID     `json:"by,omitzero"`
	Of     Seq         `json:"of,omitzero"` // the message that commanded it

	// Older is an object: the other members of the agent's entry in the registry of
	// an older hive, and those that are written in another way now (spec §1.6).
	Older jsontext.Value `json:"older,omitzero"`
}

// Original identifies the outbox file that an event was made from, so that it is
// recognized after a crash (spec §3, recovery).
type Original struct {
	Name   string `json:"name"` // as [SafeName] writes it
	Ino    uint64 `json:"ino,omitzero"`
	MTime  string `json:"mtime,omitzero"`  // as [Stamp] writes it
	CTime  string `json:"ctime,omitzero"`  // the same: of its last change or move; empty if the system has none
	SHA256 string `json:"sha256,omitzero"` // 64 hex digits
}

// MessageEvent is a `message` event: a message was accepted.
type MessageEvent struct {
	ID           MessageID      `json:"id"`
	From         AgentID        `json:"from"`
	To           []Address      `json:"to"`
	Act          Act            `json:"act"`
	Subject      string         `json:"subject,omitzero"` // cut to 200 characters; Raw has it whole
	Conversation ConversationID `json:"conversation"`
	InReplyTo    MessageID      `json:"in_reply_to,omitzero"`
	Hops         int            `json:"hops"`
	Claimed      int            `json:"claimed_hops,omitzero"` // of Hops: claimed beyond what hived counted, for this message alone
	First        Seq            `json:"first,omitzero"`        // the message to which this is its sender's first reply, if that is not itself a reply
	Echoes       int            `json:"echoes,omitzero"`       // of the sender, in millionths, with this message (spec §4.3)
	Stops        bool           `json:"stops,omitzero"`        // a notice that tells its reader which other messages of its were stopped in the thread
	Misspelt     []string       `json:"misspelt,omitempty"`    // fields that may be misspelt, about which the sender is told now
	Kept         *Kept          `json:"kept,omitzero"`
	Delivered    []AgentID      `json:"delivered"`
	File         string         `json:"file"` // name in every inbox
	Blob         Blob           `json:"blob"` // git object id of the delivered bytes
	Size         int            `json:"size"` // of the delivered bytes
	ClaimedFrom  string         `json:"claimed_from,omitzero"`
	Sent         string         `json:"sent,omitzero"` // name in outbox/.sent; none for hive's own
	Original     *Original      `json:"original,omitzero"`
	Content      string         `json:"content,omitzero"` // [ContentHash] in hex; only where the sender chose the id
	Set          jsontext.Value `json:"set"`
	Raw          string         `json:"raw"`
}

// Kept names the recipients for whom a message is kept until somebody lets its thread
// go on. The recipients of a message are those in Delivered, in its drops, and in
// Kept.
type Kept struct {
	To     []AgentID `json:"to"`
	Reason Reason    `json:"reason"`
	Told   bool      `json:"told,omitzero"` // the sender was told at once
}

// Reason says why a recipient did not get a message.
type Reason string

// The reasons of a `drop` event.
const (
	NoInbox   Reason = "no-inbox"
	HopCap    Reason = "hop-cap"
	PairCap   Reason = "pair-cap"
	InboxFull Reason = "inbox-full"
	Expired   Reason = "expired"
)

// DropEvent is a `drop` event: an accepted message was not delivered to some of its
// recipients.
type DropEvent struct {
	Of           Seq            `json:"of"` // the message event
	ID           MessageID      `json:"id"`
	From         AgentID        `json:"from"`
	To           []Address      `json:"to"`
	Conversation ConversationID `json:"conversation"`
	Reason       Reason         `json:"reason"`
	Detail       string         `json:"detail,omitzero"`
	Told         bool           `json:"told,omitzero"` // the sender was told
}

// QuarantineEvent is a `quarantine` event: a file was set aside as Path.
type QuarantineEvent struct {
	Agent    AgentID   `json:"agent"`
	Code     Code      `json:"code"`
	Detail   string    `json:"detail"`
	Path     string    `json:"path"` // where it is now
	ID       MessageID `json:"id,omitzero"`
	Size     int64     `json:"size"`
	Line     int       `json:"line,omitzero"`
	Column   int       `json:"column,omitzero"`
	Original *Original `json:"original,omitzero"`
	Told     bool      `json:"told,omitzero"` // a notice that follows tells the lead, or a person
	// Content is nil for what has no bytes worth keeping: a link, a FIFO, a
	// directory, a file over the size limit.
	Content *Content `json:"content,omitzero"`
}

// DuplicateEvent is a `duplicate` event: the same message again.
type DuplicateEvent struct {
	Of       Seq       `json:"of"` // the event that accepted it
	Agent    AgentID   `json:"agent"`
	ID       MessageID `json:"id"`
	Sent     string    `json:"sent"`
	Original *Original `json:"original,omitzero"`
	Raw      string    `json:"raw"`
}

// How says in which way a message left an inbox.
type How string

// The ways, and the way back.
const (
	HowDone     How = "done"     // moved to .done
	HowDeleted  How = "deleted"  // gone
	HowReopened How = "reopened" // moved back from .done

	HowUndeleted How = "undeleted" // delivered again after it counted as deleted
)

// HandledEvent is a `handled` event.
type HandledEvent struct {
	Agent AgentID   `json:"agent"`
	Of    Seq       `json:"of,omitzero"` // the message event
	ID    MessageID `json:"id,omitzero"`
	File  string    `json:"file"`
	How   How       `json:"how"`
	// Content is what was delivered, if the message is undeleted.
	Content *Content `json:"content,omitzero"`
}

// DeliveredEvent is a `delivered` event: a kept message was delivered with the bytes
// that it had when it was accepted, under a new name.
type DeliveredEvent struct {
	Of           Seq            `json:"of"` // the message event
	ID           MessageID      `json:"id"`
	From         AgentID        `json:"from"`
	To           []AgentID      `json:"to"` // who took delivery
	Conversation ConversationID `json:"conversation"`
	File         string         `json:"file"` // name in every inbox
	Blob         Blob           `json:"blob"`
	Size         int            `json:"size"`
	Content      Content        `json:"content"` // the delivered bytes
}

// FileEvent is a `file` event: a file that is not a message has a new version.
type FileEvent struct {
	Path    string   `json:"path"`
	By      AgentID  `json:"by,omitzero"` // whose file it is
	Deleted bool     `json:"deleted,omitzero"`
	Content *Content `json:"content,omitzero"`
}

// AlertEvent is an `alert` event: something that a person should know.
type AlertEvent struct {
	Code  Code    `json:"code"`
	Text  string  `json:"text"`
	Agent AgentID `json:"agent,omitzero"`
	Path  string  `json:"path,omitzero"`
	Told  bool    `json:"told,omitzero"` // a notice that follows tells the lead, or a person

	// Of an alert that an agent raised: what it calls the cause, and the event of its command.
	Cause string `json:"cause,omitzero"`
	Of    Seq    `json:"of,omitzero"`
}

// Content is the bytes of a file: as text if they are UTF-8, else in base64.
type Content struct {
	Text string `json:"text,omitzero"`
	B64  []byte `json:"b64,omitzero"`
}

// NewContent returns a Content with a copy of the bytes.
func NewContent(data []byte) Content {
	if utf8.Valid(data) {
		return Content{Text: string(data)}
	}
	return Content{B64: append([]byte(nil), data...)}
}

// Bytes returns the bytes.
func (c Content) Bytes() []byte {
	if len(c.B64) > 0 {
		return c.B64
	}
	return []byte(c.Text)
}

// Kind implements [Body].
func (*HiveEvent) Kind() Kind { return KindHive }

// Kind implements [Body].
func (*AgentEvent) Kind() Kind { return KindAgent }

// Kind implements [Body].
func (*MessageEvent) Kind() Kind { return KindMessage }

// Kind implements [Body].
func (*DropEvent) Kind() Kind { return KindDrop }

// Kind implements [Body].
func (*QuarantineEvent) Kind() Kind { return KindQuarantine }

// Kind implements [Body].
func (*DuplicateEvent) Kind() Kind { return KindDuplicate }

// Kind implements [Body].
func (*HandledEvent) Kind() Kind { return KindHandled }

// Kind implements [Body].
func (*DeliveredEvent) Kind() Kind { return KindDelivered }

// Kind implements [Body].
func (*FileEvent) Kind() Kind { return KindFile }

// Kind implements [Body].
func (*AlertEvent) Kind() Kind { return KindAlert }

func (*HiveEvent) sealed()       {}
func (*AgentEvent) sealed()      {}
func (*MessageEvent) sealed()    {}
func (*DropEvent) sealed()       {}
func (*QuarantineEvent) sealed() {}
func (*DuplicateEvent) sealed()  {}
func (*HandledEvent) sealed()    {}
func (*DeliveredEvent) sealed()  {}
func (*FileEvent) sealed()       {}
func (*AlertEvent) sealed()      {}
