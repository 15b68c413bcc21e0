// Command hived is the coordinator of a hive and the command line of those
// who take part in it. It wires flags, signals and exit statuses to the
// packages that do the work, and decides nothing by itself.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
)

// gcPercent keeps hived small: half of what it needs on top, where Go's default
// is as much again. Most of what it holds are arrays without pointers, which cost
// a collection next to nothing.
const gcPercent = 50

func main() {
	runtime.MemProfileRate = 0 // what it costs is for those who ask for profiles
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to end in good order; from then on a second one
	// does what signals do.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	stop()
	os.Exit(code)
}
