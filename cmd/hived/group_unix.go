//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// inOwnGroup makes a command the first of a process group, and its end by the
// context the end of the whole group: a script's sleep must not stay behind.
func inOwnGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}

// othersMayRead lets the daemon's files have the modes that the specification
// gives them (spec §3.6): agents may run as other users than the daemon.
func othersMayRead() { syscall.Umask(0o022) }
