package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
	"github.com/hived/hived/task"
)

// TestLeaseNeverStarted checks that an agent that takes a task and does not start it loses
// it.
func TestLeaseNeverStarted(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "sleep"}`)
		h.does("anna", "accept", id, "")
		h.pass(19 * time.Second)
		h.wantTold("anna", protocol.CodeLeaseEnding, 0)
		h.pass(2 * time.Second)
		h.wantTold("anna", protocol.CodeLeaseEnding, 1, "\"epoch\": 1")
		h.pass(9 * time.Second)
		if v := h.is(id, task.Unassigned); v.Attempt != 1 || v.Holder != "" || v.NotBefore.IsZero() {
			t.Errorf("attempt %d, holder %q, not before %s", v.Attempt, v.Holder, v.NotBefore)
		}
		h.wantTold("anna", protocol.CodeLeaseExpired, 1, "Epoch 1 is over")
		h.refused(protocol.CodeFenced, "anna", "start", id, "")
		h.pass(2 * time.Second)
		h.does("anna", "accept", id, "")
		h.does("anna", "start", id, "")
		if v := h.is(id, task.InProgress); v.Attempt != 2 || v.Epoch != 2 {
			t.Errorf("attempt %d, epoch %d", v.Attempt, v.Epoch)
		}
	})
}

// TestExpiriesSpreadOut checks that twenty tasks that are lost at once are offered again
// at different times, which are the same in every run.
func TestExpiriesSpreadOut(t *testing.T) {
	t.Parallel()
	first, again := expiries(t), expiries(t)
	if d := cmp.Diff(first, again); d != "" {
		t.Errorf("a second run has other times (-first +second):\n%s", d)
	}
	slices.Sort(first)
	if n := len(slices.Compact(slices.Clone(first))); n != 20 {
		t.Errorf("the twenty tasks are offered again at %d different times", n)
	}
	if first[0] < time.Second || first[19] > 2*time.Second || first[19]-first[0] < time.Second/2 {
		t.Errorf("the tasks are offered again after %s to %s", first[0], first[19])
	}
}

// expiries has twenty leases end at once, and returns how long each task then waits.
func expiries(t *testing.T) (waits []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newCrew(t, "anna", func(*protocol.Settings) {})
		h.slots("anna", 20)
		h.create("human", many(20, `{"title": "task %d"}`))
		ids := h.created()
		for _, id := range ids {
			h.posts("anna", "claim", id, "")
		}
		h.collect()
		h.pass(31 * time.Second)
		for _, id := range ids {
			v := h.is(id, task.Unassigned)
			waits = append(waits, v.NotBefore.Sub(v.Since))
		}
	})
	return waits
}

// many returns the data of a command that creates n tasks.
func many(n int, format string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return `{"tasks": [` + strings.Join(list, ",") + `]}`
}

// twenty returns the names of twenty agents.
func twenty() (list []protocol.AgentID) {
	for i := range 20 {
		list = append(list, protocol.AgentID(fmt.Sprintf("agent-%02d", i)))
	}
	return list
}

// TestTwentyAcceptAtOnce checks that of twenty agents that accept a task, the first in the
// log has it, and the others are told.
func TestTwentyAcceptAtOnce(t *testing.T) { race(t, "accept") }

// TestTwentyClaimAtOnce checks the same for agents that claim it.
func TestTwentyClaimAtOnce(t *testing.T) { race(t, "claim") }

func race(t *testing.T, event string) {
	t.Helper()
	scenarioWith(t, joined(twenty()), func(s *protocol.Settings) { s.Tasks.Offers = 20 }, func(h *crew) {
		id := h.create("human", `{"title": "a prize"}`)
		if v := h.is(id, task.Offered); len(v.Offered) != 20 {
			t.Fatalf("the task was offered to %v", v.Offered)
		}
		messages := map[protocol.AgentID]string{}
		for _, who := range twenty() {
			messages[who] = h.posts(who, event, id, "")
		}
		h.collect()
		v := h.is(id, task.Pending)
		lost := 0
		for _, who := range twenty() {
			switch no := h.answer(who, messages[who]); {
			case no == nil && who != v.Holder:
				t.Errorf("%s was not refused, and %s has the task", who, v.Holder)
			case no != nil && no.Code == protocol.CodeRaceLost && len(h.told(who, protocol.CodeRaceLost)) > 0:
				lost++
			case no != nil:
				t.Errorf("%s was refused with %s", who, no.Code)
			}
		}
		if lost != 19 || v.Epoch != 1 {
			t.Errorf("%d agents lost the race, want 19, and the epoch is %d, want 1", lost, v.Epoch)
		}
		h.does(v.Holder, "start", id, "")
	})
}

func joined[S ~string](list []S) string {
	var b strings.Builder
	for _, s := range list {
		b.WriteString(string(s) + " ")
	}
	return b.String()
}

// TestAllReject checks that a task that all reject waits and is offered again later, that
// its history has the reasons, and that its creator is told.
func TestAllReject(t *testing.T) {
	scenario(t, "anna berta carla boss", func(h *crew) {
		id := h.create("boss", `{"title": "clean up", "to": ["anna", "berta", "carla"]}`)
		h.does("anna", "reject", id, `{"reason": "no time"}`)
		h.does("berta", "reject", id, `{"reason": "no broom"}`)
		h.is(id, task.Offered)
		h.wantTold("boss", protocol.CodeNobodyTakes, 0)
		h.does("carla", "reject", id, `{"reason": "no wish"}`)
		h.is(id, task.Unassigned)
		for _, why := range []string{"no time", "no broom", "no wish", "all rejected it"} {
			if !strings.Contains(h.file(id, protocol.TaskView), why) {
				t.Errorf("the history of the task does not say %q", why)
			}
		}
		h.wantTold("boss", protocol.CodeNobodyTakes, 1, string(id))
		h.pass(31 * time.Second)
		h.is(id, task.Offered)
	})
}

// TestOfferForOthers checks that only agents that a task was offered to can accept or
// reject it.
func TestOfferForOthers(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("human", `{"title": "write", "to": ["anna"]}`)
		h.refused(protocol.CodeNotOffered, "berta", "accept", id, "")
		h.refused(protocol.CodeNotOffered, "berta", "reject", id, "")
		h.refused(protocol.CodeNotEligible, "berta", "claim", id, "")
		h.does("anna", "accept", id, "")
		h.wantHistory(id, "create offer accept")
	})
}

// TestClaimWhatOthersWereAsked checks that an agent that claims any task gets one that it
// was offered, and otherwise one that others were offered, who are then told.
func TestClaimWhatOthersWereAsked(t *testing.T) {
	scenario(t, "anna berta carl dora", func(h *crew) {
		h.create("human", `{"tasks": [{"title": "cook"}, {"title": "wash", "priority": 1}]}`)
		cook, wash := h.created()[0], h.created()[1]
		if asked := h.is(wash, task.Offered).Offered; slices.Contains(asked, "dora") {
			t.Fatalf("wash was offered to %v", asked)
		}
		h.does("dora", "claim", "", "")
		h.is(cook, task.Pending)
		h.does("human", "cancel", cook, "")
		h.does("dora", "claim", "", "")
		h.is(wash, task.Pending)
		h.wantTold("carl", protocol.CodeRaceLost, 1, "dora")
		h.refused(protocol.CodeNoTask, "anna", "claim", "", "")
	})
}

// TestNotBefore checks that there is no way to take a task that was given back until later.
func TestNotBefore(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("human", `{"title": "wait for the night"}`)
		h.begin("anna", id)
		h.does("anna", "release", id, `{"reason": "too early", "not_before": "`+time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`)
		h.pass(59 * time.Minute)
		h.is(id, task.Unassigned)
		h.refused(protocol.CodeNotYet, "berta", "claim", id, "")
		h.refused(protocol.CodeNoTask, "berta", "claim", "", "")
		h.refused(protocol.CodeIllegalTransition, "berta", "accept", id, "")
		h.refused(protocol.CodeFenced, "anna", "start", id, "")
		h.pass(61 * time.Second)
		h.is(id, task.Offered)
		h.does("berta", "claim", "", "")
		h.wantHistory(id, "create offer claim start release offer claim")
	})
}

