package protocol

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Act is the speech act of a message (spec §2).
type Act string

// The acts. The list is closed.
const (
	Request       Act = "request"
	Inform        Act = "inform"
	Propose       Act = "propose"
	Query         Act = "query"
	Agree         Act = "agree"
	Refuse        Act = "refuse"
	Done          Act = "done"
	Failure       Act = "failure"
	Cancel        Act = "cancel"
	NotUnderstood Act = "not-understood"
)

// Acts returns all acts, in the order of the specification.
func Acts() []Act {
	return []Act{Request, Inform, Propose, Query, Agree, Refuse, Done, Failure, Cancel, NotUnderstood}
}

// WantsReply reports whether a message with this act asks for a reply if it does not
// say so itself.
func (a Act) WantsReply() bool { return a == Request || a == Query || a == Propose }

// Address is one entry of a message's `to`: an agent's id, `@role`,
// `broadcast`, `lead`, `god`, `human` or `hive`.
type Address string

// Role returns the role or capability of an `@role` address.
func (a Address) Role() (string, bool) { return strings.CutPrefix(string(a), "@") }

// MaxDepth is the deepest nesting of arrays and objects in a message,
// the message itself counted.
const MaxDepth = 64

// Message is a message as its sender wrote it: valid, but with nothing filled
// in. A zero field is absent, or was written as zero: see [Message.Has].
type Message struct {
	ID            MessageID
	Conversation  ConversationID
	InReplyTo     MessageID
	From          string // a claim, nothing more
	To            []Address
	Act           Act
	Subject       string
	Body          jsontext.Value
	Hops          int
	RequiresReply bool
	NeedsHuman    bool
	CreatedAt     time.Time
	ExpiresAt     time.Time
	Task          string
	Epoch         uint64
	Event         string
	Data          jsontext.Value

	members []member // all members in the order in which they were written, compact
}

type member struct {
	name  string
	value jsontext.Value
}

// Has reports whether the sender wrote the field.
func (m *Message) Has(field string) bool {
	return slices.ContainsFunc(m.members, func(x member) bool { return x.name == field })
}

// Text returns the body as text: a string as it is, any other value as indented JSON.
func (m *Message) Text() string {
	var s string
	if m.Body.Kind() == '"' && json.Unmarshal(m.Body, &s) == nil {
		return s
	}
	v := m.Body.Clone()
	if len(v) == 0 || v.Indent(jsontext.WithIndent("  ")) != nil {
		return string(m.Body)
	}
	return string(v)
}

// canonical is the order of the fields of a delivered message. What is not in
// the list follows in the order in which its sender wrote it.
var canonical = []string{
	"id", "conversation", "in_reply_to", "from", "to", "act", "subject", "body", "hops", "requires_reply",
	"needs_human", "created_at", "expires_at", "task", "epoch", "event", "data", "seq", "received_at",
}

// Deliver returns the bytes that every recipient of a message gets: what was sent,
// with the members of set (a JSON object) replacing those of the sender, the fields in
// a fixed order, one member a line, values compact, a line break at the end (spec §2).
// The same arguments must give the same bytes for ever: replay and git depend on it.
func Deliver(m *Message, set jsontext.Value, seq Seq, received time.Time) ([]byte, error) {
	filled, err := objectMembers(set)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(m.members, filled, []member{
		{"seq", jsontext.Value(seq.String())},
		{"received_at", quoted(Stamp(received))},
	})
	size := len("{\n\n}\n")
	for _, x := range all {
		size += len(x.name) + len(x.value) + len(",\n  \"\": ")
	}
	b := append(make([]byte, 0, size), '{')
	sep := "\n  "
	put := func(name string) {
		for _, a := range slices.Backward(all) { // what was filled in replaces what the sender wrote
			if a.name == name {
				b = append(appendQuoted(append(b, sep...), name), ": "...)
				b = append(b, a.value...)
				sep = ",\n  "
				return
			}
		}
	}
	for _, name := range canonical {
		put(name)
	}
	for _, x := range m.members {
		if !slices.Contains(canonical, x.name) {
			put(x.name)
		}
	}
	return append(b, "\n}\n"...), nil
}

// quoted writes a string as JSON. Text that came through a decoder is valid
// UTF-8; of any other the broken bytes become U+FFFD.
func quoted(s string) jsontext.Value { return appendQuoted(nil, s) }

func appendQuoted(dst []byte, s string) []byte {
	b, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		b, _ = jsontext.AppendQuote(dst, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return b
}

// stampLayout is RFC 3339 in UTC with all nine digits, so that equal times are equal
// texts and texts sort as times do.
const stampLayout = "2006-01-02T15:04:05.000000000Z"

// Stamp returns a time as the log and delivered messages have it: RFC 3339 in UTC,
// with nine digits after the second.
func Stamp(t time.Time) string { return t.UTC().Format(stampLayout) }

// StampTime parses what [Stamp] returns; anything else gives the zero time.
func StampTime(s string) time.Time {
	t, _ := parseStamp(s)
	return t
}

// parseStamp reads what [Stamp] writes, and nothing else. The layout of RFC
// 3339 is the one that package time parses without interpreting it.
func parseStamp(s string) (time.Time, bool) {
	if len(s) != len(stampLayout) || s[len("2026-11-21T09:00:00")] != '.' || s[len(s)-1] != 'Z' {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t, err == nil
}
