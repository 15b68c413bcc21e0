package protocol

// Code identifies the kind of a refusal, notice, alert, problem or finding for
// programs. A notice has it as `data.code` (spec §4.6).
type Code string

// What can be wrong with a file in an outbox or an inbox.
const (
	CodeMalformed  Code = "malformed"
	CodeTooLarge   Code = "too-large"
	CodeNotAFile   Code = "not-a-file"  // a link, FIFO, device, socket or directory
	CodeHardLink   Code = "hard-link"   // still one after settle
	CodeUnreadable Code = "unreadable"  // no right to read it
	CodeIDConflict Code = "id-conflict" // same id, other content
	CodeDuplicate  Code = "duplicate"

	CodeInternalError Code = "internal-error" // hived could not decide about it, and its sender is not the reason
	CodeStray         Code = "stray-file"
	CodeAltered       Code = "altered" // a delivered file has other bytes
	CodePlanted       Code = "planted" // a file in an inbox that hived did not put there
)

// What can become of a message. Those of [Reason] are codes too.
const (
	CodeArchivedRecipient Code = "archived-recipient"
	CodeMisspelt          Code = "misspelt" // delivered, with a field that may be a misspelling
)

// Answers to commands (spec §8).
const (
	CodeOK             Code = "ok"
	CodeUnknownCommand Code = "unknown-command"
	CodeBadCommand     Code = "bad-command"
	CodeNotAllowed     Code = "not-allowed"
	CodeUnknownAgent   Code = "unknown-agent"
	CodeAlreadyTold    Code = "already-told" // people know of the cause of an alert
)

// Answers to commands about tasks (spec §8).
const (
	CodeUnknownTask       Code = "unknown-task"
	CodeIllegalTransition Code = "illegal-transition" // the table has no such row
	CodeFenced            Code = "fenced"             // the epoch is not the task's any more
	CodeMissingEpoch      Code = "missing-epoch"
	CodeFutureEpoch       Code = "future-epoch"
	CodeNotHolder         Code = "not-holder"
	CodeNotOffered        Code = "not-offered"
	CodeRaceLost          Code = "race-lost" // somebody else was first
	CodeNotEligible       Code = "not-eligible"
	CodeNotYet            Code = "not-yet" // its not_before lies ahead
	CodeNeedsUnmet        Code = "needs-unmet"
	CodeUnknownNeed       Code = "unknown-need"
	CodeCycle             Code = "dependency-cycle"
	CodeGateUnmet         Code = "gate-unmet" // the brief's gate has not ended with 0
	CodeTooMany           Code = "too-many"
	CodeNotApprover       Code = "not-approver"
	CodeVotedTwice        Code = "voted-twice"
	CodeNoCommand         Code = "no-command"     // a message about a task that names no event
	CodeStaleApproval     Code = "stale-approval" // it answers no question, or not the one that is open
	CodeChoose            Code = "choose"         // the question has choices, and it names none of them
	CodeNoTask            Code = "no-task"        // nothing that this agent could claim
	CodeNoRoom            Code = "no-room"        // it has as many tasks in hand as its slots
	CodeChainOpen         Code = "chain-open"     // another task that goes on from the same one has not ended
	CodeStepDone          Code = "step-done"      // the step was done before; the answer has its record
	CodeStepRunning       Code = "step-running"   // its command was begun, and nobody says what became of it; the same
	CodeStepsLeft         Code = "steps-left"     // a step is under way, or not undone yet
	CodeUnwinding         Code = "unwinding"      // what the task did is undone first
	CodeTooDeep           Code = "too-deep"       // its creator holds a task, which comes of one that comes of one, and so on
)

// Notices about tasks (spec §8.6), beside the codes of their answers.
const (
	CodeTaskOffer       Code = "task-offer"
	CodeLeaseEnding     Code = "lease-ending"
	CodeLeaseExpired    Code = "lease-expired"
	CodeStalled         Code = "stalled"
	CodeReleased        Code = "released"
	CodeTakenAway       Code = "taken-away" // to its creator and human
	CodeCancelRequested Code = "cancel-requested"
	CodeCancelled       Code = "cancelled"
	CodeApprovalAsked   Code = "approval-asked"
	CodeReminder        Code = "reminder"
	CodeApproved        Code = "approved"
	CodeDenied          Code = "denied"
	CodeApprovalTimeout Code = "approval-timeout"
	CodeParentFailed    Code = "parent-failed"
	CodeSpecify         Code = "specify" // the lead is to specify again
	CodeGoOn            Code = "go-on"   // a wait is over
	CodeAmended         Code = "amended" // the brief is another one now
	CodeTaskCompleted   Code = "task-completed"
	CodeTaskFailed      Code = "task-failed"
	CodeNobodyTakes     Code = "nobody-takes"
	CodeLargeCheckpoint Code = "large-checkpoint"
	CodeNobodyEligible  Code = "nobody-eligible" // it is for agents or roles that nobody is
)

// Alerts.
const (
	CodeBadAgentDir   Code = "bad-agent-directory"
	CodeMassDeletion  Code = "mass-deletion"
	CodeInboxGone     Code = "inbox-gone"
	CodeTornTail      Code = "torn-tail"
	CodeLogRestored   Code = "log-restored"
	CodeLogForeign    Code = "log-foreign" // another program wrote into log.jsonl
	CodeTakenBack     Code = "git-taken-back"
	CodeOwnFileTooBig Code = "own-file-too-large"
	CodeOwnFileQuota  Code = "own-file-quota"
	CodeOwnFileName   Code = "own-file-name"
	CodeGitLock       Code = "git-stale-lock"
	CodeGitOverruled  Code = "git-overruled"
	CodeAdopted       Code = "adopted"
	CodeBusyPair      Code = "busy-pair"     // two agents write to each other very often
	CodeEchoCap       Code = "echo-cap"      // too many echoes: what it sends to agents waits in its outbox
	CodeHumanCounts   Code = "human-counts"  // human said too much within an hour, and counts as an agent
	CodeAgentSilent   Code = "agent-silent"  // it let offers of tasks run out, and is offered no more
	CodeUnwindFailed  Code = "unwind-failed" // the task that was to undo what another did has failed
	CodeWorkerCrashed Code = "worker-crashed"
	CodeTaskPoison    Code = "task-poison" // so many workers crashed with it that it has failed
	CodeAgentAlert    Code = "agent-alert" // an agent raised it
)
