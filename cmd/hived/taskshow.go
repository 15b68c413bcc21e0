package main

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

func (a *app) taskList() *cobra.Command {
	var state, of string
	c := &cobra.Command{
		Use:   "list",
		Short: "Lists the tasks in the order in which they were created",
		Args:  argCount(0, 0),
		RunE: a.withHive(func(_ *cobra.Command, _ []string, disk *durable.Disk) error {
			if err := checkState(state); err != nil {
				return err
			}
			if err := checkAgent(disk, of); err != nil {
				return err
			}
			return a.listTasks(disk, holderSigns(disk), func(v *task.View) bool {
				return (state == "" || string(v.State) == state) && (of == "" || concerns(v, protocol.AgentID(of)))
			})
		}),
	}
	c.Flags().StringVar(&state, "state", "", "only those in this `state`")
	c.Flags().StringVar(&of, "of", "", "only those that this `agent` holds, held to the end, or is offered")
	return c
}

func checkState(name string) error {
	if name == "" {
		return nil
	}
	return oneOf(task.States(), name, "there is no state %s", "there are "+joinNames(task.States()))
}

// concerns reports whether an agent holds a task or is offered it.
func concerns(v *task.View, id protocol.AgentID) bool {
	return v.Holder == id || slices.Contains(v.Offered, id)
}

func (a *app) listTasks(disk durable.FS, signsOf func(*task.View) protocol.Signs, wanted func(*task.View) bool) error {
	names, err := agent.Tasks(disk)
	if err != nil {
		return err
	}
	views := make([]listedTask, 0, len(names))
	rows := [][]string{{"TASK", "STATE", "HOLDER", "SINCE", "HEARD", "PROGRESS", "ASKS", "TITLE"}}
	now := time.Now()
	for _, id := range names {
		v, err := agent.View(disk, id)
		if err != nil {
			a.note("%s", protocol.Visible(err.Error()))
			continue
		}
		if wanted(v) {
			s := signsOf(v)
			views = append(views, listedTask{v, s})
			rows = append(rows, []string{string(v.ID), orDash(string(v.State)), orDash(string(v.Holder)), timeText(v.Since), ago(now, s.HeardAt), ago(now, s.ProgressedAt), orDash(answerers(v)), protocol.Visible(protocol.Fit(v.Title, 60))})
		}
	}
	return a.answer(views, func(p *printer) {
		if len(views) > 0 {
			p.table(rows)
		}
	})
}

// ago formats how long ago something was.
func ago(now, at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return max(0, now.Sub(at)).Round(time.Second).String() + " ago"
}

func (a *app) taskShow() *cobra.Command {
	return &cobra.Command{
		Use:               "show ID",
		Short:             "Shows a task: what is to be done, where it stands, and its history",
		Args:              argCount(0, 1),
		ValidArgsFunction: a.completeTasks,
		RunE: a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
			id, err := a.taskArg(disk, args)
			if err != nil {
				return err
			}
			var t *agent.Document
			var problems []error
			if err := readSoon(c.Context(), disk, id, func() (err error) {
				t, problems, err = readTask(disk, id)
				return err
			}); err != nil {
				return err
			}
			for _, err := range problems {
				a.note("%s", protocol.Visible(err.Error()))
			}
			t.Signs = holderSigns(disk)(&t.View)
			return a.answer(t, func(p *printer) { a.showTask(p, t) })
		}),
	}
}

