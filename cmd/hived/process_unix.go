//go:build unix

package main

import (
	"errors"
	"syscall"
)

// processRuns tells whether there is a process with that id, whoever's it is.
func processRuns(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
