package backfill

import (
	"context"
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// bounding are the claims of a machine whose runs bound periods, made once for as long as the same is known of runs.
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

// boundingOf returns the claims of each machine that bound the periods of measures. Errors are ctx's.
func boundingOf(ctx context.Context, of *runs.Known, wanted []measure, all [measures]*known) ([]bounding, error) {
	var key [measures]bool
	for _, m := range wanted {
		key[m] = true
	}
	return runs.Derived(ctx, of, key, func() ([]bounding, error) {
		byMachine := make([]bounding, len(of.Machines))
		err := parallel.Each(ctx, len(of.Machines), func(b *bounder, machine int) {
			b.claims, b.begun, b.runs = b.claims[:0], b.begun[:0], b.runs[:0]
			b.read(&of.Machines[machine], machine, wanted, all)
			b.add(&of.Machines[machine])
			byMachine[machine] = bounding{slices.Clone(b.claims), slices.Clone(b.begun), slices.Clone(b.runs)}
		})
		return byMachine, err
	})
}

// bounder reads machines, one after the other.
type bounder struct {
	bounding
	ended  []int32 // of each claim of the machine, as bounded.ended; unbound = it bounds no period
	newest []int32 // of each claim: the last of the periods that it began, in began; −1 = none
	began  []began
}

const unbound = -2

// began is a period that a claim began, and the one before it that the same claim began; −1 = none.
type began struct {
	span
	before int32
}

// read reads the periods of a machine.
func (b *bounder) read(x *runs.Explanation, machine int, wanted []measure, all [measures]*known) {
	b.ended, b.newest, b.began = b.ended[:0], b.newest[:0], b.began[:0]
	for range x.Runs.Len() { // there are no more claims than runs
		b.ended, b.newest = append(b.ended, unbound), append(b.newest, -1)
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
	for _, m := range wanted {
		seen := all[m].seen
		i := sort.Search(len(seen), func(i int) bool { return int(seen[i].machine) >= machine })
		for ; i < len(seen) && int(seen[i].machine) == machine; i++ {
			bounds(seen[i].endRun, seen[i].last)
			if claim := bounds(seen[i].startRun, -1); claim >= 0 {
				b.began = append(b.began, began{span{seen[i].first, seen[i].last}, b.newest[claim]})
				b.newest[claim] = int32(len(b.began) - 1)
			}
		}
	}
}

// add adds the claims that bound periods of a machine.
func (b *bounder) add(x *runs.Explanation) {
	for i := 0; i < x.Runs.Len(); {
		claim, before := x.ClaimOf(i), len(b.runs)
		for ; i < x.Runs.Len() && x.ClaimOf(i) == claim; i++ {
			if b.ended[claim] == unbound {
				continue
			}
			if e := x.Runs.At(i); e.Outcome != runs.Running {
				b.runs = append(b.runs, ending{e.End, e.Link.Linked()})
			}
		}
		if len(b.runs) == before {
			continue
		}
		for n := b.newest[claim]; n >= 0; n = b.began[n].before {
			if b.began[n].last > b.ended[claim] {
				b.begun = append(b.begun, b.began[n].span)
			}
		}
		b.claims = append(b.claims, bounded{b.ended[claim], int32(len(b.begun)), int32(len(b.runs))})
	}
}

// shareOf counts the runs of claims that bound periods which reach the window, of those that are due.
func shareOf(machines []bounding, o *runs.Observed, w pool.Window, now pool.Micros) (s linked.Share) {
	times := o.View.Times[:o.End]
	reaching := int32(sort.Search(len(times), func(i int) bool { return times[i] >= w.From })) - 1
	since := o.Since(w)
	for m := range machines {
		machines[m].share(&s, reaching, since, now)
	}
	return s
}

// share counts those of a machine. Periods reach the window if their last snapshot is `reaching` or later; since is the
// first snapshot that is seen for it.
func (b *bounding) share(s *linked.Share, reaching, since int32, now pool.Micros) {
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
}
