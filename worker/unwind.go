package worker

import (
	"context"
	"errors"
	"log/slog"

	"github.com/hived/hived/capsule"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/worker/classify"
	"github.com/hived/hived/worker/run"
)

// unwind undoes the steps of the task that this one unwinds. That needs no agent: the undo
// of each step was recorded with it.
func (x *execution) unwind(ctx context.Context) classify.Verdict {
	c, err := x.Capsule(x.task, x.epoch, func(text string) { x.log.InfoContext(ctx, text) }) //nolint:sloglint // the capsule says what it waits for
	if err != nil {
		return classify.Verdict{Kind: protocol.OutcomeFailed, Reason: err.Error()}
	}
	outputs, done, err := x.outputs("")
	defer done()
	if err != nil {
		return classify.Verdict{Kind: protocol.OutcomeFailed, Reason: err.Error()}
	}
	err = c.Unwind(ctx, outputs[0], outputs[1])
	_, failed := x.settle(ctx, outputs)
	x.tail = run.Tail(failed, x.Settings.Work.Tail)
	return x.unwound(ctx, err)
}

// unwound returns what the end of an unwinding amounts to.
func (x *execution) unwound(ctx context.Context, err error) classify.Verdict {
	refused, isRefused := errors.AsType[*capsule.Refused](err)
	switch {
	case err == nil:
		return classify.Verdict{Kind: protocol.OutcomeCompleted, Reason: "its steps are undone"}
	case context.Cause(ctx) != nil:
		return x.stopped(context.Cause(ctx))
	case isRefused && refused.Code == protocol.CodeFenced:
		return x.stopped(errLost)
	case isRefused && refused.Code == protocol.CodeCancelRequested:
		return x.stopped(errCancelled)
	}
	x.log.WarnContext(ctx, "not all steps are undone", slog.Any("error", err))
	return classify.Verdict{Kind: protocol.OutcomeIncomplete, Reason: protocol.Fit(err.Error(), reasonMost)}
}
