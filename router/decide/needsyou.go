package decide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hived/hived/ledger"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// needSources are the functions that find what needs a person, the most urgent first.
var needSources = []func(*needs){
	(*needs).approvals,
	(*needs).blockedTasks,
	(*needs).takenAway,
	(*needs).failedTasks,
	(*needs).stoppedAgents,
	(*needs).stoppedThreads,
	(*needs).fullInboxes,
	(*needs).missingMessages,
	(*needs).nobodyEligible,
	(*needs).silentAgents,
	(*needs).busyPairs,
	(*needs).troubles,
}

// needsPerSource is how many items one source lists at most; the rest is counted.
const needsPerSource = 20

// NeedsYou returns what needs a person at the time now. It is a pure function, so that
// the status of a stopped hive shows the same.
func NeedsYou(s *ledger.State, settings protocol.Settings, now time.Time) []protocol.Need {
	n := &needs{d: &Decider{state: s, settings: settings}, now: now, list: []protocol.Need{}, listed: map[about]int{}}
	for _, source := range needSources {
		source(n)
	}
	return n.list
}

// needs builds the list.
type needs struct {
	d      *Decider // answers who may do what; it decides nothing
	now    time.Time
	list   []protocol.Need
	listed map[about]int // how many are listed of a code that troubles have too
}

// about is a code and the agent that it concerns.
type about struct {
	code protocol.Code
	of   protocol.AgentID
}

func (n *needs) add(x protocol.Need) {
	x.Text = oneLine(x.Text)
	n.list = append(n.list, x)
}

// markListed counts an item of its own, so that it is not listed among the troubles
// again.
func (n *needs) markListed(code protocol.Code, of protocol.AgentID) { n.listed[about{code, of}]++ }

// addSome adds the first of many items, and one that counts the others.
func (n *needs) addSome(all []protocol.Need, others string, command string) {
	for i, x := range all {
		if i == needsPerSource {
			left := len(all) - i
			n.add(protocol.Need{Code: x.Code, Text: fmt.Sprintf(others, left), Count: left, Commands: []string{command}})
			return
		}
		n.add(x)
	}
}

// needTextMost is how much of a question or a reason one line shows, in characters;
// `hived task show` shows all of it.
const needTextMost = 400

// oneLine returns a text from an agent or a person as one printable line.
func oneLine(s string) string { return protocol.Visible(strings.Join(strings.Fields(s), " ")) }

// approvals lists the questions that wait for a person, those that end first at the
// front, and the questions that nobody can answer.
func (n *needs) approvals() {
	var list []protocol.Need
	for _, t := range n.d.state.Tasks.Word() {
		if t.State != task.Paused {
			continue
		}
		who := slices.DeleteFunc(n.d.votesMissing(t), func(id protocol.AgentID) bool { return !n.d.active(id) })
		_, question := t.Open()
		x := protocol.Need{
			Code: protocol.CodeApprovalAsked, Agent: t.Holder, Task: t.ID, Conversation: protocol.TaskConversation(t.ID), Since: n.d.state.Tasks.Time(t.Since), Until: n.d.state.Tasks.Time(t.Until),
			Text: fmt.Sprintf("%s asks: %s (task %s, %s)", t.Holder, protocol.Fit(question, needTextMost), t.ID, t.Title),
		}
		switch {
		case slices.Contains(who, protocol.Human):
			x.Commands = approveLines(t)
		case len(who)+len(t.Questions.Votes()) < int(max(1, t.Terms().Needed)):
			x.Text = "nobody is there who may approve: " + x.Text
			x.Commands = []string{lineShow(t.ID), taskLine(task.Cancel, t.ID, "")}
		default:
			continue
		}
		list = append(list, x)
	}
	slices.SortStableFunc(list, func(a, b protocol.Need) int {
		if a.Until.IsZero() || b.Until.IsZero() { // those without a time limit come last
			return b.Until.Compare(a.Until)
		}
		return a.Until.Compare(b.Until)
	})
	n.addSome(list, "%d more questions wait for a person", lineTasksIn(task.Paused))
}

