package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hived/hived/internal/process"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/internal/wait"
)

// program returns a shell script as a program whose processes note their ids in a file.
func program(t *testing.T, name, script string) (Program, func() []int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pids")
	p := Program{Args: []string{"sh", "-c", script}, Env: append(os.Environ(), "F="+file), Run: t.Name() + name}
	return p, func() (pids []int) {
		text, err := os.ReadFile(file)
		testenv.Must(t, err)
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			testenv.Must(t, err)
			pids = append(pids, pid)
		}
		return pids
	}
}

// TestNothingIsLeft checks that whatever a program starts ends with it.
func TestNothingIsLeft(t *testing.T) {
	sleeps := `echo $$ >>"$F"; exec sleep 600`
	for what, script := range map[string]string{
		"in the group":                    `sh -c '` + sleeps + `' & wait_for`,
		"in a session of its own":         `setsid sh -c '` + sleeps + `' & wait_for`,
		"whose parent has ended":          `(setsid sh -c '` + sleeps + `' &); wait_for`,
		"without an environment":          `(env -i F="$F" PATH="$PATH" setsid sh -c '` + sleeps + `' &); wait_for`,
		"that holds the output":           `sh -c 'trap "" TERM HUP; ` + sleeps + `' & wait_for; echo said`,
		"which starts another one":        `(setsid sh -c 'sh -c "` + strings.ReplaceAll(strings.ReplaceAll(sleeps, `"`, `\"`), `$`, `\$`) + `" & wait' &); wait_for`,
		"that has closed all it was lent": `(setsid sh -c 'exec <&- >&- 2>&-; ` + sleeps + `' &); wait_for`,
	} {
		t.Run(what, func(t *testing.T) {
			p, pids := program(t, what, `wait_for() { while ! test -s "$F"; do sleep 0.01; done; }; `+script)
			e := p.Do(t.Context())
			if e.Exit != 0 || e.Signal != "" || e.Killed == 0 {
				t.Errorf("it ended as %+v", e)
			}
			for _, pid := range pids() {
				if process.Runs(pid) {
					t.Errorf("process %d still runs", pid)
				}
			}
		})
	}
}

// TestStops checks that a program which ignores the signal to end is ended, by its time
// and by its caller, with all that it has started.
func TestStops(t *testing.T) {
	script := `trap "" TERM; setsid sh -c 'trap "" TERM; echo $$ >>"$F"; sleep 600' & echo $$ >>"$F"; while :; do sleep 1; done`
	for what, timeout := range map[string]time.Duration{"late": 50 * time.Millisecond, "stopped": 0} {
		t.Run(what, func(t *testing.T) {
			p, pids := program(t, what, script)
			p.Timeout, p.Grace = timeout, 50*time.Millisecond
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if timeout == 0 {
				go func() {
					wait.Until(t, "the program to begin", func() bool { _, err := os.Stat(p.Env[len(p.Env)-1][2:]); return err == nil })
					cancel()
				}()
			}
			e := p.Do(ctx)
			if e.Signal != "KILL" || e.TimedOut != (timeout > 0) || e.Stopped != (timeout == 0) {
				t.Errorf("it ended as %+v", e)
			}
			for _, pid := range pids() {
				if process.Runs(pid) {
					t.Errorf("process %d still runs", pid)
				}
			}
		})
	}
}

// TestOthersGoOn checks that the end of one run ends nothing of another.
func TestOthersGoOn(t *testing.T) {
	long, longs := program(t, "long", `(setsid sh -c 'echo $$ >>"$F"; exec sleep 600' &); while ! test -s "$F.end"; do sleep 0.01; done`)
	file := long.Env[len(long.Env)-1][2:]
	ended := make(chan Ended)
	go func() { ended <- long.Do(t.Context()) }()
	wait.Until(t, "the long run to begin", func() bool { info, err := os.Stat(file); return err == nil && info.Size() > 0 })
	short, _ := program(t, "short", "exit 0")
	if e := short.Do(t.Context()); e.Exit != 0 || e.Killed != 0 {
		t.Errorf("the short run ended as %+v", e)
	}
	for _, pid := range longs() {
		if !process.Runs(pid) {
			t.Errorf("process %d of another run was ended", pid)
		}
	}
	testenv.Must(t, os.WriteFile(file+".end", []byte("x"), 0o600))
	if e := <-ended; e.Exit != 0 || e.Killed != 1 {
		t.Errorf("the long run ended as %+v", e)
	}
}

