package months

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// table numbers the distinct rows of a day: of the 140,000 rows that 900 GPUs make in a day, 15,000 are distinct. A row
// remembers which one followed it in the last snapshot: nine times out of ten it does again.
type table struct {
	ids   map[uint64]uint32 // by hash; rows with equal hashes follow each other in next
	next  []uint32
	bytes []byte
	ends  []uint32 // of each row in bytes
	after []uint32 // the row that followed last time
	data  []bool   // the row is of a data slot
	last  uint32   // the row before
}

const noRow = 1<<32 - 1

func newTable() *table { return &table{ids: map[uint64]uint32{}, last: noRow} }

// expect makes room for the usual distinct rows among the given number of rows: a tenth of them, of 160 bytes each.
func (t *table) expect(rows int64) {
	const most = 1 << 15
	n := int(min(rows/10, most))
	t.bytes = slices.Grow(t.bytes, 160*n)
	t.ends, t.after, t.next = slices.Grow(t.ends, n), slices.Grow(t.after, n), slices.Grow(t.next, n)
	if len(t.ids) == 0 {
		t.ids = make(map[uint64]uint32, n)
	}
}

func (t *table) len() int { return len(t.ends) }

func (t *table) row(id uint32) snapshots.Row {
	begin := uint32(0)
	if id > 0 {
		begin = t.ends[id-1]
	}
	return t.bytes[begin:t.ends[id]]
}

// id returns the number of a row.
func (t *table) id(row snapshots.Row) uint32 {
	if t.last != noRow {
		if guess := t.after[t.last]; guess != noRow && string(t.row(guess)) == string(row) {
			t.last = guess
			return guess
		}
	}
	id := t.find(row)
	if t.last != noRow {
		t.after[t.last] = id
	}
	t.last = id
	return id
}

func (t *table) find(row snapshots.Row) uint32 {
	hash := xxhash.Sum64(row)
	first, known := t.ids[hash]
	if known {
		for id := first; id != noRow; id = t.next[id] {
			if string(t.row(id)) == string(row) {
				return id
			}
		}
	}
	id := uint32(len(t.ends))
	t.bytes = append(t.bytes, row...)
	t.ends = append(t.ends, uint32(len(t.bytes)))
	t.after = append(t.after, noRow)
	t.next = append(t.next, noRow)
	t.data = append(t.data, pool.IsDataSlot(row.Columns()[snapshots.Name]))
	if known {
		t.next[id] = first
	}
	t.ids[hash] = id
	return id
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
			slots[slot(t.row(id))] = true
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
