package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// site is what a worker knows of one hive. It belongs to the worker's loop.
type site struct {
	Hive

	log      *slog.Logger
	mail     *mail
	own      map[protocol.TaskID]*hold
	claiming int  // claims without an answer
	found    bool // the last one found a task
	dryUntil time.Time
	scanned  time.Time // when own was looked through
	said     int       // how many tasks the hive was told the agent takes
	idle     idleness
}

// hold is a task in the hands of the agent.
type hold struct {
	task    protocol.TaskID
	epoch   uint64
	state   protocol.TaskState
	cancel  bool          // somebody asked to cancel it
	given   bool          // it was given back, which its file does not show yet
	running bool          // it is executed now
	through protocol.Seq  // what task.json must show before it counts: the outcome that was reported
	poke    chan struct{} // tells the execution that something happened to the task
	renewAt time.Time     // when hived is told again that the agent will be silent
}

// unanswered is through of a task whose outcome hived has not answered.
const unanswered = protocol.Seq(math.MaxUint64)

func newSite(h Hive, log *slog.Logger) *site {
	return &site{Hive: h, log: log.With(slog.String("hive", h.Disk.Path("."))), own: map[protocol.TaskID]*hold{}, said: -1}
}

// work is the directory of the worker in the agent's own.
func (s *site) work() string { return protocol.WorkDir(s.Box.ID()) }

// begin reports what a worker that died has left, finds the tasks that the agent has, and
// begins to read its mail and to give signs of life.
func (s *site) begin(ctx context.Context, w *Worker) error {
	s.mail = newMail(s.Box, s.Disk, func(n notice) { n.site = s; w.tell(n) })
	w.started.Go(func() { s.mail.read(ctx) })
	if err := s.reportLeft(ctx, w); err != nil {
		return err
	}
	tasks, err := agent.Tasks(s.Disk)
	if err != nil {
		return fmt.Errorf("look for the agent's tasks: %w", err)
	}
	for _, id := range tasks {
		s.look(id, time.Now())
	}
	s.scanned = time.Now()
	s.idle.Proposed = s.lastProposed()
	agent.TidyWork(s.Disk, s.Box.ID(), nil)
	if list, err := agent.Roster(s.Disk); err == nil {
		i := slices.IndexFunc(list, func(m agent.Member) bool { return m.ID == s.Box.ID() })
		if i >= 0 {
			s.said = max(1, list[i].Slots)
			if own := list[i].Takes; own != nil {
				s.said = *own
			}
		}
	}
	w.started.Go(func() {
		if err := s.Box.KeepAlive(ctx, s.Settings.Tasks.HeartbeatTimeout, func() bool { return true }); err != nil {
			s.log.ErrorContext(ctx, "no signs of life can be given", slog.Any("error", err))
		}
	})
	return nil
}

// look reads what became of a task, and keeps it if the agent has it.
func (s *site) look(id protocol.TaskID, now time.Time) {
	v, err := agent.View(s.Disk, id)
	h := s.own[id]
	switch {
	case err != nil && !errors.Is(err, agent.ErrNoTask):
		return // it is written just now, or damaged: hived says so
	case err != nil || v.Holder != s.Box.ID() || !task.Held(v.State):
		if h != nil && !h.running {
			delete(s.own, id)
		}
		return
	case h == nil || h.epoch != v.Epoch && !h.running:
		h = &hold{task: id, epoch: v.Epoch}
		s.own[id] = h
	}
	h.cancel = v.CancelRequested
	if h.state = v.State; len(v.History) == 0 || v.History[len(v.History)-1].Seq <= h.through {
		h.state = behind
	}
	if h.renewAt.IsZero() {
		h.renewAt = now
	}
}

// behind is the state of a task whose file does not show yet what was reported.
const behind = protocol.TaskState("behind")

// ready returns the tasks that the agent has and nobody works on, the oldest first: those
// that can go on, and those whose cancelling it has to confirm.
func (s *site) ready() (list []*hold) {
	for _, id := range slices.Sorted(maps.Keys(s.own)) {
		h := s.own[id]
		goesOn := h.state == task.InProgress || h.state == task.Pending || h.state == task.Stalled
		if !h.running && (goesOn || h.cancel && h.state != behind) {
			list = append(list, h)
		}
	}
	return list
}

