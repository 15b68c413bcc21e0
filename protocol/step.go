package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// StepStatus is how far a step of a task is.
type StepStatus string

// The statuses of a step.
const (
	StepExecuting StepStatus = "executing" // its command was begun, and no end is in the log
	StepDone      StepStatus = "done"
	StepFailed    StepStatus = "failed"
	StepUndoing   StepStatus = "undoing" // its undo was begun, and no end is in the log
	StepUndone    StepStatus = "undone"
	StepLeft      StepStatus = "left" // a person said that it stays as it is
)

// StepJudgement is how somebody who did not see the end of a step's command knows what
// became of it.
type StepJudgement string

// The judgements.
const (
	JudgedVerified   StepJudgement = "verified"   // the step's verify command says so
	JudgedIdempotent StepJudgement = "idempotent" // it may run again whatever became of it
	JudgedPerson     StepJudgement = "person"     // a person was asked
)

// What the record of a step has of texts that its holder wrote, at most.
const (
	StepTextMost   = 4 << 10  // bytes of verify and of undo; argv is cut to that
	StepOutputMost = 64 << 10 // bytes of output that stand in the record itself
	StepErrorMost  = 2000     // characters of the end of its standard error
	StepSendMost   = 1 << 20  // bytes of a message that is sent when the step is done
	StepSends      = 64       // of these messages
)

// StepRecord is tasks/<origin>/steps/<n>-<name>.json: one step of a task, which is done
// once however many agents and attempts it takes (spec §8.9). Each event that changes
// it holds it whole.
type StepRecord struct {
	N      int        `json:"n"` // from 1, in the order in which the steps of a chain of tasks were begun
	Name   string     `json:"name"`
	Round  int        `json:"round"` // one more each time that it was undone
	Try    int        `json:"try"`   // one more each time that it runs
	Status StepStatus `json:"status"`
	Task   TaskID     `json:"task"` // of the intent

	Argv       []string `json:"argv,omitzero"` // cut to 4 KiB
	CWD        string   `json:"cwd,omitzero"`
	Verify     string   `json:"verify,omitzero"`     // for sh -c: 0 says that the effect is there, 1 that it is not
	Undo       string   `json:"undo,omitzero"`       // for sh -c
	Idempotent bool     `json:"idempotent,omitzero"` // it may run again whatever became of it

	// The intent: who began it and with which message. It stands while the step is
	// executing or undoing, Command is its message and Ask is zero.
	By        AgentID   `json:"by"`
	Epoch     uint64    `json:"epoch"`
	Command   MessageID `json:"command,omitzero"`
	Key       string    `json:"key"`           // HIVE_IDEMPOTENCY_KEY of its command
	Boot      string    `json:"boot,omitzero"` // of the machine that runs it
	PID       int       `json:"pid,omitzero"`  // of `hived step`
	Ask       Seq       `json:"ask,omitzero"`  // the open question about this step
	StartedAt time.Time `json:"started_at"`

	EndedAt time.Time     `json:"ended_at,omitzero"`
	How     StepJudgement `json:"how,omitzero"`
	Exit    *int          `json:"exit,omitzero"`
	Signal  string        `json:"signal,omitzero"`
	Error   string        `json:"error,omitzero"`
	Output  *StepOutput   `json:"output,omitzero"` // of the command, also after it was undone
}

// StepOutput is what the command of a step wrote to its standard output. One that was too
// long to be kept has neither text nor bytes.
type StepOutput struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // 64 hex digits
	Text   string `json:"text,omitzero"`
	B64    []byte `json:"b64,omitzero"`  // instead, in base64, where it is no UTF-8
	Path   string `json:"path,omitzero"` // instead, where it is long: below agents/<id>/.work/
}

