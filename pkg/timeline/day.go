package timeline

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Row is what the rows of one side of a GPU say in a snapshot: the row with the highest state, of equals the last
// in file order (methodology section 4). State None: the side has no row.
type Row struct {
	State     pool.State
	Prevented bool   // PreventJobsReason is not blank
	Reason    Symbol // PreventJobsReason, without blanks around it; 0 = none
	Project   Symbol // PrioritizedProjects as a sorted list joined by commas; 0 = none
	User      Symbol // RemoteOwner of a Claimed row; 0 = unknown
}

// Status is what all rows of one GPU say in a snapshot, but for the jobs of the two (Day.Jobs).
type Status struct {
	Primary, Backfill Row
	Extra             []Claim // further claims in the same snapshot, beside those of the two rows
	Silent            bool    // the machine has no row at all in this snapshot (both sides are None)
}

// Row returns the side's row.
func (s *Status) Row(side pool.Side) *Row {
	if side == pool.Backfill {
		return &s.Backfill
	}
	return &s.Primary
}

// Claim is a claimed row that is not the one that gives its side's state. It differs from it in user or job.
type Claim struct {
	Side pool.Side
	User Symbol
	Job  Job
}

// Day is a segment: the snapshots of one UTC day as spans per GPU. It is never changed.
// GPUs are numbered within the day from 0, by machine and id; statuses and machines too.
//
// A span is a run of consecutive snapshots in which a GPU's status is the same. The spans of a GPU cover every snapshot
// of the day: where the GPU has no row its status is Absent or Silent.
type Day struct {
	Date  int32         // days since 1970-01-01 UTC
	Times []pool.Micros // of the snapshots, ascending

	// RowsWithoutGPU counts, per snapshot, the rows without a GPU id or Machine (methodology section 2).
	RowsWithoutGPU []uint32

	gpus    []gpuDay
	models  []Model
	offsets []uint32 // spans of GPU i: offsets[i] … offsets[i+1]
	first   []uint16 // each span's first snapshot
	status  []uint32 // each span's status

	rows     []Row
	statuses []statusRows
	jobs     packedJobs
	further  []further // ascending by status
	extras   []Claim   // of all statuses with further claims, one after the other

	machines []Machine
	silent   []interval // of all machines

	oddities snapshots.Oddities
	cadence  pool.Micros   // own median distance, 0 with fewer than 8
	bytes    int           // live memory
	key      snapshots.Key // of the rows that it was made from, where it was read
	identity string        // of the same rows; "" where nobody asked for it
}

type gpuDay struct {
	gpu     GPU
	machine uint32 // index of machines
	model   uint32 // index of models
}

// Model is a GPU's device and memory: the last non-empty ones of the UTC day.
type Model struct {
	Device Symbol  // GPUs_DeviceName; 0 = unknown
	Memory float64 // GPUs_GlobalMemoryMb in MiB; NaN = unknown
}

// statusRows are the numbers of a status's two rows.
type statusRows struct{ primary, backfill uint32 }

// further says which of the extras are the further claims of a status: few have any.
type further struct{ status, from, to uint32 }

// Machine is a machine on one day.
type Machine struct {
	Name Symbol
	// What methodology section 2 asks of the day's rows to find the ownership.
	HasPrimary, PrimaryProject, AnyProject bool
	silentFrom, silentTo                   uint32 // range in silent
}

type interval struct{ first, last uint16 }

// Statuses that every day has.
const (
	Silent uint32 = iota // the machine has no row in the snapshot
	Absent               // the machine has rows, the GPU has none
)

// GPUs is the number of GPUs with a row on this day.
func (d *Day) GPUs() int { return len(d.gpus) }

// GPU returns the pool's GPU that is the day's i-th.
func (d *Day) GPU(i int) GPU { return d.gpus[i].gpu }

// MachineOf returns the index of the i-th GPU's machine.
func (d *Day) MachineOf(i int) int { return int(d.gpus[i].machine) }

// Model returns the i-th GPU's device and memory.
func (d *Day) Model(i int) Model { return d.models[d.gpus[i].model] }

