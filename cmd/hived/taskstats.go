package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hived/hived/audit"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/task"
)

func (a *app) taskDiagram() *cobra.Command {
	return &cobra.Command{
		Use:   "diagram",
		Short: "Prints the states of a task and what leads from one to another, as a Mermaid diagram",
		Args:  argCount(0, 0),
		RunE: func(*cobra.Command, []string) error {
			diagram := struct {
				Diagram string `json:"diagram"`
			}{task.Diagram()}
			return a.answer(diagram, func(p *printer) { _, _ = fmt.Fprint(p, diagram.Diagram) }) // Write remembers the error
		},
	}
}

func (a *app) taskStats() *cobra.Command {
	var outcomes bool
	var by string
	c := &cobra.Command{
		Use:   "stats",
		Short: "Sums up: tasks by state, time in each, retries, recoveries, refusals, outcomes",
		Long: "Sums up the tasks of the log: how many are in each state, how long tasks were in it, how often each event happened,\nthe share of executions that were retries, how long it took until a task that could not go on did, and what was refused.\n" +
			"With --outcomes how the executions ended that workers reported, how long they took, and what they cost.",
		Args: argCount(0, 0),
		RunE: a.withHive(func(_ *cobra.Command, _ []string, disk *durable.Disk) error {
			if by != "" && !outcomes {
				return usageError("--by groups outcomes: hived task stats --outcomes --by %s", by)
			}
			if outcomes {
				return a.outcomeStats(disk, by)
			}
			state, _, _, err := audit.Folded(disk)
			if err != nil {
				return err
			}
			r := state.Tasks.Report(time.Now())
			return a.answer(r, func(p *printer) { showStats(p, r) })
		}),
	}
	c.Flags().BoolVar(&outcomes, "outcomes", false, "sum up how executions ended, as workers reported it")
	c.Flags().StringVar(&by, "by", "", "one sum for each of these: `"+joinNames(task.OutcomeGroups())+"`")
	return c
}

func showStats(p *printer, r task.Report) {
	rows := [][]string{{"STATE", "TASKS", "TIME IN IT"}}
	for _, s := range task.States() {
		spent := time.Duration(r.SecondsInState[s] * float64(time.Second))
		rows = append(rows, []string{string(s), digits(r.States[s]), spent.Round(time.Second).String()})
	}
	p.table(rows)
	p.line("")
	p.line("executions: %d, retries among them: %d (%.0f %%)", r.Executions, r.Retries, 100*r.RetryRate)
	p.line("recoveries: %d, after %s on average", r.Recoveries, time.Duration(r.MeanTimeToRecov*float64(time.Second)).Round(time.Millisecond))
	p.line("illegal transitions refused: %d", r.Illegal)
	counts(p, "EVENT", r.Transitions)
	counts(p, "REFUSED", r.Rejected)
}

// counts prints how often each key occurred, if any did.
func counts[K ~string](p *printer, title string, of map[K]uint64) {
	if len(of) == 0 {
		return
	}
	rows := [][]string{{title, "TIMES"}}
	for _, k := range slices.Sorted(maps.Keys(of)) {
		rows = append(rows, []string{string(k), digits(of[k])})
	}
	p.line("")
	p.table(rows)
}
