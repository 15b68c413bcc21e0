package decide

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
)

// The bounds of what agents bring to people by themselves: how long the text of an alert
// is, in characters, and how many alerts one agent raises within an hour.
const (
	alertTextMost = 2000
	alertsPerHour = 20
)

// agentAlert records what an agent wants people to know, and tells the lead, or human: the
// same cause once in tasks.alert_every, whoever raises it. It never makes a task, because
// agents that make tasks of their troubles make more and more of both.
func (d *Decider) agentAlert(now time.Time, of protocol.Seq, by protocol.AgentID, m *protocol.Message) error {
	var o struct {
		Cause string `json:"cause"`
		Text  string `json:"text"`
	}
	if err := json.Unmarshal(m.Data, &o, strictOptions); len(m.Data) > 0 && err != nil {
		return &refusal{protocol.CodeBadCommand, "its data does not fit: " + endSentence(dataFault(err, []string{"cause", "text"})) + " For example, " + howToCommand(by, m.Event)}
	}
	every := d.settings.Tasks.AlertEvery
	_, cause := protocol.ParseAgentID(o.Cause)
	last := d.state.CauseRaised(o.Cause)
	switch {
	case o.Cause == "" || cause != nil:
		return &refusal{protocol.CodeBadCommand, "its `cause` is " + protocol.Quote(o.Cause) + ", and is written like an agent's id, so that the same cause is known again; for example, " + howToCommand(by, m.Event)}
	case strings.TrimSpace(o.Text) == "":
		return &refusal{protocol.CodeBadCommand, "it has no `text` that says to people what is wrong; for example, " + howToCommand(by, m.Event)}
	case utf8.RuneCountInString(o.Text) > alertTextMost:
		return &refusal{protocol.CodeBadCommand, fmt.Sprintf("its `text` has %d characters, and may have %d; put the rest into a file, and name it", utf8.RuneCountInString(o.Text), alertTextMost)}
	case !last.IsZero() && now.Sub(last).Abs() < every:
		return &refusal{protocol.CodeAlreadyTold, fmt.Sprintf("the cause %s was told at %s, and can be told again from %s on (tasks.alert_every); until then there is nothing to do about it", o.Cause, last.Format(time.RFC3339), wholeSecond(last.Add(every)).Format(time.RFC3339))}
	case d.state.TroubleCount(now, protocol.KindAlert, protocol.CodeAgentAlert, by) >= alertsPerHour:
		return &refusal{protocol.CodeTooMany, fmt.Sprintf("you raised %d alerts within the last hour, which is the most; put what you have to say into one message to `human`", alertsPerHour)}
	}
	to, where := d.lead(by), ""
	if t := d.state.Tasks.Get(protocol.TaskID(m.Task)); t != nil {
		where = protocol.TaskDir(t.ID)
	}
	e := &protocol.AlertEvent{Code: protocol.CodeAgentAlert, Text: o.Text, Agent: by, Path: where, Cause: o.Cause, Of: of, Told: d.state.Agents[to] != nil}
	d.emit(now, e)
	n := notice{
		to: to, act: protocol.Inform, code: e.Code, subject: string(by) + " raises an alert: " + o.Cause,
		body: string(by) + " says: " + o.Text + fullStop(o.Text) + " The same cause is told again after " + every.String() + " at the earliest.",
		data: map[string]any{"agent": by, "cause": o.Cause},
	}
	if where != "" {
		n.data["path"] = where
	}
	return d.notice(now, n)
}
