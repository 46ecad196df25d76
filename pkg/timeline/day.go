package timeline

import (
	"iter"
	"slices"
	"sort"
	"strings"
	"unsafe"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Row is the state of one side of a GPU in a snapshot: the row with the highest state, of equals the last in file order
// (methodology section 4). State None: the side has no row.
type Row struct {
	State     pool.State
	Prevented bool   // PreventJobsReason is not blank
	Reason    Symbol // PreventJobsReason, otherwise SlotBrokenReason, without blanks around it; 0 = none
	Project   Symbol // PrioritizedProjects as a sorted list joined by commas; 0 = none
	User      Symbol // RemoteOwner of a Claimed row; 0 = unknown
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
// of the day: if the GPU has no row, its status is Absent or Silent.
type Day struct {
	Date  int32         // days since 1970-01-01 UTC
	Times []pool.Micros // when each snapshot's first row was taken, ascending
	Ends  []pool.Micros // when their last rows were

	// RowsWithoutGPU counts, per snapshot, the rows without a GPU id or Machine (methodology section 2).
	RowsWithoutGPU []uint32

	Machines []Machine          // those with a row on this day, also without a GPU; by name
	Models   []Model            // different ones of GPUs
	Rows     []Row              // different ones; number 0 is none
	Oddities snapshots.Oddities // irregular timestamps of the day

	gpus    []gpuDay
	offsets []uint32 // spans of GPU i: offsets[i] … offsets[i+1]
	first   []uint16 // each span's first snapshot
	status  []uint32 // each span's status

	statuses []statusRows
	jobs     []Job        // the jobs of Claimed rows, in the order of statuses, the primary one first for each
	extras   []extraClaim // claims beyond the first, ascending by status

	silentOffsets []uint32 // silences of machine m: silentOffsets[m] … silentOffsets[m+1]
	silent        []interval
	roomOffsets   []uint32 // rooms of machine m: roomOffsets[m] … roomOffsets[m+1]
	rooms         []roomSpan
	slotOffsets   []uint32 // backfill slots of machine m: slotOffsets[m] … slotOffsets[m+1]
	slots         []Symbol // slots, without @ and machine, that are backfill by BackfillSlot and not by their name

	incomplete []Incomplete // snapshots that are left out, ascending

	odd      []oddRows    // in the order of snapshots
	examples []oddExample // one for each column and meaning of odd
	thin     bool         // a snapshot may be incomplete, as far as the day shows
	cadence  pool.Micros  // own median distance, 0 with fewer than 8
	cut      uint32       // rows with a text that is cut
	bytes    int          // live memory
}

type gpuDay struct {
	GPU     GPU
	Machine uint32 // index of Machines
	Model   uint32 // index of Models
}

// Model is a GPU's device and memory: the last non-empty ones of the UTC day.
type Model struct {
	Device Symbol  // GPUs_DeviceName; 0 = unknown
	Memory float64 // GPUs_GlobalMemoryMb in MiB; NaN = unknown
}

// statusRows are the numbers of a status's rows, by side.
type statusRows [2]uint32

// extraClaim is a further claim of a status. Few statuses have any.
type extraClaim struct {
	Status uint32
	Claim  Claim
}

// Machine is a machine on one day.
type Machine struct {
	Name Symbol
	// Evidence in the day's rows about the ownership (methodology section 2).
	HasPrimary, PrimaryProject, AnyProject bool
}

// interval is a range of snapshots, both ends included.
type interval struct{ First, Last uint16 }

// Room is what all primary partitionable slots of a machine have left for jobs (methodology section 16).
type Room struct {
	Cpus   float32 // NaN = unknown
	Memory float32 // MiB; NaN = unknown
}

// roomSpan is a range of snapshots, both ends included, in which a machine's room is the same.
type roomSpan struct {
	First, Last uint16
	Room
}

// Statuses that every day has.
const (
	Silent uint32 = iota // the machine has no row in the snapshot
	Absent               // the machine has rows, the GPU has none
)

// GPUs is the number of GPUs with a row on this day.
func (d *Day) GPUs() int { return len(d.gpus) }

// GPU returns the pool's GPU that is the day's i-th.
func (d *Day) GPU(i int) GPU { return d.gpus[i].GPU }

// MachineOf returns the index of the i-th GPU's machine.
func (d *Day) MachineOf(i int) int { return int(d.gpus[i].Machine) }

// Model returns the i-th GPU's device and memory.
func (d *Day) Model(i int) Model { return d.Models[d.gpus[i].Model] }

// Spans returns the first snapshot and the status of each of the i-th GPU's spans, in order.
// A span ends before the next one begins, the last with the day. The slices must not be changed.
func (d *Day) Spans(i int) (first []uint16, status []uint32) {
	a, b := d.offsets[i], d.offsets[i+1]
	return d.first[a:b], d.status[a:b]
}

// Span is a part of a day in which the status of a GPU does not change: the snapshots [First, End).
type Span struct {
	First, End int
	Status     uint32
}

// SpansIn yields the i-th GPU's spans, as far as they lie in the snapshots [from, end).
func (d *Day) SpansIn(i, from, end int) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		first, statuses := d.Spans(i)
		for k, status := range statuses {
			s := Span{max(int(first[k]), from), end, status}
			if k+1 < len(first) {
				s.End = min(end, int(first[k+1]))
			}
			if s.First < s.End && !yield(s) {
				return
			}
		}
	}
}

// StatusRows returns the rows of a status, by side.
func (d *Day) StatusRows(status uint32) [2]*Row {
	s := d.statuses[status]
	return [2]*Row{&d.Rows[s[pool.Primary]], &d.Rows[s[pool.Backfill]]}
}

