package pause

import (
	"context"
	"time"
)

// timeUpError is the cause of a context whose time is up.
type timeUpError struct{ after time.Duration }

func (e timeUpError) Error() string        { return "time is up after " + e.after.String() }
func (e timeUpError) Is(target error) bool { return target == context.DeadlineExceeded }

// Limit returns a context that ends after a time, if that is positive. Its cause then
// names the time, and is a [context.DeadlineExceeded].
func Limit(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	if after <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, after, timeUpError{after})
}
