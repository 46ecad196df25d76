package months

import (
	"cmp"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// block is the rows of one timestamp that are together in a file.
type block struct {
	time     pool.Micros
	number   int64              // its first row
	ahead    snapshots.Oddities // what the rows ahead of it have
	source   int                // in the order of the files
	order    int                // in which it was read
	rows     []uint32           // numbers in the reading's table, in file order
	usage    []float64          // parallel to rows
	repeated bool               // its timestamp is ambiguous between two times

	dataSlots bool // rows of data slots were left out
	part      bool // the rows of the timestamp that come first are of the snapshot before
}

// What is one snapshot (methodology section 1).
const (
	// union is how soon after the first row another one must follow to be of the same snapshot in any case.
	union = pool.Minute

	// pause is how soon a row must follow the one before it in a snapshot that lasts longer than union, in which each
	// row has a stamp.
	pause = 20 * pool.Second

	// longest is the time within which all rows of a snapshot are.
	longest = 5 * pool.Minute
)

// united is the blocks of one snapshot.
type united struct {
	time   pool.Micros // when its first row was taken
	end    pool.Micros // when its last row was taken
	blocks []block     // in file order

	held map[slot]pool.Micros // the first row of each slot and GPU in the first blocks
	read int                  // how many of them
}

// unite sorts blocks into snapshots, ascending by time.
func (t *table) unite(blocks []block) (all []united) {
	slices.SortStableFunc(blocks, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.source, b.source), cmp.Compare(a.order, b.order))
	})
	for _, b := range blocks {
		if n := len(all); n > 0 {
			rows, whole := t.continuing(&all[n-1], &b)
			if whole {
				all[n-1].add(b)
				continue
			}
			if rows > 0 { // the collector ended one run and began the next at the same time
				before := b
				before.rows, before.usage = b.rows[:rows:rows], b.usage[:rows]
				all[n-1].add(before)
				b.rows, b.usage, b.part = b.rows[rows:], b.usage[rows:], true
			}
		}
		all = append(all, united{time: b.time, end: b.time, blocks: []block{b}})
	}
	for i := range all {
		slices.SortStableFunc(all[i].blocks, func(a, b block) int {
			return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.order, b.order))
		})
	}
	return all
}

// continuing returns how many rows of a block continue the snapshot of the blocks before it, and whether all do. A row
// of a slot and GPU whose row is a minute old does not: it is of the next run of a collector that takes long for each.
func (t *table) continuing(u *united, b *block) (rows int, whole bool) {
	switch age := b.time - u.time; {
	case age < union:
		return len(b.rows), true
	case age >= longest || b.time-u.end >= pause:
		return 0, false
	}
	u.hold(t)
	for i, id := range b.rows {
		if slices.ContainsFunc(t.slotsOf(id), func(s slot) bool {
			since, held := u.held[s]
			return held && b.time-since >= union
		}) {
			return i, false
		}
	}
	return len(b.rows), true
}

// add adds the next block in the order of time.
func (u *united) add(b block) {
	u.blocks, u.end = append(u.blocks, b), b.time
}

// hold finds the slots and GPUs that the blocks have rows of.
func (u *united) hold(t *table) {
	if u.held == nil {
		u.held = map[slot]pool.Micros{}
	}
	for ; u.read < len(u.blocks); u.read++ {
		b := &u.blocks[u.read]
		for _, id := range b.rows {
			for _, s := range t.slotsOf(id) {
				if _, held := u.held[s]; !held {
					u.held[s] = b.time
				}
			}
		}
	}
}

// join puts the rows of the blocks together.
func (u *united) join() snapshots.Snapshot {
	joined := snapshots.Snapshot{Time: u.time, End: u.end}
	for _, b := range u.blocks {
		joined.Rows, joined.Usage = append(joined.Rows, b.rows...), append(joined.Usage, b.usage...)
	}
	return joined
}

// mark is where a reading is resumed with this snapshot; "" if it is in two sources, or begins within a timestamp.
func (u *united) mark(last int) string {
	if slices.ContainsFunc(u.blocks, func(b block) bool { return b.source < last || b.part }) {
		return ""
	}
	first := u.blocks[0]
	return text(mark{Number: first.number, Time: u.time, Ahead: first.ahead})
}

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