// waiting returns how many tasks the agent has in hand that wait for their next attempt:
// no others come in their place.
func (s *site) waiting() (n int) {
	for _, h := range s.own {
		if !h.running && (h.state == task.Retrying || h.state == behind) {
			n++
		}
	}
	return n
}

// rescanEvery is how often the tasks that wait are looked at although no notice came: it
// may not have found room in the inbox.
const rescanEvery = 15 * time.Second

func (s *site) rescan(now time.Time) {
	for id, h := range s.own {
		if h.state == behind && (h.given || h.through != unanswered) {
			s.look(id, now)
		}
	}
	if now.Sub(s.scanned) < rescanEvery {
		return
	}
	s.scanned = now
	for id := range s.own {
		s.look(id, now)
	}
}

// While the agent works it is silent: a worker says so for silentFor, and again renewAt
// before that is over. hived takes an hour at most (spec §8.2).
const (
	silentFor = 50 * time.Minute
	renewAt   = 10 * time.Minute
)

func (s *site) renew(now time.Time) {
	for _, h := range s.own {
		if h.state != task.InProgress || now.Before(h.renewAt) {
			continue
		}
		h.renewAt = now.Add(silentFor - renewAt)
		if err := s.send(agent.Command{Event: task.Progress, Task: h.task, Epoch: h.epoch, Data: agent.Report{For: silentFor.String()}}); err != nil {
			s.log.Warn("hived cannot be told that the agent works", slog.Any("error", err))
		}
	}
}

// giveBack gives a task back that nobody is going to work on, free of charge.
func (s *site) giveBack(h *hold, why string) {
	err := s.send(agent.Command{Event: task.ReportOutcome, Task: h.task, Epoch: h.epoch, Data: agent.Report{
		Reason: why, Outcome: protocol.Outcome{Kind: protocol.OutcomeInterrupted},
	}})
	if err != nil {
		s.log.Warn("a task cannot be given back; the next start of the worker goes on with it", slog.Any("error", err))
	}
	h.state, h.through, h.given = behind, unanswered, true
}

// send sends a command whose answer nobody waits for.
func (s *site) send(c agent.Command) error {
	d, err := c.Draft(time.Now())
	if err != nil {
		return err
	}
	d.RequiresReply = new(bool)
	_, err = s.Box.Send(d)
	return err
}

// toHive sends a command about the hive or the agent whose answer nobody waits for.
func (s *site) toHive(event string, data any) error {
	text, err := json.Marshal(data)
	if err == nil {
		_, err = s.Box.Send(agent.Draft{
			To: []protocol.Address{protocol.Address(protocol.Hive)}, Act: protocol.Request, Subject: event,
			Event: event, Data: text, RequiresReply: new(bool),
		})
	}
	return err
}

// takeSlots tells the hive how many tasks the agent takes, if it does not know.
func (s *site) takeSlots(n int) {
	if s.said == n {
		return
	}
	if err := s.toHive("agent-slots", map[string]int{"slots": n}); err != nil {
		s.log.Warn("hived cannot be told how many tasks the agent takes", slog.Any("error", err))
		return
	}
	s.said = n
}

// asks reports whether the question of a task is still open.
func (s *site) asks(id protocol.TaskID, ask protocol.Seq) bool {
	v, err := agent.View(s.Disk, id)
	if errors.Is(err, agent.ErrNoTask) || errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return err != nil || v.Question != nil && v.Question.Ask == ask
}

// dry reports whether the hive has nothing for the agent, as far as is known.
func (s *site) dry(now time.Time) bool { return s.claiming == 0 && now.Before(s.dryUntil) }

// mayClaim reports whether another task may be asked for: one by one until one is found.
func (s *site) mayClaim(now time.Time) bool {
	return !now.Before(s.dryUntil) && (s.claiming == 0 || s.found)
}

// claimWithin is how long a claim is worth something; its answer is waited for a while
// longer.
const claimWithin = 15 * time.Second

// claim asks a hive for its best task. ctx ends when the worker is told to stop, background
// when it stops.
func (w *Worker) claim(ctx, background context.Context, s *site) {
	s.claiming++
	w.started.Go(func() {
		c := claimed{site: s}
		if c.runs, c.err = s.Runs(); c.err == nil && c.runs {
			c.answer, c.err = s.askForTask(ctx, background)
		}
		w.tell(c)
	})
}

