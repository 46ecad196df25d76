package timeline

import (
	"cmp"
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

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
	for _, f := range b.usage.further {
		if f.Snapshot < before {
			b.further = append(b.further, f)
		}
	}
}

// finishUsage concatenates what the claims reported, in the order of the day's GPUs.
func (b *builder) finishUsage(order []uint32) *Usage {
	u := &Usage{number: usages.Add(1), snapshots: len(b.day.Times), offsets: []uint32{0}, further: b.further}
	numbers := make([]int, len(b.gpus))
	for n, i := range order {
		numbers[i] = n
		for side := range b.gpus[i].usage {
			u.code = append(u.code, b.gpus[i].usage[side].code...)
			u.offsets = append(u.offsets, uint32(len(u.code)))
		}
	}
	for i := range u.further {
		u.further[i].GPU = numbers[u.further[i].GPU]
	}
	trim(&u.offsets)
	trim(&u.code)
	slices.SortFunc(u.further, func(x, y FurtherUsage) int {
		return cmp.Or(cmp.Compare(x.Snapshot, y.Snapshot), cmp.Compare(x.index(), y.index()), cmp.Compare(x.Claim, y.Claim))
	})
	return u
}
