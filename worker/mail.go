package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// mail reads the inbox of the agent for all of its executions. It takes what hive answers
// to the worker, and says to who holds a task or is offered one. All else stays where it
// is, for the agent.
type mail struct {
	box  *agent.Box
	disk durable.FS
	tell func(notice)
	seen map[string]bool // files that were looked at; of reads alone

	mu      sync.Mutex
	waiting map[protocol.MessageID]chan agent.Answer // commands of the worker; nil: nobody waits any more
}

func newMail(box *agent.Box, disk durable.FS, tell func(notice)) *mail {
	return &mail{box: box, disk: disk, tell: tell, seen: map[string]bool{}, waiting: map[protocol.MessageID]chan agent.Answer{}}
}

// mailPoll is how often the inbox is looked at: a look costs one stat of a directory that
// has not changed.
const mailPoll = 10 * time.Millisecond

// settledAfter is how old the last change of a directory must be before an unchanged time says
// that nothing changed: clocks of file systems are coarse.
const settledAfter = 100 * time.Millisecond

// read reads the inbox until ctx ends.
func (m *mail) read(ctx context.Context) {
	tick := time.NewTicker(mailPoll)
	defer tick.Stop()
	var last time.Time
	for {
		info, err := m.disk.Lstat(protocol.InboxDir(m.box.ID()))
		if err != nil || !info.ModTime.Equal(last) || time.Since(last) < settledAfter {
			last = info.ModTime
			m.take(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// take reads the messages that it has not seen.
func (m *mail) take(ctx context.Context) {
	names, err := m.box.Unread()
	if err != nil {
		return // a hive that is gone is noticed elsewhere
	}
	for _, name := range names {
		if m.seen[name] || ctx.Err() != nil {
			continue
		}
		l, err := m.box.Read(name)
		if err != nil {
			continue
		}
		a, mine := m.isMine(l)
		if !mine {
			m.seen[name] = true
			continue
		}
		_, _ = m.box.Done(name) // else it is found again, and handled again
		if a.Task != "" {
			m.tell(notice{task: a.Task, code: a.Code})
		}
	}
	if len(m.seen) > 2*len(names)+1000 {
		for name := range m.seen {
			if !slices.Contains(names, name) {
				delete(m.seen, name)
			}
		}
	}
}

// forHolder are the notices to who holds a task, had it, or was offered it, that a worker
// acts on or need not know. The others are for who created tasks and approves.
var forHolder = []protocol.Code{
	protocol.CodeTaskOffer, protocol.CodeRaceLost, protocol.CodeLeaseEnding, protocol.CodeLeaseExpired, protocol.CodeStalled,
	protocol.CodeReleased, protocol.CodeFenced, protocol.CodeCancelRequested, protocol.CodeGoOn, protocol.CodeAmended,
	protocol.CodeApproved, protocol.CodeDenied,
}

// isMine reports whether a message was for the worker, and hands an answer to who waits for
// it.
func (m *mail) isMine(l agent.Delivery) (a agent.Answer, mine bool) {
	a, of, is := l.Said()
	if !is || of == "" {
		return a, is && slices.Contains(forHolder, a.Code)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c, asked := m.waiting[of]
	if !asked {
		return a, false // the agent sent the command itself
	}
	if c != nil {
		c <- a
	}
	delete(m.waiting, of)
	return a, true
}

// ask sends a command about a task and waits for its answer.
func (m *mail) ask(ctx context.Context, c agent.Command, within time.Duration) (agent.Answer, error) {
	d, err := c.Draft(time.Now())
	if err != nil {
		return agent.Answer{}, err
	}
	q, err := m.send(d)
	if err != nil {
		return agent.Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return q.await(ctx)
}

// asked is a command whose answer is waited for.
type asked struct {
	*mail
	id     protocol.MessageID
	sent   agent.Sent
	answer chan agent.Answer
}

// send sends a command, and again one that was sent before under the same id.
func (m *mail) send(d agent.Draft) (asked, error) {
	if d.ID == "" {
		id, err := m.box.DrawID()
		if err != nil {
			return asked{}, err
		}
		d.ID = id
	}
	q := asked{mail: m, id: d.ID, answer: make(chan agent.Answer, 1)}
	m.wait(q.id, q.answer)
	sent, err := m.box.Send(d)
	if err != nil {
		m.wait(q.id, nil)
		return asked{}, err
	}
	q.sent = sent
	return q, nil
}

// await waits for the answer.
func (q asked) await(ctx context.Context) (agent.Answer, error) {
	select {
	case a := <-q.answer:
		return a, nil
	case <-ctx.Done():
		q.wait(q.id, nil)
	}
	select {
	case a := <-q.answer: // it came at the same time
		return a, nil
	default:
		return agent.Answer{}, fmt.Errorf("wait for the answer to %s: %w", q.id, context.Cause(ctx))
	}
}

// wait says who waits for the answer to a command; nil: nobody any more, and it is taken
// out of the inbox when it comes.
func (m *mail) wait(id protocol.MessageID, c chan agent.Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting[id] = c
}
