package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/testenv"
)

// TestRuns checks that a process is known to run, or not to.
func TestRuns(t *testing.T) {
	if !Runs(os.Getpid()) || Runs(1<<31-1) {
		t.Error("Runs is wrong about this process, or about one that nobody started")
	}
}

func TestRun(t *testing.T) {
	var said strings.Builder
	err := Run(t.Context(), Shell{Args: []string{"-c", `pwd; echo "$WORD" >&2; exit 3`}, Dir: "/", Env: []string{"WORD=hear"}, Out: &said})
	exit, ended := errors.AsType[*exec.ExitError](err)
	if !ended || exit.ExitCode() != 3 || said.String() != "/\nhear\n" {
		t.Errorf("%v, and it printed %q", err, said.String())
	}
}

// TestRunEndsAll checks that what a command started ends with it: a reader of its
// output would otherwise wait as long as they run.
func TestRunEndsAll(t *testing.T) {
	r, w, err := os.Pipe()
	testenv.Must(t, err)
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Shell{Args: []string{"-c", "sleep 600 & echo begun; wait"}, Env: os.Environ(), Out: w})
		w.Close()
	}()
	if _, err := r.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("the command ended without an error")
	}
	testenv.Must(t, r.SetReadDeadline(time.Now().Add(20*time.Second)))
	if n, err := r.Read(make([]byte, 16)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes, %v: what it started still runs", n, err)
	}
}

// TestCommandEnds checks how each way to end is told.
func TestCommandEnds(t *testing.T) {
	for _, c := range []struct {
		args   []string
		exit   int
		signal string
	}{
		{[]string{"sh", "-c", "exit 0"}, 0, ""},
		{[]string{"sh", "-c", "exit 77"}, 77, ""},
		{[]string{"sh", "-c", "kill -KILL $$"}, -1, "KILL"},
		{[]string{"sh", "-c", "kill -TERM $$"}, -1, "TERM"},
		{[]string{"/nowhere/no-such-program"}, 127, ""},
		{[]string{"/"}, 126, ""},
	} {
		if e := (Command{Args: c.args}).Do(t.Context()); e.Exit != c.exit || e.Signal != c.signal || e.TimedOut {
			t.Errorf("%q ended as %+v, want %d %s", c.args, e, c.exit, c.signal)
		}
	}
}

// TestCommandOutOfTime checks that a command which ignores the signal to end is killed
// after its grace period, with all of its group.
func TestCommandOutOfTime(t *testing.T) {
	r, w, err := os.Pipe()
	testenv.Must(t, err)
	defer r.Close()
	e := Command{Args: []string{"sh", "-c", "trap '' TERM; sleep 600 & wait; wait; sleep 600"}, Inherit: []*os.File{w}, Timeout: 50 * time.Millisecond, Grace: 50 * time.Millisecond}.Do(t.Context())
	if !e.TimedOut || e.Signal != "KILL" {
		t.Errorf("it ended as %+v", e)
	}
	testenv.Must(t, w.Close())
	testenv.Must(t, r.SetReadDeadline(time.Now().Add(20*time.Second)))
	if _, err := r.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("something of its group still runs")
	}
}

// TestCommandGetsSignals checks that signals reach the group, and that what a command
// inherits is its third descriptor.
func TestCommandGetsSignals(t *testing.T) {
	r, w, err := os.Pipe()
	testenv.Must(t, err)
	defer r.Close()
	signals := make(chan os.Signal, 1)
	done := make(chan Ended, 1)
	go func() {
		done <- Command{Args: []string{"sh", "-c", `trap 'exit 9' USR1; echo ready >&3; while :; do sleep 0.01; done`}, Inherit: []*os.File{w}, Signals: signals}.Do(t.Context())
	}()
	if _, err := r.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	signals <- PassedOn()[4]
	if e := <-done; e.Exit != 9 {
		t.Errorf("it ended as %+v", e)
	}
	testenv.Must(t, w.Close())
}
