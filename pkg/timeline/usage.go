package timeline

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync/atomic"

	"go.opentelemetry.io/otel"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// errOtherRows says that the rows of a day are not those that its segment was made from.
var errOtherRows = fmt.Errorf("the rows are not those of the segment: %w", snapshots.ErrStale)

// usageOf requests the usage of a day of a view that was loaded in a state of the source. Usually it was kept when the
// segment was derived; otherwise both are derived once more.
func (t *Timeline) usageOf(state snapshots.State, d *Day, stats *loadStats) request[*Usage] {
	return request[*Usage]{
		state: state, date: d.Date, left: d.incomplete, stats: stats,
		decode: func(encoded []byte) (*Usage, error) { return decodeUsage(encoded, d.GPUs(), len(d.Times)) },
		derive: func(ctx context.Context, _ *Usage, _ snapshots.Known) (*Usage, snapshots.Reading, error) {
			again, usage, reading, err := t.read(ctx, state, d.Date, d.incomplete, snapshots.Known{}, nil, nil)
			if err == nil && !again.claimsAs(d) {
				err = errOtherRows
			}
			return usage, reading, err
		},
	}
}

// claimsAs reports whether two segments have the same claims in the same snapshots.
func (d *Day) claimsAs(other *Day) bool {
	return slices.Equal(d.Times, other.Times) && slices.Equal(d.gpus, other.gpus) && slices.Equal(d.first, other.first) &&
		slices.Equal(d.status, other.status) && slices.Equal(d.jobs, other.jobs) && slices.Equal(d.extras, other.extras)
}

// Usage returns the usage of the days [first, end) of a view, in their order.
//
// The usage of a day that cannot be read is empty, and a notice names it. Errors: snapshots.ErrStale if the snapshots
// have changed since the view was loaded, see Retry; ctx's.
func (t *Timeline) Usage(ctx context.Context, v *View, first, end int) ([]*Usage, []snapshots.Notice, error) {
	ctx, span := otel.Tracer("gpureports").Start(ctx, "gpureports load usage")
	defer span.End()
	t.busy.Add(1)
	defer t.busy.Add(-1)
	days := v.Days[first:end]
	var stats loadStats
	entries, err := t.usages.all(ctx, len(days), &stats, func(i int) request[*Usage] {
		return t.usageOf(v.state, days[i], &stats)
	})
	if err != nil {
		return nil, nil, err
	}
	all := make([]*Usage, len(days))
	for i, e := range entries {
		if e != nil {
			all[i] = e.value
			continue
		}
		all[i] = &Usage{Number: usages.Add(1), snapshots: len(days[i].Times), offsets: make([]uint32, 2*days[i].GPUs()+1)}
	}
	return all, stats.usageNotices(), nil
}

const (
	usageUnit = 1e9 // what stored values count: billionths of a GPU
	mostUsage = 1e6 // the largest value that is kept; a slot has fewer GPUs
)

// UsagePlace is the place of a claim in a segment: a GPU's number in the day, and a side.
type UsagePlace struct {
	GPU  int
	Side pool.Side
}

func (p UsagePlace) index() int { return 2*p.GPU + int(p.Side) }

// FurtherUsage is the value of a claim that nowhere gives its side's state: a GPU's further claim (Day.FurtherClaims).
type FurtherUsage struct {
	UsagePlace
	Snapshot int
	Claim    int // index among the status's further claims
	Usage    float64
}

// Usage is the column GPUsAverageUsage of a UTC day (methodology section 13). It is derived together with the segment.
// Because it changes with every snapshot, while a segment's spans do not, it is kept apart, and loaded only by the
// questions that need it. It is never changed.
//
// A claim's value in a snapshot is stored once, with the first of its GPUs. Values are kept to 1e-9 of a GPU, as
// differences to the value before, in 4 to 5 bytes each.
type Usage struct {
	Number  uint64         // identifies the usage of a day within this process
	Further []FurtherUsage // of further claims, ascending by snapshot, place and claim

	snapshots int
	offsets   []uint32 // where the code of each place begins; one more than there are
	code      []byte
}

// A place's code is a sequence of pairs of varints: how many snapshots without a value come first, and the difference
// to the value before. Snapshots after the end of the code have no value.

// usages is the number of the days' usages so far.
var usages atomic.Uint64

