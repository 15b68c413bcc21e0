package router

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router/decide"
)

// suspect is what the last daemon could not decide about because of an internal error:
// a file of an outbox, or what was due with a task. The error ended that daemon, as the
// state may have been half folded. This one sets the file aside, or stops the clocks of
// the task, so that it stops nothing else (spec §3.10). Where there is no suspect all
// is empty.
type suspect struct {
	Agent    protocol.AgentID  `json:"agent,omitzero"`
	Original protocol.Original `json:"original,omitzero"`
	Task     protocol.TaskID   `json:"task,omitzero"`
	Error    string            `json:"error"`
}

const suspectMost = 64 << 10

// readSuspect returns the suspect that the last daemon named. It is empty where there is
// none, or where it cannot be read: then the file is decided about once more.
func readSuspect(disk durable.FS, log *slog.Logger) (s suspect) {
	data, _, err := durable.ReadFile(disk, protocol.SuspectFile, suspectMost)
	if errors.Is(err, fs.ErrNotExist) {
		return suspect{}
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		log.Warn("cannot read what the last daemon could not decide", slog.String("error", err.Error()))
		return suspect{}
	}
	return s
}

// suspectFile names an arrival, before the error of its decision ends the daemon; or the
// task, where the error came from what was due with one at the same time.
func suspectFile(disk durable.FS, x protocol.Arrival, err error) error {
	if of := (*protocol.TaskError)(nil); errors.As(err, &of) {
		return suspectTask(disk, err)
	}
	return suspect{Agent: x.Agent, Original: x.Original}.write(disk, fmt.Errorf("decide about outbox/%s of %s: %w", x.Original.Name, x.Agent, err))
}

// suspectTask names a task, before an error that came from it ends the daemon. With any
// other error it names nothing. Both return the error.
func suspectTask(disk durable.FS, err error) error {
	of := (*protocol.TaskError)(nil)
	if !errors.As(err, &of) {
		return err
	}
	return suspect{Task: of.Task}.write(disk, err)
}

// write leaves the suspect to the next daemon. It returns the error that made it one,
// joined with that of writing.
func (s suspect) write(disk durable.FS, err error) error {
	s.Error = protocol.Visible(protocol.Fit(err.Error(), 1000))
	data, bad := json.Marshal(s)
	if bad == nil {
		bad = disk.MkdirAll(protocol.PathScratch, 0o755)
	}
	if bad == nil {
		bad = durable.Publish(disk, protocol.SuspectFile, append(data, '\n'), 0o644, durable.Synced)
	}
	return errors.Join(err, bad)
}

// matches reports whether an arrival is the suspect, and unchanged.
func (s suspect) matches(x protocol.Arrival) bool {
	return s.Agent != "" && x.Agent == s.Agent && x.Original == s.Original
}

// withFault returns an arrival as one that is set aside, if it is the suspect.
func (s suspect) withFault(x protocol.Arrival) protocol.Arrival {
	if s.matches(x) {
		x.Message = nil
		x.Fault = &protocol.Fault{Code: protocol.CodeInternalError, Detail: "hived had to end when it decided about it (" + s.Error + "); a person is told, and when that is mended you can send it again"}
	}
	return x
}

// stopSuspect stops the clocks of the task that the last daemon could not decide
// about, with an alert.
func (in *intake) stopSuspect(now time.Time) {
	if id := in.suspect.Task; id != "" && !in.state.Tasks.Stopped(id) {
		in.alerts.raise(now, &protocol.AlertEvent{
			Code: protocol.CodeInternalError, Path: protocol.TaskDir(id),
			Text: "hived had to end when it did what was due with this task (" + in.suspect.Error + "); the clocks of the task stand still until somebody sends a command about it",
		})
	}
}

// forgetSuspect removes the suspect's file once the log says what became of it. A
// crash before that does no harm: the outbox holds no such file any more, and the
// clocks of a task are stopped only once.
func (in *intake) forgetSuspect(list []decide.Decision) {
	if !slices.ContainsFunc(list, func(d decide.Decision) bool {
		return in.suspect.Task != "" || d.Arrival != nil && in.suspect.matches(*d.Arrival)
	}) {
		return
	}
	if err := durable.IgnoreNotExist(in.disk.Remove(protocol.SuspectFile)); err != nil {
		in.cfg.Log.Warn("cannot remove a file", slog.String("path", protocol.SuspectFile), slog.String("error", err.Error()))
	}
	in.suspect = suspect{}
}
