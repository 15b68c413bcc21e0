package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hived/hived/proof/bench"
)

// Where nobody looks at a terminal, a row is announced by one plain line.
func TestBenchWatch(t *testing.T) {
	var said bytes.Buffer
	a := &app{stderr: &said, getenv: func(string) string { return "" }}
	w := a.watchRun()
	for _, p := range []bench.Progress{
		{Row: "burst", Doing: "round 1 of 5", Left: 90 * time.Second},
		{Row: "burst", Doing: "round 2 of 5", Left: 80 * time.Second},
		{Row: "year", Doing: "0 % of a year", Left: 8 * time.Second},
	} {
		w.tell(p)
	}
	w.end()
	if want := "hived: burst, about 1m30s left\nhived: year, about 8s left\n"; said.String() != want {
		t.Errorf("got  %q\nwant %q", said.String(), want)
	}
}

func TestBenchWritesReport(t *testing.T) {
	name := filepath.Join(t.TempDir(), "performance.md")
	r := bench.Report{Page: "# Performance\n", Plots: map[string]string{"year.svg": "<svg/>"}, Dir: "performance"}
	for range 2 { // it may be there already
		if err := writeReport(name, r); err != nil {
			t.Fatal(err)
		}
	}
	for file, want := range map[string]string{name: r.Page, filepath.Join(filepath.Dir(name), "performance", "year.svg"): "<svg/>"} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", file, got, err)
		}
	}
}
