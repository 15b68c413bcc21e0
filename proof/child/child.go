// Package child runs `hived up` as a process of its own, for those who measure
// it and those who take it away. It promises that a process whose end was asked
// for is gone when the call returns, and that what it said last can be told.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Daemon is one process.
type Daemon struct {
	cmd    *exec.Cmd
	said   tail
	ended  chan struct{} // closed when it has
	result error         // how, once it has
}

// Options of [Start].
type Options struct {
	Flags []string // of `hived up`
	Env   []string // name=value, beside that of this process
}

// Start runs `program up dir`. The process is ended by [Daemon.Stop] or
// [Daemon.Kill] and by nothing else.
func Start(program, dir string, o Options) (*Daemon, error) {
	d := &Daemon{ended: make(chan struct{})}
	d.cmd = exec.Command(program, append([]string{"up", dir}, o.Flags...)...) //nolint:gosec,noctx // the program that is looked at; it is ended by hand
	d.cmd.Env = append(os.Environ(), o.Env...)
	d.cmd.Stderr = &d.said
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start hived: %w", err)
	}
	go func() {
		d.result = d.cmd.Wait()
		close(d.ended)
	}()
	return d, nil
}

// PID is its process id.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Ended is closed when it has ended.
func (d *Daemon) Ended() <-chan struct{} { return d.ended }

// Said is the end of what it said, on one line.
func (d *Daemon) Said() string { return d.said.String() }

// Alive is an error if it has ended, which says how.
func (d *Daemon) Alive() error {
	select {
	case <-d.ended:
		return fmt.Errorf("hived ended by itself (%s): %s", d.cmd.ProcessState, d.Said())
	default:
		return nil
	}
}

// Kill ends it as a crash does. That it had ended before is no error.
func (d *Daemon) Kill() error {
	err := d.cmd.Process.Kill()
	<-d.ended
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill hived: %w", err)
	}
	return nil
}

// stopTime is as long as it may take to stop in good order.
const stopTime = 5 * time.Minute

// Stop asks it to end in good order. An error is how it ended instead, also
// before it was asked. Windows cannot ask: there it is killed.
func (d *Daemon) Stop() error {
	if runtime.GOOS == "windows" {
		return d.Kill()
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop hived: %w", errors.Join(err, d.Kill()))
	}
	late := time.NewTimer(stopTime)
	defer late.Stop()
	select {
	case <-d.ended:
	case <-late.C:
		return errors.Join(fmt.Errorf("hived did not stop within %s of SIGTERM: %s", stopTime, d.Said()), d.Kill())
	}
	if d.result != nil {
		return fmt.Errorf("hived up: %w: %s", d.result, d.Said())
	}
	return nil
}

// tail keeps the end of what a process says.
type tail struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

const mostSaid = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-mostSaid):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(string(t.text)), " ")
}
