package decide

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
)

// commandData is the `data` of a command that manages the roster or a thread
// (spec §8).
type commandData struct {
	Agent        string   `json:"agent,omitzero"`
	Role         string   `json:"role,omitzero"`
	Caps         []string `json:"capabilities,omitzero"`
	Slots        int      `json:"slots,omitzero"`
	Conversation string   `json:"conversation,omitzero"`

	Messages []protocol.Seq `json:"messages,omitzero"` // that accepted them
}

// refusal is the error of a command that is not carried out: its sender is told why,
// and what to do. It has changed nothing. Any other error is not the sender's fault,
// and ends the daemon.
type refusal struct {
	code protocol.Code
	text string
}

func (refused *refusal) Error() string { return refused.text }

// detailed is a refusal with members for the data of its notice.
type detailed struct {
	*refusal
	data map[string]any
}

func (x *detailed) Unwrap() error { return x.refusal }

// detailsIn returns the members that an error has for the data of a notice; none if it
// is not a [detailed] refusal.
func detailsIn(err error) map[string]any {
	if x, is := errors.AsType[*detailed](err); is {
		return x.data
	}
	return nil
}

// refusalIn returns err as a refusal if it is one, or else err itself.
func refusalIn(err error) (*refusal, error) {
	if refused, is := errors.AsType[*refusal](err); is {
		return refused, nil
	}
	return nil, err
}

// command carries out a message to `hive` that names an event (spec §8). One
// without an event is only filed; if it is about a task, its sender is told what to
// send instead, at most once an hour and not in reply to that notice: an agent that
// thanks the coordinator must not talk with it for ever.
func (d *Decider) command(now time.Time, of protocol.Seq, e *protocol.MessageEvent, m *protocol.Message) error {
	if m.Event == "" {
		return d.withoutEvent(now, of, e, m)
	}
	if m.Event != commandAlert && aboutTask(m) || !d.isHiveCommand(m.Event) {
		return d.taskCommand(now, of, e, m)
	}
	answer := notice{
		to: e.From, act: protocol.Failure, reply: e.ID, conversation: e.Conversation,
		subject: "refused: " + protocol.Quote(m.Event), data: map[string]any{"of": of, "event": protocol.Fit(m.Event, 64)},
	}
	refused, err := refusalIn(d.manageHive(now, of, e, m))
	if err != nil {
		return err
	}
	if refused == nil {
		if !m.RequiresReply && (m.Has("requires_reply") || !e.Act.WantsReply()) {
			return nil
		}
		answer.act, answer.subject, answer.code = protocol.Done, "done: "+m.Event, protocol.CodeOK
		answer.body = m.Event + " was carried out."
		return d.notice(now, answer)
	}
	return d.refuse(now, e, m, answer, refused)
}

// refusalsInARow is how many refusals are sent in a row, each for a reply to the one
// before: hive and an agent that answers everything must not talk for ever.
const refusalsInARow = 3

// refuse tells the sender of a command why it was not carried out, unless the command
// replies to the last of refusalsInARow refusals (spec §8).
func (d *Decider) refuse(now time.Time, e *protocol.MessageEvent, m *protocol.Message, answer notice, refused *refusal) error {
	reply := d.noticeOf(e.From, m.InReplyTo)
	if reply.Row >= refusalsInARow {
		return nil
	}
	answer.code = refused.code
	answer.body = protocol.Quote(m.Event) + " was not carried out: " + refused.text + fullStop(refused.text)
	answer.data["refused"] = reply.Row + 1
	return d.notice(now, answer)
}

// tellsRefusal reports whether the sender is told of a refusal. That there is no such
// command is told once an hour, and not in reply to a notice that said so.
func (d *Decider) tellsRefusal(now time.Time, by protocol.AgentID, m *protocol.Message, code protocol.Code) bool {
	if code != protocol.CodeUnknownCommand {
		return true
	}
	a, reply := d.state.Agents[by], d.noticeOf(by, m.InReplyTo).Code
	return a != nil && a.HintDue(now) && reply != code && reply != protocol.CodeNoCommand
}

