package parallel

import (
	"context"
	"time"
)

// Wait waits for a time. Errors are ctx's, which ends the waiting.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
