package task

import (
	"slices"

	"github.com/hived/hived/protocol"
)

// State is the state of a task.
type State = protocol.TaskState

// Event is what happens to a task.
type Event = protocol.TaskAction

// The states.
const (
	Unassigned State = "unassigned"  // nobody has it
	Offered    State = "offered"     // some were asked
	Pending    State = "pending"     // one has it and has not started
	InProgress State = "in_progress" //
	Paused     State = "paused"      // for people to approve
	Blocked    State = "blocked"     // until another task or the lead has helped
	Retrying   State = "retrying"    // until the backoff is over
	Stalled    State = "stalled"     // its holder was not heard of
	Completed  State = "completed"
	Failed     State = "failed"
	Cancelled  State = "cancelled"
)

// States returns all states, in the order of a life.
func States() []State {
	return []State{Unassigned, Offered, Pending, InProgress, Paused, Blocked, Retrying, Stalled, Completed, Failed, Cancelled}
}

// Ended reports whether a state is final: no row leaves it.
func Ended(s State) bool { return s == Completed || s == Failed || s == Cancelled }

// Held reports whether a task in that state has a holder.
func Held(s State) bool {
	return slices.Contains([]State{Pending, InProgress, Paused, Blocked, Retrying, Stalled}, s)
}

// InHand reports whether a task in that state keeps its holder busy. One that waits
// for others does not: else a holder could not do the repair that it waits for.
func InHand(s State) bool { return s == Pending || s == InProgress || s == Retrying || s == Stalled }

// The events.
const (
	Create             Event = "create"
	Offer              Event = "offer"
	Claim              Event = "claim"
	Accept             Event = "accept"
	Reject             Event = "reject"
	OfferExhausted     Event = "offer_exhausted"
	OfferExpired       Event = "offer_expired"
	OfferWithdrawn     Event = "offer_withdrawn"
	Start              Event = "start"
	LeaseExpired       Event = "lease_expired"
	Release            Event = "release"
	Progress           Event = "progress"
	PauseForApproval   Event = "pause_for_approval"
	BlockOnDependency  Event = "block_on_dependency"
	TransientError     Event = "transient_error"
	FatalError         Event = "fatal_error"
	Complete           Event = "complete"
	HeartbeatLost      Event = "heartbeat_lost"
	ProgressStalled    Event = "progress_stalled"
	ApprovalVote       Event = "approval_vote"
	ApprovalGranted    Event = "approval_granted"
	ApprovalDenied     Event = "approval_denied"
	Timeout            Event = "timeout"
	Answer             Event = "answer"
	Amend              Event = "amend"
	DependencyResolved Event = "dependency_resolved"
	DependencyFailed   Event = "dependency_failed"
	Retry              Event = "retry"
	MaxRetriesExceeded Event = "max_retries_exceeded"
	Recovered          Event = "recovered"
	Poison             Event = "poison"
	Remind             Event = "remind"
	StepStarted        Event = "step_started"
	StepEnded          Event = "step_ended"
	Unwind             Event = "unwind"
	Cancel             Event = "cancel"
	Effort             Event = "effort"
	CancelledEvent     Event = "cancelled"
)

// Adopted begins a task like [Create], but in the state that its files show: a new log
// takes it over. It is not a row of the table.
const Adopted Event = "adopted"

// Commands of agents that are not rows of the table. The category of a failure decides
// which row it takes, and the kind of an outcome; a resume begins a new task that goes on
// from an ended one.
const (
	Failure       Event = "failure"
	Resume        Event = "resume"
	ReportOutcome Event = "outcome"
)

// Role is what somebody is to a task.
type Role string

// The roles.
const (
	ByHive     Role = "hive"
	ByEligible Role = "eligible agent"
	ByOfferee  Role = "offeree"
	ByHolder   Role = "holder"
	ByApprover Role = "approver"
	ByCreator  Role = "creator"
	ByLead     Role = "lead"
	ByHuman    Role = "human"
	ByBeginner Role = "who began the step"
	ByLast     Role = "last holder"
)

// Rule is one row of the table: in each of these states the event leads to one state,
// if one of these roles reports it. With Same instead of To the state stays.
type Rule struct {
	From []State
	On   Event
	To   State
	Same bool
	Who  []Role
	Note string
}

// Rules returns the table (spec §8.1). A create begins a task as unassigned.
func Rules() []Rule { return slices.Clone(rules) }

var (
	active   = []State{InProgress, Paused, Blocked, Retrying, Stalled}
	open     = append([]State{Unassigned, Offered, Pending}, active...)
	managers = []Role{ByCreator, ByLead, ByHuman}
)

