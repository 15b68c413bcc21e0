//go:build unix

package process

import (
	"errors"
	"os/exec"
	"syscall"
)

// inOwnGroup makes a command the first of a process group, and its end by the
// context the end of the whole group: a script's sleep must not stay behind.
func inOwnGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}

// Runs reports whether there is a process with that id, whoever's it is.
func Runs(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// OthersMayRead lets this process make files with the modes that the specification
// gives them (spec §3.6): agents may run as other users than the daemon.
func OthersMayRead() { syscall.Umask(0o022) }
