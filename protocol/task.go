package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"
)

// TaskID names a task and its directory below tasks/: a ULID that hived draws
// (spec §8).
type TaskID string

// ParseTaskID checks the form of a task's id: 26 digits and capital letters.
func ParseTaskID(s string) (TaskID, error) {
	if id, err := ulid.ParseStrict(s); err != nil || id.String() != s {
		return "", fmt.Errorf("%w: task id %s: `hived task list` shows those that there are", ErrBadID, Quote(s))
	}
	return TaskID(s), nil
}

// taskSuffix is how much of the end of a task's id names it, in characters. Ids
// of one moment begin alike, and people tell them apart by how they end.
const taskSuffix = 4

// Matches reports whether a word that somebody wrote for a task can mean this one:
// its id, or the beginning of it, or the last 4 characters or more, in letters of
// either case.
func (id TaskID) Matches(word string) bool {
	upper := strings.ToUpper(word)
	return word != "" && (strings.HasPrefix(string(id), upper) || len(upper) >= taskSuffix && strings.HasSuffix(string(id), upper))
}

// TaskState is where a task stands: the first column of the table of package
// task.
type TaskState string

// TaskAction is what happens to a task: the second column.
type TaskAction string

// Category says why a holder could not go on, and so where the failure is routed
// (spec §8.4).
type Category string

// The categories. What is none of them counts as unknown.
const (
	TransientFailure Category = "transient" // try again
	AuthFailure      Category = "auth"      // a person must log in
	SchemaFailure    Category = "schema"    // the lead must specify again
	AmbiguityFailure Category = "ambiguity" // a person must answer
	LogicFailure     Category = "logic"     // a task to repair it comes first
	UnknownFailure   Category = "unknown"   // the lead must look
)

// The files of a task, each below tasks/<id>/.
const (
	TaskView       = "task.json"       // where it stands, and its last steps
	TaskBrief      = "brief.json"      // what is to be done, as it was created
	TaskCheckpoint = "checkpoint.json" // the newest
	TaskResult     = "result.json"
	TaskOutcome    = "outcome.json" // of the last execution, as its worker reported it
)

// TaskAnswers is the directory of the answers that a task was given, below its own.
const TaskAnswers = "answers"

// TaskAnswer is tasks/<id>/answers/<ask>.json: what was asked under a number, and
// what came of it.
func TaskAnswer(id TaskID, ask Seq) string {
	return TaskDir(id) + "/" + TaskAnswers + "/" + ask.String() + ".json"
}

// TaskDir is tasks/<id>.
func TaskDir(id TaskID) string { return PathTasks + "/" + string(id) }

// TaskError is an error of hived's own, met when it did what was due with a task
// (spec §3.10).
type TaskError struct {
	Task TaskID
	Err  error
}

func (e *TaskError) Error() string {
	return "do what is due with task " + string(e.Task) + ": " + e.Err.Error()
}

// Unwrap returns what went wrong.
func (e *TaskError) Unwrap() error { return e.Err }

// TaskConversation is the thread in which hived speaks of a task.
func TaskConversation(id TaskID) ConversationID { return ConversationID("task-" + id) }

// TaskSpec is what is to be done: an entry of the `data` of a `create` command,
// and tasks/<id>/brief.json.
type TaskSpec struct {
	Name      string         `json:"name,omitzero"` // for `needs` of the same command alone
	Title     string         `json:"title"`
	Body      string         `json:"body,omitzero"`
	To        []Address      `json:"to,omitzero"`    // ids and @roles; none: any agent
	Needs     []string       `json:"needs,omitzero"` // ids, or names of the same command
	Priority  int            `json:"priority,omitzero"`
	Gate      string         `json:"gate,omitzero"`      // a command that must succeed before it counts as completed
	Approvals int            `json:"approvals,omitzero"` // how many must approve, where it asks; none: one
	Approvers []Address      `json:"approvers,omitzero"` // ids and @roles; none: human
	Data      jsontext.Value `json:"data,omitzero"`
}

// TaskReport is the `data` of the other commands about a task; which of it a
// command takes stands in spec §8.2.
type TaskReport struct {
	Reason     string         `json:"reason,omitzero"`
	Category   Category       `json:"category,omitzero"`   // of failure
	Milestone  string         `json:"milestone,omitzero"`  // what was reached
	Checkpoint jsontext.Value `json:"checkpoint,omitzero"` // all that a successor needs
	Patch      jsontext.Value `json:"patch,omitzero"`      // an RFC 7396 merge patch on the last checkpoint
	Schema     string         `json:"schema,omitzero"`     // what the checkpoint's form is called
	Expected   time.Time      `json:"expected_until,omitzero"`
	For        string         `json:"expected_for,omitzero"` // instead: a length of time, as "20m"
	Question   string         `json:"question,omitzero"`     // of pause_for_approval
	Choices    []string       `json:"choices,omitzero"`      // of a question: the answers that it offers
	Needs      []string       `json:"needs,omitzero"`        // of block_on_dependency
	Family     bool           `json:"family,omitzero"`       // of resume: with all that failed with it
	Result     jsontext.Value `json:"result,omitzero"`       // of complete, and of an approval: what it goes on with
	Gate       *GateResult    `json:"gate,omitzero"`         // of complete: how the brief's gate ended
	Ask        Seq            `json:"ask,omitzero"`          // of an answer: the question's number
	Choice     string         `json:"choice,omitzero"`       // of an approval: one of the question's choices
	Comment    string         `json:"comment,omitzero"`      // of an answer: what the holder should know
	NotBefore  time.Time      `json:"not_before,omitzero"`
	Start      bool           `json:"start,omitzero"`  // of claim and accept: the work begins at once
	Step       *StepReport    `json:"step,omitzero"`   // of step_started and step_ended
	Again      StepJudgement  `json:"again,omitzero"`  // of step_started: how it is known that the last intent may be followed by another
	Unwind     bool           `json:"unwind,omitzero"` // of step_started: the step's undo begins, and not its command; of step_ended: there is nothing of it to undo
	Send       []string       `json:"send,omitzero"`   // of step_ended: messages that are sent if the step is done, as texts

	Outcome // of outcome
}