func (a *app) showTask(p *printer, t *agent.Document) {
	var below longTexts
	rows := [][]string{
		{"task:", string(t.ID)},
		{"title:", protocol.Visible(t.Title)},
		{"state:", stateLine(&t.View, below.fitOrKeep(t.Reason, "reason"))},
		{"epoch:", digits(t.Epoch)},
		{"attempt:", digits(t.Attempt)},
	}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("holder:", protocol.Visible(string(t.Holder)))
	rows = append(rows, deadlineRows(t)...)
	add("offered to:", joinNames(t.Offered))
	add("for:", joinNames(t.To))
	add("waits for:", joinNames(append(slices.Clone(t.Needs), t.BlockedOn...)))
	if q := t.Question; q != nil {
		add("question:", joinNonEmpty(q.Ask.String(), below.fitOrKeep(q.Question, "question "+q.Ask.String())))
		add("waits for:", answerers(&t.View))
		add("choices:", choicesText(q.Choices))
		add("approved by:", strings.TrimRight(fmt.Sprintf("%d of %d %s", len(q.Given), q.Needed, givenText(q)), " "))
	}
	for name, id := range relatives(&t.View) {
		add(name, string(id))
	}
	if t.Generation > 0 {
		add("generation:", digits(t.Generation))
	}
	add("gate:", protocol.Visible(t.Gate))
	add("created:", timeText(t.CreatedAt)+" by "+protocol.Visible(string(t.Creator)))
	add("checkpoint:", reachedText(t.Checkpoint))
	if t.View.Result != "" {
		add("result:", protocol.Visible(protocol.Fit(resultText(t.Result), 200)))
	}
	rows = slices.Concat(rows, stepRows(t.Steps), outcomeRows(t), answerRows(t, &below))
	p.table(rows)
	p.body(t.Body)
	for _, s := range below {
		p.line("")
		p.line("%s:", protocol.Visible(s.what))
		p.lines("    ", s.text)
	}
	p.line("")
	for _, s := range t.History {
		var long longTexts
		p.line("%6d  %s  %s", s.Seq, a.style.paint(dim, timeText(s.At)), stepLine(s, long.fitOrKeep(s.Note, "")))
		for _, l := range long {
			p.lines("          ", l.text)
		}
	}
}

// reachedText names a checkpoint and its milestone; nothing where there is none.
func reachedText(c *agent.CheckpointFile) string {
	switch {
	case c == nil:
		return ""
	case c.Milestone == "":
		return c.Path
	}
	return c.Path + ", " + protocol.Visible(c.Milestone)
}

// deadlineRows returns the rows that say when the holder was last heard of and
// last made progress, and when it must do so again.
func deadlineRows(t *agent.Document) (rows [][]string) {
	if !t.HearBy.IsZero() {
		next := map[task.State]string{task.Pending: ", must start by ", task.Stalled: ", taken away at "}[t.State]
		rows = append(rows, []string{"last heard:", timeText(t.HeardAt) + cmp.Or(next, ", due again by ") + timeText(t.HearBy)})
	}
	if !t.ProgressBy.IsZero() {
		rows = append(rows, []string{"last progress:", timeText(t.ProgressedAt) + ", due again by " + timeText(t.ProgressBy)})
	}
	return rows
}

// stepRows returns a row for each step: how far it is, by whom, and what it printed.
func stepRows(steps []protocol.StepRecord) (rows [][]string) {
	for i := range steps {
		s := &steps[i]
		what := fmt.Sprintf("%s by %s%s", s.Status, s.By, ofEpoch(s.Epoch))
		if s.Try > 1 {
			what += ", try " + digits(s.Try)
		}
		if s.Underway() && (s.Signal != "" || s.Exit != nil) {
			what += ", in doubt"
		}
		if s.How != "" {
			what += ", " + string(s.How)
		}
		if s.Output != nil {
			what += ", " + digits(int(s.Output.Bytes)) + " bytes"
		}
		rows = append(rows, []string{fmt.Sprintf("step %d:", s.N), joinNonEmpty(s.Name, protocol.Visible(what), protocol.Visible(protocol.Fit(s.Error, maxInLine)))})
	}
	return rows
}

// answerRows returns the rows with the answers to questions, and with what the
// last holder left behind.
func answerRows(t *agent.Document, below *longTexts) (rows [][]string) {
	for _, answered := range t.Answers {
		for _, x := range answered.Answers {
			what := fmt.Sprintf("%s by %s to question %s", x.Event, x.By, answered.Ask)
			if x.Choice != "" {
				what += " with " + protocol.Quote(x.Choice)
			}
			if x.Result != nil {
				what += ", result " + protocol.Visible(protocol.Fit(resultText(x.Result), 200))
			}
			rows = append(rows, []string{"answer:", joinNonEmpty(what, answered.Path, below.fitOrKeep(x.Comment, what))})
		}
	}
	if l := t.Left; l != nil {
		by := "by " + string(l.By)
		rows = append(rows, []string{"given back:", joinNonEmpty(by, below.fitOrKeep(l.Reason, "given back "+by))})
	}
	return rows
}

// longTexts are texts about a task that are too long for a row of the table and
// are printed below it.
type longTexts []struct{ what, text string }

// maxInLine is the longest text that fits into a row of a table, in characters.
const maxInLine = 200

