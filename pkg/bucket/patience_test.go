package bucket

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// After a failure no request is made for a while, then one that is waited for a shorter time; the failure says since
// when. What succeeds meanwhile, or asks for what is not there, ends it.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPatience(&Bucket{name: "s3://b"}, 10*time.Second, 2*time.Second)
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
		require.ErrorIs(t, ask(0, ErrNotFound), ErrNotFound)
		require.NoError(t, p.Failure())
		since := time.Now().UTC().Format("2006-01-02 15:04:05 UTC")
		first := ask(11*time.Second, nil)
		require.ErrorIs(t, first, ErrUnreachable)
		require.ErrorContains(t, first, "the bucket s3://b: it cannot be reached: no answer within 10s (since "+since+")")
		asked.Store(0)
		time.Sleep(pause - time.Second)
		require.Equal(t, first, ask(0, nil))
		require.Zero(t, asked.Load())
		time.Sleep(2 * time.Second)
		second := ask(3*time.Second, nil)
		require.ErrorContains(t, second, "no answer within 2s (since "+since+")")
		require.Equal(t, second, p.Failure())
		p.Retry()
		require.NoError(t, ask(time.Second, nil))
		require.NoError(t, ask(9*time.Second, nil), "it is waited for as before")

		denied := errors.New("denied")
		require.ErrorIs(t, ask(0, denied), denied)
		require.ErrorIs(t, ask(0, nil), denied)
		p.Retry()
		require.ErrorIs(t, ask(0, ErrPrecondition), ErrPrecondition)
		require.NoError(t, p.Failure())

		slow := make(chan error) // one that fails late says nothing of now
		go func() { slow <- ask(5*time.Second, denied) }()
		time.Sleep(time.Second)
		require.NoError(t, ask(0, nil))
		require.ErrorIs(t, <-slow, denied)
		require.NoError(t, p.Failure())
	})
}