// GateResult is how the gate of a brief ended: its exit status, and the SHA-256 of
// its text in 64 hex digits, so that it is known which gate that was.
type GateResult struct {
	Exit   *int   `json:"exit"` // nil: it does not say
	SHA256 string `json:"sha256"`
}

// GateSum returns the SHA-256 of a gate's text, in hex.
func GateSum(gate string) string {
	sum := sha256.Sum256([]byte(gate))
	return hex.EncodeToString(sum[:])
}

// TaskEvent is a `task` event: a row of the table was taken (spec §8).
type TaskEvent struct {
	Task    TaskID     `json:"task"`
	Event   TaskAction `json:"event"`
	From    TaskState  `json:"from,omitzero"` // none: it is created
	To      TaskState  `json:"to"`
	By      AgentID    `json:"by"`
	Of      Seq        `json:"of,omitzero"`      // the message that commanded it
	Epoch   uint64     `json:"epoch,omitzero"`   // from now on
	Attempt int        `json:"attempt,omitzero"` // from now on
	Reason  string     `json:"reason,omitzero"`

	Spec       *TaskSpec   `json:"spec,omitzero"`       // of create
	Needs      []TaskID    `json:"needs,omitzero"`      // of create and block_on_dependency: all that it waits for
	GateBy     AgentID     `json:"gate_by,omitzero"`    // who wrote the gate of the spec; none where nobody knows
	Resumes    TaskID      `json:"resumes,omitzero"`    // of create: goes on from this one
	Origin     TaskID      `json:"origin,omitzero"`     // of create: the first of the tasks that resume each other
	Repairs    TaskID      `json:"repairs,omitzero"`    // of create: for this one
	Unwinds    TaskID      `json:"unwinds,omitzero"`    // of create: undoes the steps of this one and of those that it resumes
	UnwoundBy  TaskID      `json:"unwound_by,omitzero"` // of unwind: the task that does that
	Depth      int         `json:"depth,omitzero"`      // of create: repairs of repairs
	Generation int         `json:"generation,omitzero"` // of create: one more than that of the task which its creator held; none: its creator held none
	Agents     []AgentID   `json:"agents,omitzero"`     // of offer: to whom
	Round      int         `json:"round,omitzero"`      // of offer: it begins this round of asking, and who did not want the task is asked again
	Fruitless  int         `json:"fruitless,omitzero"`  // of release and lease_expired: executions in a row, with this one, that reached nothing new
	Category   Category    `json:"category,omitzero"`
	Question   string      `json:"question,omitzero"`
	Choices    []string    `json:"choices,omitzero"`    // of pause_for_approval: the answers that the question offers
	Choice     string      `json:"choice,omitzero"`     // of approval_vote and approval_granted: one of them
	NotBefore  time.Time   `json:"not_before,omitzero"` // neither offered, claimed nor retried earlier
	Until      time.Time   `json:"until,omitzero"`      // of pause_for_approval: waits so long; of an offer that is over, and of release: the next one; none: at once
	Expected   time.Time   `json:"expected_until,omitzero"`
	Checkpoint *Checkpoint `json:"checkpoint,omitzero"`
	Result     *TaskOutput `json:"result,omitzero"`
	Amends     *Amendment  `json:"amends,omitzero"`   // of amend: spec is the whole brief as it is now
	Answered   *Question   `json:"answered,omitzero"` // of an answer: the question with all its answers, this one too

	Adopted *AdoptedTask `json:"adopted,omitzero"` // of adopted
	Step    *StepRecord  `json:"step,omitzero"`    // of step_started and step_ended: the record as it is now

	Outcome *Outcome `json:"outcome,omitzero"` // of the execution that ended with it, as its worker reported it
	Charge  Charge   `json:"charge,omitzero"`  // what it counts against; none: what such an event always does
}