// fitOrKeep returns a text that fits into a row; any other it keeps for below the
// table and returns nothing.
func (s *longTexts) fitOrKeep(text, what string) string {
	if !strings.ContainsAny(text, "\r\n") && utf8.RuneCountInString(text) <= maxInLine {
		return text
	}
	*s = append(*s, struct{ what, text string }{what, text})
	return ""
}

// choicesText returns the choices of a question.
func choicesText(choices []string) string {
	var list []string
	for _, c := range choices {
		list = append(list, protocol.Quote(c))
	}
	return strings.Join(list, ", ")
}

// givenText returns who approved of a question, and what each of them chose.
func givenText(q *task.OpenQuestion) string {
	if len(q.Chosen) != len(q.Given) {
		return joinNames(q.Given)
	}
	var list []string
	for i, id := range q.Given {
		list = append(list, protocol.Visible(string(id))+" ("+protocol.Quote(q.Chosen[i])+")")
	}
	return strings.Join(list, ", ")
}

// answerers returns who may answer a task's question, and until when.
func answerers(v *task.View) string {
	if v.Question == nil {
		return ""
	}
	line := joinNames(v.Question.Approvers)
	if !v.Until.IsZero() {
		line += " until " + timeText(v.Until)
	}
	return line
}

// stateLine returns the state of a task, and why it is in it.
func stateLine(v *task.View, reason string) string {
	cancel := ""
	if v.CancelRequested && !task.Ended(v.State) {
		cancel = "asked to cancel"
	}
	return joinNonEmpty(string(v.State), cancel, string(v.Category), reason)
}

// joinNonEmpty joins the parts that are not empty with commas.
func joinNonEmpty(parts ...string) string {
	return joinNames(slices.DeleteFunc(parts, func(s string) bool { return s == "" }))
}

func stepLine(s task.Step, note string) string {
	line := fmt.Sprintf("%s → %s by %s", protocol.Visible(string(s.Event)), protocol.Visible(string(s.To)), protocol.Visible(string(s.By)))
	line += ofEpoch(s.Epoch)
	if len(s.Agents) > 0 {
		line += ", to " + joinNames(s.Agents)
	}
	if note != "" {
		line += ": " + protocol.Visible(note)
	}
	return line
}

// resultText returns a result on one line: a string without its quotes, any other
// value as JSON.
func resultText(v jsontext.Value) string {
	var s string
	if v.Kind() == '"' && json.Unmarshal(v, &s) == nil {
		return strings.TrimSpace(s)
	}
	short := v.Clone()
	if short.Compact() != nil {
		return string(v)
	}
	return string(short)
}

// relatives yields the tasks that a task resumes, repairs or unwinds, or that unwind it.
func relatives(v *task.View) iter.Seq2[string, protocol.TaskID] {
	return func(yield func(string, protocol.TaskID) bool) {
		_ = yield("resumes:", v.Resumes) && yield("repairs:", v.Repairs) && yield("unwinds:", v.Unwinds) && yield("unwound by:", v.UnwoundBy)
	}
}

// cancelledJSON is what `task is-cancelled` prints.
type cancelledJSON struct {
	ID        protocol.TaskID    `json:"id"`
	Cancelled bool               `json:"cancelled"`
	State     protocol.TaskState `json:"state"`
}

func (a *app) taskIsCancelled() *cobra.Command {
	return &cobra.Command{
		Use:               "is-cancelled ID",
		Short:             "Tells scripts whether a task is cancelled or asked to be: exit status 0 yes, 1 no, 3 not found",
		Args:              argCount(0, 1),
		ValidArgsFunction: a.completeTasks,
		RunE: a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
			id, err := a.taskArg(disk, args)
			if err != nil {
				return err
			}
			var v *task.View
			if err := readSoon(c.Context(), disk, id, func() (err error) {
				v, err = findView(disk, id)
				return err
			}); err != nil {
				return &exitError{protocol.ExitNotFound, err} // status 1 would say no
			}
			yes := v.CancelRequested || v.State == task.Cancelled
			err = a.answer(cancelledJSON{id, yes, v.State}, func(p *printer) {
				p.line("%s", map[bool]string{true: "yes", false: "no"}[yes])
			})
			if !yes {
				err = cmp.Or(err, errAnsweredNo)
			}
			return err
		}),
	}
}
