package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hived/hived/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Cheap()
	time.Local = time.UTC // what is printed is the same everywhere; set here, where nothing else runs yet
	testscript.Main(m, map[string]func(){"hived": main})
}

// TestScripts runs testdata/script, which can be read as a manual. Each
// script has a directory of its own; `hived` is this test's binary.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(scripts), // then its programs are asked for their goroutines, and killed
		Setup: func(env *testscript.Env) error {
			docs, err := filepath.Abs(filepath.Join("..", "..", "docs"))
			if err != nil {
				return err
			}
			env.Setenv("DOCS", docs) // for scripts that do what a page says
			env.Setenv("TZ", "UTC")
			env.Setenv("NO_COLOR", "1")
			env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // or each program ends a second late under -race
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name == "root" {
				return runtime.GOOS == "linux" && os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits,
			"keep":  keep,
		},
	})
}

// scripts is how long all scripts may take. None of them waits for anything
// longer than half a minute.
const scripts = 3 * time.Minute

// exits STATUS PROGRAM ARGS... runs a program that must end with this status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// keep NAME puts the first line of what the last program printed into an
// environment variable.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keep NAME")
	}
	first, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	ts.Setenv(args[0], first)
}
