package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/term"
)

// printer writes answers and remembers the first error.
type printer struct {
	w   io.Writer
	err error
}

// Write implements [io.Writer].
func (p *printer) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.w.Write(b)
	if err != nil {
		p.err = fmt.Errorf("write the answer: %w", err)
	}
	return n, err
}

func (p *printer) line(format string, args ...any) {
	_, _ = fmt.Fprintf(p, format+"\n", args...) // Write remembers the error
}

// document writes a value as one line of JSON.
func (p *printer) document(v any) error {
	b, err := json.Marshal(v, jsontext.EscapeForJS(true), json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	p.line("%s", b)
	return nil
}

// answer prints a value: as JSON with --json, else with text.
func (a *app) answer(v any, text func(*printer)) error {
	if a.json {
		return a.out.document(v)
	}
	text(a.out)
	return nil
}

// note prints something that is not the answer, on standard error.
func (a *app) note(format string, args ...any) { writeNote(a.stderr, fmt.Sprintf(format, args...)) }

// writeNote writes a line to standard error. Its error is ignored: where standard
// error is closed, nobody listens.
func writeNote(stderr io.Writer, text string) { _, _ = fmt.Fprintln(stderr, "hived: "+text) }

// table prints rows of aligned cells. A cell must hold no colours, which would
// count as width.
func (p *printer) table(rows [][]string) {
	w := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t")) // Flush writes it
	}
	_ = w.Flush() // Write remembers the error
}

// digits formats a number for a table.
func digits[N ~int | ~uint64](n N) string { return fmt.Sprintf("%d", n) }

// timeText formats a time for people, in local time; the zero time is "-".
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05.000")
}

// style colours text where its writer is a terminal that shows colours.
type style struct{ on bool }

func styleFor(w io.Writer, getenv func(string) string) style {
	return style{isTerminal(w) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"}
}

func isTerminal(x any) bool {
	f, ok := x.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// The colours that answers use.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	blue   = "34"
	cyan   = "36"
)

func (s style) paint(colour, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