// isHiveCommand reports whether an event is a command about the hive, its roster or an
// inbox.
func (d *Decider) isHiveCommand(event string) bool {
	_, aboutAgent := agentActions[event]
	_, aboutInbox := inboxActions[event]
	return aboutAgent || aboutInbox || event == commandContinue || event == commandSlots || event == commandAlert || event == commandGitPause || event == commandGitResume
}

// agentActions maps the commands about one agent to what they do to it.
var agentActions = map[string]protocol.AgentAction{
	"agent-add":     protocol.Joined,
	"agent-hold":    protocol.Held,
	"agent-release": protocol.Released,
	"agent-archive": protocol.Archived,
	"agent-restore": protocol.Restored,
	"agent-lead":    protocol.LeadSet,
}

// inboxActions maps the commands about an agent's inbox to what they do; see
// manageInbox.
var inboxActions = map[string]protocol.AgentAction{
	"inbox-believe":  protocol.InboxBelieved,
	"inbox-put-back": protocol.InboxPutBack,
	"inbox-undelete": protocol.InboxUndeleted,
}

const (
	commandContinue  = "continue"
	commandSlots     = "agent-slots"
	commandAlert     = "alert"
	commandGitPause  = "git-pause"
	commandGitResume = "git-resume"
)

func (d *Decider) manageHive(now time.Time, of protocol.Seq, e *protocol.MessageEvent, m *protocol.Message) error {
	switch m.Event { // any agent may
	case commandSlots:
		return d.setSlots(now, of, e.From, m)
	case commandAlert:
		return d.agentAlert(now, of, e.From, m)
	}
	_, aboutAgent := agentActions[m.Event]
	_, aboutInbox := inboxActions[m.Event]
	if e.From != protocol.Human && e.From != d.state.Lead {
		return &refusal{protocol.CodeNotAllowed, "only human and the lead may; ask human"}
	}
	var o commandData
	if len(m.Data) > 0 {
		if err := json.Unmarshal(m.Data, &o, strictOptions); err != nil {
			return &refusal{protocol.CodeBadCommand, "its data does not fit: " + endSentence(dataFault(err, commandMembers)) + " For example, " + howToCommand(e.From, m.Event)}
		}
	}
	if aboutAgent {
		return d.manageAgent(now, of, e.From, m.Event, o)
	}
	if aboutInbox {
		return d.manageInbox(now, of, e.From, m.Event, o)
	}
	act := &protocol.HiveEvent{By: e.From, Of: of}
	switch m.Event {
	case commandContinue:
		if o.Agent != "" {
			return d.continueAgent(now, of, e.From, o)
		}
		if conv := protocol.ConversationID(o.Conversation); !d.state.KnowsConversation(conv) {
			where := "the notice hop-cap names one that is stopped; to let it go on, " + howToCommand(e.From, m.Event)
			if e.From == protocol.Human {
				where = "to see which are stopped, " + howTo(e.From, lineStatus, "")
			}
			return &refusal{protocol.CodeBadCommand, "no conversation " + protocol.Quote(o.Conversation) + " is remembered; " + where}
		}
		act.Action, act.Conversation = protocol.Continued, protocol.ConversationID(o.Conversation)
	case commandGitPause:
		act.Action = protocol.GitPaused
	case commandGitResume:
		act.Action = protocol.GitResumed
	}
	d.emit(now, act)
	return nil
}

// continueAgent makes the echoes of an agent count from zero.
func (d *Decider) continueAgent(now time.Time, of protocol.Seq, by protocol.AgentID, o commandData) error {
	id := protocol.AgentID(o.Agent)
	switch {
	case o.Conversation != "":
		return &refusal{protocol.CodeBadCommand, "it names an agent and a conversation; send two commands"}
	case d.state.Agents[id] == nil:
		return &refusal{protocol.CodeUnknownAgent, d.unknownAgent(o.Agent)}
	case by == id && id != protocol.Human:
		return &refusal{protocol.CodeNotAllowed, "nobody lets himself go on; ask human"}
	}
	d.emit(now, &protocol.HiveEvent{Action: protocol.Continued, Agent: id, By: by, Of: of})
	return nil
}

