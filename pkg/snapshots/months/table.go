package months

import (
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// table numbers the distinct rows of a day: of the 140,000 rows that 900 GPUs make in a day, 15,000 are distinct.
type table struct {
	ids  map[string]uint32
	rows []snapshots.Row
	data []bool // the row is of a data slot
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

// twice counts the blocks of a repeated hour in which most slots occur twice: they may be two runs of the collector
// with the same timestamp, one of each pass, which nothing distinguishes.
func (t *table) twice(blocks []block) (n uint32) {
	for _, b := range blocks {
		if !b.repeated || len(b.rows) == 0 {
			continue
		}
		slots := map[[3]string]bool{} // name, machine, GPU
		for _, id := range b.rows {
			slots[slot(t.rows[id])] = true
		}
		if 3*len(slots) <= 2*len(b.rows) {
			n++
		}
	}
	return n
}

// slot names the slot and the GPU of a row; rows without a GPU have none.
func slot(row snapshots.Row) [3]string {
	text := row.Columns()
	machine, gpu := text[snapshots.Machine], strings.TrimSpace(text[snapshots.AssignedGPUs])
	if pool.IsBlank(machine) || gpu == "" {
		return [3]string{text[snapshots.Name]}
	}
	return [3]string{text[snapshots.Name], machine, gpu}
}