// TestNeedsUnmet checks that there is no way to take a task before what it needs is done.
func TestNeedsUnmet(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		h.create("human", `{"tasks": [{"title": "cook", "name": "cook"}, {"title": "eat", "needs": ["cook"]}]}`)
		cook, eat := h.created()[0], h.created()[1]
		h.begin("anna", cook)
		h.pass(time.Minute)
		h.is(eat, task.Unassigned)
		h.refused(protocol.CodeNeedsUnmet, "berta", "claim", eat, "")
		h.refused(protocol.CodeNoTask, "berta", "claim", "", "")
		h.refused(protocol.CodeIllegalTransition, "berta", "accept", eat, "")
		h.wantHistory(eat, "create")
		h.does("anna", "complete", cook, "")
		h.wantHistory(eat, "create offer")
		h.does("berta", "accept", eat, "")
	})
}

// TestSlots checks that an agent that has as many tasks as slots is offered no more, that
// the least loaded agents are asked first, and that the most urgent task goes first.
func TestSlots(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		first := h.create("human", `{"title": "first", "to": ["anna"]}`)
		h.begin("anna", first)
		h.create("human", `{"tasks": [{"title": "later", "to": ["anna"]}, {"title": "urgent", "to": ["anna"], "priority": 5}]}`)
		later, urgent := h.created()[1], h.created()[2]
		h.wantHistory(urgent, "create")
		h.does("anna", "complete", first, "")
		h.wantHistory(urgent, "create offer")
		h.wantHistory(later, "create")
		h.begin("anna", urgent)
		h.wantHistory(later, "create")
		h.does("anna", "complete", urgent, "")
		h.wantHistory(later, "create offer")
	})
}

