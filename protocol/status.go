package protocol

import "time"

// StatusFile is where a running daemon writes its status, about once a second.
const StatusFile = PathScratch + "/status.json"

// SnapshotFile holds the state at one event, so that a start need not fold the events
// before it (spec §3, recovery). It may be deleted at any time.
const SnapshotFile = PathScratch + "/snapshot"

// SuspectFile names the file of an outbox about which a daemon could not decide, so
// that it had to end, although the sender is not the reason.
const SuspectFile = PathScratch + "/suspect"

// LockFile is the lock of the hive's daemon; it holds the daemon's pid.
const LockFile = PathScratch + "/lock"

// Need is something that waits for a person, or that a person should know.
type Need struct {
	Code         Code           `json:"code"`
	Text         string         `json:"text"` // one line
	Agent        AgentID        `json:"agent,omitzero"`
	Task         TaskID         `json:"task,omitzero"`
	Conversation ConversationID `json:"conversation,omitzero"`
	Count        int            `json:"count,omitzero"` // of what it sums up
	Since        time.Time      `json:"since,omitzero"`
	Until        time.Time      `json:"until,omitzero"`
	Commands     []string       `json:"commands,omitzero"` // that settle it, or show more of it
}

// HeldTask is a task that is in somebody's hand.
type HeldTask struct {
	Task   TaskID  `json:"task"`
	Holder AgentID `json:"holder"`
	Signs
}

// Signs are when the holder of a task was last heard of, as far as the daemon has
// seen since it started, when it last reached something new or began to, and by when
// either must come again: else the task stalls, and one that is not started yet, or
// stalled, is taken away.
type Signs struct {
	HeardAt      time.Time `json:"heard_at,omitzero"`
	HearBy       time.Time `json:"hear_by,omitzero"`
	ProgressedAt time.Time `json:"progressed_at,omitzero"`
	ProgressBy   time.Time `json:"progress_by,omitzero"`
}
