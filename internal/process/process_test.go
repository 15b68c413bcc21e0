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
