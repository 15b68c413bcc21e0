package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// needs returns what needs a person now.
func (b *bench) needs() []protocol.Need { return NeedsYou(b.d.state, b.d.settings, b.now) }

// works creates a task of a person, and has bob take and start it.
func (b *bench) works(data string) *task.Task {
	b.t.Helper()
	t := b.makesAs(protocol.Human, data)
	b.tells("bob", "claim", t.ID, 0, `{}`)
	b.tells("bob", "start", t.ID, 1, `{}`)
	return t
}

func (b *bench) makesAs(by protocol.AgentID, data string) *task.Task {
	b.t.Helper()
	b.send(by, `{"to":"hive","event":"create","data":`+data+`}`)
	var last *task.Task
	for t := range b.d.state.Tasks.All() {
		last = t
	}
	return last
}

// alert records an alert, and returns what is decided.
func (b *bench) alert(code protocol.Code, about protocol.AgentID) []string {
	b.t.Helper()
	testenv.Must(b.t, b.d.Alert(b.now, &protocol.AlertEvent{Code: code, Agent: about, Text: "something went wrong"}))
	return story(b.d.Drain(b.now))
}

// TestWhatNeedsAPerson checks that what waits for a person, or went wrong within the hour,
// is listed with what settles it, and nothing else.
func TestWhatNeedsAPerson(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(b *bench)
		want []string // code, what the text says, and a command, of each
	}{
		{"nothing", func(b *bench) { b.works(`{"title":"quiet"}`) }, nil},
		{"an approval", func(b *bench) {
			x := b.works(`{"title":"clean"}`)
			b.tells("bob", "pause_for_approval", x.ID, 1, `{"question":"May I\ndrop it?"}`)
		}, []string{"approval-asked|bob asks: May I drop it? (task |hived approve "}},
		{"an approval that waits for agents alone", func(b *bench) {
			x := b.works(`{"title":"clean","approvers":["carol"]}`)
			b.tells("bob", "pause_for_approval", x.ID, 1, `{"question":"May I?"}`)
		}, nil},
		{"an approval that nobody can give", func(b *bench) {
			x := b.works(`{"title":"clean","approvers":["carol"]}`)
			b.tells("bob", "pause_for_approval", x.ID, 1, `{"question":"May I?"}`)
			b.command(`{"to":"hive","event":"agent-archive","data":{"agent":"carol"}}`)
		}, []string{"approval-asked|nobody is there who may approve: bob asks|hived task cancel "}},
		{"a blocked task", func(b *bench) {
			x := b.works(`{"title":"build"}`)
			b.tells("bob", "failure", x.ID, 1, `{"category":"schema","reason":"no port is named"}`)
		}, []string{"specify|bob is blocked until human says how to go on: no port is named (task |hived task answer "}},
		{"a blocked task and a lead", func(b *bench) {
			b.command(`{"to":"hive","event":"agent-lead","data":{"agent":"carol"}}`)
			x := b.works(`{"title":"build"}`)
			b.tells("bob", "failure", x.ID, 1, `{"category":"unknown","reason":"odd"}`)
		}, []string{"specify|until carol says how to go on: odd|hived task answer "}},
		{"tasks for a role that nobody has", func(b *bench) {
			b.command(`{"to":"hive","event":"agent-add","data":{"agent":"bob","role":"tester"}}`)
			for range 2 {
				b.makesAs(protocol.Human, `{"title":"try it","to":["@testr"]}`)
			}
		}, []string{`nobody-eligible|2 tasks are for nobody, the oldest |hived agent add ID --role testr`}},
		{"a task for an agent that is retired", func(b *bench) {
			b.command(`{"to":"hive","event":"agent-archive","data":{"agent":"bob"}}`)
			b.makesAs(protocol.Human, `{"title":"try it","to":["bob"]}`)
		}, []string{`nobody-eligible|is for nobody: bob is archived|hived agent restore bob`}},
		{"one for a role that somebody gets later", func(b *bench) {
			b.makesAs(protocol.Human, `{"title":"try it","to":["@tester"]}`)
			b.command(`{"to":"hive","event":"agent-add","data":{"agent":"bob","role":"tester"}}`)
		}, nil},
		{"a full inbox", func(b *bench) {
			b.d.settings.InboxCap = 2
			for range 3 {
				b.send("bob", `{"to":"human","body":"x"}`)
			}
		}, []string{"inbox-full|the inbox of human is full: it holds 2 unread messages|hived inbox --agent human", "inbox-full|1 message of bob not delivered in the last hour: its inbox holds 2|hived log --kind drop"}},
		{"alerts", func(b *bench) { b.alert("inbox-gone", "bob"); b.alert("inbox-gone", "carol") }, []string{"inbox-gone|2 alerts of bob, carol in the last hour, the newest: something went wrong|hived log --kind alert"}},
		{"files that were set aside", func(b *bench) {
			for range 3 {
				b.broken("bob")
			}
		}, []string{"malformed|3 files of bob set aside in the last hour, the newest: agents/bob/outbox/.sent/bad-|hived log --kind quarantine"}},
		{"drops", func(b *bench) {
			b.send("bob", `{"to":"nobdy","body":"x"}`)
			b.send("bob", `{"to":"carol","hops":13,"body":"x"}`)
		}, []string{"hop-cap|1 message kept|hived continue conv-", "no-inbox|there is no agent|hived log"}},
		{"a task that was taken away", func(b *bench) {
			b.tells("bob", "claim", b.makesAs(protocol.Human, `{"title":"slow","to":["bob"]}`).ID, 0, `{}`)
			b.pass(time.Minute)
			b.pass(time.Minute)
		}, []string{"taken-away|slow, was taken from bob and waits for somebody to take it|hived task show 0"}},
		{"a task that was taken away, and that somebody else has", func(b *bench) {
			id := b.makesAs(protocol.Human, `{"title":"slow","to":["bob","carol"]}`).ID
			b.tells("bob", "claim", id, 0, `{}`)
			b.pass(time.Minute)
			b.pass(time.Minute)
			b.tells("carol", "claim", id, 0, `{}`)
		}, []string{"lease-expired|1 task taken from bob in the last hour: 0|hived log --kind task"}},
		{"a task that was taken away hours ago", func(b *bench) {
			b.tells("bob", "claim", b.makesAs(protocol.Human, `{"title":"slow","to":["bob"]}`).ID, 0, `{}`)
			b.pass(time.Minute)
			b.pass(time.Minute)
			b.now = b.now.Add(9 * time.Hour)
		}, []string{"taken-away|slow, was taken from bob and|hived task show 0"}},
		{"a task that was tried in vain", func(b *bench) { b.vain() }, []string{"task-failed|in vain, has failed: 2 executions in a row reached nothing new|hived task resume 0"}},
		{"one that is resumed", func(b *bench) {
			x := b.vain()
			b.d.recall = recalls(func(protocol.Seq) (protocol.Event, error) {
				return protocol.Event{Body: &protocol.TaskEvent{Spec: &protocol.TaskSpec{Title: x.Title}}}, nil
			})
			b.tells(protocol.Human, "resume", x.ID, 0, `{}`)
		}, nil},
		{"one that failed yesterday", func(b *bench) {
			b.vain()
			b.now = b.now.Add(failedShown)
		}, nil},
		{"what is over an hour old", func(b *bench) {
			b.alert("inbox-gone", "bob")
			b.now = b.now.Add(time.Hour)
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "bob", "carol")
			tt.do(b)
			got := b.needs()
			if len(got) != len(tt.want) {
				t.Fatalf("listed %+v, want %d", got, len(tt.want))
			}
			for i, want := range tt.want {
				w := strings.Split(want, "|")
				if string(got[i].Code) != w[0] || !strings.Contains(got[i].Text, w[1]) || strings.Contains(got[i].Text, "\n") || !slices.ContainsFunc(got[i].Commands, func(c string) bool { return strings.HasPrefix(c, w[2]) }) {
					t.Errorf("listed %+v, want %s", got[i], want)
				}
			}
		})
	}
}

