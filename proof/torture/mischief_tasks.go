package torture

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/protocol"
)

// approvalTime is how long a question waits in a hive under torture.
const approvalTime = 500 * time.Millisecond

// lateAnswers returns an agent whose tasks ask two questions each, and their approver.
// The approver answers the first question twice. It answers the second with the
// answer to the first, and with a proper answer when its time is over.
func lateAnswers(*hive) []*guest {
	asker, approver := &asker{}, &lateApprover{answered: map[protocol.TaskID]question{}}
	return []*guest{
		{stranger("asker"), turnOf, asker.turn},
		{stranger("approver"), turnOf, approver.turn},
	}
}

// asker is the agent with the tasks. It starts another where one makes no progress.
type asker struct {
	title string // of the task that it created last
	task  protocol.TaskID
	epoch uint64
	begun time.Time
}

// askerPatience is how long it waits for a task to make progress.
const askerPatience = 3 * time.Second

func (s *asker) turn(_ context.Context, m *member) error {
	err := m.eachUnread(func(x heard) error { return s.hears(m, x.about(), x.InReplyTo) })
	if err != nil || time.Since(s.begun) < askerPatience {
		return err
	}
	key := m.key()
	*s = asker{title: key, begun: time.Now()}
	return m.command(key, agent.Draft{Event: "create", Data: fmt.Appendf(nil, `{"title":%q,"to":[%q],"approvers":[%q]}`, key, m.id, stranger("approver"))})
}

func (s *asker) hears(m *member, about about, re protocol.MessageID) error {
	report := func(event, data string) error {
		return m.command(m.key(), agent.Draft{Event: event, Task: s.task, Epoch: s.epoch, Data: []byte(data)})
	}
	switch {
	case about.Code == protocol.CodeTaskOffer && s.task == "":
		s.task = about.Task
		key, reply := m.key(), true
		return m.command(key, agent.Draft{Event: "accept", Task: about.Task, RequiresReply: &reply})
	case about.Task != s.task || s.task == "":
	case about.Code == protocol.CodeOK && s.epoch == 0 && about.Epoch > 0 && re != "":
		s.epoch = about.Epoch
		if err := report("start", "{}"); err != nil {
			return err
		}
		return report("pause_for_approval", `{"question":"May I read?"}`)
	case about.Code == protocol.CodeApproved:
		s.begun = time.Now()
		return report("pause_for_approval", `{"question":"May I drop?"}`)
	case about.Code == protocol.CodeApprovalTimeout, about.Code == protocol.CodeReleased, about.Code == protocol.CodeLeaseExpired, about.Code == protocol.CodeFenced:
		s.begun = time.Time{}
	}
	return nil
}

// question is a question of a task, identified by the event that asked it.
type question struct {
	task protocol.TaskID
	ask  protocol.Seq
}

// lateApprover is the approver of the tasks.
type lateApprover struct {
	answered map[protocol.TaskID]question // the first question of each task
	notices  []lateAnswer
}

// lateAnswer is an answer that is given when it is too late.
type lateAnswer struct {
	question
	until time.Time
}

// lateBy is how long after the end of a question its late answer is given.
const lateBy = 200 * time.Millisecond

func (s *lateApprover) turn(_ context.Context, m *member) error {
	err := m.eachUnread(func(x heard) error {
		about := x.about()
		if about.Ask == 0 || about.Code != protocol.CodeApprovalAsked && about.Code != protocol.CodeReminder {
			return nil
		}
		return s.asked(m, x.ID, about)
	})
	if err != nil {
		return err
	}
	for len(s.notices) > 0 && time.Since(s.notices[0].until) > lateBy {
		q := s.notices[0]
		s.notices = s.notices[1:]
		m.known.deed("late-answers")
		if err := m.grants(q.question, ""); err != nil {
			return err
		}
	}
	return nil
}

// asked answers a question, or an older one in its place.
func (s *lateApprover) asked(m *member, notice protocol.MessageID, about about) error {
	q := question{about.Task, about.Ask}
	first, known := s.answered[q.task]
	switch {
	case known && first == q: // a reminder
		return nil
	case known: // the second question of the task
		m.known.deed("late-answers")
		if !slices.ContainsFunc(s.notices, func(l lateAnswer) bool { return l.question == q }) {
			s.notices = append(s.notices, lateAnswer{q, about.Until})
		}
		return m.grants(first, "")
	}
	if time.Until(about.Until) < lateBy {
		s.notices = append(s.notices, lateAnswer{q, about.Until})
		return nil
	}
	s.answered[q.task] = q
	m.known.approves(q)
	for _, re := range []protocol.MessageID{"", notice} {
		if err := m.grants(q, re); err != nil {
			return err
		}
	}
	if time.Now().Before(about.Until) {
		m.known.inTime(q)
	}
	return nil
}

// grants answers by the number of a question, or by a reply to its notice.
func (m *member) grants(q question, notice protocol.MessageID) error {
	data := fmt.Appendf(nil, `{"ask":%d}`, q.ask)
	if notice != "" {
		data = []byte(`{}`)
	}
	return m.command(m.key(), agent.Draft{Event: "approval_granted", Task: q.task, InReplyTo: notice, Data: data})
}

// approves records a question that an approver means to approve, and inTime that it
// did so before the time was over.
func (k *known) approves(q question) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.approved[q] = false
}

func (k *known) inTime(q question) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.approved[q] = true
}

// questions compares what approvers know with what the log says.
func (k *known) questions(t *tasksOf, r *Report) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for q := range t.granted {
		if _, ok := k.approved[q]; !ok {
			r.problem("question %s of task %s was granted, and nobody approved it in time", q.ask, q.task)
		}
	}
	for q, inTime := range k.approved {
		switch {
		case inTime && t.timedOut[q]:
			r.problem("question %s of task %s was approved in time, and timed out", q.ask, q.task)
		case inTime && !t.granted[q]:
			r.problem("question %s of task %s was approved in time, and never granted", q.ask, q.task)
		}
	}
}
