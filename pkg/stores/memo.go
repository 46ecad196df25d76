package stores

import (
	"math"

	"github.com/maypok86/otter/v2"
)

// Memo keeps figures that kinds made of parts of the data that do not change, under a byte budget: those that are asked
// for often and lately stay. Keys are comparable values of a type of the kind's own, and name all that the figures are
// made from. It is safe for concurrent use.
type Memo struct{ values *otter.Cache[any, Figures] }

// Figures are what is kept under a key. They are never changed.
type Figures interface {
	Bytes() int // live memory, the key included
}

// NewMemo returns an empty memo of so many bytes.
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

// Bytes is the size of what is kept.
func (m *Memo) Bytes() uint64 { return m.values.WeightedSize() }

// Close forgets everything.
func (m *Memo) Close() { m.values.InvalidateAll() }
