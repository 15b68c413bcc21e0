package main

import (
	"cmp"
	"fmt"
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
		Args:  takes(0, 0),
		RunE: a.withHive(func(_ *cobra.Command, _ []string, disk *durable.Disk) error {
			if err := knownState(state); err != nil {
				return err
			}
			if err := knownAgent(disk, of); err != nil {
				return err
			}
			return a.listTasks(disk, signs(disk), func(v *task.View) bool {
				return (state == "" || string(v.State) == state) && (of == "" || concerns(v, protocol.AgentID(of)))
			})
		}),
	}
	c.Flags().StringVar(&state, "state", "", "only those in this `state`")
	c.Flags().StringVar(&of, "of", "", "only those that this `agent` holds, held to the end, or is offered")
	return c
}

func knownState(name string) error {
	if name == "" {
		return nil
	}
	return oneOf(task.States(), name, "there is no state %s", "there are "+list(task.States()))
}

// concerns tells whether a task is an agent's, or offered to it.
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
			rows = append(rows, []string{string(v.ID), orDash(string(v.State)), orDash(string(v.Holder)), clock(v.Since), ago(now, s.HeardAt), ago(now, s.ProgressedAt), orDash(answerers(v)), protocol.Visible(protocol.Fit(v.Title, 60))})
		}
	}
	return a.answer(views, func(p *printer) {
		if len(views) > 0 {
			p.table(rows)
		}
	})
}

// ago says how long ago something was.
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
		Args:              takes(0, 1),
		ValidArgsFunction: a.completeTasks,
		RunE: a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
			id, err := a.aboutTask(disk, args)
			if err != nil {
				return err
			}
			var t *agent.Document
			var problems []error
			if err := soon(c.Context(), disk, id, func() (err error) {
				t, problems, err = readTask(disk, id)
				return err
			}); err != nil {
				return err
			}
			for _, err := range problems {
				a.note("%s", protocol.Visible(err.Error()))
			}
			t.Signs = signs(disk)(&t.View)
			return a.answer(t, func(p *printer) { a.showTask(p, t) })
		}),
	}
}

func (a *app) showTask(p *printer, t *agent.Document) {
	var said speech
	rows := [][]string{
		{"task:", string(t.ID)},
		{"title:", protocol.Visible(t.Title)},
		{"state:", stateLine(&t.View, said.short(t.Reason, "reason"))},
		{"epoch:", digits(t.Epoch)},
		{"attempt:", digits(t.Attempt)},
	}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("holder:", protocol.Visible(string(t.Holder)))
	rows = append(rows, lives(t)...)
	add("offered to:", list(t.Offered))
	add("for:", list(t.To))
	add("waits for:", list(append(slices.Clone(t.Needs), t.BlockedOn...)))
	if q := t.Question; q != nil {
		add("question:", present(q.Ask.String(), said.short(q.Question, "question "+q.Ask.String())))
		add("waits for:", answerers(&t.View))
		add("approved by:", fmt.Sprintf("%d of %d %s", len(q.Given), q.Needed, list(q.Given)))
	}
	add("resumes:", string(t.Resumes))
	add("repairs:", string(t.Repairs))
	add("gate:", protocol.Visible(t.Gate))
	add("created:", clock(t.CreatedAt)+" by "+protocol.Visible(string(t.Creator)))
	if c := t.Checkpoint; c != nil {
		what := c.Path
		if c.Milestone != "" {
			what += ", " + protocol.Visible(c.Milestone)
		}
		add("checkpoint:", what)
	}
	if t.View.Result != "" {
		add("result:", protocol.Visible(protocol.Fit(resultText(t.Result), 200)))
	}
	rows = append(rows, heard(t, &said)...)
	p.table(rows)
	p.text(t.Body)
	for _, s := range said {
		p.line("")
		p.line("%s:", protocol.Visible(s.what))
		p.lines("    ", s.text)
	}
	p.line("")
	for _, s := range t.History {
		var long speech
		p.line("%6d  %s  %s", s.Seq, a.style.paint(dim, clock(s.At)), stepLine(s, long.short(s.Note, "")))
		for _, l := range long {
			p.lines("          ", l.text)
		}
	}
}

// lives are the lines on when its holder was heard of, and got on.
func lives(t *agent.Document) (rows [][]string) {
	if !t.HearBy.IsZero() {
		next := map[task.State]string{task.Pending: ", must start by ", task.Stalled: ", taken away at "}[t.State]
		rows = append(rows, []string{"last heard:", clock(t.HeardAt) + cmp.Or(next, ", must be again by ") + clock(t.HearBy)})
	}
	if !t.ProgressBy.IsZero() {
		rows = append(rows, []string{"last progress:", clock(t.ProgressedAt) + ", must be again by " + clock(t.ProgressBy)})
	}
	return rows
}

// heard are the lines on what was answered, and on what its last holder left.
func heard(t *agent.Document, said *speech) (rows [][]string) {
	for _, answered := range t.Answers {
		for _, x := range answered.Answers {
			what := fmt.Sprintf("%s by %s to question %s", x.Event, x.By, answered.Ask)
			rows = append(rows, []string{"answer:", present(what, answered.Path, said.short(x.Comment, what))})
		}
	}
	if l := t.Left; l != nil {
		by := "by " + string(l.By)
		rows = append(rows, []string{"given back:", present(by, said.short(l.Reason, "given back "+by))})
	}
	return rows
}

// speech is what was said of a task at such length that it stands on lines of its
// own.
type speech []struct{ what, text string }

// saidInALine is the longest text that stands in a line of a table, in characters.
const saidInALine = 200

// short gives a text that fits a line as it is; any other it keeps for later.
func (s *speech) short(text, what string) string {
	if !strings.ContainsAny(text, "\r\n") && utf8.RuneCountInString(text) <= saidInALine {
		return text
	}
	*s = append(*s, struct{ what, text string }{what, text})
	return ""
}

// answerers says who may answer what a task asks, and until when.
func answerers(v *task.View) string {
	if v.Question == nil {
		return ""
	}
	line := list(v.Question.Approvers)
	if !v.Until.IsZero() {
		line += " until " + clock(v.Until)
	}
	return line
}

// stateLine says where a task stands, and why.
func stateLine(v *task.View, reason string) string {
	cancel := ""
	if v.CancelRequested && !task.Ended(v.State) {
		cancel = "asked to cancel"
	}
	return present(string(v.State), cancel, string(v.Category), reason)
}

// present lists what there is.
func present(parts ...string) string {
	return list(slices.DeleteFunc(parts, func(s string) bool { return s == "" }))
}

func stepLine(s task.Step, note string) string {
	line := fmt.Sprintf("%s → %s by %s", protocol.Visible(string(s.Event)), protocol.Visible(string(s.To)), protocol.Visible(string(s.By)))
	line += ofEpoch(s.Epoch)
	if len(s.Agents) > 0 {
		line += ", to " + list(s.Agents)
	}
	if note != "" {
		line += ": " + protocol.Visible(note)
	}
	return line
}

// resultText gives a result on one line: a string as what it says, any other
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
		Args:              takes(0, 1),
		ValidArgsFunction: a.completeTasks,
		RunE: a.withHive(func(c *cobra.Command, args []string, disk *durable.Disk) error {
			id, err := a.aboutTask(disk, args)
			if err != nil {
				return err
			}
			var v *task.View
			if err := soon(c.Context(), disk, id, func() (err error) {
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
				err = cmp.Or(err, errSaidNo)
			}
			return err
		}),
	}
}
