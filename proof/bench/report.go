package bench

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Report is a page about a run, with its plots.
type Report struct {
	Page  string            // Markdown
	Plots map[string]string // SVG by file name
	Dir   string            // directory of the plots, beside the page
}

// Write writes the page into a file, and its plots beside it.
func (r Report) Write(name string) error {
	dir := filepath.Join(filepath.Dir(name), r.Dir)
	if len(r.Plots) > 0 {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // documentation is for everybody
			return fmt.Errorf("write the report: %w", err)
		}
	}
	for file, svg := range r.Plots {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(svg), 0o644); err != nil { //nolint:gosec,forbidigo // as above, and no hive has it
			return fmt.Errorf("write the report: %w", err)
		}
	}
	if err := os.WriteFile(name, []byte(r.Page), 0o644); err != nil { //nolint:gosec,forbidigo // as above
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// NewReport returns the report of a run: name is the file name of the page, command
// the command that was run.
func NewReport(name, command string, short bool, m Machine, list []Result) Report {
	r := Report{Plots: map[string]string{}, Dir: strings.TrimSuffix(path.Base(name), path.Ext(name))}
	var b strings.Builder
	fmt.Fprintf(&b, "# Performance\n\nWritten by `%s`, on a machine with %s. Figures of another machine differ; ratios travel better.\n\n", command, m)
	if short {
		b.WriteString("This is the short form, with smaller sizes: it shows what changed, and is no verdict on the targets.\n\n")
	}
	b.WriteString("Baseline (a) is the loop that everybody writes: for each message read it, write it into the inbox, rename the original, append to a log, `git add -A && git commit`. Baseline (b) is the same loop with one commit for the whole burst. " +
		"Neither syncs anything; hived syncs everything that it counts. What is compared was measured in turns within one run, and figures are medians. The ratio is hived's figure divided by the baseline's.\n\n")
	b.WriteString("| row | figure | baseline | hived | ratio | target | met |\n|---|---|---:|---:|---:|---|---|\n")
	for _, c := range cells(list) {
		if c[0] != "" {
			c[0] = fmt.Sprintf("[%s](#%s)", c[0], c[0])
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(c, " | "))
	}
	b.WriteString("\n## Where it falls short\n\n" + shortcomings(list) + "\n## The rows\n")
	for _, row := range list {
		r.row(&b, row)
	}
	r.Page = b.String()
	return r
}

func (r Report) row(b *strings.Builder, row Result) {
	fmt.Fprintf(b, "\n### %s\n\n%s", row.Name, row.What)
	if row.Rounds > 0 {
		fmt.Fprintf(b, " Rounds or samples: %d.", row.Rounds)
	}
	fmt.Fprintf(b, "\n\nWhat holds it back: %s\n", lower(row.behind))
	for _, n := range notes([]Result{row}) {
		fmt.Fprintf(b, "\n%s\n", n)
	}
	for _, p := range row.plots {
		file := p.name + ".svg"
		r.Plots[file] = p.svg()
		fmt.Fprintf(b, "\n![%s](%s/%s)\n", p.title, r.Dir, file)
	}
}

// lower makes the first letter of s lower case, unless s begins with an acronym.
func lower(s string) string {
	first, _, _ := strings.Cut(s, " ")
	if s == "" || strings.ToUpper(first) == first && len(first) > 1 {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// shortcomings lists by how much each missed target was missed, and why.
func shortcomings(list []Result) string {
	var b strings.Builder
	for _, r := range list {
		missed := misses(r)
		if len(missed) > 0 {
			fmt.Fprintf(&b, "- **%s**: %s. What holds it back: %s\n", r.Name, strings.Join(missed, "; "), lower(r.behind))
		}
	}
	if b.Len() == 0 {
		return "Every target of this run was met.\n"
	}
	return b.String()
}

// misses describes each part of a row that missed its target.
func misses(r Result) (list []string) {
	for _, p := range r.Parts {
		if p.Met == nil || *p.Met {
			continue
		}
		if p.Hived == nil {
			list = append(list, strings.TrimPrefix(p.Name+": "+p.Note, r.Name+": "))
			continue
		}
		got := figure(*p.Hived) + " " + p.Unit
		if p.Ratio != nil && strings.Contains(p.Target, "baseline") {
			got += fmt.Sprintf(", %s × the baseline", figure(*p.Ratio))
		}
		list = append(list, fmt.Sprintf("%s %s, where the target is %s", p.Name, got, p.Target))
	}
	return list
}
