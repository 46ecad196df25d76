package timeline

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"errors"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// errDamaged is returned for bytes that encode cannot have written.
var errDamaged = errors.New("damaged segment")

// storedDay is a Day as gob writes it to disk and to a bucket. Its symbols are indexes of Texts, because a symbol means
// nothing in another process.
type storedDay struct {
	Texts []string

	Date           int32
	Times          []pool.Micros
	RowsWithoutGPU []uint32
	Oddities       snapshots.Oddities

	Machines      []Machine
	SilentOffsets []uint32
	Silent        []interval
	RoomOffsets   []uint32
	Rooms         []roomSpan

	Rows        []Row
	Statuses    []statusRows
	ExtraClaims []extraClaims
	Extras      []Claim

	Models  []Model
	GPUs    []storedGPU
	Offsets []uint32
	First   []uint16
	Status  []uint32

	Schedds []Symbol
	Jobs    []byte
}

type storedGPU struct {
	ID             Symbol
	Machine, Model uint32
}

// encode writes a day.
func encode(d *Day, names *Names) []byte {
	s := storedDay{
		Date: d.Date, Times: d.Times, RowsWithoutGPU: d.RowsWithoutGPU, Oddities: d.oddities,
		Machines: slices.Clone(d.machines), SilentOffsets: d.silentOffsets, Silent: d.silent,
		RoomOffsets: d.roomOffsets, Rooms: d.rooms,
		Rows: slices.Clone(d.rows), Statuses: d.statuses, ExtraClaims: d.extraClaims, Extras: slices.Clone(d.extras),
		Models: slices.Clone(d.models), GPUs: make([]storedGPU, len(d.gpus)),
		Offsets: d.offsets, First: d.first, Status: d.status,
		Schedds: slices.Clone(d.jobs.schedds), Jobs: d.jobs.packed,
	}
	for i, g := range d.gpus {
		_, id := names.GPU(g.gpu)
		s.GPUs[i] = storedGPU{id, g.machine, g.model}
	}
	numbers := map[Symbol]Symbol{}
	s.eachSymbol(func(symbol *Symbol) {
		n, known := numbers[*symbol]
		if !known {
			n = Symbol(len(s.Texts))
			numbers[*symbol], s.Texts = n, append(s.Texts, names.Text(*symbol))
		}
		*symbol = n
	})
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(&s); err != nil {
		panic(err) // a buffer takes everything, and gob supports all the types
	}
	return b.Bytes()
}

// decode reads a day of a date and enters its texts into names. Whatever the bytes are, it returns a day whose indexes
// are all valid, or errDamaged: objects of a bucket are written by others.
func decode(date int32, b []byte, names *Names) (*Day, error) {
	var s storedDay
	if gob.NewDecoder(bytes.NewReader(b)).Decode(&s) != nil || s.Date != date || !s.valid() {
		return nil, errDamaged
	}
	symbols := make([]Symbol, len(s.Texts))
	for i, text := range s.Texts {
		symbols[i] = names.Symbol(text)
	}
	s.eachSymbol(func(symbol *Symbol) { *symbol = symbols[*symbol] })
	d := &Day{
		Date: s.Date, Times: s.Times, RowsWithoutGPU: s.RowsWithoutGPU, oddities: s.Oddities,
		machines: s.Machines, silentOffsets: s.SilentOffsets, silent: s.Silent,
		roomOffsets: s.RoomOffsets, rooms: s.Rooms,
		rows: s.Rows, statuses: s.Statuses, extraClaims: s.ExtraClaims, extras: s.Extras,
		models: s.Models, gpus: make([]gpuDay, len(s.GPUs)),
		offsets: s.Offsets, first: s.First, status: s.Status,
		jobs: packedJobs{schedds: s.Schedds, packed: s.Jobs},
	}
	for i, g := range s.GPUs {
		d.gpus[i] = gpuDay{names.gpu(d.machines[g.Machine].Name, g.ID), g.Machine, g.Model}
	}
	if !d.jobs.valid(d.claimed()) {
		return nil, errDamaged
	}
	d.seal()
	return d, nil
}

// eachSymbol calls do with every symbol.
func (s *storedDay) eachSymbol(do func(*Symbol)) {
	for i := range s.Machines {
		do(&s.Machines[i].Name)
	}
	for i := range s.Rows {
		do(&s.Rows[i].Reason)
		do(&s.Rows[i].Project)
		do(&s.Rows[i].User)
	}
	for i := range s.Extras {
		do(&s.Extras[i].User)
		do(&s.Extras[i].Job.Schedd)
	}
	for i := range s.Models {
		do(&s.Models[i].Device)
	}
	for i := range s.GPUs {
		do(&s.GPUs[i].ID)
	}
	for i := range s.Schedds {
		do(&s.Schedds[i])
	}
}

// valid reports whether all indexes are within their ranges, and everything is in order.
func (s *storedDay) valid() bool {
	times := len(s.Times)
	valid := times < 1<<16 && len(s.RowsWithoutGPU) == times && isAscending(s.Times) &&
		areOffsets(s.SilentOffsets, len(s.Machines), len(s.Silent)) &&
		areOffsets(s.RoomOffsets, len(s.Machines), len(s.Rooms)) && s.validStatuses() &&
		areOffsets(s.Offsets, len(s.GPUs), len(s.First)) && len(s.Status) == len(s.First) && s.validSpans()
	for _, silent := range s.Silent {
		valid = valid && silent.First <= silent.Last && int(silent.Last) < times
	}
	for _, g := range s.GPUs {
		valid = valid && int(g.Machine) < len(s.Machines) && int(g.Model) < len(s.Models)
	}
	s.eachSymbol(func(symbol *Symbol) { valid = valid && int(*symbol) < len(s.Texts) })
	return valid
}

func (s *storedDay) validStatuses() bool {
	valid := len(s.Statuses) > int(Absent)
	for _, row := range s.Rows {
		valid = valid && row.State >= pool.None && row.State <= pool.Claimed
	}
	for _, rows := range s.Statuses {
		valid = valid && int(rows.Primary) < len(s.Rows) && int(rows.Backfill) < len(s.Rows)
	}
	next := Absent + 1
	for _, claims := range s.ExtraClaims {
		valid = valid && next <= claims.Status && int(claims.Status) < len(s.Statuses) &&
			claims.From <= claims.To && int(claims.To) <= len(s.Extras)
		next = claims.Status + 1
	}
	for _, claim := range s.Extras {
		valid = valid && (claim.Side == pool.Primary || claim.Side == pool.Backfill)
	}
	return valid
}

// validSpans reports whether the spans of each GPU cover the day: they begin with its first snapshot, and ascend.
func (s *storedDay) validSpans() bool {
	for i := range s.GPUs {
		first := s.First[s.Offsets[i]:s.Offsets[i+1]]
		if len(first) == 0 || first[0] != 0 || !isAscending(first) || int(first[len(first)-1]) >= len(s.Times) {
			return false
		}
	}
	return !slices.ContainsFunc(s.Status, func(status uint32) bool { return int(status) >= len(s.Statuses) })
}

// areOffsets reports whether offsets divide the given number of things among the given number of owners.
func areOffsets(offsets []uint32, owners, things int) bool {
	return len(offsets) == owners+1 && offsets[0] == 0 && int(offsets[owners]) == things && slices.IsSorted(offsets)
}

func isAscending[T cmp.Ordered](values []T) bool {
	for i := 1; i < len(values); i++ {
		if values[i-1] >= values[i] {
			return false
		}
	}
	return true
}