var rules = []Rule{
	{From: []State{Unassigned}, On: Offer, To: Offered, Who: []Role{ByHive}},
	{From: []State{Unassigned}, On: Claim, To: Pending, Who: []Role{ByEligible}, Note: "new epoch"},
	{From: []State{Offered}, On: Claim, To: Pending, Who: []Role{ByEligible}, Note: "accept under another name"},
	{From: []State{Unassigned, Blocked}, On: DependencyFailed, To: Failed, Who: []Role{ByHive}},
	{From: []State{Unassigned}, On: MaxRetriesExceeded, To: Failed, Who: []Role{ByHive}, Note: "after max_executions that reached nothing new"},
	{From: []State{Unassigned}, On: Poison, To: Failed, Who: []Role{ByHive}},
	{From: []State{Offered}, On: Accept, To: Pending, Who: []Role{ByOfferee}, Note: "the first in log order wins; new epoch"},
	{From: []State{Offered}, On: Reject, Same: true, Who: []Role{ByOfferee}},
	{From: []State{Offered}, On: OfferExhausted, To: Unassigned, Who: []Role{ByHive}},
	{From: []State{Offered}, On: OfferExpired, To: Unassigned, Who: []Role{ByHive}},
	{From: []State{Offered}, On: OfferWithdrawn, Same: true, Who: []Role{ByHive}, Note: "from who is on hold, archived, or has no room"},
	{From: []State{Pending}, On: Start, To: InProgress, Who: []Role{ByHolder}},
	{From: []State{Pending}, On: LeaseExpired, To: Unassigned, Who: []Role{ByHive}},
	{From: []State{Pending, InProgress, Retrying}, On: Release, To: Unassigned, Who: []Role{ByHolder}, Note: "the checkpoint is kept"},
	{From: []State{InProgress}, On: Progress, Same: true, Who: []Role{ByHolder}},
	{From: []State{InProgress}, On: PauseForApproval, To: Paused, Who: []Role{ByHolder, ByHive}},
	{From: []State{InProgress}, On: BlockOnDependency, To: Blocked, Who: []Role{ByHolder, ByHive}},
	{From: []State{InProgress}, On: TransientError, To: Retrying, Who: []Role{ByHolder, ByHive}},
	{From: []State{InProgress}, On: FatalError, To: Failed, Who: []Role{ByHolder}},
	{From: []State{InProgress}, On: Complete, To: Completed, Who: []Role{ByHolder}},
	{From: []State{InProgress}, On: HeartbeatLost, To: Stalled, Who: []Role{ByHive}},
	{From: []State{InProgress}, On: ProgressStalled, To: Stalled, Who: []Role{ByHive}},
	{From: []State{Paused}, On: ApprovalVote, Same: true, Who: []Role{ByApprover}, Note: "more must approve"},
	{From: []State{Paused}, On: ApprovalGranted, To: InProgress, Who: []Role{ByApprover}},
	{From: []State{Paused}, On: ApprovalDenied, To: Failed, Who: []Role{ByApprover}},
	{From: []State{Paused}, On: Timeout, To: Failed, Who: []Role{ByHive}},
	{From: []State{Pending, Paused}, On: Remind, Same: true, Who: []Role{ByHive}},
	{From: []State{Blocked}, On: DependencyResolved, To: InProgress, Who: []Role{ByHive, ByLead, ByHuman}},
	{From: []State{Blocked}, On: Answer, To: InProgress, Who: managers, Note: "the words reach the holder"},
	{From: []State{Blocked}, On: FatalError, To: Failed, Who: append([]Role{ByHolder}, managers...)},
	{From: []State{Retrying}, On: Retry, To: InProgress, Who: []Role{ByHive}, Note: "the backoff is over"},
	{From: []State{Retrying}, On: MaxRetriesExceeded, To: Failed, Who: []Role{ByHive}},
	{From: []State{Retrying}, On: FatalError, To: Failed, Who: []Role{ByHolder}},
	{From: []State{Stalled}, On: Recovered, To: InProgress, Who: []Role{ByHolder}, Note: "same epoch, before the release"},
	{From: []State{Stalled}, On: Release, To: Unassigned, Who: []Role{ByHive}, Note: "after stall_grace; the epoch is spent"},
	{From: []State{Stalled}, On: MaxRetriesExceeded, To: Failed, Who: []Role{ByHive}},
	{From: []State{InProgress}, On: StepStarted, Same: true, Who: []Role{ByHolder}},
	{From: States(), On: StepEnded, Same: true, Who: []Role{ByBeginner}, Note: "whatever the epoch, if its intent still stands"},
	{From: []State{Completed, Failed, Cancelled}, On: Unwind, Same: true, Who: []Role{ByHive, ByCreator, ByHuman}, Note: "a new task undoes its steps; by hive where it failed or was cancelled"},
	{From: []State{Paused, Blocked, Retrying, Completed, Failed, Cancelled}, On: Effort, Same: true, Who: []Role{ByLast}, Note: "under the last epoch: how the execution ended of which its agent had reported"},
	{From: open, On: Amend, Same: true, Who: []Role{ByCreator, ByHuman}, Note: "the next version of its brief; the epoch stays"},
	{From: []State{Unassigned, Offered, Pending}, On: Cancel, To: Cancelled, Who: managers},
	{From: active, On: Cancel, Same: true, Who: managers, Note: "cancel_requested"},
	{From: active, On: CancelledEvent, To: Cancelled, Who: []Role{ByHolder, ByHive}, Note: "after cancel; hive after cancel_grace"},
}

// row returns the row for an event in a state.
func row(from State, on Event) (Rule, bool) {
	for i := range rules {
		if rules[i].On == on && slices.Contains(rules[i].From, from) {
			return rules[i], true
		}
	}
	return Rule{}, false
}

// Next returns the state that an event leads to, if there is such a row.
func Next(from State, on Event) (State, bool) {
	if from == "" && on == Create {
		return Unassigned, true
	}
	r, ok := row(from, on)
	if r.Same {
		return from, ok
	}
	return r.To, ok
}

// Who returns the roles that may report an event in a state; none if there is no such
// row.
func Who(from State, on Event) []Role {
	r, _ := row(from, on)
	return r.Who
}

// Events returns the events of the table, in its order.
func Events() []Event {
	var list []Event
	for _, r := range rules {
		if !slices.Contains(list, r.On) {
			list = append(list, r.On)
		}
	}
	return list
}
