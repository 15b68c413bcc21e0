package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

var heads = []string{"ROW", "FIGURE", "BASELINE", "HIVED", "RATIO", "TARGET", "MET"}

// cells returns the table: one line for each part of each row.
func cells(list []Result) [][]string {
	var out [][]string
	for _, r := range list {
		for i, p := range r.Parts {
			name := r.Name
			if i > 0 {
				name = ""
			}
			what := p.Name
			if p.Unit != "" {
				what += ", " + p.Unit
			}
			out = append(out, []string{name, what, shown(p.Baseline), shown(p.Hived), times(p.Ratio), p.Target, verdict(p.Met)})
		}
	}
	return out
}

func shown(x *float64) string {
	if x == nil {
		return "–"
	}
	return figure(*x)
}

func times(x *float64) string {
	if x == nil {
		return "–"
	}
	return figure(*x) + " ×"
}

func verdict(met *bool) string {
	switch {
	case met == nil:
		return "–"
	case *met:
		return "yes"
	}
	return "no"
}

// notes returns what has to be said besides the figures.
func notes(list []Result) []string {
	var out []string
	for _, r := range list {
		for _, p := range r.Parts {
			if p.Note == "" {
				continue
			}
			who := r.Name
			if p.Name != "" && p.Name != r.Name {
				who += ", " + p.Name
			}
			out = append(out, who+": "+p.Note)
		}
	}
	return out
}

// Table writes the figures for people, and the notes below them.
func Table(w io.Writer, list []Result) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(heads, "\t")) //nolint:errcheck // a strings.Builder never fails
	for _, row := range cells(list) {
		fmt.Fprintln(t, strings.Join(row, "\t")) //nolint:errcheck // a strings.Builder never fails
	}
	t.Flush() //nolint:errcheck,gosec // a strings.Builder never fails
	for _, n := range notes(list) {
		b.WriteString(n + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
