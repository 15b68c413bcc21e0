package protocol

import (
	"fmt"
	"strconv"
	"strings"
)

// Seq numbers the events of a log: 1, 2, 3 … without gaps (spec §5). Zero is
// before the first event.
type Seq uint64

// String returns the decimal form.
func (s Seq) String() string { return strconv.FormatUint(uint64(s), 10) }

// ParseSeq parses what [Seq.String] returns.
func ParseSeq(s string) (Seq, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read sequence number %q: it is not a whole number", s)
	}
	return Seq(n), nil
}

// AgentID names an agent and its directory: [A-Za-z0-9][A-Za-z0-9._-]{0,63}
// (spec §1).
type AgentID string

// The names that no agent's directory may have (spec §1), and the mailbox of the
// people, which always exists.
const (
	Hive      AgentID = "hive"      // the coordinator itself
	Broadcast AgentID = "broadcast" // every active agent but sender and human
	Lead      AgentID = "lead"      // the lead agent, if one is set
	God       AgentID = "god"       // alias of lead
	Human     AgentID = "human"     // an ordinary mailbox that always exists
)

// Reserved reports whether the id stands for something other than one agent's
// directory.
func (id AgentID) Reserved() bool {
	switch AgentID(strings.ToLower(string(id))) {
	case Hive, Broadcast, Lead, God:
		return true
	}
	return false
}

// ParseAgentID checks the form of an agent's id; the error wraps [ErrBadID]. Reserved
// names are valid here; code that makes an agent refuses them with
// [AgentID.Reserved].
func ParseAgentID(s string) (AgentID, error) {
	if !wellFormed(s, 64) {
		return "", fmt.Errorf("%w: agent id %s: write 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit", ErrBadID, Quote(s))
	}
	return AgentID(s), nil
}

// MessageID names a message: [A-Za-z0-9][A-Za-z0-9._-]{0,127} (spec §2). Ids of
// different senders never collide.
type MessageID string

// ParseMessageID checks the form of a message's id; the error wraps [ErrBadID].
func ParseMessageID(s string) (MessageID, error) {
	if !wellFormed(s, 128) {
		return "", fmt.Errorf("%w: message id %s: write 1 to 128 of A-Z a-z 0-9 . _ - and begin with a letter or digit", ErrBadID, Quote(s))
	}
	return MessageID(s), nil
}

// ConversationID names a thread of messages; any string of 1 to 256 bytes.
type ConversationID string

func wellFormed(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}
