package backfill

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// bounding are the claims whose runs bound periods, made once for as long as the same is known of runs.
type bounding struct {
	claims []bounded
	begun  []span
	runs   []ending
}

// bounded is a claim, a job's hold of GPUs, all pieces of which are explained together.
type bounded struct {
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
		b := &bounder{}
		var seen [2][]bounds
		for _, m := range measures {
			seen[m] = all[m].seen
		}
		for m := range of.Machines {
			b.bound = b.bound[:0]
			for i := range seen {
				n := sort.Search(len(seen[i]), func(k int) bool { return int(seen[i][k].machine) > m })
				b.bound, seen[i] = append(b.bound, seen[i][:n]...), seen[i][n:]
			}
			b.add(&of.Machines[m])
		}
		return &b.bounding, ctx.Err()
	})
}

// bounder reads machines, one after the other.
type bounder struct {
	bounding
	bound []bounds // of the machine
	ended []int32  // of each claim of the machine, as claim.ended; unbound = it bounds no period
	began []began
}

const unbound = -2

// began is a period that a claim began.
type began struct {
	claim int32
	span
}

// add adds the claims that bound periods of a machine.
func (b *bounder) add(x *runs.Explanation) {
	b.ended, b.began = b.ended[:0], b.began[:0]
	for range x.Runs { // there are no more claims than runs
		b.ended = append(b.ended, unbound)
	}
	bounds := func(run, ended int32) (claim int32) {
		if run < 0 {
			return -1
		}
		if claim = x.Claim(int(run)); claim >= 0 {
			b.ended[claim] = max(b.ended[claim], ended)
		}
		return claim
	}
	for i := range b.bound {
		of := &b.bound[i]
		bounds(of.endRun, of.last)
		if claim := bounds(of.startRun, -1); claim >= 0 {
			b.began = append(b.began, began{claim, span{of.first, of.last}})
		}
	}
	slices.SortStableFunc(b.began, func(x, y began) int { return cmp.Compare(x.claim, y.claim) })
	began := b.began
	for i := 0; i < len(x.Runs); {
		claim, before := x.Claim(x.Runs[i].Number()), len(b.runs)
		for ; i < len(x.Runs) && x.Claim(x.Runs[i].Number()) == claim; i++ {
			if e := &x.Runs[i]; b.ended[claim] != unbound && e.Outcome != runs.Running {
				b.runs = append(b.runs, ending{e.End, e.Link.Linked()})
			}
		}
		over := len(b.runs) > before
		for ; len(began) > 0 && began[0].claim == claim; began = began[1:] {
			if over && began[0].last > b.ended[claim] {
				b.begun = append(b.begun, began[0].span)
			}
		}
		if over {
			b.claims = append(b.claims, bounded{b.ended[claim], int32(len(b.begun)), int32(len(b.runs))})
		}
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
