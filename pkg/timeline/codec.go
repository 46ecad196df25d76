package timeline

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"errors"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
)

// errDamaged is the error for bytes that no process has written.
var errDamaged = errors.New("damaged segment")

// stored returns the parts of a day that gob writes to disk and to a bucket, ahead of the texts. There, symbols are
// indexes of the texts, because a symbol means nothing in another process, and GPUs are the indexes of their ids.
func (d *Day) stored(long *longLists) []any {
	return []any{&d.Date, &d.Times, &d.Ends, &d.incomplete, &d.RowsWithoutGPU, &d.Oddities, &d.Machines, &d.silentOffsets,
		&d.silent, &d.roomOffsets, &d.rooms, &d.slotOffsets, &d.slots, &d.odd, &d.examples, &d.Rows, &d.extras, &d.Models,
		&d.offsets, &d.first, &d.status, &long.gpus, &long.statuses, &long.jobs}
}

// longLists has the fields of all elements of a day's longest lists, one after another: gob reads a list of numbers
// several times as fast as one of structs.
type longLists struct{ gpus, statuses, jobs []uint32 }

// longLists returns the lists of the day.
func (d *Day) longLists() *longLists {
	var long longLists
	for _, g := range d.gpus {
		long.gpus = append(long.gpus, uint32(g.GPU), g.Machine, g.Model)
	}
	for _, s := range d.statuses {
		long.statuses = append(long.statuses, s[:]...)
	}
	for _, j := range d.jobs {
		long.jobs = append(long.jobs, uint32(j.Schedd), j.Cluster, j.Proc, j.QDate)
	}
	return &long
}

// restore makes the lists those of the day. It returns false if the last element of one has too few fields.
func (long *longLists) restore(d *Day) bool {
	if len(long.gpus)%3 != 0 || len(long.statuses)%2 != 0 || len(long.jobs)%4 != 0 {
		return false
	}
	// Make room at once: no other lists of a day are as long.
	d.gpus = make([]gpuDay, 0, len(long.gpus)/3)
	d.statuses, d.jobs = make([]statusRows, 0, len(long.statuses)/2), make([]Job, 0, len(long.jobs)/4)
	for g := range slices.Chunk(long.gpus, 3) {
		d.gpus = append(d.gpus, gpuDay{GPU(g[0]), g[1], g[2]})
	}
	for s := range slices.Chunk(long.statuses, 2) {
		d.statuses = append(d.statuses, statusRows(s))
	}
	for j := range slices.Chunk(long.jobs, 4) {
		d.jobs = append(d.jobs, Job{Symbol(j[0]), j[1], j[2], j[3]})
	}
	return true
}

// encode writes a day.
func encode(d *Day, names *Names) []byte {
	s := *d
	s.Machines, s.Rows, s.extras = slices.Clone(d.Machines), slices.Clone(d.Rows), slices.Clone(d.extras)
	s.Models, s.gpus, s.jobs = slices.Clone(d.Models), slices.Clone(d.gpus), slices.Clone(d.jobs)
	s.slots = slices.Clone(d.slots)
	for i := range s.gpus {
		_, id := names.GPU(s.gpus[i].GPU)
		s.gpus[i].GPU = GPU(id)
	}
	var texts pool.Numbered[Symbol]
	s.eachSymbol(func(symbol *Symbol) { *symbol = Symbol(texts.Number(*symbol)) })
	written := make([]string, len(texts.All))
	for i, symbol := range texts.All {
		written[i] = names.Text(symbol)
	}
	return writeParts(append(s.stored(s.longLists()), written))
}

// writeParts writes values, one after another.
func writeParts(parts []any) []byte {
	var b bytes.Buffer
	to := gob.NewEncoder(&b)
	for _, part := range parts {
		if err := to.Encode(part); err != nil {
			panic(err) // a buffer takes everything, and gob supports all the types
		}
	}
	return b.Bytes()
}

// readParts reads the output of writeParts into pointers to values.
func readParts(encoded []byte, parts []any) error {
	from := gob.NewDecoder(bytes.NewReader(encoded))
	for _, part := range parts {
		if err := from.Decode(part); err != nil {
			return err
		}
	}
	return nil
}

// decode reads a day of a date and enters its texts into names. Of any bytes, it returns a day whose indexes are all
// valid, or errDamaged, because other programs can write objects of a bucket.
func decode(date int32, b []byte, names *Names) (*Day, error) {
	var d Day
	var long longLists
	var texts []string
	if readParts(b, append(d.stored(&long), &texts)) != nil || !long.restore(&d) || d.Date != date ||
		!d.valid(len(texts)) {
		return nil, errDamaged
	}
	d.enter(texts, names)
	d.seal(names)
	return &d, nil
}

