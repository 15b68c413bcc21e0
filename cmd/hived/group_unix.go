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
