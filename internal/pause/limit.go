package pause

import (
	"context"
	"time"
)

// timeUpError is what ends waiting.
type timeUpError struct{ after time.Duration }

func (e timeUpError) Error() string        { return "time is up after " + e.after.String() }
func (e timeUpError) Is(target error) bool { return target == context.DeadlineExceeded }

// Limit returns a context that ends after a time, where that is positive. Its cause
// says so then, and is a [context.DeadlineExceeded].
func Limit(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	if after <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, after, timeUpError{after})
}
