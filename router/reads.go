package router

import (
	"context"
	"errors"

	"github.com/hived/hived/ledger"
)

// reads are the readers of the state that wait for the loop.
type reads struct {
	ask  chan func()   // without room: what the loop takes it does at once
	over chan struct{} // closed when the loop has ended
}

func newReads() reads { return reads{make(chan func()), make(chan struct{})} }

var errNotRunning = errors.New("the daemon does not run any more")

// Read calls fn with the state, between two steps of the loop and when the log has
// all of it, and returns when fn has. The loop waits for fn, which must copy what
// it wants and keep nothing else. Before Run, and while the disk is full, Read
// waits; it ends with the cause of ctx, or with an error when Run has ended.
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

// readers returns who waits for the state, and nobody while it is ahead of the
// log: what was decided then is not durable.
func (r *Router) readers() <-chan func() {
	if len(r.events.stuck) > 0 || len(r.decider.Pending()) > 0 {
		return nil
	}
	return r.reads.ask
}
