// Command hived is the coordinator of a hive and the command line of those
// who take part in it. It wires flags, signals and exit statuses to the
// packages that do the work, and decides nothing by itself.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to end in good order; from then on a second one
	// does what signals do.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	stop()
	os.Exit(code)
}
