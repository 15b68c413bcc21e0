package bench

import (
	"fmt"
	"math"
)

// Part is one figure of a row, with its baseline and its target.
type Part struct {
	Name     string
	Unit     string
	Baseline float64 // NaN if there is none
	Hived    float64 // NaN if it could not be measured; Note says why
	Target   string  // in words; empty if there is none
	Reached  float64 // share of the target that is reached; met from 1 on
	Rounds   int     // number of samples of the medians
	Note     string
}

// compared returns hived's median with the baseline's, of the same rounds.
func compared(name, unit string, baseline, hived []float64) Part {
	return Part{Name: name, Unit: unit, Baseline: median(baseline), Hived: median(hived), Rounds: len(hived)}
}

// alone returns a median without a baseline.
func alone(name, unit string, hived []float64) Part {
	return Part{Name: name, Unit: unit, Baseline: math.NaN(), Hived: median(hived), Rounds: len(hived)}
}

// unmeasured returns a part that says why its figure is missing.
func unmeasured(name, unit, why string) Part {
	return Part{Name: name, Unit: unit, Baseline: math.NaN(), Hived: math.NaN(), Note: "not measured: " + why}
}

// ratio returns hived's figure divided by the baseline's.
func (p Part) ratio() float64 { return p.Hived / p.Baseline }

// met reports whether the target is reached. NaN never reaches it.
func (p Part) met() bool { return p.Reached >= 1 }

// timesAtLeast sets the target that hived's figure is at least n times the baseline's.
func (p Part) timesAtLeast(n float64) Part {
	p.Target, p.Reached = fmt.Sprintf("≥ %s × baseline", limit(n)), p.ratio()/n
	return p
}

// timesAtMost sets the target that hived's figure is at most n times the baseline's.
func (p Part) timesAtMost(n float64) Part {
	p.Target, p.Reached = fmt.Sprintf("≤ %s × baseline", limit(n)), n/p.ratio()
	return p
}

// atLeast sets the target that hived's figure is at least n.
func (p Part) atLeast(n float64) Part {
	p.Target, p.Reached = fmt.Sprintf("≥ %s %s", limit(n), p.Unit), p.Hived/n
	return p
}

// atMost sets the target that hived's figure is at most n.
func (p Part) atMost(n float64) Part {
	p.Target, p.Reached = fmt.Sprintf("≤ %s %s", limit(n), p.Unit), n/p.Hived
	return p
}

// Result is one row, or a part of one, as it is printed. The figures of a row are
// those of the part that falls furthest short of its target, among those that could be
// measured; Met says whether all parts reach their targets. A missing figure is null,
// and so is Met if there is no target.
type Result struct {
	Name     string   `json:"name"`
	What     string   `json:"what,omitzero"` // what was measured, with its sizes
	Unit     string   `json:"unit"`
	Baseline *float64 `json:"baseline"`
	Hived    *float64 `json:"hived"`
	Ratio    *float64 `json:"ratio"` // hived / baseline
	Target   string   `json:"target"`
	Met      *bool    `json:"met"`
	Rounds   int      `json:"rounds"`
	Note     string   `json:"note,omitzero"`
	Parts    []Result `json:"parts,omitzero"`

	behind string // what limits it, for the report
	plots  []plot
}

func (p Part) result() Result {
	r := Result{Name: p.Name, Unit: p.Unit, Baseline: number(p.Baseline), Hived: number(p.Hived), Ratio: number(p.ratio()), Target: p.Target, Rounds: p.Rounds, Note: p.Note}
	if p.Target != "" || math.IsNaN(p.Hived) {
		met := p.met()
		r.Met = &met
	}
	return r
}

// number returns nil for numbers that JSON does not have.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// rowResult makes the result of a row from its parts.
func rowResult(name, what string, parts []Part) Result {
	if len(parts) == 0 {
		parts = []Part{unmeasured("", "", "the row has no parts")}
	}
	worst, met := 0, true
	for i, p := range parts {
		if r := p.result(); r.Met == nil {
			continue
		}
		met = met && p.met()
		if parts[worst].result().Met == nil || short(p) < short(parts[worst]) {
			worst = i
		}
	}
	r := parts[worst].result()
	r.Name, r.What, r.Met = name, what, &met
	for _, p := range parts {
		r.Parts = append(r.Parts, p.result())
	}
	return r
}

// short orders parts by the share of their targets that they reach. A part that was
// not measured comes last.
func short(p Part) float64 {
	if math.IsNaN(p.Hived) || math.IsNaN(p.Reached) {
		return math.Inf(1)
	}
	return p.Reached
}
