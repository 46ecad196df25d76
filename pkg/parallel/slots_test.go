package parallel

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
)

// A computation that waits holds no slot, and takes one again before it continues.
func TestWaitingHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1)
		waiting, answer, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- s.Compute(t.Context(), func(ctx context.Context) error {
				return Idle(ctx, func() error {
					return Idle(ctx, func() error { // as deep as may be
						close(waiting)
						<-answer
						return nil
					})
				})
			})
		}()
		<-waiting
		require.NoError(t, s.Compute(t.Context(), func(context.Context) error {
			close(answer)
			synctest.Wait()
			require.Empty(t, ended, "it goes on once the slot is free")
			return nil
		}))
		require.NoError(t, <-ended)
		require.True(t, s.free.TryAcquire(1), "all slots are given back")
	})
}

// Who does not get a slot again before the deadline leaves with its error, gives turns back, and holds nothing.
func TestTurnIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, turn := NewSlots(1), semaphore.NewWeighted(1)
		require.NoError(t, turn.Acquire(t.Context(), 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			ended <- s.Compute(ctx, func(ctx context.Context) error { return Acquire(ctx, turn) })
		}()
		synctest.Wait()
		require.NoError(t, s.Compute(t.Context(), func(context.Context) error {
			turn.Release(1)
			require.ErrorIs(t, <-ended, context.DeadlineExceeded)
			return nil
		}))
		require.True(t, turn.TryAcquire(1))
		require.True(t, s.free.TryAcquire(1))
	})
}

// The error of the awaited function is the result, and without a computation no slot is given up.
func TestIdleWithoutComputation(t *testing.T) {
	failure := errors.New("refused")
	require.ErrorIs(t, Idle(t.Context(), func() error { return failure }), failure)
	require.ErrorIs(t, NewSlots(1).Compute(t.Context(), func(ctx context.Context) error {
		return Idle(ctx, func() error { return failure })
	}), failure)
}
