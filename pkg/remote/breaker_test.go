package remote

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/parallel"
)

var (
	errHarmless = errors.New("the object does not exist")
	errTimedOut = errors.New("timed out")
)

func breaker(limit, retryLimit time.Duration) *Breaker {
	return &Breaker{Limit: limit, RetryLimit: retryLimit,
		Harmless: func(err error) bool { return errors.Is(err, errHarmless) },
		TimedOut: func(limit time.Duration) error { return fmt.Errorf("%w after %s", errTimedOut, limit) }}
}

// After a failure no request is made for a while, then one that callers wait for a shorter time; the failure says since
// when. A success or a harmless error meanwhile ends it.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := breaker(10*time.Second, 2*time.Second)
		var asked atomic.Int32
		ask := func(takes time.Duration, result error) error {
			return p.Ask(t.Context(), func(ctx context.Context) error {
				asked.Add(1)
				select {
				case <-time.After(takes):
					return result
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}
		require.NoError(t, ask(9*time.Second, nil))
		require.ErrorIs(t, ask(0, errHarmless), errHarmless)
		require.NoError(t, p.Failure())
		since := time.Now().UTC().Format("2006-01-02 15:04:05 UTC")
		first := ask(11*time.Second, nil)
		require.ErrorIs(t, first, errTimedOut)
		require.ErrorContains(t, first, "timed out after 10s (since "+since+")")
		asked.Store(0)
		time.Sleep(openFor - time.Second)
		require.Equal(t, first, ask(0, nil))
		require.Zero(t, asked.Load())
		time.Sleep(2 * time.Second)
		second := ask(3*time.Second, nil)
		require.ErrorContains(t, second, "timed out after 2s (since "+since+")")
		require.Equal(t, second, p.Failure())
		p.Retry()
		require.NoError(t, ask(time.Second, nil))
		require.NoError(t, ask(9*time.Second, nil), "it is waited for as before")

		denied := errors.New("denied")
		require.ErrorIs(t, ask(0, denied), denied)
		require.ErrorIs(t, ask(0, nil), denied)
		p.Retry()
		require.ErrorIs(t, ask(0, errHarmless), errHarmless)
		require.NoError(t, p.Failure())

		slow := make(chan error) // one that fails late says nothing of now
		go func() { slow <- ask(5*time.Second, denied) }()
		time.Sleep(time.Second)
		require.NoError(t, ask(0, nil))
		require.ErrorIs(t, <-slow, denied)
		require.NoError(t, p.Failure())
	})
}

// A server whose requests take longer than the limit after a failure, but not longer than the first limit, is found
// well again.
func TestBreakerFindsASlowServerWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker(20*time.Second, time.Second)
		slow := func(ctx context.Context) error { return parallel.Wait(ctx, 7*time.Second) }
		require.NoError(t, b.Ask(t.Context(), slow))
		require.Error(t, b.Ask(t.Context(), func(context.Context) error { return errors.New("one hiccup") }))
		for _, limit := range []string{"1s", "2s", "4s"} {
			time.Sleep(openFor)
			require.ErrorContains(t, b.Ask(t.Context(), slow), "timed out after "+limit)
		}
		time.Sleep(openFor)
		require.NoError(t, b.Ask(t.Context(), slow))
		require.NoError(t, b.Failure())
	})
}

// The limit of a server that never answers grows up to the first one, and no further.
func TestBreakerOfAHangingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker(5*time.Second, time.Second)
		for _, limit := range []string{"5s", "1s", "2s", "4s", "5s", "1s"} {
			err := b.Ask(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			require.ErrorContains(t, err, "timed out after "+limit)
			b.Retry()
		}
	})
}

var (
	errBusy  = errors.New("busy")
	errWrong = errors.New("wrong")
)

// A request is made again while it fails temporarily, with growing pauses, within the deadline only; a server that asks
// for a longer pause than a minute is not waited for.
func TestRetry(t *testing.T) {
	policy := Policy{Attempts: 5, First: time.Second, Longest: 3 * time.Second}
	for name, c := range map[string]struct {
		failures   int // temporary ones
		then       error
		retryAfter time.Duration
		deadline   time.Duration
		attempts   int
		want       error
		least      time.Duration
		most       time.Duration
	}{
		"succeeds":       {failures: 2, attempts: 3, least: 2250 * time.Millisecond, most: 3750 * time.Millisecond},
		"fails for good": {failures: 1, then: errWrong, attempts: 2, want: errWrong, most: 1250 * time.Millisecond},
		"stays busy": {failures: 9, attempts: 5, want: errBusy, least: 6750 * time.Millisecond,
			most: 11250 * time.Millisecond},
		"deadline": {failures: 9, deadline: 2 * time.Second, attempts: 2, want: errBusy,
			most: 1250 * time.Millisecond},
		"asks for a while":  {failures: 1, retryAfter: time.Minute, attempts: 2, least: time.Minute, most: time.Minute},
		"asks for too long": {failures: 1, retryAfter: 24 * time.Hour, attempts: 1, want: errBusy},
		"beyond a deadline": {failures: 1, retryAfter: 30 * time.Second, deadline: 20 * time.Second, attempts: 1,
			want: errBusy},
		"before the deadline": {failures: 1, retryAfter: 10 * time.Second, deadline: 20 * time.Second, attempts: 2,
			least: 10 * time.Second, most: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				begin, attempts := time.Now(), 0
				err := Retry(ctx, policy, func() error {
					if attempts++; attempts <= c.failures {
						return &Temporary{Err: errBusy, RetryAfter: c.retryAfter}
					}
					return c.then
				})
				require.Equal(t, c.want, err)
				require.Equal(t, c.attempts, attempts)
				require.GreaterOrEqual(t, time.Since(begin), c.least)
				require.LessOrEqual(t, time.Since(begin), c.most)
			})
		})
	}
}

// A pause ends with the context.
func TestRetryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		err := Retry(ctx, Policy{Attempts: 2, First: time.Hour, Longest: time.Hour}, func() error {
			return &Temporary{Err: errBusy}
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Second, time.Since(begin))
	})
}
