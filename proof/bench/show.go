package bench

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
)

var heads = []string{"ROW", "FIGURE", "BASELINE", "HIVED", "RATIO", "TARGET", "MET"}

// cells gives the table: one line for each part of each row.
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

// notes are what has to be said besides the figures.
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

// Table writes the figures for people. On a terminal it has a frame, is as wide
// as that, and with colour tells what was met by it too.
func Table(w io.Writer, list []Result, width int, colour bool) error {
	text := plainTable(list)
	if width > 0 {
		text = framedTable(list, width, colour)
	}
	_, err := io.WriteString(w, text+strings.Join(append(notes(list), ""), "\n"))
	return err
}

func plainTable(list []Result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(heads, "\t")) //nolint:errcheck // a strings.Builder never fails
	for _, row := range cells(list) {
		fmt.Fprintln(w, strings.Join(row, "\t")) //nolint:errcheck // a strings.Builder never fails
	}
	w.Flush() //nolint:errcheck,gosec // a strings.Builder never fails
	return b.String()
}

func framedTable(list []Result, width int, colour bool) string {
	rows := cells(list)
	t := table.New().Border(lipgloss.RoundedBorder()).BorderRow(false).Headers(heads...).Rows(rows...)
	t.StyleFunc(func(row, col int) lipgloss.Style {
		s := lipgloss.NewStyle().Padding(0, 1)
		if col >= 2 && col <= 4 {
			s = s.Align(lipgloss.Right)
		}
		switch {
		case !colour:
		case row == table.HeaderRow:
			s = s.Faint(true)
		case col == 0:
			s = s.Bold(true)
		case col == 6 && rows[row][col] == "yes":
			s = s.Foreground(lipgloss.Green)
		case col == 6 && rows[row][col] == "no":
			s = s.Foreground(lipgloss.Red)
		}
		return s
	})
	if text := t.String(); lipgloss.Width(text) <= width {
		return text + "\n"
	}
	return t.Width(width).String() + "\n"
}

// Bar is a run's progress in one line that is no wider than width.
func Bar(p Progress, width int, colour bool) string {
	const cellsWide = 24
	share := min(max(p.Share, 0), 1)
	full := int(math.Round(share * cellsWide))
	done, open := strings.Repeat("█", full), strings.Repeat("░", cellsWide-full)
	if colour {
		done = lipgloss.NewStyle().Foreground(lipgloss.Cyan).Render(done)
		open = lipgloss.NewStyle().Faint(true).Render(open)
	}
	line := fmt.Sprintf("%s%s %3.0f %%  %s left  %s: %s", done, open, 100*share, about(p.Left), p.Row, p.Doing)
	return lipgloss.NewStyle().MaxWidth(max(width, 1)).Render(line)
}

// about writes a duration as roughly as it is known.
func about(d time.Duration) string {
	switch {
	case d >= 10*time.Minute:
		return d.Round(time.Minute).String()[:strings.Index(d.Round(time.Minute).String(), "m")+1]
	case d >= time.Minute:
		return d.Round(10 * time.Second).String()
	}
	return max(d.Round(time.Second), 0).String()
}
