// Package remote holds the patience of requests over a network: a request is retried while its server is busy, and a
// server that fails gets no request for a while.
package remote

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/chtc/gpureports/pkg/parallel"
)

// Policy says how often a request is made at most, and how long the pauses between its attempts are.
type Policy struct {
	Attempts       int
	First, Longest time.Duration // pauses double, and are spread by ±25% so that many clients do not return together
}

// longestRetryAfter is the longest pause that a server may ask for. Callers of a publisher have no deadline, so that a
// proxy in front of a server that is down for maintenance could otherwise stop them for a day.
const longestRetryAfter = time.Minute

// Temporary is the error of a request that may succeed if it is made again.
type Temporary struct {
	Err        error
	RetryAfter time.Duration // the server's wish; 0 if it has none
}

func (t *Temporary) Error() string { return t.Err.Error() }

func (t *Temporary) Unwrap() error { return t.Err }

// Retry makes a request until it succeeds, it fails with an error that is not Temporary, or nothing is left to wait
// for: the attempts are used up, the next one would begin after ctx's deadline, or the server asks for a longer pause
// than a minute. Then it returns the error inside the Temporary one. If ctx ends during a pause, it returns ctx's
// error.
func Retry(ctx context.Context, p Policy, request func() error) error {
	pauses := backoff.ExponentialBackOff{InitialInterval: p.First, MaxInterval: p.Longest, Multiplier: 2,
		RandomizationFactor: 0.25}
	for attempt := 1; ; attempt++ {
		err := request()
		var busy *Temporary
		if !errors.As(err, &busy) {
			return err
		}
		pause := max(pauses.NextBackOff(), busy.RetryAfter)
		deadline, limited := ctx.Deadline()
		if attempt == p.Attempts || busy.RetryAfter > longestRetryAfter || limited && time.Until(deadline) <= pause {
			return busy.Err
		}
		if err := parallel.Wait(ctx, pause); err != nil {
			return err
		}
	}
}
