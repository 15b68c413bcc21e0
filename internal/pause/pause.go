// Package pause waits, and no longer than a context lasts. It is for programs that
// try again after a while; tests wait with internal/wait.
package pause

import (
	"context"
	"time"
)

// For returns nil after d, or the cause of ctx as soon as that ends. If d is not
// positive, it returns at once.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
