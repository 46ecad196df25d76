package timeline

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func dayOfBytes(n int) *Day { return &Day{bytes: n} }

// take is a load of a day of so many bytes, which changes it.
func (m *memory) take(t *testing.T, date int32, bytes int) {
	e, done, err := m.acquire(t.Context(), date)
	require.NoError(t, err)
	next := *e
	next.day = dayOfBytes(bytes)
	m.keep(date, &next)
	done()
}

func (m *memory) holds(date int32) bool {
	_, ok := m.days.GetIfPresent(date)
	return ok
}

// held adds up what is really kept.
func (m *memory) held() (bytes int64) {
	for _, e := range m.days.All() {
		bytes += int64(e.day.Bytes())
	}
	return bytes
}

// A day that leaves while another goroutine holds it is not counted for ever.
func TestMemoryIsWhatIsHeld(t *testing.T) {
	m := newMemory(1000)
	m.take(t, 1, 400)
	_, done, err := m.acquire(t.Context(), 1)
	require.NoError(t, err)
	for date := int32(2); date < 9; date++ {
		m.take(t, date, 400)
	}
	done()
	used, budget := m.used()
	require.Equal(t, m.held(), used)
	require.LessOrEqual(t, used, budget)

	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := range 500 {
				m.take(t, int32((i*7+worker*3)%11), 100+i%300)
			}
		})
	}
	wait.Wait()
	m.days.CleanUp()
	used, budget = m.used()
	require.Equal(t, m.held(), used)
	require.LessOrEqual(t, used, budget)
	require.Positive(t, used)
}

// What is asked for again and again stays when other days come and go.
func TestMemoryKeepsWhatIsUsed(t *testing.T) {
	m := newMemory(1000)
	m.take(t, 1, 100)
	for date := int32(100); date < 300; date++ {
		_, done, err := m.acquire(t.Context(), 1)
		require.NoError(t, err)
		done()
		m.take(t, date, 100)
		require.True(t, m.holds(1), date)
	}
	require.True(t, m.full())
	require.False(t, newMemory(1000).full())
}