// NewStepOutput returns the output of a command that wrote a few bytes, at most
// [StepOutputMost].
func NewStepOutput(data []byte) *StepOutput {
	sum := sha256.Sum256(data)
	o := &StepOutput{Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
	if utf8.Valid(data) {
		o.Text = string(data)
	} else {
		o.B64 = data
	}
	return o
}

// Kept reports whether the output stands in the record.
func (o *StepOutput) Kept() bool { return o.Bytes == 0 || o.Text != "" || o.B64 != nil }

// Data returns the bytes of an output that stands in the record itself. The error says
// that its size or its sum does not fit.
func (o *StepOutput) Data() ([]byte, error) {
	data := []byte(o.Text)
	if o.B64 != nil {
		data = o.B64
	}
	if sum := sha256.Sum256(data); int64(len(data)) != o.Bytes || hex.EncodeToString(sum[:]) != o.SHA256 {
		return nil, fmt.Errorf("its bytes or sha256 are not those of what it holds, %d bytes", len(data))
	}
	return data, nil
}

// StepReport is the `step` of the commands step_started and step_ended; which of it a
// command takes stands in spec §8.9.
type StepReport struct {
	Name       string   `json:"name,omitzero"`
	Argv       []string `json:"argv,omitzero"`
	CWD        string   `json:"cwd,omitzero"`
	Verify     string   `json:"verify,omitzero"`
	Undo       string   `json:"undo,omitzero"`
	Idempotent bool     `json:"idempotent,omitzero"`
	Boot       string   `json:"boot,omitzero"`
	PID        int      `json:"pid,omitzero"`

	N       int           `json:"n,omitzero"`
	Command MessageID     `json:"command,omitzero"` // of the intent that ends
	Exit    *int          `json:"exit,omitzero"`
	Signal  string        `json:"signal,omitzero"`
	Error   string        `json:"error,omitzero"`
	How     StepJudgement `json:"how,omitzero"`
	Output  *StepOutput   `json:"output,omitzero"`
}

// TaskSteps is the directory of the steps of a task, below that of the first task of
// its chain.
const TaskSteps = "steps"

// StepsDir is tasks/<origin>/steps.
func StepsDir(origin TaskID) string { return TaskDir(origin) + "/" + TaskSteps }

// StepFile is tasks/<origin>/steps/<n>-<name>.json, the record of a step.
func StepFile(origin TaskID, n int, name string) string {
	return fmt.Sprintf("%s/%04d-%s.json", StepsDir(origin), n, name)
}

// LockOf returns the lock of a step, given the path of its record; empty for any other
// path.
func LockOf(record string) string {
	dir, file := path.Split(record)
	n, _, numbered := strings.Cut(file, "-")
	if !numbered || path.Base(dir) != TaskSteps || !IsTaskPath(dir) {
		return ""
	}
	return dir + n + ".lock"
}

// stepNameMost is the length of the longest name of a step.
const stepNameMost = 64

// BadStepName returns one line that says what is wrong with the name of a step; empty
// if nothing is. A name begins with a letter or digit and has letters, digits, dots,
// underscores and hyphens, at most 64 in all.
func BadStepName(name string) string {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}
	switch {
	case name == "":
		return "a step needs a name"
	case len(name) > stepNameMost:
		return "its name has " + strconv.Itoa(len(name)) + " characters, and may have " + strconv.Itoa(stepNameMost)
	case strings.ContainsFunc(name, bad), strings.ContainsAny(name[:1], "._-"):
		return "a step's name begins with a letter or digit and has letters, digits, dots, underscores and hyphens, not " + Quote(name)
	}
	return ""
}

// StepKey returns the idempotency key of a step, which is the same for all attempts,
// epochs and agents.
func StepKey(origin TaskID, name string, round int) string {
	key := string(origin) + ":" + name
	if round > 1 {
		key += ":" + strconv.Itoa(round)
	}
	return key
}

// UndoKey returns the idempotency key of the undo of a step.
func UndoKey(origin TaskID, name string, round int) string {
	return StepKey(origin, name, round) + ":undo"
}

// DecodeStep reads the record of a step. The error says what does not fit.
func DecodeStep(data []byte) (*StepRecord, error) {
	var s StepRecord
	if err := json.Unmarshal(data, &s, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("read the record of a step: %w", err)
	}
	if s.N < 1 || BadStepName(s.Name) != "" || s.Origin() == "" {
		return nil, errors.New("read the record of a step: it does not say which step it is")
	}
	return &s, nil
}

// Origin returns the first task of the chain that the step belongs to.
func (s *StepRecord) Origin() TaskID {
	origin, _, _ := strings.Cut(s.Key, ":")
	return TaskID(origin)
}

// Underway reports whether no end of the step's command, or of its undo, is in the log.
func (s *StepRecord) Underway() bool { return s.Status == StepExecuting || s.Status == StepUndoing }

// Succeeded reports whether the last end of the step's command, or of its undo, was good.
func (s *StepRecord) Succeeded() bool {
	return s.How == JudgedVerified || s.Signal == "" && s.Exit != nil && *s.Exit == 0
}

// Stands reports whether the intent that a message brought still stands: no end of it
// is in the log, no later intent, and no question about the step.
func (s *StepRecord) Stands(command MessageID) bool {
	return s.Underway() && s.Command == command && command != "" && s.Ask == 0
}
