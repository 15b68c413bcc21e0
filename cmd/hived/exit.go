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

// errAnsweredNo is the error of a command whose answer is no: the exit status
// tells scripts, and no message is printed.
var errAnsweredNo = errors.New("no")

// exitStatus returns the exit status of an error: its own, or that of its code.
// A held lock and a deadline have no code of protocol and are recognized here.
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
