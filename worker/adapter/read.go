package adapter

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hived/hived/protocol"
)

// Ran is what is left of a program that ended.
type Ran struct {
	Exit   int    // its exit status, where no signal ended it
	Signal string // else the name of the signal
	Output []byte // its standard output; where it was long, head and tail
	Errors []byte // its standard error
	Result []byte // what it left in {result-file}
}

// Reading is what an adapter makes of it.
type Reading struct {
	Kind       protocol.OutcomeKind // how it ended, where the adapter recognizes that; empty: it does not
	Reason     string               // how that is known
	RetryAfter time.Duration        // how long it wants to wait; 0: it does not say
	Result     string
	NoResult   bool // it should have left a result, and there is none
	TokensIn   int64
	TokensOut  int64
	CostMicros int64
}

// MaxWait is the longest wait that a program can ask for; a longer one counts as this.
const MaxWait = 7 * 24 * time.Hour

// Read reads what a program left. Its exit status counts before its words, which are
// looked for only where it does not say itself, by a result and an Output.Failed that
// is not true, that all is well: a result may well speak of limits and logins.
func (a *Adapter) Read(ran Ran) Reading {
	docs := a.documents(ran.Output)
	r := Reading{
		Result:    strings.TrimSpace(string(ran.Result)),
		TokensIn:  count(docs, a.Output.TokensIn, 1),
		TokensOut: count(docs, a.Output.TokensOut, 1), CostMicros: count(docs, a.Output.CostUSD, 1e6),
	}
	if r.Result == "" {
		r.Result = asText(last(docs, a.Output.Result))
	}
	r.NoResult = a.Output.Result != "" && strings.TrimSpace(r.Result) == ""
	failed := truthy(last(docs, a.Output.Failed))
	exited := ran.Signal == ""
	if kind, mapped := a.Exit[ran.Exit]; exited && mapped {
		r.Kind, r.Reason = kind, "exit status "+strconv.Itoa(ran.Exit)+" of "+a.Name
	}
	if exited && ran.Exit == 0 && a.Output.Failed != "" && !failed && !r.NoResult {
		return r
	}
	for _, p := range a.Patterns {
		if found := p.find(ran); found != nil && (r.Kind == "" || r.Kind == p.Outcome) {
			if r.Kind == "" {
				r.Kind, r.Reason = p.Outcome, "it wrote "+protocol.Quote(string(found[0]))
			}
			if p.RetryAfter > 0 {
				r.RetryAfter, _ = Wait(string(found[p.RetryAfter]))
			}
			break
		}
	}
	if r.Kind == "" && failed {
		r.Kind, r.Reason = protocol.OutcomeFailed, "its output says so at "+string(a.Output.Failed)
	}
	return r
}

func (p *Pattern) find(ran Ran) [][]byte {
	if p.In == StreamError {
		return p.Match.FindSubmatch(ran.Errors)
	}
	return p.Match.FindSubmatch(ran.Output)
}

// Wait reads how long a program wants to wait: a number of seconds, or a length of time
// such as 1m30s.
func Wait(s string) (wait time.Duration, ok bool) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		if math.IsNaN(seconds) || seconds < 0 {
			return 0, false
		}
		return time.Duration(min(seconds, MaxWait.Seconds()) * float64(time.Second)), true
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, false
	}
	return min(d, MaxWait), true
}

// documents returns the JSON values of an output. Lines that are none are passed over:
// programs write warnings between them, and of a long output the middle is missing.
func (a *Adapter) documents(output []byte) (docs []any) {
	switch a.Output.Format {
	case FormatText:
	case FormatJSON:
		if i := bytes.IndexByte(output, '{'); i >= 0 {
			docs = appendJSON(docs, output[i:])
		}
	case FormatJSONL:
		for line := range bytes.Lines(output) {
			docs = appendJSON(docs, line)
		}
	}
	return docs
}

func appendJSON(docs []any, text []byte) []any {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' {
		return docs
	}
	var v any
	if json.Unmarshal(text, &v, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return docs
	}
	return append(docs, v)
}

// at returns the value at a pointer; nil if there is none.
func at(v any, pointer jsontext.Pointer) any {
	for token := range pointer.Tokens() {
		switch x := v.(type) {
		case map[string]any:
			v = x[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// last returns the value at a pointer in the last document that has one; nil if none has.
func last(docs []any, pointer jsontext.Pointer) (value any) {
	if pointer == "" {
		return nil
	}
	for _, d := range docs {
		if v := at(d, pointer); v != nil {
			value = v
		}
	}
	return value
}

// count returns the sum of the numbers at a pointer, in parts of a unit: a program may
// report each step for itself. What is negative, or beyond all counting, is left out.
func count(docs []any, pointer jsontext.Pointer, parts float64) int64 {
	var sum float64
	if pointer == "" {
		return 0
	}
	for _, d := range docs {
		if n, is := at(d, pointer).(float64); is && n > 0 && n < 1e12 {
			sum += n * parts
		}
	}
	return int64(math.Round(min(sum, 1e15)))
}

func asText(v any) string {
	if s, is := v.(string); is || v == nil {
		return s
	}
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return ""
	}
	return string(text)
}

func truthy(v any) bool {
	switch x := v.(type) {
	case nil:
		return false
	case bool:
		return x
	case string:
		return x != ""
	}
	return true
}
