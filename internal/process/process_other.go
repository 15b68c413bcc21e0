//go:build !unix

package process

import (
	"os"
	"os/exec"
)

// inOwnGroup has no process groups to use here: the context ends the command
// itself, and its grace bounds what it leaves behind.
func inOwnGroup(*exec.Cmd) {}

// Runs reports whether there is a process with that id.
func Runs(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = p.Release() // nothing was done with it
	return true
}

// OthersMayRead does nothing where there is no umask.
func OthersMayRead() {}
