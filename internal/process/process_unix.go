//go:build unix

package process

import (
	"errors"
	"os/exec"
	"syscall"
)

// inOwnGroup makes a command the leader of a process group, so that the context ends
// the whole group: a script's sleep must not stay behind.
func inOwnGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}

// Runs reports whether there is a process with that id, of any user.
func Runs(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// OthersMayRead clears the umask, so that files get the modes of the specification
// (spec §3.6): agents may run as other users than the daemon.
func OthersMayRead() { syscall.Umask(0o022) }