// blockedTasks lists the tasks that wait for an answer of the lead, or of a person.
func (n *needs) blockedTasks() {
	var list []protocol.Need
	for _, t := range n.d.state.Tasks.Word() {
		if t.State != task.Blocked {
			continue
		}
		ask, _ := t.Open()
		commands := []string{taskLine(task.Answer, t.ID, "--ask "+ask.String()+` "…"`), taskLine(task.FatalError, t.ID, "")}
		list = append(list, protocol.Need{
			Code: protocol.CodeSpecify, Agent: t.Holder, Task: t.ID, Conversation: protocol.TaskConversation(t.ID), Since: n.d.state.Tasks.Time(t.Since),
			Text:     fmt.Sprintf("%s is blocked until %s says how to go on: %s (task %s, %s)", t.Holder, n.d.lead(t.Holder), cmp.Or(protocol.Fit(t.Reason, needTextMost), "it says no more"), t.ID, t.Title),
			Commands: commands,
		})
	}
	n.addSome(list, "%d more tasks are blocked until somebody says how to go on", lineTasksIn(task.Blocked))
}

// missingMessages lists the inboxes from which many messages vanished at once, as long
// as nobody has said whether their agents deleted them.
func (n *needs) missingMessages() {
	var list []protocol.Need
	for _, a := range n.d.state.Roster() {
		if a.Missing == 0 || a.Believed {
			continue
		}
		n.markListed(protocol.CodeMassDeletion, a.ID)
		list = append(list, protocol.Need{
			Code: protocol.CodeMassDeletion, Agent: a.ID, Count: a.Missing,
			Text:     fmt.Sprintf("%d unread messages vanished at once from the inbox of %s: did it delete them?", a.Missing, a.ID),
			Commands: []string{lineInbox(a.ID) + " --put-back", lineInbox(a.ID) + " --believe"},
		})
	}
	n.addSome(list, "messages vanished from %d more inboxes", lineStatusJSON)
}

// fullInboxes lists the inboxes of human and the lead if they are full, so that what
// is sent there is dropped.
func (n *needs) fullInboxes() {
	for _, id := range slices.Compact([]protocol.AgentID{protocol.Human, n.d.state.Lead}) {
		a := n.d.state.Agents[id]
		if a == nil || a.There() < n.d.settings.InboxCap {
			continue
		}
		n.add(protocol.Need{
			Code: protocol.Code(protocol.InboxFull), Agent: id, Count: a.Inbox.Len(), Commands: []string{lineInbox(id), lineDone(id)},
			Text: fmt.Sprintf("the inbox of %s is full: it holds %d unread messages, and what is sent to it is dropped, but for what must be answered", id, a.Inbox.Len()),
		})
	}
}

// stoppedAgents lists the agents that may be in a loop, and human if it counts as an
// agent.
func (n *needs) stoppedAgents() {
	var list []protocol.Need
	for _, a := range n.d.state.Roster() {
		if a.Stopped {
			n.markListed(protocol.CodeEchoCap, a.ID)
			list = append(list, protocol.Need{
				Code: protocol.CodeEchoCap, Agent: a.ID, Commands: []string{lineContinueAgent(a.ID)},
				Text: string(a.ID) + " may be in a loop: what it sends to agents waits in its outbox until you let it go on",
			})
		}
	}
	n.addSome(list, "%d more agents may be in a loop", lineStatus)
	if n.d.state.HumanCounts {
		n.markListed(protocol.CodeHumanCounts, protocol.Human)
		n.add(protocol.Need{
			Code: protocol.CodeHumanCounts, Agent: protocol.Human, Commands: []string{lineContinueAgent(protocol.Human)},
			Text: fmt.Sprintf("human wrote to agents over %d times within an hour, as a program that answers would: its messages let nobody go on", ledger.WordsAnHour),
		})
	}
}

// stoppedThreads lists the conversations that have kept messages.
func (n *needs) stoppedThreads() {
	kept := n.d.state.Kept()
	var list []protocol.Need
	for _, conv := range slices.Sorted(maps.Keys(kept)) {
		list = append(list, protocol.Need{
			Code: protocol.Code(protocol.HopCap), Conversation: conv, Count: kept[conv], Commands: []string{lineContinue(conv)},
			Text: fmt.Sprintf("conversation %s is stopped; %s kept until you let it go on", conv, countOf(kept[conv], "message")),
		})
	}
	n.addSome(list, "%d more conversations are stopped", lineLog(protocol.KindMessage))
}

