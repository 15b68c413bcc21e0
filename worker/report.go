package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/worker/classify"
)

// answerWithin is how long the answer to a report is waited for after the worker was told
// to stop. Before that it is waited for without an end: hived may be down.
const answerWithin = 5 * time.Second

// report reports how the execution ended. What hived does not take as completed, because
// the brief was changed meanwhile or a step is under way, is reported as what it is.
func (x *execution) report(ctx context.Context, v classify.Verdict) result {
	r := result{hive: x.Disk.Path("."), task: x.task, kind: v.Kind, retryAfter: v.RetryAfter}
	if v.Kind == protocol.OutcomeNeedsLogin && !x.circuits.asksLogin() {
		v.Kind, v.Reason = protocol.OutcomeUnusable, "nobody is logged in, and a person is asked: "+v.Reason
		r.kind = "" // the circuit is open
	}
	for range 2 {
		a, err := x.conclude(ctx, v)
		if err != nil {
			x.log.WarnContext(ctx, "the outcome was not answered; it counts once hived takes it", slog.Any("error", err))
			r.through = unanswered
			return r
		}
		r.through = a.Of
		x.forget(x.record)
		if a.Code == protocol.CodeOK {
			break
		}
		x.log.WarnContext(ctx, "the outcome was refused", slog.String("code", string(a.Code)), slog.String("text", a.Text))
		if v.Kind != protocol.OutcomeCompleted || a.Code == protocol.CodeFenced {
			return r
		}
		v = refused(a)
		r.kind = v.Kind
	}
	x.log.InfoContext(ctx, "ended", slog.String("outcome", string(v.Kind)), slog.String("reason", v.Reason), slog.Duration("after", time.Since(x.began).Round(time.Millisecond)))
	if v.Kind == protocol.OutcomeNeedsLogin {
		r.ask = x.question(ctx, r.through)
	}
	return r
}

// refused returns the verdict on an execution that hive does not take as completed.
func refused(a agent.Answer) classify.Verdict {
	kind := protocol.OutcomeIncomplete
	if a.Code == protocol.CodeGateUnmet {
		kind = protocol.OutcomeUnvalidated
	}
	return classify.Verdict{Kind: kind, Reason: protocol.Fit("hive did not take it as completed: "+a.Text, reasonMost)}
}

// reasonMost is how much of a reason is reported, in characters.
const reasonMost = 2000

// conclude sends the report, under an id that is noted first, and waits for the answer.
func (x *execution) conclude(ctx context.Context, v classify.Verdict) (agent.Answer, error) {
	if err := x.site.conclude(&x.record, x.data(v)); err != nil {
		return agent.Answer{}, err
	}
	q, err := x.mail.send(*x.record.Report)
	if err != nil {
		return agent.Answer{}, err
	}
	select {
	case a := <-q.answer:
		return a, nil
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	return q.await(ctx)
}

// data returns what is reported.
func (x *execution) data(v classify.Verdict) protocol.TaskReport {
	s := x.seen
	o := protocol.Outcome{
		Kind: v.Kind, Adapter: x.config.Adapter.Name, Signal: s.Signal, DurationMS: time.Since(x.began).Milliseconds(),
		TokensIn: s.Reading.TokensIn, TokensOut: s.Reading.TokensOut, CostMicros: s.Reading.CostMicros,
		PromptSHA256: x.prompt.SHA256, Tail: x.tail,
	}
	if s.Signal == "" && s.Exit >= 0 && s.Exit < 256 && x.prompt.SHA256 != "" {
		o.Exit = &s.Exit
	}
	r := protocol.TaskReport{Outcome: o, Reason: protocol.Fit(v.Reason, reasonMost), Category: v.Category, Result: v.Result}
	if v.RetryAfter > 0 {
		r.NotBefore = time.Now().Add(v.RetryAfter).UTC()
	}
	if v.Kind == protocol.OutcomeCompleted {
		if text := protocol.Fit(s.Reading.Result, resultMost/4); r.Result == nil && text != "" {
			r.Result = agent.Text(text)
		}
	}
	if v.Kind == protocol.OutcomeCompleted || v.Kind == protocol.OutcomeUnvalidated {
		r.Gate = x.gate
	}
	return r
}

// question returns the number of the question that followed from a report.
func (x *execution) question(ctx context.Context, of protocol.Seq) protocol.Seq {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
	defer cancel()
	v, err := agent.WaitView(ctx, x.Disk, x.task, of)
	if err != nil || v.Question == nil {
		return 0 // it was answered by now
	}
	return v.Question.Ask
}
