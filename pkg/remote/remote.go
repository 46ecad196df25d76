// Package remote holds the patience of requests over a network: a request is retried while its server is busy, and a
// server that fails gets no request for a while.
package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// Breaker bounds how long callers wait for a server that fails. After a failure, requests return that failure
// immediately for 30 s. After that they are made again, but callers wait for them only RetryLimit. If that is too
// short, the next limit is twice as long, up to Limit, because a server that is slow and well must be found well again:
// with limits of 20 and 5 s, a listing of 7 s times out once and succeeds half a minute later. It is safe for
// concurrent use.
type Breaker struct {
	Limit      time.Duration // how long callers wait
	RetryLimit time.Duration // how long callers wait after a failure
	Harmless   func(error) bool
	TimedOut   func(limit time.Duration) error // the error of a request that took longer than its limit

	mu        sync.Mutex
	failure   error         // why the last request failed, nil if it succeeded
	limit     time.Duration // how long callers wait after the failure
	since     string        // says when the first failure in a row was
	openUntil time.Time     // until then no request is made
	answered  time.Time     // time of the last success
}

const openFor = 30 * time.Second

// Ask makes a request, unless the server failed a moment ago: then it returns that failure, which says since when the
// server fails. Harmless errors do not count as failures.
func (b *Breaker) Ask(ctx context.Context, request func(context.Context) error) error {
	begin := time.Now()
	limit, failure := b.admit(begin)
	if failure != nil {
		return failure
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := request(limited)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	next := b.RetryLimit
	if err != nil && limited.Err() != nil {
		err = b.TimedOut(limit)
		if limit < b.Limit {
			next = min(2*limit, b.Limit)
		}
	}
	return b.record(err, begin, next)
}

// admit returns the limit of a request that begins now, or the failure that it returns instead.
func (b *Breaker) admit(now time.Time) (time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.failure == nil:
		return b.Limit, nil
	case now.Before(b.openUntil):
		return 0, b.failure
	}
	return b.limit, nil
}

// record keeps the outcome of a request. A failure sets the limit of the next one.
func (b *Breaker) record(err error, begin time.Time, next time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil || b.Harmless(err) {
		b.failure, b.answered = nil, time.Now()
		return err
	}
	if b.answered.After(begin) { // another request succeeded in the meantime
		return err
	}
	if b.failure == nil {
		b.since = begin.UTC().Format("since 2006-01-02 15:04:05 UTC")
	}
	b.failure = fmt.Errorf("%w (%s)", err, b.since)
	b.limit, b.openUntil = next, time.Now().Add(openFor)
	return b.failure
}

// Failure returns the error of the last request, nil if it succeeded.
func (b *Breaker) Failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
}

// Since says since when the server fails.
func (b *Breaker) Since() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.since
}

// Retry allows the next request, even if the server failed a moment ago.
func (b *Breaker) Retry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.openUntil = time.Time{}
}