// takeBackEvery is how often a worker that is told to stop looks whether a daemon is there to
// answer its claim.
const takeBackEvery = 250 * time.Millisecond

// askForTask sends a claim and waits for the answer: a task that comes must not be lost.
// When the worker is told to stop, and no daemon runs that could answer, the claim is taken
// back.
func (s *site) askForTask(ctx, background context.Context) (agent.Answer, error) {
	d, err := agent.Command{Event: task.Claim, Within: claimWithin, Data: agent.Report{Start: true, For: silentFor.String()}}.Draft(time.Now())
	if err != nil {
		return agent.Answer{}, err
	}
	q, err := s.mail.send(d)
	if err != nil {
		return agent.Answer{}, err
	}
	background, cancel := context.WithTimeout(background, claimWithin+5*time.Second)
	defer cancel()
	select {
	case a := <-q.answer:
		return a, nil
	case <-background.Done():
		return q.await(background)
	case <-ctx.Done():
	}
	tick := time.NewTicker(takeBackEvery)
	defer tick.Stop()
	for !s.takeBack(q) {
		select {
		case a := <-q.answer:
			return a, nil
		case <-background.Done():
			return q.await(background)
		case <-tick.C:
		}
	}
	return agent.Answer{}, context.Canceled
}

// takeBack takes a command back that no daemon can have read, and reports whether it did.
func (s *site) takeBack(q asked) bool {
	down := func() bool { runs, err := s.Runs(); return err == nil && !runs }
	if !down() {
		return false
	}
	was, err := s.Box.Withdraw(q.sent)
	return err == nil && was && down()
}

// claimed is the event that a claim was answered, or was not.
type claimed struct {
	*site
	answer agent.Answer
	runs   bool
	err    error
}

// waits of a claim that found nothing: where there is no daemon, and where it was refused
// for a reason that passes.
const (
	downWait    = time.Second
	refusedWait = 10 * time.Second
)

func (c claimed) apply(w *Worker, now time.Time) {
	s := c.site
	s.claiming--
	s.found = false
	switch a := c.answer; {
	case c.err != nil && errors.Is(c.err, context.Canceled):
	case c.err != nil:
		s.log.Warn("no task could be asked for", slog.Any("error", c.err))
		s.dryUntil = now.Add(downWait)
	case !c.runs:
		s.dryUntil = now.Add(downWait)
	case a.Code == protocol.CodeOK && a.Task != "":
		s.found, s.idle.Since = true, time.Time{}
		if h := s.own[a.Task]; h == nil || h.epoch < a.Epoch {
			s.own[a.Task] = &hold{task: a.Task, epoch: a.Epoch, state: a.State, renewAt: now.Add(silentFor - renewAt)}
		}
		if w.stopping {
			s.giveBack(s.own[a.Task], "its worker was told to stop")
		}
	case a.Code == protocol.CodeNoTask:
		agent.TidyWork(s.Disk, s.Box.ID(), nil)
		if s.idle.Since.IsZero() {
			s.idle.Since = now
		}
		s.dryUntil = now.Add(s.Settings.Work.Idle)
		if n := a.Numbers; n != nil {
			s.idle.Numbers = *n
			if n.Next.After(now) && n.Next.Before(s.dryUntil) {
				s.dryUntil = n.Next
			}
		}
		w.rest(now)
	case a.Code == protocol.CodeNoRoom: // of what it has in hand a part was not known
		s.scanned, s.dryUntil = time.Time{}, now.Add(downWait)
	default:
		s.log.Warn("a task was refused", slog.String("code", string(a.Code)), slog.String("text", a.Text))
		s.dryUntil = now.Add(refusedWait)
	}
}

// notice is the event that hive said something about a task.
type notice struct {
	*site
	task protocol.TaskID
	code protocol.Code
}

func (n notice) apply(_ *Worker, now time.Time) {
	s := n.site
	if n.code == protocol.CodeTaskOffer {
		s.dryUntil = time.Time{}
		return
	}
	s.look(n.task, now)
	if h := s.own[n.task]; h != nil && h.running {
		select {
		case h.poke <- struct{}{}:
		default: // it looks in any case
		}
	}
}
