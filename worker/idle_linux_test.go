package worker

import (
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// idle is after what time a worker of these tests asks again: less than hive.yaml may say.
const idle = 20 * time.Millisecond

// logged returns the events of the log.
func (h *hiveOf) logged() (list []protocol.Event) {
	h.Helper()
	for rec, err := range eventlog.Read(h.disk, eventlog.Position{}) {
		testenv.Must(h, err)
		list = append(list, rec.Event)
	}
	return list
}

// TestIdleAlert checks that people are told, once, when a worker finds nothing although
// tasks are open and nobody has one.
func TestIdleAlert(t *testing.T) {
	h := newHive(t, nil)
	h.does(protocol.Human, agent.Command{Event: task.Create, Data: agent.NewTasks{Tasks: []protocol.TaskSpec{{Title: "of nobody", To: []protocol.Address{"@writer"}}}}})
	stop := h.worker(shell, func(c *Config) { c.Home.Settings.Work.Idle = idle })
	claims := func(list []protocol.Event) (alerts []*protocol.AlertEvent, claims int) {
		for _, ev := range list {
			switch e := ev.Body.(type) {
			case *protocol.AlertEvent:
				alerts = append(alerts, e)
			case *protocol.TaskRejectedEvent:
				if e.Code == protocol.CodeNoTask && len(alerts) > 0 {
					claims++
				}
			}
		}
		return alerts, claims
	}
	wait.Until(t, "three more claims after an alert", func() bool { _, n := claims(h.logged()); return n >= 3 })
	stop()
	alerts, _ := claims(h.logged())
	if len(alerts) != 1 || alerts[0].Cause != idleCause || alerts[0].Agent != "bob" || !strings.Contains(alerts[0].Text, "1 is open and nobody has one: 0 wait") {
		t.Errorf("the alerts are %+v", alerts)
	}
}

// TestIdleProposal checks that a worker with nothing to do offers the lead its help with a
// blocked task, if the hive wants that, and not again when it is started anew.
func TestIdleProposal(t *testing.T) {
	h := newHive(t, nil)
	a := h.does(protocol.Human, agent.Command{Event: task.Create, Data: agent.NewTasks{Tasks: []protocol.TaskSpec{{Title: "the roof", To: []protocol.Address{"eve"}}}}})
	h.until(a.Task, task.Offered)
	got := h.does("eve", agent.Command{Event: task.Accept, Task: a.Task, Data: agent.Report{Start: true}})
	h.does("eve", agent.Command{Event: task.BlockOnDependency, Task: a.Task, Epoch: got.Epoch, Data: agent.Report{Reason: "which roof"}})
	h.until(a.Task, task.Blocked)
	proposals := func() (list []*protocol.MessageEvent) {
		for _, ev := range h.logged() {
			if e, ok := ev.Body.(*protocol.MessageEvent); ok && e.From == "bob" && e.Act == protocol.Propose {
				list = append(list, e)
			}
		}
		return list
	}
	for range 2 {
		before := len(h.logged())
		stop := h.worker(shell, func(c *Config) { c.Home.Settings.Work.Idle, c.Home.Settings.Work.Propose = idle, true })
		wait.Until(t, "a proposal, and four more claims", func() bool {
			n := 0
			for _, ev := range h.logged()[before:] {
				if e, ok := ev.Body.(*protocol.TaskRejectedEvent); ok && e.Code == protocol.CodeNoTask {
					n++
				}
			}
			return n >= 4 && len(proposals()) > 0
		})
		stop()
	}
	if list := proposals(); len(list) != 1 || !strings.Contains(list[0].Raw, "the roof") || !strings.Contains(list[0].Raw, "which roof") || list[0].To[0] != "lead" {
		t.Errorf("the proposals are %+v", list)
	}
}

// TestIdleHour checks how much a worker writes into the log in an hour in which it finds
// nothing, although tasks are open: it asks at the beginning and after half an hour
// (work.idle), and tells people once. The lines of the daemon itself come on top, as when it
// has committed; an hour with them is to take 15 at most.
func TestIdleHour(t *testing.T) {
	const most = 11
	h := newHive(t, nil)
	h.does(protocol.Human, agent.Command{Event: task.Create, Data: agent.NewTasks{Tasks: []protocol.TaskSpec{{Title: "of nobody", To: []protocol.Address{"@writer"}}}}})
	before := len(h.logged())
	stop := h.worker(shell, func(c *Config) { c.Home.Settings.Work.Idle = idle })
	hour := func() (list []string, alerts, claims int) {
		for _, ev := range h.logged()[before:] {
			switch e := ev.Body.(type) {
			case *protocol.AlertEvent:
				alerts++
			case *protocol.HiveEvent:
				continue
			case *protocol.HandledEvent:
				if e.Agent == protocol.Human { // the answer to what made the task
					continue
				}
			case *protocol.MessageEvent:
				if e.From == "bob" && e.Subject == string(task.Claim) {
					if claims++; claims > 2 && alerts > 0 {
						return list, alerts, claims
					}
				}
			}
			list = append(list, protocol.Summary(ev))
		}
		return nil, 0, claims
	}
	wait.Until(t, "the worker to ask again after an alert", func() bool { list, _, _ := hour(); return list != nil })
	stop()
	list, alerts, claims := hour()
	// What it asked beyond two times, until it had been idle for long enough, belongs to
	// another hour.
	if lines := len(list) - 4*(claims-3); lines > most || alerts != 1 {
		t.Errorf("an hour takes %d lines with %d alerts:\n%s", lines, alerts, strings.Join(list, "\n"))
	}
}
