package backfill

import (
	"context"
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// bounding are the claims whose runs bound periods, made once for as long as the same is known of runs.
type bounding struct {
	claims []claim
	begun  []span
	runs   []ending
}

// claim is a job's hold of GPUs, all pieces of which are explained together.
type claim struct {
	ended int32 // the last snapshot of the latest period that it ended, −1 = none
	begun int32 // where the list of the periods ends that it began; only those that last longer
	runs  int32 // where the list of its explained runs ends that are over
}

// span are the snapshots of a period.
type span struct{ first, last int32 }

// ending is when an explained run ended, and whether an ad describes it.
type ending struct {
	end    pool.Micros
	linked bool
}

// boundingOf returns the claims that bound the periods of measures. Errors are ctx's.
func boundingOf(ctx context.Context, of *runs.Known, measures []measure, all [2]*known) (*bounding, error) {
	var key [2]bool
	for _, m := range measures {
		key[m] = true
	}
	return runs.Derived(ctx, of, key, func() (*bounding, error) {
		b := &bounding{}
		var seen [2][]bounds
		for _, m := range measures {
			seen[m] = all[m].seen
		}
		for m := range of.Machines {
			var bound []bounds
			for i := range seen {
				n := sort.Search(len(seen[i]), func(k int) bool { return int(seen[i][k].machine) > m })
				bound, seen[i] = append(bound, seen[i][:n]...), seen[i][n:]
			}
			b.add(&of.Machines[m], bound)
		}
		return b, ctx.Err()
	})
}

// add adds the claims that bound periods of a machine.
func (b *bounding) add(x *runs.Explanation, bound []bounds) {
	type lists struct {
		claim
		begun []span
		runs  []ending
	}
	claims := map[int]*lists{}
	var order []int
	of := func(run int32) *lists {
		if run < 0 {
			return nil
		}
		n := x.Claim(int(run))
		if n < 0 {
			return nil
		}
		if claims[int(n)] == nil {
			claims[int(n)] = &lists{claim: claim{ended: -1}}
			order = append(order, int(n))
		}
		return claims[int(n)]
	}
	for i := range bound {
		if c := of(bound[i].endRun); c != nil {
			c.ended = max(c.ended, bound[i].last)
		}
		if c := of(bound[i].startRun); c != nil {
			c.begun = append(c.begun, span{bound[i].first, bound[i].last})
		}
	}
	for i := range x.Runs {
		e := &x.Runs[i]
		if c := claims[int(x.Claim(e.Number()))]; c != nil && e.Outcome != runs.Running {
			c.runs = append(c.runs, ending{e.End, e.Link.Linked()})
		}
	}
	slices.Sort(order)
	for _, n := range order {
		c := claims[n]
		if len(c.runs) == 0 {
			continue
		}
		for _, s := range c.begun {
			if s.last > c.ended {
				b.begun = append(b.begun, s)
			}
		}
		b.runs = append(b.runs, c.runs...)
		b.claims = append(b.claims, claim{c.ended, int32(len(b.begun)), int32(len(b.runs))})
	}
}

// share counts the runs of claims that bound periods which reach the window, of those that are due.
func (b *bounding) share(o *runs.Observed, w pool.Window, now pool.Micros) (s linked.Share) {
	times := o.View.Times[:o.End]
	reaching := int32(sort.Search(len(times), func(i int) bool { return times[i] >= w.From })) - 1
	since := o.Since(w)
	begun, next := int32(0), int32(0)
	for i := range b.claims {
		c := &b.claims[i]
		reaches := c.ended >= reaching
		for ; begun < c.begun; begun++ {
			p := b.begun[begun]
			reaches = reaches || p.last >= reaching && (p.first > since || p.last < since)
		}
		if !reaches {
			next = c.runs
			continue
		}
		for ; next < c.runs; next++ {
			if r := b.runs[next]; linked.Due(r.end, now) {
				s.Add(r.linked)
			}
		}
	}
	return s
}
