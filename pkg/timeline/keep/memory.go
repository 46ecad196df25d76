// Package keep keeps what was made of finished and growing UTC days: in memory, and on disk in the plugin's own cache
// directory. It knows nothing of what it keeps.
package keep

import (
	"context"
	"sync"

	"github.com/maypok86/otter/v2"
)

// Memory keeps values under a byte budget: those that are asked for often and lately stay. It is safe for concurrent
// use.
type Memory[K comparable, V any] struct {
	values *otter.Cache[K, V]
	weigh  func(V) int

	mu    sync.Mutex
	turns map[K]chan struct{} // one token a key
}

// NewMemory returns a memory of so many bytes; weigh returns those of a value.
func NewMemory[K comparable, V any](max int64, weigh func(V) int) *Memory[K, V] {
	return &Memory[K, V]{weigh: weigh, turns: map[K]chan struct{}{}, values: otter.Must(&otter.Options[K, V]{
		MaximumWeight: uint64(max),
		Weigher:       func(_ K, v V) uint32 { return uint32(weigh(v)) },
		Executor:      func(maintain func()) { maintain() },
	})}
}

// Acquire waits for a key's turn and returns its value; ok is false if none is kept. Whoever has the turn makes or
// checks the value, the others wait for the result until done is called.
func (m *Memory[K, V]) Acquire(ctx context.Context, key K) (value V, ok bool, done func(), err error) {
	turn := m.turn(key)
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return value, false, nil, ctx.Err()
	}
	value, ok = m.values.GetIfPresent(key)
	return value, ok, func() { <-turn }, nil
}

// Try is Acquire that does not wait: ok is false, too, while somebody else has the turn. done is nil then.
func (m *Memory[K, V]) Try(key K) (value V, ok bool, done func()) {
	turn := m.turn(key)
	select {
	case turn <- struct{}{}:
	default:
		return value, false, nil
	}
	if value, ok = m.values.GetIfPresent(key); !ok {
		<-turn
		return value, false, nil
	}
	return value, true, func() { <-turn }
}

// turn returns the channel that holds the token of a key while somebody has its turn.
func (m *Memory[K, V]) turn(key K) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	turn := m.turns[key]
	if turn == nil {
		turn = make(chan struct{}, 1)
		m.turns[key] = turn
	}
	return turn
}

// Keep keeps a value in place of an earlier one. The caller has the key's turn.
func (m *Memory[K, V]) Keep(key K, value V) { m.values.Set(key, value) }

// Forget drops a value. The caller has the key's turn.
func (m *Memory[K, V]) Forget(key K) { m.values.Invalidate(key) }

// Used returns the bytes of the values that are kept, and the budget.
func (m *Memory[K, V]) Used() (bytes, budget int64) {
	return int64(m.values.WeightedSize()), int64(m.values.GetMaximum())
}

// SetBudget changes the budget.
func (m *Memory[K, V]) SetBudget(max int64) { m.values.SetMaximum(uint64(max)) }

// Full reports whether another value may cost one that is kept.
func (m *Memory[K, V]) Full() bool {
	largest := 0
	for _, v := range m.values.All() {
		largest = max(largest, m.weigh(v))
	}
	bytes, budget := m.Used()
	return bytes+int64(largest) > budget
}
