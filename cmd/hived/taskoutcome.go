package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

func (a *app) taskOutcome() *cobra.Command {
	var kind, category, result string
	var exit int
	var duration, wait time.Duration
	var gate gateFlags
	return a.taskVerb(verb{
		on: task.ReportOutcome, use: "outcome ID --kind K", reason: "why it ended so, in a `sentence`", reaches: true,
		short: "Reports, as a worker, how an execution ended; its kind decides what happens next",
		flags: func(flags *pflag.FlagSet, report *protocol.TaskReport) {
			flags.StringVar(&kind, "kind", "", "`how` it ended: "+joinNames(protocol.OutcomeKinds()))
			flags.StringVar(&report.Adapter, "adapter", "", "the `name` of what ran the agent")
			flags.IntVar(&exit, "exit", 0, "its exit `status`")
			flags.StringVar(&report.Signal, "signal", "", "the `name` of the signal that ended it, such as KILL")
			flags.DurationVar(&duration, "duration", 0, "how long it ran")
			flags.Int64Var(&report.TokensIn, "tokens-in", 0, "tokens that it read")
			flags.Int64Var(&report.TokensOut, "tokens-out", 0, "tokens that it wrote")
			flags.Int64Var(&report.CostMicros, "cost-micros", 0, "what it cost, in `millionths`")
			flags.StringVar(&report.Tail, "tail", "", "the `end` of its output")
			flags.StringVar(&category, "category", "", "of incomplete and failed: `"+joinNames(failureCategories)+"`")
			flags.StringVar(&result, "result", "", "of completed: the result, as JSON or text: `TEXT`, - for standard input, or @FILE")
			flags.DurationVar(&wait, "wait", 0, "how long the task is to wait before it goes on")
			gate.register(flags)
		},
		fill: func(x *call) (err error) {
			x.report.Kind, x.report.Category, x.report.DurationMS = protocol.OutcomeKind(kind), protocol.Category(category), duration.Milliseconds()
			if x.Flags().Changed("exit") {
				x.report.Exit = &exit
			}
			if wait > 0 {
				x.report.NotBefore = time.Now().Add(wait).UTC()
			}
			if result != "" {
				x.report.Result, err = a.readResult(result)
			}
			if category != "" && err == nil {
				err = oneOf(failureCategories, category, "--category %s: it is one of "+joinNames(failureCategories), "unknown where none fits")
			}
			if err != nil {
				return err
			}
			if err := oneOf(protocol.OutcomeKinds(), kind, "--kind %s: it is one of "+joinNames(protocol.OutcomeKinds()), "failed where none fits"); err != nil || x.report.Kind != protocol.OutcomeCompleted {
				return err
			}
			return a.passGate(x, gate)
		},
	})
}

// readResult returns a result that was given as JSON or as a text.
func (a *app) readResult(given string) (jsontext.Value, error) {
	text, err := a.readText(given)
	if err != nil {
		return nil, err
	}
	if v := jsontext.Value(text); v.IsValid() {
		return v, nil
	}
	return agent.Text(text), nil
}

// outcomeRows returns the row with the last outcome of a task, if it has one.
func outcomeRows(t *agent.Document) [][]string {
	o := t.Outcome
	if o == nil {
		return nil
	}
	what := outcomeText(&o.Outcome)
	if t.Free > 0 {
		what += ", free " + digits(t.Free)
	}
	if t.Crashes > 0 {
		what += ", crashes " + digits(t.Crashes)
	}
	return [][]string{{"last outcome:", protocol.Visible(what)}}
}

// outcomeText says in one line how an execution ended and what it cost.
func outcomeText(o *protocol.Outcome) string {
	what := string(o.Kind)
	if o.Adapter != "" {
		what += " of " + o.Adapter
	}
	switch {
	case o.Signal != "":
		what += ", signal " + o.Signal
	case o.Exit != nil:
		what += ", exit status " + digits(*o.Exit)
	}
	if o.DurationMS > 0 {
		what += ", after " + (time.Duration(o.DurationMS) * time.Millisecond).String()
	}
	if o.TokensIn+o.TokensOut > 0 {
		what += fmt.Sprintf(", %d tokens in, %d out", o.TokensIn, o.TokensOut)
	}
	if o.CostMicros > 0 {
		what += ", cost " + costText(o.CostMicros)
	}
	return protocol.Visible(what)
}

// costText returns a cost in millionths as a decimal number.
func costText(micros int64) string {
	return fmt.Sprintf("%d.%06d", micros/1_000_000, micros%1_000_000)
}

// outcomeStats sums up how executions ended.
func (a *app) outcomeStats(disk *durable.Disk, by string) error {
	if by != "" {
		if err := oneOf(task.OutcomeGroups(), by, "--by %s: it is one of "+joinNames(task.OutcomeGroups()), ""); err != nil {
			return err
		}
	}
	sums := task.NewOutcomeSums(task.OutcomeGroup(by))
	for rec, err := range eventlog.Read(disk, eventlog.Position{}) {
		if err != nil {
			return err
		}
		sums.Add(rec.Event)
	}
	list := sums.List()
	return a.answer(list, func(p *printer) {
		rows := [][]string{{"OUTCOME", "TIMES", "TOOK", "TOKENS IN", "TOKENS OUT", "COST"}}
		for _, s := range list {
			took := (time.Duration(s.DurationMS) * time.Millisecond).Round(time.Second)
			row := []string{string(s.Kind), digits(s.Times), took.String(), strconv.FormatInt(s.TokensIn, 10), strconv.FormatInt(s.TokensOut, 10), costText(s.CostMicros)}
			if by != "" {
				row = append([]string{protocol.Visible(s.Of)}, row...)
			}
			rows = append(rows, row)
		}
		if by != "" {
			rows[0] = append([]string{map[string]string{"adapter": "ADAPTER", "agent": "AGENT", "day": "DAY"}[by]}, rows[0]...)
		}
		p.table(rows)
	})
}
