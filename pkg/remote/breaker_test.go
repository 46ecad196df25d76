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
