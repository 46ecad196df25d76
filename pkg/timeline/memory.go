package timeline

import (
	"context"
	"sync"
)

// memory keeps segments under a byte budget, least recently used first out.
type memory struct {
	max int64

	mu      sync.Mutex
	entries map[int32]*entry
	bytes   int64
	clock   uint64
}

// entry is one UTC day. Who holds its lock reads or checks it; the others wait for the result.
type entry struct {
	lock     chan struct{} // 1 token
	day      *Day
	sources  []source
	tail     tail
	written  int               // its snapshots when it was last written to disk
	versions map[string]uint64 // of the files' states for which the day is known to be right
	bytes    int64
	used     uint64
}

func newMemory(max int64) *memory { return &memory{max: max, entries: map[int32]*entry{}} }

// acquire returns the day's entry, locked.
func (m *memory) acquire(ctx context.Context, date int32) (*entry, error) {
	for {
		m.mu.Lock()
		e := m.entries[date]
		if e == nil {
			e = &entry{lock: make(chan struct{}, 1)}
			m.entries[date] = e
		}
		m.clock++
		e.used = m.clock
		m.mu.Unlock()
		select {
		case e.lock <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		m.mu.Lock()
		current := m.entries[date] == e
		m.mu.Unlock()
		if current {
			return e, nil
		}
		<-e.lock // dropped meanwhile
	}
}

// release unlocks an entry, after its day may have changed, and drops what exceeds the budget.
func (m *memory) release(e *entry) {
	bytes := int64(0)
	if e.day != nil {
		bytes = int64(e.day.Bytes())
	}
	m.mu.Lock()
	m.bytes += bytes - e.bytes
	e.bytes = bytes
	for m.bytes > m.max && m.drop(e) {
	}
	m.mu.Unlock()
	<-e.lock
}

// drop forgets the day that was not used for the longest time, never the given one. Views that hold it keep it alive.
func (m *memory) drop(keep *entry) bool {
	var oldest *entry
	var date int32
	for d, e := range m.entries {
		if e != keep && e.bytes > 0 && (oldest == nil || e.used < oldest.used) {
			oldest, date = e, d
		}
	}
	if oldest == nil {
		return false
	}
	m.bytes -= oldest.bytes
	oldest.bytes = 0
	delete(m.entries, date)
	return true
}