// TestLeftovers checks that what a worker left that was killed is found by the name of
// the run.
func TestLeftovers(t *testing.T) {
	_, pids := program(t, "", "")
	file := filepath.Join(t.TempDir(), "pids")
	name := fmt.Sprint(t.Name(), os.Getpid())
	e := process.Command{
		Args: []string{"sh", "-c", `for i in 1 2 3; do setsid sh -c 'echo $$ >>"$F"; exec sleep 600' >/dev/null 2>&1 & done; while test $(wc -l <"$F") -lt 3; do sleep 0.01; done`},
		Env:  append(os.Environ(), "F="+file, EnvRun+"="+name),
	}.Do(t.Context())
	if e.Exit != 0 {
		t.Fatalf("%+v", e)
	}
	_ = pids
	if n := EndLeftovers(name); n != 3 {
		t.Errorf("%d processes were ended, want 3", n)
	}
	if n := EndLeftovers(name); n != 0 {
		t.Errorf("then another %d", n)
	}
	for _, o := range process.Orphans() {
		o.Reap()
	}
}

// TestInput checks that a program which does not read its input ends all the same, and
// that one which does gets all of it.
func TestInput(t *testing.T) {
	in := []byte(strings.Repeat("0123456789abcdef", 1<<16))
	if e := (Program{Args: []string{"true"}, In: in, Run: t.Name()}).Do(t.Context()); e.Exit != 0 || e.Err != nil {
		t.Errorf("it ended as %+v", e)
	}
	out := output(t, 1<<10)
	if e := (Program{Args: []string{"wc", "-c"}, In: in, Out: out, Run: t.Name(), Env: os.Environ()}).Do(t.Context()); e.Exit != 0 {
		t.Errorf("it ended as %+v", e)
	}
	if text, err := out.Settle(); err != nil || strings.TrimSpace(string(text)) != "1048576" {
		t.Errorf("it got %q bytes, %v", text, err)
	}
}

func output(t *testing.T, most int64) *Output {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "out"), os.O_RDWR|os.O_CREATE, 0o600)
	testenv.Must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return NewOutput(f, most)
}

// TestOutput checks what is kept of outputs of any length, however they are cut into
// writes.
func TestOutput(t *testing.T) {
	text := strings.Repeat("abcdefghij", 30)
	for length := range len(text) {
		for _, part := range []int{1, 7, 64, 1000} {
			o := output(t, 41)
			for rest := text[:length]; rest != ""; rest = rest[min(part, len(rest)):] {
				n, err := o.Write([]byte(rest[:min(part, len(rest))]))
				if err != nil || n != min(part, len(rest)) {
					t.Fatal(n, err)
				}
			}
			want := text[:length]
			if length > 41 {
				want = want[:20] + fmt.Sprintf("\n… %d bytes left out …\n", length-41) + want[length-21:]
			}
			got, err := o.Settle()
			if err != nil || string(got) != want {
				t.Fatalf("%d bytes in parts of %d: %q, %v; want %q", length, part, got, err, want)
			}
			if tail := Tail(got, 9); tail != want[max(0, len(want)-9):] {
				t.Fatalf("the tail is %q", tail)
			}
			if file, err := os.ReadFile(o.file.Name()); err != nil || string(file) != want {
				t.Fatalf("the file has %q, %v", file, err)
			}
		}
	}
}

// TestTailIsText checks that a tail is valid UTF-8, whatever was written.
func TestTailIsText(t *testing.T) {
	for most, want := range []string{"", "ü", "öü", "äöü", "�äöü"} {
		if got := Tail([]byte("\xff\xfeäöü"), most); got != want {
			t.Errorf("the last %d characters are %q, want %q", most, got, want)
		}
	}
}
