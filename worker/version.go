package worker

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/hived/hived/internal/process"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/worker/adapter"
)

// versionTimeout is how long a program may take to tell its version.
const versionTimeout = 20 * time.Second

// VersionFault asks the program of an adapter for its version, and returns why it cannot
// be used; empty if it can.
func VersionFault(ctx context.Context, a *adapter.Adapter, environ []string) string {
	if len(a.Version.Run) == 0 {
		return ""
	}
	var out bytes.Buffer
	e := process.Command{
		Args: a.Version.Run, Env: a.Environ(environ), Out: &out, Err: &out, Timeout: versionTimeout, Grace: time.Second, Owner: process.Starter,
	}.Do(ctx)
	switch {
	case e.Err != nil:
		return e.Err.Error()
	case e.TimedOut:
		return protocol.Quote(a.Version.Run[0]) + " did not tell its version within " + versionTimeout.String()
	case e.Exit != 0:
		return protocol.Quote(a.Version.Run[0]) + " was asked for its version and ended with exit status " + strconv.Itoa(e.Exit)
	}
	return a.Version.Fault(out.String())
}