// vain has bob give a task back until it fails.
func (b *bench) vain() *task.Task {
	b.t.Helper()
	b.d.settings.Tasks.MaxExecutions = 2
	x := b.works(`{"title":"in vain","to":["bob"]}`)
	b.tells("bob", "release", x.ID, 1, `{}`)
	b.pass(time.Hour)
	b.tells("bob", "claim", x.ID, 0, `{}`)
	b.tells("bob", "start", x.ID, 2, `{}`)
	b.tells("bob", "release", x.ID, 2, `{}`)
	b.want(x.ID, task.Failed)
	return x
}

// TestEachNeedIsListedOnce checks that what is listed as waiting is not listed again as
// an alert of the hour.
func TestEachNeedIsListedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, "bob", "carol")
	who, _ := b.loop("bob", "carol")
	if who == "" {
		t.Fatal("no agent was stopped")
	}
	codes := map[protocol.Code]int{}
	for _, n := range b.needs() {
		codes[n.Code]++
	}
	if codes[protocol.CodeEchoCap] != 1 {
		t.Errorf("a stopped agent is listed %d times: %+v", codes[protocol.CodeEchoCap], b.needs())
	}
	b.alert(protocol.CodeEchoCap, "dave")
	if n := len(b.needs()); n != len(codes)+1 {
		t.Errorf("an alert about another agent is not listed: %+v", b.needs())
	}
}

