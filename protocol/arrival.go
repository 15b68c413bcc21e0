package protocol

import "time"

// Arrival is a file in an outbox that is to be dealt with now: a message, or
// one that will never be one.
type Arrival struct {
	Agent    AgentID
	Name     string   // as on the disk: any bytes but / and NUL
	Original Original // SHA256 is empty where nothing was read
	ModTime  time.Time
	Size     int64
	Raw      []byte   // nil where nothing was read
	Message  *Message // nil where there is a Fault
	Fault    *Fault
	// SentTaken says that the name in outbox/.sent for this message is in use,
	// or could be in use by another file whose [SentName] is the same: take one that is
	// unique. BadTaken is the same for "bad-" before the name; it is
	// looked up for a Fault only and else true.
	SentTaken, BadTaken bool

	// Behind says that something waits in this outbox already, for people too, because
	// its sender may be in a loop: what goes to people does not overtake it.
	Behind bool

	// Seen is when it was looked at, by the clock of whoever looked; zero where it
	// was put together from the log, and the name may be another file's by now.
	Seen time.Time
}

// Fault says why a file is not taken (spec §3.2, §3.3).
type Fault struct {
	// Code is malformed, too-large, not-a-file, hard-link, or unreadable for
	// a file that belongs to another user than the outbox does.
	Code         Code
	Detail       string // one line: what is wrong, and what to do
	Line, Column int    // 1-based; zero where no place is to blame
}

// Stray is a file in an outbox that is no message and that nobody takes away,
// or one that cannot be read.
type Stray struct {
	Name string // as on the disk
	Code Code   // stray-file or unreadable
	Why  string // one line: what is wrong, and what to do
}

// SentName is the name that a file of an outbox gets in outbox/.sent, as long
// as it is free there.
func SentName(name string) string { return ShortName(SafeName(name)) }
