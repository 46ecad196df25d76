package timeline

import (
	"context"
	"sync"

	"github.com/maypok86/otter/v2"
)

// memory keeps days under a byte budget: those that are asked for often and lately stay.
type memory struct {
	days *otter.Cache[int32, *entry]

	mu    sync.Mutex
	turns map[int32]chan struct{} // one token a day: who holds it reads or checks the day, the others wait for the result
}

// entry is what is kept of one UTC day. It is changed by the holder of the day's turn only.
type entry struct {
	day      *Day
	sources  []source
	tail     tail
	written  int               // its snapshots when it was last written to disk
	versions map[string]uint64 // of the files' states for which the day is known to be right
}

func newMemory(max int64) *memory {
	return &memory{turns: map[int32]chan struct{}{}, days: otter.Must(&otter.Options[int32, *entry]{
		MaximumWeight: uint64(max),
		Weigher:       func(_ int32, e *entry) uint32 { return uint32(e.day.Bytes()) },
		Executor:      func(maintain func()) { maintain() },
	})}
}

// acquire waits for the day's turn and returns what is kept of it; without a day if nothing is.
func (m *memory) acquire(ctx context.Context, date int32) (e *entry, done func(), err error) {
	m.mu.Lock()
	turn := m.turns[date]
	if turn == nil {
		turn = make(chan struct{}, 1)
		m.turns[date] = turn
	}
	m.mu.Unlock()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	e, ok := m.days.GetIfPresent(date)
	if !ok {
		e = &entry{}
	}
	return e, func() { <-turn }, nil
}

// keep keeps an entry whose day has changed; without a day it is forgotten. Views that hold the earlier day keep it alive.
func (m *memory) keep(date int32, e *entry) {
	if e.day == nil {
		m.days.Invalidate(date)
		return
	}
	m.days.Set(date, e)
}

// used returns the bytes of the days that are kept, and the budget.
func (m *memory) used() (bytes, budget int64) {
	return int64(m.days.WeightedSize()), int64(m.days.GetMaximum())
}

// full reports whether another day would cost one that is kept.
func (m *memory) full() bool {
	largest := int64(0)
	for _, e := range m.days.All() {
		largest = max(largest, int64(e.day.Bytes()))
	}
	bytes, budget := m.used()
	return bytes+largest > budget
}
