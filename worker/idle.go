package worker

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// A worker that finds no task in its hive does, in this order: it looks in the other hives
// (work.also), tidies up what its executions left, offers its help to the lead
// (work.propose), tells people that nothing moves, and sleeps until an offer, the moment
// that hived named, or work.idle.

// idleness is what a worker knows of a hive that has no task for it.
type idleness struct {
	Since    time.Time            // no task was found; zero: one was found last
	Numbers  protocol.TaskNumbers // why there is none
	Proposed time.Time            // its help was offered last
	Alerted  time.Time            // people were told last
}

// strand is something that an idle worker does about it.
type strand int

const (
	strandPropose strand = iota // ask the lead about a blocked task
	strandAlert                 // tell people that tasks are open, and nothing moves
)

// proposeEvery is how often a worker offers its help.
const proposeEvery = 24 * time.Hour

// strands returns what is to be done now, beside tidying up and sleeping. Nobody is told
// before a worker has been idle for work.idle: until then an offer may be on its way. Nor
// while somebody has a task, or one will be free at a time that is known: then things
// move, and an alert every hour would be one that people learn not to read.
func (i *idleness) strands(set *protocol.Settings, now time.Time) (list []strand) {
	if i.Since.IsZero() || now.Sub(i.Since) < set.Work.Idle {
		return nil
	}
	if set.Work.Propose && i.Numbers.Held > 0 && now.Sub(i.Proposed) >= proposeEvery {
		list = append(list, strandPropose)
	}
	n := &i.Numbers
	if n.Open > 0 && n.Held == 0 && n.NotYet == 0 && now.Sub(i.Alerted) >= set.Tasks.AlertEvery {
		list = append(list, strandAlert)
	}
	return list
}

// rest does what an idle worker does in each hive.
func (w *Worker) rest(now time.Time) {
	if len(w.running) > 0 || !w.idle(now) {
		return
	}
	for _, s := range w.sites {
		for _, x := range s.idle.strands(&s.Settings, now) {
			var err error
			switch x {
			case strandPropose:
				err = s.propose(now)
			case strandAlert:
				err = s.alert(now)
			}
			if err != nil {
				s.log.Warn("what an idle worker has to say cannot be sent", slog.Any("error", err))
			}
		}
	}
}

// idleCause is the cause of the alert that tasks are open and nothing moves. All workers of
// a hive have the same, so that one of them is heard.
const idleCause = "nothing-moves"

// alert tells people that nothing moves.
func (s *site) alert(now time.Time) error {
	s.idle.Alerted = now
	n := &s.idle.Numbers
	text := fmt.Sprintf("the worker of %s has found no task since %s, although %d %s open and nobody has one: %d wait for tasks that are not completed, and %d are for others, who do not take them",
		s.Box.ID(), s.idle.Since.UTC().Format(time.RFC3339), n.Open, isOrAre(n.Open), n.Waiting, n.NotForYou)
	return s.toHive("alert", map[string]string{"cause": idleCause, "text": text})
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// propose offers the lead help with the task that has been blocked for the longest time.
func (s *site) propose(now time.Time) error {
	s.idle.Proposed = now
	s.noteProposed(now)
	v, err := s.blocked()
	if err != nil || v == nil {
		return err
	}
	_, err = s.Box.Send(agent.Draft{
		To: []protocol.Address{"lead"}, Act: protocol.Propose, Subject: "help with a blocked task: " + protocol.Fit(v.Title, 100), RequiresReply: new(bool),
		Conversation: protocol.TaskConversation(v.ID),
		Body: agent.Text(fmt.Sprintf("%s has nothing to do, and %s (%s) has been blocked since %s: %s. If I can help, create a task for me, or answer what it asks.",
			s.Box.ID(), v.ID, v.Title, v.Since.UTC().Format(time.RFC3339), v.Reason)),
	})
	return err
}

// blocked returns the task that has been blocked for the longest time; nil if none is. It
// looks at all tasks, once in proposeEvery.
func (s *site) blocked() (oldest *task.View, err error) {
	ids, err := agent.Tasks(s.Disk)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		v, err := agent.View(s.Disk, id)
		if err == nil && v.State == task.Blocked && (oldest == nil || v.Since.Before(oldest.Since)) {
			oldest = v
		}
	}
	return oldest, nil
}

// proposedFile is the file in the worker's directory whose time is when it last offered its
// help, so that a worker that is started often does not offer it each time.
const proposedFile = "/proposed"

func (s *site) noteProposed(now time.Time) {
	text := []byte(now.UTC().Format(time.RFC3339) + "\n")
	if err := durable.Publish(s.Disk, s.work()+proposedFile, text, 0o600, durable.Unsynced); err != nil {
		s.log.Warn("that help was offered cannot be noted", slog.Any("error", err))
	}
}

// lastProposed returns when the worker last offered its help; zero if it never did.
func (s *site) lastProposed() time.Time {
	text, _, err := durable.ReadFile(s.Disk, s.work()+proposedFile, 100)
	if err != nil {
		return time.Time{}
	}
	at, _ := time.Parse(time.RFC3339, string(text[:max(0, len(text)-1)]))
	return at
}