// broken has an agent send something that is no message.
func (b *bench) broken(by protocol.AgentID) []string {
	b.t.Helper()
	b.n++
	name := fmt.Sprintf("%d.json", b.n)
	return story(b.arrive(protocol.Arrival{
		Agent: by, Name: name, Original: protocol.Original{Name: name}, Raw: []byte(`{"to"`), Size: 5,
		Fault: &protocol.Fault{Code: protocol.CodeMalformed, Detail: "the JSON ends too early"},
	}))
}

// TestManyNeedsAreCounted checks that what many tasks wait for is listed once, for the
// first of them, with their number.
func TestManyNeedsAreCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t, "bob")
	for i := range needsPerSource + 3 {
		x := b.works(fmt.Sprintf(`{"title":"t%d"}`, i))
		b.tells("bob", "pause_for_approval", x.ID, 1, `{"question":"May I?"}`)
		b.now = b.now.Add(time.Second)
	}
	got := b.needs()
	if len(got) != needsPerSource+1 || !strings.Contains(got[0].Text, "t0") || !strings.HasPrefix(got[needsPerSource].Text, "3 more questions wait") {
		t.Errorf("listed %+v", got)
	}
}

// TestTroubleReachesAPerson checks that where no lead can act, a person is told of
// trouble once an hour for each code and agent, so that a storm fills no inbox.
func TestTroubleReachesAPerson(t *testing.T) {
	t.Parallel()
	b := newBench(t, "bob", "carol")
	want := func(what string, got []string, want ...string) {
		t.Helper()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	want("the first", b.alert("inbox-gone", "bob"), "alert inbox-gone", "notice inbox-gone to [human]")
	for range 200 {
		want("again", b.alert("inbox-gone", "bob"), "alert inbox-gone")
	}
	want("of another agent", b.alert("inbox-gone", "carol"), "alert inbox-gone", "notice inbox-gone to [human]")
	b.now = b.now.Add(time.Hour)
	want("an hour later", b.alert("inbox-gone", "bob"), "alert inbox-gone", "notice inbox-gone to [human]")
	want("a file", b.broken("bob"), "quarantine malformed agents/bob/outbox/.sent/bad-1.json", "notice malformed to [human]", "notice malformed to [bob]")
	want("one of a person's own", b.broken(protocol.Human), "quarantine malformed agents/human/outbox/.sent/bad-2.json", "notice malformed to [human]")
	want("another file", b.broken("bob"), "quarantine malformed agents/bob/outbox/.sent/bad-3.json", "notice malformed to [bob]")

	b.command(`{"to":"hive","event":"agent-lead","data":{"agent":"carol"}}`)
	want("to the lead", b.alert("unreadable", "bob"), "alert unreadable", "notice unreadable to [carol]")
	want("about the lead", b.alert("unreadable", "carol"), "alert unreadable", "notice unreadable to [human]")
	b.command(`{"to":"hive","event":"agent-hold","data":{"agent":"carol"}}`)
	want("the lead is held", b.alert("planted", "bob"), "alert planted", "notice planted to [human]")

	told := 0
	for i := range 200 {
		id := protocol.AgentID(fmt.Sprintf("a%d", i))
		b.d.Record(b.now, &protocol.AgentEvent{Agent: id, Action: protocol.Joined})
		b.d.Drain(b.now)
		told += len(b.alert("own-file-name", id)) - 1
	}
	if told < 2 || told > 33 {
		t.Errorf("when 200 agents have the same trouble a person is told %d times", told)
	}
}

// TestAFullInboxLosesNoQuestion checks that a question, its reminder and its time-out
// reach a person whose inbox is full.
func TestAFullInboxLosesNoQuestion(t *testing.T) {
	t.Parallel()
	b := newBench(t, "bob")
	b.d.settings.InboxCap = 4
	x := b.works(`{"title":"clean"}`)
	for range 8 {
		b.send("bob", `{"to":"human","body":"x"}`)
	}
	var got []string
	hear := func(list []Decision) {
		for _, s := range story(list) {
			if strings.HasPrefix(s, "notice") && strings.Contains(s, "human") {
				got = append(got, s)
			}
		}
	}
	hear(b.send("bob", fmt.Sprintf(`{"to":"hive","event":"pause_for_approval","task":%q,"epoch":1,"data":{"question":"May I?"}}`, x.ID)))
	hear(b.pass(b.d.settings.Tasks.ApprovalTimeout / 2))
	hear(b.pass(b.d.settings.Tasks.ApprovalTimeout / 2))
	if d := cmp.Diff([]string{"notice approval-asked to [human]", "notice reminder to [human]", "notice task-failed to [human]"}, got); d != "" {
		t.Error(d)
	}
}

// pass lets time go by, and returns what the timers decide meanwhile.
func (b *bench) pass(d time.Duration) (list []Decision) {
	b.t.Helper()
	b.now = b.now.Add(d)
	for more := true; more; {
		var err error
		more, err = b.d.Tasks(b.now, Senses{})
		testenv.Must(b.t, err)
		list = append(list, b.d.Drain(b.now)...)
	}
	return list
}

// TestEndsOfTasksLeaveRoomInAnInbox checks that notices about ended tasks fill only half
// of the inbox of the agent that created them.
func TestEndsOfTasksLeaveRoomInAnInbox(t *testing.T) {
	t.Parallel()
	b := newBench(t, "bob")
	b.d.settings.InboxCap = 10
	for range 30 {
		x := b.works(`{"title":"one of many"}`)
		b.tells("bob", "complete", x.ID, 1, `{}`)
	}
	if n := b.d.state.Agents[protocol.Human].Inbox.Len(); n != 5 {
		t.Errorf("%d unread messages say that tasks ended, want 5 of 10", n)
	}
	if got := story(b.send("bob", `{"to":"human","body":"x"}`)); got[0] != "message bob hops 0 to [human]" {
		t.Errorf("bob's message is not delivered: %v", got)
	}
	if got := b.needs(); len(got) != 1 || !strings.Contains(got[0].Text, "not delivered in the last hour, the newest: half of the inbox is left") {
		t.Errorf("listed %+v", got)
	}
}

// TestATaskForNobodyIsSaidAtOnce checks that whoever creates a task for a role that
// nobody has is told at once, with the name probably meant, and once for each command.
func TestATaskForNobodyIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, "bob")
	b.command(`{"to":"hive","event":"agent-add","data":{"agent":"bob","role":"tester"}}`)
	said := notices(b.send(protocol.Human, `{"to":"hive","act":"request","event":"create","data":{"tasks":[{"title":"a","to":["@testr"]},{"title":"b","to":["@testr","@cook"]},{"title":"c","to":["@tester"]}]}}`))
	for _, want := range []string{`"code":"ok"`, `"code":"nobody-eligible"`, "did you mean tester?", "1 more of these tasks", "hived agent add ID --role testr"} {
		if strings.Count(said, want) != 1 {
			t.Errorf("the notices do not say %s once:\n%s", want, said)
		}
	}
	if strings.Index(said, `"code":"ok"`) > strings.Index(said, `"code":"nobody-eligible"`) {
		t.Error("the answer to the command does not come first")
	}
	said = notices(b.send("bob", `{"to":"hive","event":"create","data":{"title":"d","to":["@testr","@tester"]}}`))
	if strings.Contains(said, "nobody-eligible") {
		t.Errorf("there is a notice although somebody can take the task:\n%s", said)
	}
}