// TestSentTwice checks that the same command under the same id is carried out once.
func TestSentTwice(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		id := h.create("human", `{"title": "once"}`)
		h.does("anna", "claim", id, "")
		text, _ := h.command("anna", "start", id, "")
		h.post("anna", text)
		h.post("anna", text)
		h.collect()
		h.down()
		h.up()
		h.post("anna", text)
		h.collect()
		h.wantHistory(id, "create offer claim start")
		h.wantTold("anna", protocol.CodeDuplicate, 2)
	})
}

// TestOfferedToThree checks that three agents are asked, that the first to accept has the
// task, and that those who did not answer are told.
func TestOfferedToThree(t *testing.T) {
	scenario(t, "anna berta carla dora", func(h *crew) {
		id := h.create("human", `{"title": "write"}`)
		if v := h.is(id, task.Offered); len(v.Offered) != 3 {
			t.Errorf("the task was offered to %v", v.Offered)
		}
		for _, who := range []protocol.AgentID{"anna", "berta", "carla"} {
			h.wantTold(who, protocol.CodeTaskOffer, 1, "within 30s", protocol.TaskDir(id)+"/brief.json")
		}
		h.does("berta", "accept", id, "")
		h.wantTold("anna", protocol.CodeRaceLost, 1, "berta was first")
		h.wantTold("carla", protocol.CodeRaceLost, 1, "berta was first")
		h.wantTold("berta", protocol.CodeRaceLost, 0)
		h.wantTold("dora", protocol.CodeRaceLost, 0)
	})
}

// TestWhoDeclinedIsNotAskedAgain checks that the next offer goes to others, at once.
func TestWhoDeclinedIsNotAskedAgain(t *testing.T) {
	scenario(t, "anna berta carla dora", func(h *crew) {
		id := h.create("human", `{"title": "write"}`)
		for _, who := range []protocol.AgentID{"anna", "berta", "carla"} {
			h.does(who, "reject", id, "")
		}
		if v := h.is(id, task.Offered); len(v.Offered) != 1 || v.Offered[0] != "dora" {
			t.Errorf("the task was offered to %v", v.Offered)
		}
	})
}

// TestMostUrgentFirst checks that where there is room for three tasks, the three most
// urgent are offered.
func TestMostUrgentFirst(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		h.slots("anna", 5)
		h.create("human", `{"tasks": [{"title": "a"}, {"title": "b", "priority": 1}, {"title": "c", "priority": 2}, {"title": "d"}]}`)
		for i, want := range []task.State{task.Offered, task.Offered, task.Offered, task.Unassigned} {
			h.is(h.created()[i], want)
		}
		offers := h.told("anna", protocol.CodeTaskOffer)
		if offers[0].Data.Task != h.created()[2] || offers[1].Data.Task != h.created()[1] {
			t.Errorf("the tasks were offered in the order %v", offers)
		}
	})
}

// TestLeastLoadedFirst checks that agents with fewer tasks are asked before those with more.
func TestLeastLoadedFirst(t *testing.T) {
	scenario(t, "berta", func(h *crew) {
		h.post("human", `{"to": "hive", "event": "agent-add", "data": {"agent": "anna", "slots": 2}}`)
		h.collect()
		h.begin("anna", h.create("human", `{"title": "one", "to": ["anna"]}`))
		id := h.create("human", `{"title": "two"}`)
		if v := h.is(id, task.Offered); !slices.Equal(v.Offered, []protocol.AgentID{"berta", "anna"}) {
			t.Errorf("the task was offered to %v", v.Offered)
		}
	})
}

