package backfill

import (
	"sort"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// hole is an unseen run on a GPU. Periods leave out its time (methodology section 7).
type hole struct {
	run   *runs.Explained
	until pool.Micros // the latest end of this and the runs before
}

// readHoles sorts the machine's unseen runs by GPU. Backfill jobs end vacancies; tenures only where an owner preempted
// them.
func (f *finder) readHoles() {
	f.holes = make([][]hole, len(f.Observed.Machines[f.machine].GPUs))
	unseen := f.History.Machines[f.machine].Unseen
	for i := range unseen {
		h := hole{run: &unseen[i]}
		if f.measure == tenure && h.run.Side == pool.Backfill && !h.preempted() {
			continue
		}
		for _, g := range h.run.GPUs {
			h.until = h.run.End
			if n := len(f.holes[g]); n > 0 {
				h.until = max(h.until, f.holes[g][n-1].until)
			}
			f.holes[g] = append(f.holes[g], h)
		}
	}
}

// preempted reports whether it is a run on backfill that an owner ended.
func (h *hole) preempted() bool {
	return h.run.Side == pool.Backfill && h.run.Outcome == runs.Evicted && h.run.Cause == runs.OwnerPreemption
}

// split yields the parts that unseen runs leave of a period.
func (f *finder) split(p *Period, yield func(*Period)) {
	holes := f.holes[p.gpu]
	for _, h := range holes[sort.Search(len(holes), func(i int) bool { return holes[i].until > p.Start }):] {
		if h.run.Start >= p.End {
			break
		}
		if h.run.End <= p.Start {
			continue
		}
		taken := h.preempted() && f.takenAfter(p.gpu, h.run.End)
		if f.measure == tenure && h.run.Side == pool.Backfill {
			if taken && h.run.End < p.End { // the owner has it from then on
				before := *p
				before.End, before.Reason = h.run.End, Reclaimed
				p = &before
				break
			}
			continue
		}
		if h.run.Start > p.Start {
			before := *p
			before.End, before.Reason, before.Link, before.Job = h.run.Start, Claimed, h.run.Link, h.run.Job
			if h.run.Side == pool.Primary {
				before.Reason = Reclaimed
			}
			yield(&before)
		}
		if h.run.End >= p.End || taken {
			return
		}
		after := *p
		after.Start, after.Beginning = h.run.End, Seen
		p = &after
	}
	yield(p)
}

// takenAfter reports whether an owner has a GPU of the machine at the first snapshot after a time.
func (f *finder) takenAfter(gpu int32, at pool.Micros) bool {
	o := f.Observed
	of := &o.Machines[f.machine].GPUs[gpu]
	next := sort.Search(len(o.View.Times), func(i int) bool { return o.View.Times[i] > at })
	return next >= o.First && next < o.End && of.Segments[of.At(int32(next))].State == runs.Taken
}
