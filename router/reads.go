package router

import (
	"context"
	"errors"

	"github.com/hived/hived/ledger"
)

// reads holds the requests to read the state, which wait for the loop.
type reads struct {
	ask  chan func()   // unbuffered: the loop does at once what it receives
	over chan struct{} // closed when the loop has ended
}

func newReads() reads { return reads{make(chan func()), make(chan struct{})} }

var errNotRunning = errors.New("the daemon does not run any more")

// Read calls fn with the state, between two steps of the loop and when the log has all
// of it, and returns when fn does. The loop waits for fn, which must copy what it needs
// and keep no reference. Before Run, and while the disk is full, Read waits. It returns
// the cause of ctx when that ends first, and an error when Run has ended.
func (r *Router) Read(ctx context.Context, fn func(*ledger.State)) error {
	done := make(chan struct{})
	read := func() {
		defer close(done)
		fn(r.state)
	}
	select {
	case r.reads.ask <- read:
		<-done
		return nil
	case <-r.reads.over:
		return errNotRunning
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readRequests returns the requests to read the state; nil while it is ahead of the
// log, because what was decided then is not durable.
func (r *Router) readRequests() <-chan func() {
	if len(r.events.stuck) > 0 || len(r.decider.Pending()) > 0 {
		return nil
	}
	return r.reads.ask
}