// Empty reports whether no claim reported a value.
func (u *Usage) Empty() bool { return len(u.code) == 0 && len(u.Further) == 0 }

// Bytes is the live memory of the usage.
func (u *Usage) Bytes() int {
	return cap(u.code) + 4*cap(u.offsets) + 48*cap(u.Further) + 120
}

// Read writes a place's values into those of the day's snapshots; NaN is none. It reports whether there is any.
func (u *Usage) Read(p UsagePlace, into []float64) bool {
	for i := range into {
		into[i] = math.NaN()
	}
	any := false
	for snapshot, value := range u.values(p) {
		into[snapshot], any = float64(value)/usageUnit, true
	}
	return any
}

// values yields a place's values in units, by their snapshots.
func (u *Usage) values(p UsagePlace) iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		code := u.code[u.offsets[p.index()]:u.offsets[p.index()+1]]
		snapshot, value := 0, int64(0)
		for len(code) > 0 {
			skipped, n := binary.Uvarint(code)
			change, m := binary.Varint(code[n:])
			code = code[n+m:]
			snapshot += int(skipped)
			value += change
			if !yield(snapshot, value) {
				return
			}
			snapshot++
		}
	}
}

// series is the code of a place in the making.
type series struct {
	code []byte
	next int // snapshot
	last int64
}

// unitsOf returns a value in units.
func unitsOf(usage float64) int64 { return int64(math.Round(min(usage, mostUsage) * usageUnit)) }

// add notes a value in units. The snapshots come in ascending order.
func (s *series) add(snapshot int, value int64) {
	s.code = binary.AppendUvarint(s.code, uint64(snapshot-s.next))
	s.code = binary.AppendVarint(s.code, value-s.last)
	s.next, s.last = snapshot+1, value
}

// stored returns the parts of the usage that are written.
func (u *Usage) stored() []any { return []any{&u.snapshots, &u.offsets, &u.code, &u.Further} }

// decodeUsage reads the stored usage of a day of so many GPUs and snapshots. Error: errDamaged.
func decodeUsage(encoded []byte, gpus, snapshots int) (*Usage, error) {
	u := &Usage{Number: usages.Add(1)}
	err := readParts(encoded, u.stored())
	if err != nil || u.snapshots != snapshots || len(u.offsets) != 2*gpus+1 || !u.valid() {
		return nil, errDamaged
	}
	return u, nil
}

// valid reports whether each place's code can be read, and all values are of places and snapshots that exist.
func (u *Usage) valid() bool {
	places := len(u.offsets) - 1
	if !areOffsets(u.offsets, places, len(u.code)) {
		return false
	}
	for p := range places {
		if !validCode(u.code[u.offsets[p]:u.offsets[p+1]], u.snapshots) {
			return false
		}
	}
	for _, f := range u.Further {
		if f.Snapshot < 0 || f.Snapshot >= u.snapshots || f.GPU < 0 || f.GPU >= places/2 ||
			f.Side > pool.Backfill || f.Claim < 0 {
			return false
		}
	}
	return true
}

func validCode(code []byte, snapshots int) bool {
	left := uint64(snapshots)
	for len(code) > 0 {
		skipped, n := binary.Uvarint(code)
		if n <= 0 || skipped >= left {
			return false
		}
		_, m := binary.Varint(code[n:])
		if m <= 0 {
			return false
		}
		code, left = code[n+m:], left-skipped-1
	}
	return true
}

// This file derives the usage of a day in the pass that derives its spans (methodology section 13). In a snapshot a
// claim reports the last value, in file order, that its rows have: a claim is a job on one side of a machine; without a
// GlobalJobId a user on one side of a GPU.

// claimKey identifies a claim of a day.
type claimKey struct {
	machine uint32
	side    pool.Side
	job     Job
	user    Symbol // without a job
	gpu     uint32 // likewise
}

// claimOf returns the claim of a Claimed row with a GPU.
func claimOf(p *parsedRow, row *heldRow) claimKey {
	if row.Job.IsNone() {
		return claimKey{machine: p.machine, side: p.side, user: row.User, gpu: p.gpu}
	}
	return claimKey{machine: p.machine, side: p.side, job: row.Job}
}