// TestResume checks that a task can go on from the checkpoint of one that has ended.
func TestResume(t *testing.T) {
	scenario(t, "anna berta", func(h *crew) {
		id := h.create("berta", `{"title": "copy the pages", "to": ["anna"]}`)
		h.begin("anna", id)
		h.does("anna", "progress", id, `{"milestone": "page 40", "checkpoint": {"page": 40}}`)
		h.does("anna", "fatal_error", id, `{"reason": "no paper"}`)
		h.refused(protocol.CodeNotAllowed, "anna", "resume", id, "")
		h.does("berta", "resume", id, "")
		again := h.created()[1]
		if v := h.is(again, task.Offered); v.Resumes != id || v.Attempt != 0 || v.Checkpoint == nil || v.Checkpoint.Milestone != "page 40" {
			t.Errorf("the new task is %+v", v)
		}
		h.begin("anna", again)
		h.does("anna", "progress", again, `{"patch": {"ink": "blue"}}`)
		if c := h.file(again, protocol.TaskCheckpoint); !strings.Contains(c, `"page": 40`) || !strings.Contains(c, `"ink": "blue"`) {
			t.Errorf("the checkpoint of the new task is %s", c)
		}
		h.is(id, task.Failed)
	})
}

// TestRejectedIsOffTheHands checks that an agent that rejects an offer has room for others.
func TestRejectedIsOffTheHands(t *testing.T) {
	scenario(t, "anna", func(h *crew) {
		for range 2 * decide.OffersWaiting {
			id := h.create("human", `{"title": "write"}`)
			h.is(id, task.Offered)
			h.does("anna", "reject", id, "")
		}
	})
}

// TestSilentIsOfferedNoMore checks that an agent that lets nine offers in a row run out is
// offered nothing more, also after a restart, until it sends or handles a message, writes
// a file, or is put back by a person.
func TestSilentIsOfferedNoMore(t *testing.T) {
	const hello = `{"to":"human","act":"inform","id":"hello","subject":"hello","body":"hello"}`
	for _, tt := range []struct {
		sign string
		make func(h *crew)
	}{
		{"a message", func(h *crew) { h.post("anna", `{"to":"human","act":"inform","subject":"I am here","body":"again"}`) }},
		{"a message that it sent before", func(h *crew) { h.post("anna", hello) }},
		{"a file that it cannot mean", func(h *crew) { h.post("anna", `{"to":`) }},
		{"a message that it handles", func(h *crew) {
			inbox := protocol.InboxDir("anna") + "/"
			list, err := h.disk.ReadDir(protocol.InboxDir("anna"))
			h.must(err)
			i := slices.IndexFunc(list, func(e durable.Entry) bool { return strings.HasSuffix(e.Name, ".json") })
			h.must(h.disk.Rename(inbox+list[i].Name, protocol.DoneDir("anna")+"/"+list[i].Name))
		}},
		{"a file of its own", func(h *crew) {
			h.must(durable.Publish(h.disk, protocol.AgentDir("anna")+"/notes.md", []byte("I am here"), 0o644, true))
		}},
		{"a hold that ends", func(h *crew) {
			h.posts("human", "agent-hold", "", `{"agent": "anna"}`)
			h.posts("human", "agent-release", "", `{"agent": "anna"}`)
		}},
	} {
		t.Run(tt.sign, func(t *testing.T) {
			scenario(t, "anna", func(h *crew) {
				h.post("anna", hello)
				id := h.create("human", `{"title": "write"}`)
				h.pass(48 * time.Hour)
				asked := "create" + strings.Repeat(" offer offer_expired", 9)
				h.wantHistory(id, asked)
				if list := all[*protocol.AlertEvent](h); len(list) != 1 || list[0].Code != protocol.CodeAgentSilent || list[0].Agent != "anna" {
					t.Errorf("the alerts are %v", list)
				}
				h.down()
				h.up()
				h.pass(48 * time.Hour)
				h.wantHistory(id, asked)
				tt.make(h)
				h.collect()
				h.pass(5 * time.Minute)
				h.collect()
				if got := h.happenedTo(id); !strings.HasPrefix(got, asked+" offer") {
					t.Errorf("after %s: %s", tt.sign, got)
				}
			})
		})
	}
}
