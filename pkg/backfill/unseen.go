package backfill

import (
	"sort"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// cutter takes what unseen runs cover out of periods (methodology section 7). It wants them machine by machine.
type cutter struct {
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

// parts returns what is left of a period; the result is good until the next call.
func (c *cutter) parts(p Period) []Period {
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
		if h.run.Start > p.Start {
			before := p
			before.End, before.Reason, before.Link, before.unseen = h.run.Start, Claimed, h.run.Link, h.number
			if h.run.Side == pool.Primary {
				before.Reason = Reclaimed
			}
			c.found = append(c.found, before)
		}
		if h.run.End >= p.End {
			return c.found
		}
		p.Start, p.Beginning = h.run.End, Seen
	}
	c.found = append(c.found, p)
	return c.found
}

// read sorts a machine's unseen runs by GPU. Backfill jobs end vacancies, no tenures.
func (c *cutter) read(p *Period) {
	c.machine = p.machine
	c.unseen = make([][]hole, len(c.observed.Machines[p.machine].GPUs))
	unseen := c.explained.Machines[p.machine].Unseen
	for i := range unseen {
		if c.measure == tenure && unseen[i].Side == pool.Backfill {
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
