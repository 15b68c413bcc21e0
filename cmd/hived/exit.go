package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/hived/hived/agent"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// The exit statuses.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitTimedOut = 4
	exitRefused  = 5
	exitGap      = 6
	exitLocked   = 75
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

func usageError(format string, args ...any) error { return exitWith(exitUsage, format, args...) }

// errSaidNo is the end of a command that answered no: its exit status says so to
// scripts, and there is nothing more to tell.
var errSaidNo = errors.New("no")

// exitStatus gives the exit status that says what kind of error it is.
func exitStatus(err error) int {
	if own, ok := errors.AsType[*exitError](err); ok {
		return own.status
	}
	for _, known := range []struct {
		err    error
		status int
	}{
		{durable.ErrLocked, exitLocked},
		{agent.ErrNoAgent, exitNotFound},
		{agent.ErrNotFound, exitNotFound},
		{agent.ErrNoTask, exitNotFound},
		{agent.ErrAmbiguous, exitUsage},
		{protocol.ErrBadID, exitUsage},
		{protocol.ErrMalformed, exitUsage},
		{context.DeadlineExceeded, exitTimedOut},
	} {
		if errors.Is(err, known.err) {
			return known.status
		}
	}
	return exitFailed
}
