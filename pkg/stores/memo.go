package stores

import (
	"math"

	"github.com/maypok86/otter/v2"
)

// Memo keeps figures that kinds derive from unchanging parts of the data, under a byte budget: figures that are
// requested often and recently stay. Keys are comparable values of a type of the kind's own, and name everything that
// the figures depend on. It is safe for concurrent use.
type Memo struct{ values *otter.Cache[any, Figures] }

// Figures are the values of a Memo. They are never changed.
type Figures interface {
	Bytes() int // live memory, the key included
}

// NewMemo returns an empty memo that is bounded to the given number of bytes.
func NewMemo(bytes uint64) *Memo {
	return &Memo{otter.Must(&otter.Options[any, Figures]{
		MaximumWeight: max(bytes, 1),
		Weigher:       func(_ any, f Figures) uint32 { return uint32(min(f.Bytes(), math.MaxUint32)) },
		Executor:      func(maintain func()) { maintain() },
	})}
}

// Recall returns the figures of a key, nil without.
func (m *Memo) Recall(key any) Figures {
	figures, _ := m.values.GetIfPresent(key)
	return figures
}

// Keep keeps the figures of a key in place of earlier ones.
func (m *Memo) Keep(key any, f Figures) { m.values.Set(key, f) }

// Bytes is the size of all figures.
func (m *Memo) Bytes() uint64 { return m.values.WeightedSize() }

// Close forgets everything.
func (m *Memo) Close() { m.values.InvalidateAll() }