// enter enters the day's texts and GPUs into names.
func (d *Day) enter(texts []string, names *Names) {
	symbols := make([]Symbol, len(texts))
	for i, text := range texts {
		symbols[i] = names.Symbol(text)
	}
	d.eachSymbol(func(symbol *Symbol) { *symbol = symbols[*symbol] })
	for i := range d.gpus {
		g := &d.gpus[i]
		g.GPU = names.gpu(d.Machines[g.Machine].Name, Symbol(g.GPU))
	}
}

// eachSymbol calls do with every symbol.
func (d *Day) eachSymbol(do func(*Symbol)) {
	for i := range d.Machines {
		do(&d.Machines[i].Name)
	}
	for i := range d.slots {
		do(&d.slots[i])
	}
	for i := range d.Rows {
		do(&d.Rows[i].Reason)
		do(&d.Rows[i].Project)
		do(&d.Rows[i].User)
	}
	for i := range d.extras {
		do(&d.extras[i].Claim.User)
		do(&d.extras[i].Claim.Job.Schedd)
	}
	for i := range d.Models {
		do(&d.Models[i].Device)
	}
	for i := range d.gpus {
		do((*Symbol)(&d.gpus[i].GPU))
	}
	for i := range d.jobs {
		do(&d.jobs[i].Schedd)
	}
}

// valid reports whether all indexes are within their ranges, and everything is in order.
func (d *Day) valid(texts int) bool {
	times := len(d.Times)
	valid := times < 1<<16 && len(d.Ends) == times && len(d.RowsWithoutGPU) == times && isAscending(d.Times) &&
		areOffsets(d.silentOffsets, len(d.Machines), len(d.silent)) &&
		areOffsets(d.roomOffsets, len(d.Machines), len(d.rooms)) &&
		areOffsets(d.slotOffsets, len(d.Machines), len(d.slots)) && d.validStatuses() && d.validOdd() &&
		areOffsets(d.offsets, len(d.gpus), len(d.first)) && len(d.status) == len(d.first) && d.validSpans()
	for _, silent := range d.silent {
		valid = valid && silent.First <= silent.Last && int(silent.Last) < times
	}
	for _, g := range d.gpus {
		valid = valid && int(g.Machine) < len(d.Machines) && int(g.Model) < len(d.Models)
	}
	d.eachSymbol(func(symbol *Symbol) { valid = valid && int(*symbol) < texts })
	return valid
}

func (d *Day) validStatuses() bool {
	valid := len(d.statuses) > int(Absent)
	for _, row := range d.Rows {
		valid = valid && row.State >= pool.None && row.State <= pool.Claimed
	}
	claimed := 0
	for _, rows := range d.statuses {
		for _, row := range rows {
			if valid = valid && int(row) < len(d.Rows); valid && d.Rows[row].State == pool.Claimed {
				claimed++
			}
		}
	}
	valid = valid && claimed == len(d.jobs)
	next := Absent + 1
	for _, extra := range d.extras {
		valid = valid && next <= extra.Status && int(extra.Status) < len(d.statuses) &&
			(extra.Claim.Side == pool.Primary || extra.Claim.Side == pool.Backfill)
		next = extra.Status
	}
	return valid
}

// validSpans reports whether the spans of each GPU cover the day: they begin with its first snapshot, and ascend.
func (d *Day) validSpans() bool {
	for i := range d.gpus {
		first := d.first[d.offsets[i]:d.offsets[i+1]]
		if len(first) == 0 || first[0] != 0 || !isAscending(first) || int(first[len(first)-1]) >= len(d.Times) {
			return false
		}
	}
	return !slices.ContainsFunc(d.status, func(status uint32) bool { return int(status) >= len(d.statuses) })
}

// areOffsets reports whether offsets divide the given number of things among the given number of owners.
func areOffsets(offsets []uint32, owners, things int) bool {
	return len(offsets) == owners+1 && offsets[0] == 0 && int(offsets[owners]) == things && slices.IsSorted(offsets)
}

// isAscending reports whether each value is larger than the one before.
func isAscending[T cmp.Ordered](values []T) bool {
	for i := 1; i < len(values); i++ {
		if values[i-1] >= values[i] {
			return false
		}
	}
	return true
}
