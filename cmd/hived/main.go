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

// gcPercent lets the heap grow by half between collections, where Go's default
// lets it double. Most of what hived holds are arrays without pointers, which cost
// a collection next to nothing.
const gcPercent = 50

func main() {
	runtime.MemProfileRate = 0 // only who asks for profiles pays for them
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal stops hived cleanly; after stop, a second one has its
	// default effect and kills it.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	stop()
	os.Exit(code)
}
