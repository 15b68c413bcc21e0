// Package docpage holds the tables of a page in docs to what they are made of.
// Only tests use it: a page is what the tables of the source say, or the test is
// red.
package docpage

import (
	"os"
	"strings"
	"testing"
)

// Hold wants the part of a file between two lines, which it must have, to be a
// table; told to, it writes the table there instead. What begins the part says
// by which command that is done.
func Hold(tb testing.TB, file, begin, end, table string, write bool) {
	tb.Helper()
	data, err := os.ReadFile(file) //nolint:gosec // a page of docs
	if err != nil {
		tb.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), begin)
	was, tail, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		tb.Fatalf("%s has no place for a table between %q and %q", file, begin, end)
	case !write && was != table:
		tb.Errorf("%s is not up to date: %s", file, strings.TrimSpace(begin))
	case write:
		if err := os.WriteFile(file, []byte(head+begin+table+end+tail), 0o644); err != nil { //nolint:gosec,forbidigo // docs are for everybody
			tb.Fatal(err)
		}
	}
}
