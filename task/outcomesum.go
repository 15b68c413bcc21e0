package task

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hived/hived/protocol"
)

// OutcomeGroup is what outcomes are summed up by.
type OutcomeGroup string

// OutcomeGroups returns the groups that there are. The empty one is all outcomes.
func OutcomeGroups() []OutcomeGroup { return []OutcomeGroup{"adapter", "agent", "day"} }

// OutcomeSum is the sum of the executions that ended in one way, and, where they are
// grouped, that were of one adapter or agent, or ended on one day.
type OutcomeSum struct {
	Of         string               `json:"of,omitzero"` // which adapter, agent or day, in UTC
	Kind       protocol.OutcomeKind `json:"kind"`
	Times      int                  `json:"times"`
	DurationMS int64                `json:"duration_ms"`
	TokensIn   int64                `json:"tokens_in"`
	TokensOut  int64                `json:"tokens_out"`
	CostMicros int64                `json:"cost_micros"`
}

// OutcomeSums sums up the outcomes that the events of a log have, also of executions whose
// epoch was over: what they cost is known (spec §8.7).
type OutcomeSums struct {
	by   OutcomeGroup
	sums map[OutcomeSum]*OutcomeSum // by Of and Kind alone
}

// NewOutcomeSums returns sums of no outcomes.
func NewOutcomeSums(by OutcomeGroup) *OutcomeSums {
	return &OutcomeSums{by, map[OutcomeSum]*OutcomeSum{}}
}

// Add adds the outcome of an event, if it has one. The last outcome of a task that a new
// log takes over was counted by the log before.
func (s *OutcomeSums) Add(ev protocol.Event) {
	var o *protocol.Outcome
	var by protocol.AgentID
	if e, is := ev.Body.(*protocol.TaskEvent); is && e.Event != Adopted {
		o, by = e.Outcome, e.By
	}
	if e, is := ev.Body.(*protocol.TaskRejectedEvent); is {
		o, by = e.Outcome, e.By
	}
	if o == nil {
		return
	}
	key := OutcomeSum{Kind: o.Kind}
	switch s.by {
	case "adapter":
		key.Of = o.Adapter
	case "agent":
		key.Of = string(by)
	case "day":
		key.Of = ev.TS.UTC().Format(time.DateOnly)
	}
	sum := s.sums[key]
	if sum == nil {
		sum = &OutcomeSum{Of: key.Of, Kind: key.Kind}
		s.sums[key] = sum
	}
	sum.Times++
	sum.DurationMS += o.DurationMS
	sum.TokensIn += o.TokensIn
	sum.TokensOut += o.TokensOut
	sum.CostMicros += o.CostMicros
}

// List returns the sums in the order of their groups and then of the table of outcomes.
func (s *OutcomeSums) List() []OutcomeSum {
	list := []OutcomeSum{}
	for sum := range maps.Values(s.sums) {
		list = append(list, *sum)
	}
	kinds := protocol.OutcomeKinds()
	slices.SortFunc(list, func(a, b OutcomeSum) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), slices.Index(kinds, a.Kind)-slices.Index(kinds, b.Kind))
	})
	return list
}
