// Package child runs `hived up` as a process of its own, for packages that measure
// or kill it. It promises that a process that is stopped or killed is gone when the
// call returns, and that the end of its output can be read.
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

// Daemon is one process of `hived up`.
type Daemon struct {
	cmd    *exec.Cmd
	said   tail
	ended  chan struct{} // closed when it has ended
	result error         // of Wait, once it has ended
}

// Options of [Start].
type Options struct {
	Flags []string // of `hived up`
	Env   []string // name=value, added to the environment of this process
}

// Start runs `program up dir`. Only [Daemon.Stop] and [Daemon.Kill] end the
// process.
func Start(program, dir string, o Options) (*Daemon, error) {
	d := &Daemon{ended: make(chan struct{})}
	d.cmd = exec.Command(program, append([]string{"up", dir}, o.Flags...)...) //nolint:gosec,noctx // the program under test; Stop or Kill end it
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

// PID returns its process id.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Ended returns a channel that is closed when the process has ended.
func (d *Daemon) Ended() <-chan struct{} { return d.ended }

// Said returns the end of its error output, on one line.
func (d *Daemon) Said() string { return d.said.String() }

// Alive returns an error, which says how the process ended, if it has.
func (d *Daemon) Alive() error {
	select {
	case <-d.ended:
		return fmt.Errorf("hived ended by itself (%s): %s", d.cmd.ProcessState, d.Said())
	default:
		return nil
	}
}

// Kill kills the process, as a crash would. It is no error if it had ended before.
func (d *Daemon) Kill() error {
	err := d.cmd.Process.Kill()
	<-d.ended
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill hived: %w", err)
	}
	return nil
}

// stopTime is how long a clean stop may take.
const stopTime = 5 * time.Minute

// Stop stops the process cleanly, with SIGTERM. It returns an error if the process
// failed, even before it was asked to stop. On Windows, which has no such signal, the
// process is killed.
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

// tail keeps the end of what is written to it.
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