// busyPairs lists pairs of agents that may be in a loop that looks like work.
func (n *needs) busyPairs() {
	var list []protocol.Need
	for _, b := range n.d.state.BusyPairs(n.now) {
		list = append(list, protocol.Need{
			Code: protocol.CodeBusyPair, Agent: b.One, Count: b.Messages, Commands: []string{lineLog(protocol.KindMessage) + " --of " + string(b.One), hiveLine("agent-hold", string(b.One))},
			Text: fmt.Sprintf("%s and %s sent each other %d messages within a day, with no word of a person: look whether it is work", b.One, b.Other, b.Messages),
		})
	}
	n.addSome(list, "%d more pairs of agents write to each other as often", lineLog(protocol.KindMessage))
}

// nobodyEligible lists the tasks for agents that are not on the roster.
func (n *needs) nobodyEligible() {
	there := map[protocol.Address]bool{}
	for _, a := range n.d.state.Agents {
		if a.Status != ledger.Archived {
			for _, to := range addresses(a) {
				there[to] = true
			}
		}
	}
	var list []protocol.Need
	for a := range n.d.state.Tasks.Wanted() {
		if slices.ContainsFunc(a.To, func(to protocol.Address) bool { return there[to] }) {
			continue
		}
		first := n.d.state.Tasks.Get(a.Tasks[0])
		what := fmt.Sprintf("task %s, %s, is for nobody", first.ID, first.Title)
		if more := len(a.Tasks) - 1; more > 0 {
			what = fmt.Sprintf("%d tasks are for nobody, the oldest %s, %s", more+1, first.ID, first.Title)
		}
		why, remedy := n.d.whyNobodyEligible(a.To)
		list = append(list, protocol.Need{
			Code: protocol.CodeNobodyEligible, Task: first.ID, Count: len(a.Tasks), Since: n.d.state.Tasks.Time(first.Since),
			Text: what + ": " + why, Commands: []string{remedy, taskLine(task.Cancel, first.ID, "")},
		})
	}
	slices.SortFunc(list, func(a, b protocol.Need) int { return cmp.Compare(a.Task, b.Task) })
	n.addSome(list, "tasks for %d more roles wait for agents that are not there", lineTasksIn(task.Unassigned))
}

// silentAgents lists the agents that get no more offers because they let them run
// out, if tasks wait for somebody.
func (n *needs) silentAgents() {
	if n.d.state.Tasks.Stats.States[task.Unassigned] == 0 {
		return
	}
	var ids []protocol.Address
	for _, a := range n.d.state.Roster() {
		if a.Silent() {
			n.markListed(protocol.CodeAgentSilent, a.ID)
			ids = append(ids, protocol.Address(a.ID))
		}
	}
	if len(ids) == 0 {
		return
	}
	x := protocol.Need{
		Code: protocol.CodeAgentSilent, Count: len(ids), Commands: []string{taskLine(task.Claim, "", "")},
		Text: "offers of tasks ran out unanswered, so no more are made to " + listNames(ids) + " until they do something: start them, or let others claim what waits",
	}
	if len(ids) == 1 {
		x.Agent = protocol.AgentID(ids[0])
	}
	n.add(x)
}

// takenAway lists the tasks that hived took from their holders, until somebody has
// them again.
func (n *needs) takenAway() {
	var list []protocol.Need
	for t := range n.d.state.Tasks.Stranded() {
		if task.Ended(t.State) {
			continue
		}
		id, from := string(t.ID), t.Last()
		n.markListed(protocol.CodeTakenAway, from)
		list = append(list, protocol.Need{
			Code: protocol.CodeTakenAway, Agent: from, Task: t.ID, Conversation: protocol.TaskConversation(t.ID),
			Text:     fmt.Sprintf("task %s, %s, was taken from %s and waits for somebody to take it", id, t.Title, from),
			Commands: []string{lineShow(t.ID), taskLine(task.Cancel, t.ID, "")},
		})
	}
	n.addSome(list, "%d more tasks were taken from their holders and wait for somebody", lineTasksIn(task.Unassigned))
}