// FurtherClaims returns the claims of a status in addition to those of its rows.
func (d *Day) FurtherClaims(s uint32) (claims []Claim) {
	i := sort.Search(len(d.extras), func(i int) bool { return d.extras[i].Status >= s })
	for ; i < len(d.extras) && d.extras[i].Status == s; i++ {
		claims = append(claims, d.extras[i].Claim)
	}
	return claims
}

// Reports reports whether the m-th machine has a row in a snapshot.
func (d *Day) Reports(m, snapshot int) bool {
	for _, s := range d.silencesOf(m) {
		if int(s.First) <= snapshot && snapshot <= int(s.Last) {
			return false
		}
	}
	return true
}

// silencesOf returns the intervals in which the m-th machine has no row.
func (d *Day) silencesOf(m int) []interval { return d.silent[d.silentOffsets[m]:d.silentOffsets[m+1]] }

func (d *Day) roomsOf(m int) []roomSpan { return d.rooms[d.roomOffsets[m]:d.roomOffsets[m+1]] }

// Room returns the m-th machine's room in the latest of the snapshots [from, to) with a row of a primary partitionable
// slot of it; ok is false if none has one, as in files without the columns SlotType, Cpus, Memory. Broken slots count.
func (d *Day) Room(m, from, to int) (room Room, ok bool) {
	rooms := d.roomsOf(m)
	i := sort.Search(len(rooms), func(i int) bool { return int(rooms[i].First) >= to }) - 1
	if i < 0 || int(rooms[i].Last) < from {
		return Room{}, false
	}
	return rooms[i].Room, true
}

// IsBackfill reports whether a row of the m-th machine says by BackfillSlot that a slot, or the one that the part of
// its name before the last _ denotes, is a backfill slot, which its name does not say (methodology section 2).
func (d *Day) IsBackfill(m int, slot string, names *Names) bool {
	flagged := d.slots[d.slotOffsets[m]:d.slotOffsets[m+1]]
	texts, whole := names.Texts(), wholeSlot(slot)
	return slices.ContainsFunc(flagged, func(s Symbol) bool { return texts[s] == slot || texts[s] == whole })
}

// wholeSlot is the name of the partitionable slot that a dynamic one is part of; of another slot its own.
func wholeSlot(slot string) string {
	if i := strings.LastIndexByte(slot, '_'); i >= 0 {
		return slot[:i]
	}
	return slot
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

// seal computes the values that are derived from the rest, once the day is complete.
func (d *Day) seal(names *Names) {
	texts := names.Texts()
	for _, r := range d.Rows {
		if pool.IsCut(texts[r.Reason]) || pool.IsCut(texts[r.Project]) || pool.IsCut(texts[r.User]) {
			d.cut++
		}
	}
	if len(d.Times)-1 >= 8 {
		d.cadence = pool.MedianDistance(d.Times)
	}
	d.thin = d.isThin()
	d.bytes = int(unsafe.Sizeof(*d)) + trim(&d.Times) + trim(&d.Ends) + trim(&d.RowsWithoutGPU) + trim(&d.incomplete) +
		trim(&d.gpus) + trim(&d.Models) + trim(&d.offsets) + trim(&d.first) + trim(&d.status) +
		trim(&d.Rows) + trim(&d.statuses) + trim(&d.extras) +
		trim(&d.Machines) + trim(&d.silentOffsets) + trim(&d.silent) + trim(&d.roomOffsets) + trim(&d.rooms) +
		trim(&d.slotOffsets) + trim(&d.slots) + trim(&d.odd) + trim(&d.examples) + trim(&d.jobs)
}

// trim gives back the memory that append reserved, and returns the bytes of the slice.
func trim[T any](s *[]T) int {
	if len(*s) < cap(*s) {
		*s = append(make([]T, 0, len(*s)), *s...)
	}
	var one T
	return len(*s) * int(unsafe.Sizeof(one))
}

// Bytes is the live memory of the day.
func (d *Day) Bytes() int { return d.bytes }

// Jobs are the jobs of a day's claims that give a state, by status and side; none if it is not Claimed.
type Jobs [][2]Job

// Jobs assigns the jobs of the day's claims. They are not kept.
func (d *Day) Jobs() Jobs {
	all, jobs := make(Jobs, len(d.statuses)), d.jobs
	for s, rows := range d.statuses {
		for side, row := range rows {
			if d.Rows[row].State == pool.Claimed {
				all[s][side], jobs = jobs[0], jobs[1:]
			}
		}
	}
	return all
}

// Claims calls visit with the job of each claim in the window, at each snapshot from which on a GPU's status stays the
// same: at least at the first snapshot of each UTC day that shows the job.
func (v *View) Claims(w pool.Window, visit func(t pool.Micros, job Job)) {
	for _, d := range v.Days {
		jobs := d.Jobs()
		for i := range d.GPUs() {
			for span := range d.SpansIn(i, 0, len(d.Times)) {
				if t := d.Times[span.First]; w.Contains(t) {
					for _, job := range d.claimed(span.Status, jobs) {
						visit(t, job)
					}
				}
			}
		}
	}
}

// claimed returns the jobs of all claims of a status. jobs are the day's.
func (d *Day) claimed(status uint32, jobs Jobs) []Job {
	all := slices.Clone(jobs[status][:])
	for _, claim := range d.FurtherClaims(status) {
		all = append(all, claim.Job)
	}
	return slices.DeleteFunc(all, Job.IsNone)
}

// Queued is when the job was queued, by its access point's clock (htcondor.md: qdate); false: its id has another form.
func (j Job) Queued() (t pool.Micros, ok bool) {
	return pool.Micros(j.QDate) * pool.Second, j.QDate != 0 && j.Cluster != raw
}
