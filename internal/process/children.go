package process

import (
	"os/exec"
	"sync"
	"time"
)

// started are the processes that this program started and has not waited for. A program
// that adopts orphans ([AdoptOrphans]) tells them apart by that.
var started = struct {
	sync.Mutex // held from before a process exists until it is in the map
	pids       map[int]bool
}{pids: map[int]bool{}}

// start starts a command, and notes its process.
func start(c *exec.Cmd) error {
	started.Lock()
	defer started.Unlock()
	if err := c.Start(); err != nil {
		return err
	}
	started.pids[c.Process.Pid] = true
	return nil
}

// wait waits for a command that [start] has started, and for what others write to its
// output, and returns when the command itself ended. In between it calls after, unless that
// is nil.
func wait(c *exec.Cmd, after func(ended time.Time)) error {
	awaitExit(c.Process.Pid)
	if after != nil {
		after(time.Now())
	}
	err := c.Wait()
	started.Lock()
	defer started.Unlock()
	delete(started.pids, c.Process.Pid)
	return err
}