// failedShown is how long a failed task is listed if nobody resumes it.
const failedShown = 24 * time.Hour

// failedTasks lists the tasks that failed because their executions reached nothing
// new.
func (n *needs) failedTasks() {
	var list []protocol.Need
	for t := range n.d.state.Tasks.Stranded() {
		at := n.d.state.Tasks.Time(t.Since)
		if heir, _ := n.d.state.Tasks.Heir(t.ID); t.State != task.Failed || heir != t.ID || n.now.Sub(at) >= failedShown {
			continue
		}
		id := string(t.ID)
		list = append(list, protocol.Need{
			Code: protocol.CodeTaskFailed, Task: t.ID, Conversation: protocol.TaskConversation(t.ID), Since: at,
			Text:     fmt.Sprintf("task %s, %s, has failed: %s", id, t.Title, protocol.Fit(t.Reason, needTextMost)),
			Commands: []string{lineShow(t.ID), taskLine(eventResume, t.ID, "")},
		})
	}
	n.addSome(list, "%d more tasks have failed because nobody got on with them", lineTasksIn(task.Failed))
}

// troubles lists what went wrong within the last hour, by kind and code.
func (n *needs) troubles() {
	groups := map[protocol.Kind][][]ledger.Trouble{}
	all := slices.DeleteFunc(n.d.state.Troubles(n.now), n.isListed)
	for len(all) > 0 {
		kind, code := all[0].Kind, all[0].Code
		end := slices.IndexFunc(all, func(t ledger.Trouble) bool { return t.Kind != kind || t.Code != code })
		if end < 0 {
			end = len(all)
		}
		groups[kind] = append(groups[kind], all[:end])
		all = all[end:]
	}
	for _, kind := range []protocol.Kind{protocol.KindAlert, protocol.KindTask, protocol.KindQuarantine, protocol.KindDrop} {
		for _, group := range groups[kind] {
			n.trouble(kind, group)
		}
	}
}

// isListed reports whether items of their own already say all that a trouble does.
func (n *needs) isListed(t ledger.Trouble) bool {
	switch {
	case t.Kind == protocol.KindAlert:
		return n.listed[about{t.Code, t.Agent}] > 0
	case t.Kind == protocol.KindTask && (t.Code == protocol.CodeReleased || t.Code == protocol.CodeLeaseExpired):
		return t.Count(n.now) <= n.listed[about{protocol.CodeTakenAway, t.Agent}]
	}
	return false
}

// trouble adds one item for all troubles of one code.
func (n *needs) trouble(kind protocol.Kind, group []ledger.Trouble) {
	var ids []protocol.Address
	last, first, count := group[0], group[0].First, 0
	for _, t := range group {
		count += t.Count(n.now)
		if t.Of > last.Of {
			last = t
		}
		if t.First.Before(first) {
			first = t.First
		}
		if t.Agent != "" {
			ids = append(ids, protocol.Address(t.Agent))
		}
	}
	if begin := n.now.Add(-ledger.Lately); first.Before(begin) {
		first = begin
	}
	from := ""
	if len(ids) > 0 {
		from = " of " + listNames(ids)
	}
	newest := ": "
	if count > 1 {
		newest = ", the newest: "
	}
	x := protocol.Need{Code: last.Code, Count: count, Since: first, Commands: []string{lineLog(kind)}}
	if len(group) == 1 {
		x.Agent, x.Task = last.Agent, last.Task
	}
	switch kind {
	case protocol.KindAlert:
		x.Text = countOf(count, "alert") + from + " in the last hour" + newest + last.Text
	case protocol.KindTask:
		x.Text = countOf(count, "task") + " taken from " + listNames(ids) + " in the last hour" + newest + string(last.Task) + ", " + last.Text
	case protocol.KindQuarantine:
		x.Text = countOf(count, "file") + from + " set aside in the last hour" + newest + last.Text
	case protocol.KindDrop:
		x.Text = countOf(count, "message") + from + " not delivered in the last hour" + newest + last.Text
	case protocol.KindHive, protocol.KindAgent, protocol.KindMessage, protocol.KindDuplicate, protocol.KindHandled, protocol.KindDelivered, protocol.KindFile, protocol.KindTaskRejected:
	}
	n.add(x)
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
