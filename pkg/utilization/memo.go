package utilization

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"unsafe"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// What a run's GPUs did is remembered, if the run lies in the window as a whole: then it does not depend on the window,
// and only runs at its two ends are traced when it moves. Runs are kept by machine and the day on which they end.

// memoKey names the runs of a machine that end on a day, and the buckets of a series.
type memoKey struct {
	machine timeline.Symbol
	last    uint64 // number of the day's block: a day that grows or is read again has another one
	buckets string
}

// runKey is all that a run's figures are made from beside the blocks of its days.
type runKey struct {
	job         timeline.Job
	user        timeline.Symbol
	leader      timeline.GPU
	gpus        int
	side        pool.Side
	first, last pool.Micros // the snapshots that show it
	start, end  pool.Micros
	others      uint64 // hash of the blocks of its other days, and of the gaps from its start on
}

// figures are what is remembered of a run.
type figures struct {
	key runKey
	Amounts
	clamped int
	isIdle  bool
	buckets []bucketAmount // counted from the one that holds its start
}

// remembered are the figures of the runs of a memoKey, by the hash of their keys: of two runs with the same hash, the
// later one is remembered.
type remembered map[uint64]figures

// Bytes is about the live memory, with the map's own.
func (r remembered) Bytes() int {
	n := 200
	for _, f := range r {
		n += 3*int(8+unsafe.Sizeof(f))/2 + cap(f.buckets)*int(unsafe.Sizeof(bucketAmount{}))
	}
	return n
}

// bucketsOf names the buckets of a plan.
func bucketsOf(p *query.Plan) string {
	switch {
	case p.Frame == query.FrameHeatMap:
		return "hours " + p.Location.String()
	case p.Frame != query.FrameSeries:
		return ""
	case p.Bucket == nil:
		return "window"
	}
	return fmt.Sprint(p.Bucket.Name, " ", p.Bucket.YearStart, " ", p.Location)
}

// memory recalls the figures of a machine's runs, and notes new ones.
type memory struct {
	*tracing
	machine *runs.Machine
	buckets string      // see bucketsOf
	days    []memoryDay // as the blocks
}

// memoryDay holds the runs that end on a day.
type memoryDay struct {
	looked       bool
	known, added remembered
}

// keyOf names a run's figures, and returns the number of the block of the day on which it ends; false: they depend on
// the window.
func (m *memory) keyOf(r *Run) (day int, key runKey, ok bool) {
	if r.Outcome == runs.Running || r.Start < m.plan.Window.From || r.End > m.plan.Window.To || r.Last < r.First {
		return 0, key, false
	}
	v := m.reported.view
	from, to := v.DayAt(int(r.First)), v.DayAt(int(r.Last))
	key = runKey{
		job: r.Job, user: r.User, leader: m.machine.GPUs[r.Leader].GPU, gpus: len(r.GPUs), side: r.Side,
		first: v.Times[r.First], last: v.Times[r.Last], start: r.Start, end: r.End,
	}
	for k := from; k < to; k++ {
		key.others = mix(key.others, m.reported.blocks[k-m.reported.first].Number())
	}
	at := sort.Search(len(m.gaps), func(i int) bool { return m.gaps[i].From >= r.Start })
	for _, g := range m.gaps[at:] {
		if g.From >= key.last {
			break
		}
		key.others = mix(mix(key.others, uint64(g.From)), uint64(g.To))
	}
	return to - m.reported.first, key, true
}

// mix adds a number to a hash (FNV-1a, by words).
func mix(hash, n uint64) uint64 { return (hash ^ n) * 1099511628211 }

// hash is that of a run on a machine: its GPU and times are.
func (k *runKey) hash() uint64 {
	h := mix(k.others, uint64(k.leader)<<1|uint64(k.side))
	return mix(mix(mix(h, uint64(k.job.Cluster)<<32|uint64(k.job.Proc)), uint64(k.first)), uint64(k.end))
}

// of names the runs that end on a day.
func (m *memory) of(day int) memoKey {
	return memoKey{m.machine.Name, m.reported.blocks[day].Number(), m.buckets}
}

// bucketAt is the bucket that holds the run's start.
func (m *memory) bucketAt(r *Run) int {
	return max(0, sort.Search(len(m.tracing.buckets), func(i int) bool { return m.tracing.buckets[i] > r.Start })-1)
}

// recall fills in the figures of a run; false: they are not remembered.
func (m *memory) recall(r *Run, day int, key *runKey) bool {
	of := &m.days[day]
	if !of.looked {
		of.known, _ = m.memo.Recall(m.of(day)).(remembered)
		of.looked = true
	}
	f, ok := of.known[key.hash()]
	if !ok || f.key != *key {
		return false
	}
	r.Amounts, r.Clamped, r.IsIdle = f.Amounts, f.clamped, f.isIdle
	if r.buckets = f.buckets; len(r.buckets) > 0 {
		r.shift = m.bucketAt(r)
	}
	return true
}

// note remembers the figures of a run.
func (m *memory) note(r *Run, day int, key *runKey) {
	f := figures{key: *key, Amounts: r.Amounts, clamped: r.Clamped, isIdle: r.IsIdle, buckets: slices.Clone(r.buckets)}
	if at := m.bucketAt(r); len(f.buckets) > 0 {
		for i := range f.buckets {
			f.buckets[i].bucket -= at
		}
	}
	of := &m.days[day]
	if of.added == nil {
		of.added = maps.Clone(of.known)
	}
	if of.added == nil {
		of.added = remembered{}
	}
	of.added[key.hash()] = f
}

// keep keeps what was noted beside what was known.
func (m *memory) keep() {
	for day := range m.days {
		if added := m.days[day].added; added != nil {
			m.memo.Keep(m.of(day), added)
		}
	}
}
