package months

import (
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// table numbers the distinct rows of a day: of the 140,000 rows that 900 GPUs make in a day, 15,000 are distinct.
type table struct {
	ids  map[string]uint32
	rows []snapshots.Row
	data []bool // the row is of a data slot

	slots [][]slot // what each row stands for, as far as it was asked for
}

// slot is a slot with one of its GPUs: a row of a snapshot.
type slot struct{ machine, name, gpu string }

// slotsOf returns what a row stands for: one slot with each GPU that it names, or without one.
func (t *table) slotsOf(id uint32) []slot {
	if n := len(t.rows) - len(t.slots); n > 0 {
		t.slots = append(t.slots, make([][]slot, n)...)
	}
	if t.slots[id] == nil {
		text, _ := t.rows[id].Values()
		for _, gpu := range text.GPUs() {
			t.slots[id] = append(t.slots[id], slot{text[snapshots.Machine], text[snapshots.Name], gpu})
		}
	}
	return t.slots[id]
}

// id returns the number of a row, and whether it is known from before.
func (t *table) id(row snapshots.Row) (id uint32, known bool) {
	id, known = t.ids[string(row)]
	if !known {
		id = uint32(len(t.rows))
		t.ids[string(row)] = id
		t.rows = append(t.rows, slices.Clone(row))
		t.data = append(t.data, pool.IsDataSlot(row.Columns()[snapshots.Name]))
	}
	return id, known
}

// twice counts the snapshots of a repeated hour in which most slots occur twice: they may be two runs of the collector
// within a minute by its clock, one of each pass, which nothing distinguishes.
func (t *table) twice(all []united) (n uint32) {
	for _, u := range all {
		if !slices.ContainsFunc(u.blocks, func(b block) bool { return b.repeated }) {
			continue
		}
		rows, distinct := 0, map[slot]bool{}
		for _, b := range u.blocks {
			for _, id := range b.rows {
				for _, s := range t.slotsOf(id) {
					rows++
					distinct[s] = true
				}
			}
		}
		if rows > 0 && 3*len(distinct) <= 2*rows {
			n++
		}
	}
	return n
}
