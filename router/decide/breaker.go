package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// countEchoes records in a message its sender's echo count, including this message,
// and which message it is the first reply to (spec §4.3).
func (d *Decider) countEchoes(now time.Time, e *protocol.MessageEvent, first protocol.Seq) {
	if n := d.state.EchoesOf(e.From, e.Delivered, first); n > 0 {
		e.Echoes = d.state.Echoes(e.From, now, d.settings.Routing.Breaker.LeakPerHour) + n
	}
	if slices.ContainsFunc(e.Delivered, d.state.CountsAsAgent) {
		e.First = first
	}
}

// Wait is whether a file stays in its outbox: because its sender sent too many echoes
// (spec §4.3), or until the log has the format that it needs.
type Wait int

// Later messages to people wait behind a file of WaitWithPeople: see
// [protocol.Arrival.Behind].
const (
	NoWait         Wait = iota // it is taken in
	WaitAlone                  // it goes to agents
	WaitWithPeople             // it goes to people too
	WaitForFormat              // the log must first be of the next format (spec §5.4)
)

// mustWait reports whether a file has to wait, and whether it is addressed to people,
// too. The first file that waits opens the breaker, which is logged and notified.
func (d *Decider) mustWait(now time.Time, a protocol.Arrival) (waits, people bool, err error) {
	sender := d.state.Agents[a.Agent]
	if a.Message == nil || sender == nil || !d.state.CountsAsAgent(a.Agent) || !sender.Stopped && d.farBelowLimit(now, a.Agent) {
		return false, false, nil
	}
	r := d.resolve(a.Agent, a.Message)
	people = slices.Contains(r.to, protocol.Human) && !d.state.CountsAsAgent(protocol.Human)
	if !slices.ContainsFunc(r.to, d.state.CountsAsAgent) {
		return a.Behind && people, people, nil
	}
	if sender.Stopped {
		return true, people, nil
	}
	b := d.settings.Routing.Breaker
	first := d.state.FirstReply(a.Agent, r.to, a.Message.InReplyTo)
	if d.state.Echoes(a.Agent, now, b.LeakPerHour)+d.state.EchoesOf(a.Agent, r.to, first) <= b.Echoes*ledger.Echo {
		return false, people, nil
	}
	return true, people, d.openBreaker(now, a.Agent)
}

// farBelowLimit reports whether an agent's echoes are so few that its next message
// cannot open the breaker, whoever receives it.
func (d *Decider) farBelowLimit(now time.Time, id protocol.AgentID) bool {
	b := d.settings.Routing.Breaker
	most := (len(d.state.Agents) + 7) / 8
	return d.state.Echoes(id, now, b.LeakPerHour) <= (b.Echoes-most)*ledger.Echo
}

// openBreaker makes what an agent sends to agents wait from now on, and tells the
// agent and the lead, or a person.
func (d *Decider) openBreaker(now time.Time, id protocol.AgentID) error {
	first := len(d.out)
	defer d.markAtomic(first)
	why := fmt.Sprintf("it answered what others sent it over %d times", d.settings.Routing.Breaker.Echoes)
	remedy := func(by protocol.AgentID) string {
		return d.howToManage(by, "let it go on", lineContinueAgent(id), commandContinue, agentData(id)) + ", or have human write to it"
	}
	d.emit(now, &protocol.AlertEvent{Code: protocol.CodeEchoCap, Agent: id, Told: true, Text: fmt.Sprintf("%s may be in a loop: %s; what it sends to agents waits in its outbox; %s", id, why, remedy(protocol.Human))})
	n := notice{
		to: id, act: protocol.Failure, code: protocol.CodeEchoCap, subject: "what you send to agents waits",
		body: fmt.Sprintf("You may be in a loop: you answered what other agents sent you over %d times. What you send to agents waits in your outbox, as it is; what goes to hive or human alone passes. Do not send it again. Stop answering what needs no answer, and reply with in_reply_to. A message of human to you lets you go on: ask human for one.", d.settings.Routing.Breaker.Echoes),
	}
	if err := d.notice(now, n); err != nil {
		return err
	}
	if n.to = d.lead(id); n.to == id {
		return nil
	}
	n.subject = "what " + string(id) + " sends to agents waits"
	n.body = fmt.Sprintf("%s may be in a loop: %s. What it sends to agents waits in its outbox; %s.", id, why, remedy(n.to))
	n.data = map[string]any{"agent": id}
	return d.notice(now, n)
}

// countHuman makes human count as an agent if it sends so many messages within an
// hour that it may be a program that answers.
func (d *Decider) countHuman(now time.Time, from protocol.AgentID, r *recipients) error {
	if from != protocol.Human || d.state.HumanCounts || d.state.Words(now) < ledger.WordsAnHour || !slices.ContainsFunc(r.to, d.state.CountsAsAgent) {
		return nil
	}
	text := fmt.Sprintf("human wrote to agents over %d times within an hour, as a program that answers would: from now on it counts as an agent, and its messages start no counts anew; to end that, %s", ledger.WordsAnHour, howTo(protocol.Human, lineContinueAgent(protocol.Human), ""))
	d.emit(now, &protocol.AlertEvent{Code: protocol.CodeHumanCounts, Agent: protocol.Human, Told: true, Text: text})
	return d.notice(now, notice{
		to: protocol.Human, act: protocol.Inform, code: protocol.CodeHumanCounts,
		subject: "human counts as an agent", body: text + ".",
	})
}
