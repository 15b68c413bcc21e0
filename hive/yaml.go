package hive

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/hived/hived/protocol"
)

// maxShown is how much of a line an error shows, in characters.
const maxShown = 120

// explainYAML returns an error of the YAML reader on one line and safe to show. A
// text that begins with @, as roles do, with ` or with % must be quoted in YAML: for
// that the error names the line and shows how it is written.
func explainYAML(text []byte, err error) error {
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok || e.Mark.Line < 1 || e.Mark.Column < 1 {
		return oneLine(err)
	}
	lines := strings.Split(string(text), "\n")
	if e.Mark.Line > len(lines) {
		return oneLine(err)
	}
	line, column := []rune(lines[e.Mark.Line-1]), e.Mark.Column-1
	if column >= len(line) || !strings.ContainsRune("@`%", line[column]) {
		return oneLine(err)
	}
	before, rest := string(line[:column]), string(line[column:])
	above := strings.Join(lines[:e.Mark.Line-1], "\n") + before
	value, after := plainText(above, rest)
	shown := []rune(strings.TrimSpace(before + quoted(value) + after))
	if len(shown) > maxShown {
		shown = append(shown[:maxShown], '…')
	}
	return fmt.Errorf("line %d: a text that begins with %c needs quotes in YAML: %s", e.Mark.Line, line[column], protocol.Visible(string(shown)))
}

// plainText splits the rest of a line where the text that it begins with ends: at a
// comment or, within brackets that the lines above left open, at what separates or
// closes a list.
func plainText(above, rest string) (value, after string) {
	bracketed := strings.Count(above, "[")+strings.Count(above, "{") > strings.Count(above, "]")+strings.Count(above, "}")
	end := len(rest)
	if i := strings.Index(rest, " #"); i >= 0 {
		end = i
	}
	if i := strings.IndexAny(rest[:end], ",]}"); bracketed && i >= 0 {
		end = i
	}
	value = strings.TrimSpace(rest[:end])
	return value, rest[len(value):]
}

func quoted(value string) string {
	if strings.ContainsAny(value, `"\`) {
		return "'" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	return `"` + value + `"`
}

// oneLine returns a parser's error on one line and safe to show.
func oneLine(err error) error {
	return errors.New(protocol.Visible(strings.Join(strings.Fields(err.Error()), " ")))
}
