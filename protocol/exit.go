package protocol

import "errors"

// The exit statuses of hived (docs/cli.md).
const (
	ExitDone     = 0
	ExitFailed   = 1
	ExitUsage    = 2
	ExitNotFound = 3
	ExitTimedOut = 4
	ExitRefused  = 5
	ExitGap      = 6
	ExitLocked   = 75
)

// ExitStatus returns the exit status of a command that ends with an error: that of
// the error's code, or [ExitFailed] for an error without one.
func ExitStatus(err error) int {
	if coded, ok := errors.AsType[*codedError](err); ok {
		return coded.code.Exit()
	}
	return ExitFailed
}
