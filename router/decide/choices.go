package decide

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// The limits of a question's choices, and of what an answer says about what happened
// (spec §8.2).
const (
	choicesMost    = 8
	choiceMost     = 64       // characters of one
	resultSaidMost = 64 << 10 // bytes
)

// checkChoices refuses choices of a question that nobody could tell apart, or that do
// not fit into one line of what a person reads.
func checkChoices(choices []string) error {
	bad := func(format string, args ...any) error {
		return &refusal{protocol.CodeBadCommand, fmt.Sprintf(format, args...)}
	}
	if n := len(choices); n > choicesMost {
		return bad("it offers %d choices; offer at most %d", n, choicesMost)
	}
	for i, c := range choices {
		name := fmt.Sprintf("choice %d, %s, ", i+1, protocol.Quote(protocol.Fit(c, choiceMost)))
		switch {
		case strings.TrimSpace(c) == "":
			return bad("choice %d is empty; write 1 to %d characters", i+1, choiceMost)
		case utf8.RuneCountInString(c) > choiceMost:
			return bad("%shas %d characters; write at most %d", name, utf8.RuneCountInString(c), choiceMost)
		case protocol.Visible(c) != c || strings.ContainsAny(c, "\r\n\t"):
			return bad("%sis not one line of visible characters; write it in such", name)
		case slices.Contains(choices[:i], c):
			return bad("%sis there twice; leave one out", name)
		}
	}
	return nil
}

// checkChoice refuses an approval that does not name one of the choices which the
// question offers, or names one where it offers none (spec §8.5).
func checkChoice(r *report) error {
	offered := r.t.Questions.Offered()
	switch {
	case len(r.Result) > resultSaidMost:
		return &refusal{protocol.CodeBadCommand, fmt.Sprintf("its result has %d bytes; write at most %d, or put it into a file and send its path", len(r.Result), resultSaidMost)}
	case len(offered) == 0 && r.Choice != "":
		ask, _ := r.t.Open()
		return &refusal{protocol.CodeBadCommand, "it names a choice, and the question offers none; to approve, " + howToAnswer(r.by, r.t, task.ApprovalGranted, ask)}
	case len(offered) == 0 || slices.Contains(offered, r.Choice):
		return nil
	}
	what := "it names none of the choices"
	if r.Choice != "" {
		what = "it names " + protocol.Quote(protocol.Fit(r.Choice, choiceMost)) + ", which is none of the choices"
	}
	return &refusal{protocol.CodeChoose, what + "; " + howToChoose(r.by, r.t)}
}

// howToApprove returns how somebody approves of the open question, or gives each of its
// choices, and how he denies it.
func howToApprove(by protocol.AgentID, t *task.Task) string {
	ask, _ := t.Open()
	yes := "to approve, " + howToAnswer(by, t, task.ApprovalGranted, ask)
	if len(t.Questions.Offered()) > 0 {
		yes = howToChoose(by, t)
	}
	return yes + "; to deny, " + howToAnswer(by, t, task.ApprovalDenied, ask)
}

// howToChoose returns how somebody answers the open question with each of its choices.
func howToChoose(by protocol.AgentID, t *task.Task) string {
	ask, _ := t.Open()
	var ways []string
	for _, c := range t.Questions.Offered() {
		data := `{"ask": ` + ask.String() + `, "choice": ` + inJSON(c) + `}`
		ways = append(ways, "for "+protocol.Quote(c)+", "+howToTask(by, task.ApprovalGranted, t.ID, 0, choiceArgs(ask, c), data))
	}
	return strings.Join(ways, "; ")
}

// choiceArgs returns the arguments of the command with which a person gives a choice.
func choiceArgs(ask protocol.Seq, choice string) string {
	return "--ask " + ask.String() + " --choice " + inShell(choice)
}

// approveLines returns the commands with which a person answers the open question of a
// task.
func approveLines(t *task.Task) (list []string) {
	ask, _ := t.Open()
	for _, c := range t.Questions.Offered() {
		list = append(list, taskLine(task.ApprovalGranted, t.ID, choiceArgs(ask, c)))
	}
	if len(list) == 0 {
		list = append(list, taskLine(task.ApprovalGranted, t.ID, "--ask "+ask.String()))
	}
	return append(list, taskLine(task.ApprovalDenied, t.ID, "--ask "+ask.String()))
}

// votesMissing returns those of a task's approvers whose approval is waited for. Where
// all have chosen and no choice has enough, each of them can choose again.
func (d *Decider) votesMissing(t *task.Task) []protocol.AgentID {
	who := d.approvers(t)
	missing := slices.DeleteFunc(slices.Clone(who), func(id protocol.AgentID) bool { return slices.Contains(t.Questions.Votes(), id) })
	if len(missing) == 0 && len(t.Questions.Offered()) > 0 {
		return who
	}
	return missing
}

// inJSON returns a text as JSON.
func inJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // no text that was decoded
		return `""`
	}
	return string(b)
}

// inShell returns a text as one word of a shell.
func inShell(s string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_'
	}
	if s != "" && !strings.ContainsFunc(s, func(c rune) bool { return !plain(c) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// choiceIn returns which choice was given, for the end of a sentence that says by whom.
func choiceIn(e *protocol.TaskEvent) string {
	if e.Choice == "" {
		return ""
	}
	return " with the choice " + protocol.Quote(e.Choice)
}

// capitalized returns a text whose first letter begins a sentence.
func capitalized(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