// includes reports whether a user's job on a GPU, on the claim's side and machine, belongs to the claim.
func (c *claimKey) includes(user Symbol, job Job, gpu uint32) bool {
	return job == c.job && (!job.IsNone() || user == c.user && gpu == c.gpu)
}

// report is what a claim's rows say in a snapshot.
type report struct {
	snapshot int     // the last one with a row of the claim
	value    float64 // NaN: none
	first    uint32  // the first of its GPUs
	leader   uint32  // the first of its GPUs whose state it gives; noGPU: none
}

// measure notes what each claim reports in a snapshot whose rows have been taken.
func (b *builder) measure(number int, s snapshots.Snapshot) {
	b.active = b.active[:0]
	for i, id := range s.Rows {
		for j := range b.table.rows[id] {
			if p := &b.table.rows[id][j]; p.claim != noClaim {
				b.hear(number, p, s.Usage[i])
			}
		}
	}
	for _, claim := range b.active {
		b.keepReport(number, &b.table.claims.All[claim], &b.reports[claim])
	}
}

// hear takes a Claimed row of a snapshot.
func (b *builder) hear(number int, p *parsedRow, value float64) {
	r := &b.reports[p.claim]
	if r.snapshot != number {
		*r = report{snapshot: number, value: math.NaN(), first: p.gpu, leader: noGPU}
		b.active = append(b.active, p.claim)
	}
	if value >= 0 { // NaN is not
		r.value = value
	}
	r.first = b.earlierOf(r.first, p.gpu)
	held := &b.table.distinct.All[b.gpus[p.gpu].side[p.side]] // Claimed is the highest state
	if b.table.claims.All[p.claim].includes(held.User, held.Job, p.gpu) {
		r.leader = b.earlierOf(r.leader, p.gpu)
	}
}

// earlierOf returns the one of two GPUs of a machine that comes first in the day. The first one can be noGPU.
func (b *builder) earlierOf(g, h uint32) uint32 {
	if g == h || g != noGPU && b.gpus[g].id < b.gpus[h].id {
		return g
	}
	return h
}

// keepReport puts what a claim reports into the usage.
func (b *builder) keepReport(number int, c *claimKey, r *report) {
	switch {
	case math.IsNaN(r.value):
	case r.leader != noGPU:
		b.gpus[r.leader].usage[c.side].add(number, unitsOf(r.value))
	default:
		claim := slices.IndexFunc(b.furtherClaims(&b.gpus[r.first]), func(e Claim) bool {
			return e.Side == c.side && c.includes(e.User, e.Job, r.first)
		})
		b.further = append(b.further, FurtherUsage{UsagePlace{int(r.first), c.side}, number, claim,
			float64(unitsOf(r.value)) / usageUnit})
	}
}

// resumeUsage copies the earlier segment's usage before a snapshot. Its GPUs have the same numbers in the builder.
func (b *builder) resumeUsage(before int) {
	if b.measures = b.usage != nil; !b.measures {
		return
	}
	for i := range b.earlier.gpus {
		for side := range b.gpus[i].usage {
			for snapshot, value := range b.usage.values(UsagePlace{i, pool.Side(side)}) {
				if snapshot < before {
					b.gpus[i].usage[side].add(snapshot, value)
				}
			}
		}
	}
	for _, f := range b.usage.Further {
		if f.Snapshot < before {
			b.further = append(b.further, f)
		}
	}
}

// finishUsage concatenates what the claims reported, in the order of the day's GPUs.
func (b *builder) finishUsage(order []uint32) *Usage {
	u := &Usage{Number: usages.Add(1), snapshots: len(b.day.Times), offsets: []uint32{0}, Further: b.further}
	numbers := make([]int, len(b.gpus))
	for n, i := range order {
		numbers[i] = n
		for side := range b.gpus[i].usage {
			u.code = append(u.code, b.gpus[i].usage[side].code...)
			u.offsets = append(u.offsets, uint32(len(u.code)))
		}
	}
	for i := range u.Further {
		u.Further[i].GPU = numbers[u.Further[i].GPU]
	}
	trim(&u.offsets)
	trim(&u.code)
	slices.SortFunc(u.Further, func(x, y FurtherUsage) int {
		return cmp.Or(cmp.Compare(x.Snapshot, y.Snapshot), cmp.Compare(x.index(), y.index()), cmp.Compare(x.Claim, y.Claim))
	})
	return u
}