// AdoptedTask is what the files of a task say that the log begins anew with,
// beside what any event of a task has (spec §1.6).
type AdoptedTask struct {
	Note       string     `json:"note,omitzero"` // in what it is not as its files say
	Since      time.Time  `json:"since"`         // in this state
	AmendedBy  AgentID    `json:"amended_by,omitzero"`
	AmendedAt  time.Time  `json:"amended_at,omitzero"`
	Retries    int        `json:"retries,omitzero"`
	Free       int        `json:"free,omitzero"`
	Crashes    int        `json:"crashes,omitzero"`
	Fruitless  int        `json:"fruitless,omitzero"`
	Holder     AgentID    `json:"holder,omitzero"`
	Taken      []AgentID  `json:"taken,omitzero"`   // the last that took it; each raised the epoch by one
	LeftBy     AgentID    `json:"left_by,omitzero"` // who gave it back with a word, and that word
	LeftReason string     `json:"left_reason,omitzero"`
	Cancelling bool       `json:"cancel_requested,omitzero"`
	BlockedOn  []TaskID   `json:"blocked_on,omitzero"`
	Asked      int        `json:"asked,omitzero"`    // questions in its life
	LastAsk    Seq        `json:"last_ask,omitzero"` // the number of the last of them, open or not
	Open       *Question  `json:"open,omitzero"`     // the question that it waits for an answer to, with the approvals given
	Answered   []Question `json:"answered,omitzero"` // those before it, the oldest first

	CheckpointFrom *Origin `json:"checkpoint_from,omitzero"`
	ResultFrom     *Origin `json:"result_from,omitzero"`

	OutcomeFrom *OutcomeOrigin `json:"outcome_from,omitzero"`
}

// Origin says who brought a file of an adopted task, under which epoch, and when.
type Origin struct {
	By    AgentID   `json:"by"`
	Epoch uint64    `json:"epoch"`
	At    time.Time `json:"at"`
}

// OutcomeOrigin says who reported the last outcome of an adopted task, and what followed
// from it.
type OutcomeOrigin struct {
	Origin
	Event    TaskAction `json:"event"`
	Category Category   `json:"category,omitzero"`
	Reason   string     `json:"reason,omitzero"`
}

// Amendment is what a brief says of itself that was amended.
type Amendment struct {
	Version   int       `json:"version"` // as it was created it was 1
	Creator   AgentID   `json:"creator"`
	CreatedAt time.Time `json:"created_at"`
}

// Question is what a task asked people, with the answers that it was given by now
// (spec §8.5): tasks/<id>/answers/<ask>.json.
type Question struct {
	Ask      Seq       `json:"ask"` // its number: that of the event which asked
	Question string    `json:"question"`
	Choices  []string  `json:"choices,omitzero"` // the answers that it offers; none: it is approved of or denied
	AskedBy  AgentID   `json:"asked_by"`
	AskedAt  time.Time `json:"asked_at"`
	Answers  []Answer  `json:"answers"`
}

// Answer is what somebody said to a question.
type Answer struct {
	By      AgentID    `json:"by"`
	At      time.Time  `json:"at"`
	Event   TaskAction `json:"event"` // what it led to
	Choice  string     `json:"choice,omitzero"`
	Comment string     `json:"comment,omitzero"`

	Result jsontext.Value `json:"result,omitzero"` // what the holder goes on with
}

// Checkpoint is what a successor goes on from.
type Checkpoint struct {
	Milestone string         `json:"milestone,omitzero"`
	Schema    string         `json:"schema,omitzero"`
	SHA256    string         `json:"sha256"` // of milestone, schema and data: equal for equal checkpoints
	Data      jsontext.Value `json:"data,omitzero"`
	// Patch is an RFC 7396 merge patch on the data of the checkpoint that the event
	// After brought, in an event that has no Data. SHA256 is that of the whole, Blob
	// the git id of the file that shows it, and Patched the bytes of all patches
	// since a checkpoint was logged whole.
	Patch   jsontext.Value `json:"patch,omitzero"`
	After   Seq            `json:"after,omitzero"`
	Blob    Blob           `json:"blob,omitzero"`
	Patched int            `json:"patched,omitzero"`
	// Whole is Data, or what Patch makes of the one before, where somebody has
	// worked it out. It is in no log.
	Whole jsontext.Value `json:"-"`
}

// TaskOutput is what came of a task.
type TaskOutput struct {
	Value jsontext.Value `json:"value"`
}

// TaskRejectedEvent is a `task-rejected` event: a command about a task, or one that
// there is not, changed nothing. Its payload is in the message that Of names.
type TaskRejectedEvent struct {
	Task   string    `json:"task,omitzero"` // as it was written
	Event  string    `json:"event"`         // as it was written
	By     AgentID   `json:"by"`
	Of     Seq       `json:"of"`
	Epoch  uint64    `json:"epoch,omitzero"` // as it was written
	State  TaskState `json:"state,omitzero"`
	Code   Code      `json:"code"`
	Detail string    `json:"detail"`

	Outcome *Outcome `json:"outcome,omitzero"` // of an execution whose epoch was over: what it cost is known
}

// Kind implements [Body].
func (*TaskEvent) Kind() Kind { return KindTask }

// Kind implements [Body].
func (*TaskRejectedEvent) Kind() Kind { return KindTaskRejected }

func (*TaskEvent) sealed()         {}
func (*TaskRejectedEvent) sealed() {}
