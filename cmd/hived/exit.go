package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// exitError is an error that has its own exit status.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func exitWith(status int, format string, args ...any) error {
	return &exitError{status, fmt.Errorf(format, args...)}
}

func usageError(format string, args ...any) error {
	return exitWith(protocol.ExitUsage, format, args...)
}

// errSaidNo is the end of a command that answered no: its exit status says so to
// scripts, and there is nothing more to tell.
var errSaidNo = errors.New("no")

// exitStatus returns the exit status of an error: its own, or that of its code.
// A lock and the end of a wait have no code, as they are not of protocol.
func exitStatus(err error) int {
	own, ok := errors.AsType[*exitError](err)
	status := protocol.ExitStatus(err)
	switch {
	case ok:
		return own.status
	case errors.Is(err, durable.ErrLocked):
		return protocol.ExitLocked
	case status == protocol.ExitFailed && errors.Is(err, context.DeadlineExceeded):
		return protocol.ExitTimedOut
	}
	return status
}
