// Package envelope reads what an agent says itself of how its work ended: the JSON in the
// file $HIVE_OUTCOME, or the last line of its output that begins with HIVE_OUTCOME.
//
// It promises that what it returns is valid, and that any other bytes, a link, a FIFO or
// a file of any size are an error and never wait or take memory. What the envelope is
// worth beside all else that was seen is for package classify to say.
package envelope

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/worker/adapter"
)

// MaxSize is the largest envelope, in bytes.
const MaxSize = 64 << 10

// Variable is the environment variable with the file's path, and the word that begins the
// line of an output.
const Variable = "HIVE_OUTCOME"

// ErrBad marks an envelope that counts as none.
var ErrBad = errors.New("bad envelope")

// Envelope is what an agent says.
type Envelope struct {
	Outcome    protocol.OutcomeKind
	Category   protocol.Category
	Summary    string // one line is enough; longer ones are cut
	Result     jsontext.Value
	RetryAfter time.Duration
}

// summaryMost is how many characters of a summary are kept.
const summaryMost = 2000

// Kinds returns the outcomes that an agent can claim: how the process ended, and what the
// worker did, is not for it to say.
func Kinds() []protocol.OutcomeKind {
	return []protocol.OutcomeKind{
		protocol.OutcomeCompleted, protocol.OutcomeIncomplete, protocol.OutcomeFailed, protocol.OutcomeRateLimited, protocol.OutcomeNeedsLogin,
	}
}

// Read returns the envelope of an execution: that of the file, else that of the output.
// Where there is none it returns nil. An envelope that is wrong is an [ErrBad], and the
// output is not asked in its stead: the agent meant the file to count.
func Read(disk durable.FS, name string, output []byte) (*Envelope, error) {
	text, _, err := durable.ReadFile(disk, name, MaxSize)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return fromOutput(output)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrBad, protocol.Visible(err.Error()))
	}
	return Parse(text)
}

// fromOutput looks at the last line of an output that is not blank.
func fromOutput(output []byte) (*Envelope, error) {
	line := bytes.TrimSpace(output)
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	text, found := bytes.CutPrefix(line, []byte(Variable+" "))
	if !found {
		return nil, nil //nolint:nilnil // most executions have no envelope
	}
	return Parse(text)
}

// Parse reads the text of an envelope, strictly.
func Parse(text []byte) (*Envelope, error) {
	if len(text) > MaxSize {
		return nil, bad("it has %d bytes; write at most %d", len(text), MaxSize)
	}
	var form struct {
		Outcome    string         `json:"outcome"`
		Category   string         `json:"category"`
		Summary    string         `json:"summary"`
		Result     jsontext.Value `json:"result"`
		RetryAfter jsontext.Value `json:"retry_after"`
	}
	if err := json.Unmarshal(text, &form, json.RejectUnknownMembers(true)); err != nil {
		return nil, bad("%s; write {\"outcome\": \"completed\", \"summary\": \"what was done\"}", protocol.Visible(protocol.Fit(err.Error(), 200)))
	}
	e := &Envelope{
		Outcome: protocol.OutcomeKind(form.Outcome), Category: category(form.Category),
		Summary: protocol.Fit(strings.TrimSpace(form.Summary), summaryMost), Result: form.Result,
	}
	if !slices.Contains(Kinds(), e.Outcome) {
		return nil, bad("its outcome is %s; write completed, incomplete, failed, rate-limited or needs-login", protocol.Quote(form.Outcome))
	}
	if e.Result.Kind() == 'n' {
		e.Result = nil
	}
	if len(form.RetryAfter) > 0 && form.RetryAfter.Kind() != 'n' {
		wait, ok := waitOf(form.RetryAfter)
		if !ok {
			return nil, bad("its retry_after is %s; write a number of seconds, or a length of time such as \"9m\"", protocol.Quote(string(form.RetryAfter)))
		}
		e.RetryAfter = wait
	}
	return e, nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBad, fmt.Sprintf(format, args...))
}

// category returns the category of a word; one that nobody knows counts as unknown (spec
// §8.4).
func category(s string) protocol.Category {
	switch c := protocol.Category(s); c {
	case "", protocol.TransientFailure, protocol.AuthFailure, protocol.SchemaFailure, protocol.AmbiguityFailure, protocol.LogicFailure, protocol.UnknownFailure:
		return c
	}
	return protocol.UnknownFailure
}

func waitOf(v jsontext.Value) (time.Duration, bool) {
	if v.Kind() == '0' {
		return adapter.Wait(string(v))
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return 0, false
	}
	return adapter.Wait(s)
}
