package bench

import (
	"fmt"
	"math"
)

// Part is one figure of a row, and what it is held against.
type Part struct {
	Name     string
	Unit     string
	Baseline float64 // NaN: there is none
	Hived    float64 // NaN: it could not be measured, and Note says why
	Target   string  // in words; empty: told for its own sake
	Reached  float64 // how much of the target; 1 and more is met
	Rounds   int     // that the medians are of
	Note     string
}

// compared is hived's median beside the baseline's, of the same rounds.
func compared(name, unit string, baseline, hived []float64) Part {
	return Part{Name: name, Unit: unit, Baseline: median(baseline), Hived: median(hived), Rounds: len(hived)}
}

// alone is a median that nothing stands beside.
func alone(name, unit string, hived []float64) Part {
	return Part{Name: name, Unit: unit, Baseline: math.NaN(), Hived: median(hived), Rounds: len(hived)}
}

// unmeasured says in words why a figure is missing.
func unmeasured(name, unit, why string) Part {
	return Part{Name: name, Unit: unit, Baseline: math.NaN(), Hived: math.NaN(), Note: "not measured: " + why}
}

// ratio is hived's figure in terms of the baseline's.
func (p Part) ratio() float64 { return p.Hived / p.Baseline }

// met tells whether the target is reached. NaN never is.
func (p Part) met() bool { return p.Reached >= 1 }

// timesAtLeast wants hived's figure to be so many times the baseline's.
func (p Part) timesAtLeast(n float64) Part {
	p.Target, p.Reached = fmt.Sprintf("≥ %s × baseline", limit(n)), p.ratio()/n
	return p
}

// timesAtMost wants hived's figure to be at most so many times the baseline's.
func (p Part) timesAtMost(n float64) Part {
	p.Target, p.Reached = fmt.Sprintf("≤ %s × baseline", limit(n)), n/p.ratio()
	return p
}

// atLeast wants hived's figure itself to be so large.
func (p Part) atLeast(n float64) Part {
	p.Target, p.Reached = fmt.Sprintf("≥ %s %s", limit(n), p.Unit), p.Hived/n
	return p
}

// atMost wants hived's figure itself to be no larger.
func (p Part) atMost(n float64) Part {
	p.Target, p.Reached = fmt.Sprintf("≤ %s %s", limit(n), p.Unit), n/p.Hived
	return p
}

// Result is one row, or a part of one, as it is printed. The figures of a row
// are those of the part that falls shortest of its target, of those that
// could be measured; Met says whether all parts reach theirs. A figure that does not exist is null; so is Met where
// there is no target.
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

	behind string // what holds it back, for the report
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

// number is nil for what JSON has no word for.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// rowResult puts the parts of a row together.
func rowResult(name, what string, parts []Part) Result {
	if len(parts) == 0 {
		parts = []Part{unmeasured("", "", "nothing came of it")}
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

// short orders parts by how much of their targets they reach. One that was not
// measured has nothing to show and comes last.
func short(p Part) float64 {
	if math.IsNaN(p.Hived) || math.IsNaN(p.Reached) {
		return math.Inf(1)
	}
	return p.Reached
}
