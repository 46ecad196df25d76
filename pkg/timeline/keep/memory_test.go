package keep

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func newTestMemory(max int64) *Memory[int, int] {
	return NewMemory[int](max, func(bytes int) int { return bytes })
}

// take makes a value of so many bytes anew.
func take(t *testing.T, m *Memory[int, int], key, bytes int) {
	_, _, done, err := m.Acquire(t.Context(), key)
	require.NoError(t, err)
	m.Keep(key, bytes)
	done()
}

// held adds up what is really kept.
func held(m *Memory[int, int]) (bytes int64) {
	for _, v := range m.values.All() {
		bytes += int64(v)
	}
	return bytes
}

// A value that is dropped while another goroutine holds it is not counted for ever.
func TestMemoryIsWhatIsHeld(t *testing.T) {
	m := newTestMemory(1000)
	take(t, m, 1, 400)
	_, _, done, err := m.Acquire(t.Context(), 1)
	require.NoError(t, err)
	for key := 2; key < 9; key++ {
		take(t, m, key, 400)
	}
	done()
	used, budget := m.Used()
	require.Equal(t, held(m), used)
	require.LessOrEqual(t, used, budget)

	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := range 500 {
				take(t, m, (i*7+worker*3)%11, 100+i%300)
			}
		})
	}
	wait.Wait()
	m.values.CleanUp()
	used, budget = m.Used()
	require.Equal(t, held(m), used)
	require.LessOrEqual(t, used, budget)
	require.Positive(t, used)
}

// What is asked for again and again stays while other values come and go.
func TestMemoryKeepsWhatIsUsed(t *testing.T) {
	m := newTestMemory(1000)
	take(t, m, 1, 100)
	for key := 100; key < 300; key++ {
		_, kept, done, err := m.Acquire(t.Context(), 1)
		require.NoError(t, err)
		require.True(t, kept, key)
		done()
		take(t, m, key, 100)
	}
	require.True(t, m.Full())
	require.False(t, newTestMemory(1000).Full())
}

// One at a time has a key's turn; who waits for it can give up.
func TestTurns(t *testing.T) {
	m := newTestMemory(1000)
	_, kept, done, err := m.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, kept)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, _, err = m.Acquire(ctx, 1)
	require.ErrorIs(t, err, context.Canceled)
	m.Keep(1, 7)
	done()
	value, kept, done, err := m.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, kept)
	require.Equal(t, 7, value)
	m.Forget(1)
	done()
	_, kept, done, err = m.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, kept)
	done()
}
