package backfill

import (
	"sort"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// splitter leaves the time of unseen runs out of periods (methodology section 7). It wants them machine by machine.
type splitter struct {
	measure   measure
	observed  *runs.Observed
	explained *runs.Explanations
	machine   int32
	unseen    [][]hole // of each GPU of the machine; nil before the first one
	found     []Period
}

// hole is an unseen run on a GPU.
type hole struct {
	run    *runs.Explained
	number int32       // in Explanation.Unseen
	until  pool.Micros // the latest end of this and the runs before
}

// parts returns the remaining parts of a period; the result is valid until the next call.
func (c *splitter) parts(p Period) []Period {
	c.found = c.found[:0]
	if c.unseen == nil || c.machine != p.machine {
		c.read(&p)
	}
	holes := c.unseen[p.gpu]
	for _, h := range holes[sort.Search(len(holes), func(i int) bool { return holes[i].until > p.Start }):] {
		if h.run.Start >= p.End {
			break
		}
		if h.run.End <= p.Start {
			continue
		}
		taken := h.preempted() && c.takenAfter(p.gpu, h.run.End)
		if c.measure == tenure && h.run.Side == pool.Backfill {
			if taken && h.run.End < p.End { // the owner has it from then on
				p.End, p.Reason = h.run.End, Reclaimed
				break
			}
			continue
		}
		if h.run.Start > p.Start {
			before := p
			before.End, before.Reason, before.Link, before.unseen = h.run.Start, Claimed, h.run.Link, h.number
			if h.run.Side == pool.Primary {
				before.Reason = Reclaimed
			}
			c.found = append(c.found, before)
		}
		if h.run.End >= p.End || taken {
			return c.found
		}
		p.Start, p.Beginning = h.run.End, Seen
	}
	c.found = append(c.found, p)
	return c.found
}

// preempted reports whether it is a run on backfill that an owner ended.
func (h *hole) preempted() bool {
	return h.run.Side == pool.Backfill && h.run.Outcome == runs.Evicted && h.run.Cause == runs.OwnerPreemption
}

// takenAfter reports whether an owner has a GPU of the machine at the first snapshot after a time.
func (c *splitter) takenAfter(gpu int32, at pool.Micros) bool {
	times, of := c.observed.View.Times, &c.observed.Machines[c.machine].GPUs[gpu]
	next := sort.Search(len(times), func(i int) bool { return times[i] > at })
	return next >= c.observed.First && next < c.observed.End && of.Segments[of.At(int32(next))].State == runs.Taken
}

// read sorts a machine's unseen runs by GPU. Backfill jobs end vacancies; tenures only where an owner preempted them.
func (c *splitter) read(p *Period) {
	c.machine = p.machine
	c.unseen = make([][]hole, len(c.observed.Machines[p.machine].GPUs))
	unseen := c.explained.Machines[p.machine].Unseen
	for i := range unseen {
		if h := (hole{run: &unseen[i]}); c.measure == tenure && unseen[i].Side == pool.Backfill && !h.preempted() {
			continue
		}
		for _, g := range unseen[i].GPUs {
			h := hole{run: &unseen[i], number: int32(i), until: unseen[i].End}
			if n := len(c.unseen[g]); n > 0 {
				h.until = max(h.until, c.unseen[g][n-1].until)
			}
			c.unseen[g] = append(c.unseen[g], h)
		}
	}
}