// ModelIndex returns the index of Model(i) among the day's models.
func (d *Day) ModelIndex(i int) int { return int(d.gpus[i].model) }

// Models returns the day's distinct models.
func (d *Day) Models() []Model { return d.models }

// Spans returns the first snapshot and the status of each of the i-th GPU's spans, in order.
// A span ends before the next one begins, the last with the day. The slices must not be changed.
func (d *Day) Spans(i int) (first []uint16, status []uint32) {
	a, b := d.offsets[i], d.offsets[i+1]
	return d.first[a:b], d.status[a:b]
}

// Statuses is the number of distinct statuses of the day.
func (d *Day) Statuses() int { return len(d.statuses) }

// Status returns a status by its number.
func (d *Day) Status(s uint32) Status {
	p := &d.statuses[s]
	status := Status{Primary: d.rows[p.primary], Backfill: d.rows[p.backfill], Silent: s == Silent}
	status.Extra = d.claims(s)
	return status
}

// claims returns the further claims of a status.
func (d *Day) claims(s uint32) []Claim {
	if len(d.further) == 0 { // as on most days
		return nil
	}
	return d.furtherClaims(s)
}

func (d *Day) furtherClaims(s uint32) []Claim {
	i, found := slices.BinarySearchFunc(d.further, s, func(f further, s uint32) int { return cmp.Compare(f.status, s) })
	if !found {
		return nil
	}
	return d.extras[d.further[i].from:d.further[i].to:d.further[i].to]
}

// Machines returns the machines with a row on this day, those without a GPU included.
func (d *Day) Machines() []Machine { return d.machines }

// Reports reports whether the m-th machine has a row in a snapshot.
func (d *Day) Reports(m, snapshot int) bool {
	for _, s := range d.silent[d.machines[m].silentFrom:d.machines[m].silentTo] {
		if int(s.first) <= snapshot && snapshot <= int(s.last) {
			return false
		}
	}
	return true
}

// Ownership says who owns the machine on this day; chtcOwned: it is listed in chtc_owned (methodology section 2).
func (m *Machine) Ownership(chtcOwned bool) pool.Ownership {
	switch {
	case chtcOwned:
		return pool.CHTCOwned
	case m.PrimaryProject, !m.HasPrimary && m.AnyProject:
		return pool.ResearcherOwned
	}
	return pool.OpenCapacity
}

// seal computes what is derived from the rest, once the day is complete.
func (d *Day) seal() {
	clip(&d.Times)
	clip(&d.RowsWithoutGPU)
	clip(&d.gpus)
	clip(&d.rows)
	clip(&d.machines)
	clip(&d.silent)
	clip(&d.models)
	clip(&d.offsets)
	clip(&d.first)
	clip(&d.status)
	clip(&d.statuses)
	clip(&d.further)
	clip(&d.extras)
	clip(&d.jobs.schedds)
	clip(&d.jobs.packed)
	d.cadence = ownCadence(d.Times)
	d.bytes = sizeOf(d.Times) + sizeOf(d.RowsWithoutGPU) + sizeOf(d.gpus) + sizeOf(d.models) + sizeOf(d.offsets) +
		sizeOf(d.first) + sizeOf(d.status) + sizeOf(d.rows) + sizeOf(d.statuses) + sizeOf(d.further) + sizeOf(d.extras) +
		sizeOf(d.machines) + sizeOf(d.silent) + sizeOf(d.jobs.schedds) + sizeOf(d.jobs.packed) + int(unsafe.Sizeof(*d))
}

// Bytes is the live memory of the day.
func (d *Day) Bytes() int { return d.bytes }

// clip gives back what append reserved; nothing is nil.
func clip[T any](s *[]T) {
	if len(*s) < cap(*s) || len(*s) == 0 {
		*s = exact(*s)
	}
}

// exact returns a copy without room for more, nil of nothing.
func exact[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return append(make([]T, 0, len(s)), s...)
}

func sizeOf[T any](s []T) int {
	var one T
	return cap(s) * int(unsafe.Sizeof(one))
}

// SpanCount is the number of spans of all GPUs.
func (d *Day) SpanCount() int { return len(d.first) }
