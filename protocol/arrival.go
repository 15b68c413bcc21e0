package protocol

import "time"

// Arrival is a file in an outbox that can be decided now: a message, or a file that
// will never be one.
type Arrival struct {
	Agent    AgentID
	Name     string   // as on the disk: any bytes but / and NUL
	Original Original // SHA256 is empty if nothing was read
	ModTime  time.Time
	Size     int64
	Raw      []byte   // nil if nothing was read
	Message  *Message // nil if there is a Fault
	Fault    *Fault
	// SentTaken says that the name in outbox/.sent for this message is in use,
	// or could be in use by another file whose [SentName] is the same: then a unique
	// name is needed. BadTaken is the same for "bad-" before the name; it is looked
	// up only if there is a Fault, and is true otherwise.
	SentTaken, BadTaken bool

	// Behind says that a file already waits in this outbox, for people too, because
	// its sender may be in a loop: a message to people does not overtake it.
	Behind bool

	// Seen is when the file was read, by the caller's clock; zero if the Arrival
	// was made from the log, and the name may be another file's by now.
	Seen time.Time
}

// Fault says why a file is not accepted (spec §3.2, §3.3).
type Fault struct {
	// Code is malformed, too-large, not-a-file, hard-link, or unreadable for
	// a file that belongs to another user than the outbox does.
	Code         Code
	Detail       string // one line: what is wrong, and what to do
	Line, Column int    // 1-based; zero if the fault has no place
}

// Stray is a file in an outbox that is no message and that nobody removes, or one
// that cannot be read.
type Stray struct {
	Name string // as on the disk
	Code Code   // stray-file or unreadable
	Why  string // one line: what is wrong, and what to do
}

// SentName returns the name that a file of an outbox gets in outbox/.sent if it is
// free there.
func SentName(name string) string { return ShortName(SafeName(name)) }
