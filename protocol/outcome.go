package protocol

import (
	"encoding/hex"
	"fmt"
	"slices"
	"unicode/utf8"
)

// OutcomeKind says how one execution of a task ended (spec §8.10).
type OutcomeKind string

// The kinds. The worker reports them; what follows from each is a row of the table in
// package task.
const (
	OutcomeCompleted   OutcomeKind = "completed"
	OutcomeUnvalidated OutcomeKind = "unvalidated" // the gate did not pass
	OutcomeIncomplete  OutcomeKind = "incomplete"  // it ended well, and says that it is not done
	OutcomeFailed      OutcomeKind = "failed"
	OutcomeTimedOut    OutcomeKind = "timed-out"
	OutcomeCrashed     OutcomeKind = "crashed"      // a signal ended it
	OutcomeUnusable    OutcomeKind = "unusable"     // the program is not there, or cannot run
	OutcomeRateLimited OutcomeKind = "rate-limited" // its service wants it to wait
	OutcomeNeedsLogin  OutcomeKind = "needs-login"
	OutcomeCancelled   OutcomeKind = "cancelled"
	OutcomeInterrupted OutcomeKind = "interrupted" // the worker was told to stop
	OutcomeLeaseLost   OutcomeKind = "lease-lost"  // the task went to somebody else meanwhile
)

// Charge is what an event of a task counts against.
type Charge string

// The charges.
const (
	ChargeRetry Charge = "retry" // one of tasks.max_retries
	ChargeFree  Charge = "free"  // one of tasks.max_free, and no execution that came to nothing
)

// TailMost is how many characters of the end of its output an outcome may have.
const TailMost = 20_000

// Outcome is how one execution of a task ended, as the program that ran the agent
// reports it: part of the `data` of the command outcome, and, as `outcome`, of the event
// that follows from it. The other members of the command's data are members of that
// event too.
type Outcome struct {
	Kind         OutcomeKind `json:"kind,omitzero"`
	Adapter      string      `json:"adapter,omitzero"` // which program ran
	Exit         *int        `json:"exit,omitzero"`
	Signal       string      `json:"signal,omitzero"`
	DurationMS   int64       `json:"duration_ms,omitzero"`
	TokensIn     int64       `json:"tokens_in,omitzero"`
	TokensOut    int64       `json:"tokens_out,omitzero"`
	CostMicros   int64       `json:"cost_micros,omitzero"` // millionths of the currency in which the adapter counts
	PromptSHA256 string      `json:"prompt_sha256,omitzero"`
	Tail         string      `json:"tail,omitzero"` // the end of its output
}

// Fault returns what is wrong with an outcome whose kind is known; empty if nothing is.
func (o *Outcome) Fault() string {
	switch {
	case o.Adapter != "" && !wellFormed(o.Adapter, 64):
		return "adapter is " + Quote(Fit(o.Adapter, 64)) + "; write 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit"
	case len(o.Signal) > 16 || o.Exit != nil && (*o.Exit < 0 || *o.Exit > 255):
		return "its exit is 0 to 255, and its signal a name such as KILL"
	case slices.Min([]int64{o.DurationMS, o.TokensIn, o.TokensOut, o.CostMicros}) < 0:
		return "duration_ms, tokens_in, tokens_out and cost_micros are not negative"
	case o.PromptSHA256 != "" && !isSum(o.PromptSHA256):
		return "prompt_sha256 is no SHA-256 in 64 hex digits"
	case utf8.RuneCountInString(o.Tail) > TailMost:
		return fmt.Sprintf("its tail has %d characters; send the last %d at most", utf8.RuneCountInString(o.Tail), TailMost)
	}
	return ""
}

func isSum(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32
}

// OutcomeKinds returns all kinds.
func OutcomeKinds() []OutcomeKind {
	return []OutcomeKind{
		OutcomeCompleted, OutcomeUnvalidated, OutcomeIncomplete, OutcomeFailed, OutcomeTimedOut, OutcomeCrashed,
		OutcomeUnusable, OutcomeRateLimited, OutcomeNeedsLogin, OutcomeCancelled, OutcomeInterrupted, OutcomeLeaseLost,
	}
}
