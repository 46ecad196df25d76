package parallel

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
)

func TestPanicBecomesAnError(t *testing.T) {
	group, _ := WithContext(t.Context())
	group.Go(func() error { panic("broken") })
	group.Go(func() error { return nil })
	err := group.Wait()
	var p *Panic
	require.ErrorAs(t, err, &p)
	require.Equal(t, "a bug of the plugin: broken", err.Error())
	require.Contains(t, string(p.Stack), "parallel_test.go")

	err = Each(t.Context(), 3, func(i int) { _ = []int{}[i] })
	require.ErrorAs(t, err, &p)

	done := make(chan error)
	Go(func() error { panic("alone") }, func(err error) { done <- err })
	require.ErrorAs(t, <-done, &p)
}

func TestEachCallsEveryNumberOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	calls := make([]int, 1000)
	require.NoError(t, EachWith(t.Context(), len(calls), func(state *int, i int) {
		runtime.GOMAXPROCS(1 + i%4) // as when a container's CPU limit changes
		*state++
		calls[i]++
	}))
	for i, n := range calls {
		require.Equal(t, 1, n, "number %d", i)
	}
}

func TestChunksHoldEveryNumberOnce(t *testing.T) {
	for _, n := range []int{0, 1, 6, 7, 8, 100} {
		counts := make([]int, n)
		require.NoError(t, Chunks(t.Context(), n, 7, func(from, end int) {
			for i := from; i < end; i++ {
				counts[i]++
			}
		}))
		for i, count := range counts {
			require.Equal(t, 1, count, "%d of %d", i, n)
		}
	}
}

func TestEachEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := Each(ctx, 1_000_000, func(int) { cancel() })
	require.True(t, errors.Is(err, context.Canceled))
}

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
