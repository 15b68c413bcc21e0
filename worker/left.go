package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
	"github.com/hived/hived/worker/run"
)

// record is what a worker notes of an execution before it begins, and keeps until hived has
// answered the outcome: whoever comes after a worker that was killed knows from it what
// went on.
type record struct {
	Task    protocol.TaskID `json:"task"`
	Epoch   uint64          `json:"epoch"`
	Run     string          `json:"run"` // the name of the run, in the environment of its processes
	Adapter string          `json:"adapter"`
	Began   time.Time       `json:"began"`

	// The outcome, once it is known; it has an id, so that it counts once.
	Report *agent.Draft `json:"report,omitzero"`
}

// recordMost is the largest record that is read, in bytes.
const recordMost = 4 << 20

func (s *site) runs() string { return s.work() + "/runs" }

// note writes a record. That an execution begins need not survive a power cut, in which its
// program ends too; how it ended must.
func (s *site) note(r record, sync durable.Sync) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = s.Disk.MkdirAll(s.runs(), 0o755)
	}
	if err == nil {
		err = durable.Publish(s.Disk, s.runs()+"/"+r.Run+".json", text, 0o600, sync)
	}
	if err != nil {
		return fmt.Errorf("note that an execution of %s begins: %w", r.Task, err)
	}
	return nil
}

// forget removes the record of an execution that hived has dealt with. One that stays is
// sent again by the next start, and counts once.
func (s *site) forget(r record) { _ = s.Disk.Remove(s.runs() + "/" + r.Run + ".json") }

// reportLeft ends the programs that a worker left which was killed, and reports how their
// executions ended: as crashed, unless it had found that out.
func (s *site) reportLeft(ctx context.Context, w *Worker) error {
	entries, err := s.Disk.ReadDir(s.runs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for executions that were left: %w", err)
	}
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name, ".json")
		if !is {
			continue
		}
		var r record
		text, _, err := durable.ReadFile(s.Disk, s.runs()+"/"+e.Name, recordMost)
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil || r.Run != name { // it was torn before anything ran
			s.log.WarnContext(ctx, "a note of an execution is not readable, and is removed", slog.String("file", e.Name))
			_ = s.Disk.Remove(s.runs() + "/" + e.Name) // it is found again
			continue
		}
		killed := run.EndLeftovers(r.Run)
		s.log.InfoContext(ctx, "an execution was left by a worker that ended", slog.String("task", string(r.Task)), slog.Int("processes_ended", killed))
		if err := s.sendLeft(ctx, w, r); err != nil {
			return err
		}
	}
	return nil
}

// sendLeft reports an execution that was left. Until hived has answered, nobody works on
// its task.
func (s *site) sendLeft(ctx context.Context, w *Worker, r record) error {
	if r.Report == nil {
		err := s.conclude(&r, protocol.TaskReport{
			Reason:  "its worker ended before it did",
			Outcome: protocol.Outcome{Kind: protocol.OutcomeCrashed, Adapter: r.Adapter, Signal: "KILL"},
		})
		if err != nil {
			return err
		}
	}
	q, err := s.mail.send(*r.Report)
	if err != nil {
		return fmt.Errorf("report how an execution of %s ended: %w", r.Task, err)
	}
	s.own[r.Task] = &hold{task: r.Task, epoch: r.Epoch, through: unanswered}
	w.started.Go(func() {
		if a, err := s.settled(ctx, q); err == nil {
			s.forget(r)
			w.tell(settled{site: s, record: r, answer: a})
		}
	})
	return nil
}

// answerMost is how long the answer to a report is waited for that was sent before: hive
// answers once.
const answerMost = 10 * time.Second

// settled waits for the answer to a report that an earlier worker may have sent, and got
// the answer to.
func (s *site) settled(ctx context.Context, q asked) (agent.Answer, error) {
	tick := time.NewTicker(answerMost)
	defer tick.Stop()
	for {
		select {
		case a := <-q.answer:
			return a, nil
		case <-ctx.Done():
			return agent.Answer{}, context.Cause(ctx)
		case <-tick.C:
		}
		runs, err := s.Runs()
		list, pending := s.Box.Pending()
		if err == nil && runs && pending == nil && len(list) == 0 {
			return agent.Answer{}, nil
		}
	}
}

// settled is the event that hived has dealt with an execution that was left.
type settled struct {
	*site
	record
	answer agent.Answer
}

func (e settled) apply(_ *Worker, now time.Time) {
	if h := e.own[e.Task]; h != nil && h.through == unanswered {
		h.through = e.answer.Of
	}
	e.look(e.Task, now)
}

// conclude notes the outcome of an execution before it is sent, under an id, so that it
// counts once however often it is sent.
func (s *site) conclude(r *record, report protocol.TaskReport) error {
	d, err := agent.Command{Event: task.ReportOutcome, Task: r.Task, Epoch: r.Epoch, Data: agent.Report(report)}.Draft(time.Now())
	if err != nil {
		return err
	}
	if d.ID, err = s.Box.DrawID(); err != nil {
		return err
	}
	r.Report = &d
	return s.note(*r, durable.Synced)
}