// setSlots records how many tasks an agent takes in hand for now, as itself says, or a
// person or the lead for it.
func (d *Decider) setSlots(now time.Time, of protocol.Seq, by protocol.AgentID, m *protocol.Message) error {
	var o struct {
		Agent protocol.AgentID `json:"agent"`
		Slots *int             `json:"slots"`
	}
	if err := json.Unmarshal(m.Data, &o, strictOptions); len(m.Data) > 0 && err != nil {
		return &refusal{protocol.CodeBadCommand, "its data does not fit: " + endSentence(dataFault(err, commandMembers)) + " For example, " + howToCommand(by, m.Event)}
	}
	id := cmp.Or(o.Agent, by)
	switch {
	case o.Slots == nil || *o.Slots < 0 || *o.Slots > protocol.SlotsMost:
		return &refusal{protocol.CodeBadCommand, "it does not say how many tasks are taken in hand at once, 0 to " + strconv.Itoa(protocol.SlotsMost) + "; for example, " + howToCommand(by, m.Event)}
	case d.state.Agents[id] == nil:
		return &refusal{protocol.CodeUnknownAgent, d.unknownAgent(string(id))}
	case id != by && by != protocol.Human && by != d.state.Lead:
		return &refusal{protocol.CodeNotAllowed, "only human and the lead may do that for another; ask human"}
	}
	d.recordAgent(now, &protocol.AgentEvent{Agent: id, Action: protocol.SlotsSet, Slots: *o.Slots, By: by, Of: of})
	return nil
}

// manageAgent carries out a command about one agent.
func (d *Decider) manageAgent(now time.Time, of protocol.Seq, by protocol.AgentID, event string, o commandData) error {
	id, err := protocol.ParseAgentID(o.Agent)
	if err != nil {
		return &refusal{protocol.CodeBadCommand, err.Error()}
	}
	e := &protocol.AgentEvent{Agent: id, Action: agentActions[event], By: by, Of: of}
	a := d.state.Agents[id]
	if event == "agent-add" {
		if id.Reserved() {
			return &refusal{protocol.CodeBadCommand, protocol.Quote(o.Agent) + " is reserved; choose another id"}
		}
		if bad := protocol.BadRoles(append([]string{o.Role}, o.Caps...)); bad != "" {
			return &refusal{protocol.CodeBadCommand, bad}
		}
		if o.Slots < 0 || o.Slots > protocol.SlotsMost {
			return &refusal{protocol.CodeBadCommand, "slots is how many tasks an agent may have in hand at once: 1 to " + strconv.Itoa(protocol.SlotsMost)}
		}
		e.Role, e.Caps, e.Slots = o.Role, o.Caps, o.Slots
		if a != nil {
			e.Action = protocol.Changed
		}
		d.recordAgent(now, e)
		return nil
	}
	if a == nil {
		return &refusal{protocol.CodeUnknownAgent, d.unknownAgent(o.Agent)}
	}
	if err := checkStatus(event, a); err != nil {
		return err
	}
	d.recordAgent(now, e)
	return nil
}

// checkStatus refuses a command that does not apply to an agent in its status.
func checkStatus(event string, a *ledger.Agent) error {
	bad := func(text string) error { return &refusal{protocol.CodeBadCommand, string(a.ID) + " " + text} }
	switch {
	case a.ID == protocol.Human && event != "agent-lead":
		return bad("is the mailbox of the people and stays as it is")
	case event == "agent-hold" && a.Status != ledger.Active:
		return bad("is " + string(a.Status) + " already")
	case event == "agent-release" && a.Status != ledger.OnHold:
		return bad("is not on hold")
	case event == "agent-archive" && a.Status == ledger.Archived:
		return bad("is archived already")
	case event == "agent-restore" && a.Status != ledger.Archived:
		return bad("is not archived")
	case event == "agent-lead" && a.Status == ledger.Archived:
		return bad("is archived; restore it first")
	}
	return nil
}
