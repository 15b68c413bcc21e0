// Package prompt makes the text that an agent's program gets for a task. It promises that
// the same task has the same text, byte by byte, and that what people and agents wrote
// into the task cannot pass for another part of the text: each stands in a fence that is
// longer than any in it.
//
// The text is made of what the task's files say and of nothing else: no time, no attempt,
// no directory.
package prompt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Input is what a prompt is made of. What is empty is left out.
type Input struct {
	Title      string
	Body       string
	Data       jsontext.Value
	Milestone  string // of the checkpoint
	Checkpoint jsontext.Value
	Steps      []Step   // in the order of their numbers
	Needs      []Need   // in the order in which the task names them
	Answers    []Answer // the oldest first
	Last       *Last    // nil: it was not executed by a worker yet
}

// Step is a step that was begun.
type Step struct{ Name, Status string }

// Need is a task that this one needs, and that was completed.
type Need struct {
	ID, Title string
	Result    jsontext.Value
}

// Answer is an answer to a question of the task.
type Answer struct {
	Question string
	Choice   string
	Comment  string
	Result   jsontext.Value
}

// Last is how the last execution ended.
type Last struct{ Outcome, Reason, Tail string }

// Prompt is the text for one execution.
type Prompt struct {
	Text   []byte
	SHA256 string // of the text, in hex
}

// TooLong is the error of a prompt that the program cannot take.
type TooLong struct{ Bytes, Most int }

// Error implements error.
func (e *TooLong) Error() string {
	return fmt.Sprintf("the prompt has %d bytes, and the program takes %d at most; put what is long into files, and name them in the task", e.Bytes, e.Most)
}

// ending says how the agent reports.
const ending = `# How you report

Do the work, then end. If you end well, the task counts as completed, once its gate passes, and your last words are its result.
To say something else, write one JSON object into the file that the environment variable HIVE_OUTCOME names, such as
{"outcome": "incomplete", "category": "logic", "summary": "what is missing"}. The outcome is completed, incomplete, failed, rate-limited or needs-login; with
completed "result" may hold any JSON. What must happen once, however often the task is executed, you do as a step: hived step NAME -- COMMAND.
You may also report with hived task ask, fail, progress or complete; HIVE_TASK and HIVE_EPOCH are set. PROTOCOL.md has the rest.
`

// Make makes the prompt of a task, which may have so many bytes. The error is a *[TooLong].
func Make(in Input, most int) (Prompt, error) {
	var b bytes.Buffer
	part(&b, "The task", in.Title)
	part(&b, "What is to be done", in.Body)
	part(&b, "Its data", text(in.Data))
	for _, n := range in.Needs {
		part(&b, "The result of task "+n.ID+", "+oneLine(n.Title), text(n.Result))
	}
	for _, a := range in.Answers {
		part(&b, "A question of yours", a.Question)
		part(&b, "Its answer", answer(a))
	}
	if in.Milestone != "" || len(in.Checkpoint) > 0 {
		part(&b, "The checkpoint: where an execution before this one came to; go on from there", join(in.Milestone, text(in.Checkpoint)))
	}
	var steps []string
	for _, s := range in.Steps {
		steps = append(steps, s.Name+": "+s.Status)
	}
	part(&b, "Its steps; those that are done are not done again", strings.Join(steps, "\n"))
	if l := in.Last; l != nil {
		part(&b, "The last execution ended as "+oneLine(l.Outcome), join(l.Reason, l.Tail))
	}
	b.WriteString(ending)
	if b.Len() > most {
		return Prompt{}, &TooLong{b.Len(), most}
	}
	sum := sha256.Sum256(b.Bytes())
	return Prompt{b.Bytes(), hex.EncodeToString(sum[:])}, nil
}

func answer(a Answer) string {
	said := a.Choice
	if said == "" && a.Comment == "" && len(a.Result) == 0 {
		said = "approved"
	}
	return join(said, join(a.Comment, text(a.Result)))
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}

// part writes a heading and what stands below it, in a fence.
func part(b *bytes.Buffer, heading, content string) {
	if strings.TrimSpace(content) == "" {
		return
	}
	fence := strings.Repeat("`", max(3, longest(content)+1))
	fmt.Fprintf(b, "# %s\n\n%s\n%s\n%s\n\n", heading, fence, strings.TrimRight(content, "\n"), fence)
}

// longest returns the length of the longest row of backticks.
func longest(s string) (n int) {
	row := 0
	for i := range len(s) {
		if row++; s[i] != '`' {
			row = 0
		}
		n = max(n, row)
	}
	return n
}

// oneLine keeps a text from beginning another line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// text returns a JSON value for reading: a string as it is, all else with its members in
// the order of their names.
func text(v jsontext.Value) string {
	switch v.Kind() {
	case '"':
		if s, err := jsontext.AppendUnquote(nil, v); err == nil {
			return string(s)
		}
	case 'n', 0:
		return ""
	}
	v = v.Clone()
	if v.Canonicalize() == nil {
		_ = v.Indent() // it is valid by now
	}
	return string(v)
}
