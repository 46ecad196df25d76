package parallel

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
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

	err = Each(t.Context(), 3, func(_ *int, i int) { _ = []int{}[i] })
	require.ErrorAs(t, err, &p)

	done := make(chan error)
	Go(func() error { panic("alone") }, func(err error) { done <- err })
	require.ErrorAs(t, <-done, &p)
}

func TestEachCallsEveryNumberOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	calls := make([]int, 1000)
	require.NoError(t, Each(t.Context(), len(calls), func(state *int, i int) {
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
		require.NoError(t, Chunks(t.Context(), n, 7, func(_ *struct{}, from, end int) {
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
	err := Each(ctx, 1_000_000, func(*struct{}, int) { cancel() })
	require.True(t, errors.Is(err, context.Canceled))
}
