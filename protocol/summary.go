package protocol

import (
	"fmt"
	"strings"
)

// Summary says in one line, for people, what an event is: the line of `hived
// log` and of a commit's body (spec §6). Whatever is in the event, the line
// holds no control characters, and it is at most a few hundred characters
// long.
func Summary(ev Event) string {
	return Visible(Handle[string](ev, summaries{}))
}

// summaries has the line of each kind of event.
type summaries struct{}

func (summaries) OnHive(_ Event, e *HiveEvent) string {
	line := "hive " + string(e.Action)
	switch {
	case e.Through > 0:
		line += fmt.Sprintf(" through %d", e.Through)
	case e.Segment != nil:
		line += fmt.Sprintf(" %s, events %d to %d", brief(e.Segment.Name), e.Segment.First, e.Segment.Last)
	case e.Adopted != nil:
		line += " " + brief(e.Adopted.Path)
	case len(e.Paths) > 0:
		line += fmt.Sprintf(" %d files: %s", len(e.Paths), few(e.Paths))
	case e.Conversation != "":
		line += " conversation " + brief(string(e.Conversation))
	case e.Agent != "":
		line += " agent " + brief(string(e.Agent))
	}
	return line + by(e.By) + note(e.Note)
}

func (summaries) OnAgent(_ Event, e *AgentEvent) string {
	if e.Action == LeadSet && e.Agent == "" {
		return "agent lead is nobody now" + by(e.By)
	}
	line := "agent " + string(e.Agent) + " " + string(e.Action)
	if e.Count > 0 {
		line += fmt.Sprintf(" %d", e.Count)
	}
	if e.Action == LeadSet {
		line = "agent " + string(e.Agent) + " is the lead now"
	}
	if e.Role != "" {
		line += " as " + e.Role
	}
	if len(e.Caps) > 0 {
		line += " with " + few(e.Caps)
	}
	return line + by(e.By)
}

func (summaries) OnMessage(_ Event, e *MessageEvent) string {
	line := fmt.Sprintf("%s → %s: %s", e.From, few(e.To), e.Act)
	if e.Subject != "" {
		line += " " + Quote(e.Subject)
	}
	line += " (" + string(e.ID)
	if e.InReplyTo != "" {
		line += ", answers " + string(e.InReplyTo)
	}
	if e.Kept != nil {
		return line + fmt.Sprintf("), kept for %s: %s", few(e.Kept.To), e.Kept.Reason)
	}
	return line + ")"
}

func (summaries) OnDrop(_ Event, e *DropEvent) string {
	return fmt.Sprintf("%s ↛ %s: dropped, %s (%s)", e.From, few(e.To), e.Reason, e.ID) + note(e.Detail)
}

func (summaries) OnQuarantine(_ Event, e *QuarantineEvent) string {
	return fmt.Sprintf("%s: set aside %s, %s", e.Agent, brief(e.Path), e.Code) + note(e.Detail)
}

func (summaries) OnDuplicate(_ Event, e *DuplicateEvent) string {
	return fmt.Sprintf("%s: sent %s again, accepted before as %d", e.Agent, e.ID, e.Of)
}

func (summaries) OnHandled(_ Event, e *HandledEvent) string {
	name := string(e.ID)
	if name == "" {
		name = brief(e.File)
	}
	switch e.How {
	case HowDone:
	case HowDeleted:
		return fmt.Sprintf("%s deleted %s", e.Agent, name)
	case HowReopened:
		return fmt.Sprintf("%s reopened %s", e.Agent, name)
	case HowUndeleted:
		return fmt.Sprintf("%s has %s again, which was deleted", e.Agent, name)
	}
	return fmt.Sprintf("%s handled %s", e.Agent, name)
}

func (summaries) OnDelivered(_ Event, e *DeliveredEvent) string {
	return fmt.Sprintf("%s → %s: delivered what was kept (%s)", e.From, few(e.To), e.ID)
}

func (summaries) OnFile(_ Event, e *FileEvent) string {
	if e.Deleted {
		return "file " + brief(e.Path) + " deleted"
	}
	size := 0
	if e.Content != nil {
		size = len(e.Content.Bytes())
	}
	return fmt.Sprintf("file %s, %d bytes", brief(e.Path), size)
}

func (summaries) OnTask(_ Event, e *TaskEvent) string {
	line := fmt.Sprintf("task %s %s", brief(string(e.Task)), brief(string(e.Event)))
	if e.From != e.To {
		line += fmt.Sprintf(", %s → %s", brief(orNone(e.From)), brief(string(e.To)))
	}
	if e.Spec != nil {
		line += " " + Quote(brief(e.Spec.Title))
	}
	if len(e.Agents) > 0 {
		line += " to " + few(e.Agents)
	}
	if e.Checkpoint != nil && e.Checkpoint.Milestone != "" {
		line += " " + Quote(brief(e.Checkpoint.Milestone))
	}
	if s := e.Step; s != nil {
		line += fmt.Sprintf(", step %d %s %s", s.N, brief(s.Name), brief(string(s.Status)))
	}
	if e.UnwoundBy != "" {
		line += ", undone by task " + brief(string(e.UnwoundBy))
	}
	if e.Unwinds != "" {
		line += ", undoes task " + brief(string(e.Unwinds))
	}
	if e.Outcome != nil {
		line += ", outcome " + brief(string(e.Outcome.Kind))
	}
	if e.Charge != "" {
		line += ", counted as " + brief(string(e.Charge))
	}
	return line + by(e.By) + note(e.Reason)
}

func (summaries) OnTaskRejected(_ Event, e *TaskRejectedEvent) string {
	line := "task " + brief(e.Task)
	if e.Task == "" {
		line = "task"
	}
	line += " refused " + brief(e.Event)
	if e.Outcome != nil {
		line += " " + brief(string(e.Outcome.Kind))
	}
	return line + by(e.By) + ", " + brief(string(e.Code)) + note(e.Detail)
}

func orNone(s TaskState) string {
	if s == "" {
		return "new"
	}
	return string(s)
}

func (summaries) OnAlert(_ Event, e *AlertEvent) string {
	if e.Cause != "" {
		return brief(string(e.Agent)) + " raises the alert " + e.Cause + note(e.Text)
	}
	where := ""
	if e.Path != "" && !strings.Contains(e.Text, e.Path) {
		where = " " + e.Path
	}
	return "alert " + string(e.Code) + where + note(e.Text)
}

func by(id AgentID) string {
	if id == "" {
		return ""
	}
	return " by " + brief(string(id))
}

func note(text string) string {
	if text == "" {
		return ""
	}
	return ": " + Cut(text, 400)
}

// few lists at most three names.
func few[S ~string](names []S) string { return Few(names, 3, brief) }

// brief cuts a name to what fits a line.
func brief(s string) string { return Cut(s, 160) }
