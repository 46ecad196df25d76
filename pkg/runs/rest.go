package runs

import (
	"context"
	"sort"

	"github.com/chtc/gpureports/pkg/parallel"
)

// A new snapshot continues what was observed before. Of each machine, only the days are walked again on which runs
// began that it may change; what ended before is taken over. Runs are of one claim or do not concern each other, so
// those of the claims that go on are found again as they were, if all that belongs to them is walked.

// rest is what is walked of a machine: all of it, or what an earlier observation does not tell.
type rest struct {
	from    int32           // the first snapshot that is walked
	settled int32           // what ended before it is what it was
	before  *Machine        // as it was observed earlier; nil: all of it is walked
	whole   int             // days of the view that are what they were
	live    map[claim]int32 // the claims whose runs are found again, each with the first snapshot of the first of these
	kept    int             // the first runs of the machine that have the jobs that they had
	differs bool            // what was taken for settled is not: all machines must be walked as a whole
}

// margin is by how many snapshots pieces of a claim may be apart that still concern each other: a run goes on after one
// silent snapshot.
const margin = 3

// rests finds what must be walked of each machine after an earlier observation with the same lists; nil is none.
func (o *Observed) rests(ctx context.Context, earlier *Observed) ([]rest, error) {
	rests := make([]rest, len(o.Machines))
	for m := range rests {
		rests[m].from = int32(o.First)
	}
	if earlier == nil || !o.sameGPUs(earlier) {
		return rests, nil
	}
	settled := o.settledAfter(earlier)
	err := parallel.Each(ctx, len(o.Machines), func(_ *struct{}, m int) {
		rests[m] = o.restOf(&earlier.Machines[m], settled)
	})
	return rests, err
}

// settledAfter returns the snapshot before which all is what it was in an earlier observation.
func (o *Observed) settledAfter(earlier *Observed) int32 {
	return min(o.settled(earlier), int32(min(o.End, earlier.End)-margin))
}

// restOf finds what must be walked of a machine.
func (o *Observed) restOf(before *Machine, settled int32) rest {
	r := rest{from: settled, settled: settled, before: before, live: map[claim]int32{}}
	for i := before.Runs.Len() - 1; i >= 0; i-- {
		if before.last[i/partLen] < min(settled, r.from-margin) {
			i -= i % partLen
			continue
		}
		run := before.Runs.At(i)
		claim := claimOf(run)
		if first, live := r.live[claim]; run.Last < settled && (!live || run.Last < first-margin) {
			continue
		}
		r.live[claim] = run.First
		r.from = min(r.from, run.First)
		for _, g := range run.GPUs {
			r.from = min(r.from, before.GPUs[g].Segments.At(before.GPUs[g].At(run.First)).First)
		}
	}
	first := int32(o.First)
	r.from = max(r.from-2*margin, first)
	if r.from = max(int32(o.View.Base[o.dayOf[r.from]]), first); r.from == first {
		return rest{from: first}
	}
	r.whole = o.View.DayAt(int(settled))
	return r
}

// days are those on which the machine is what it was.
func (r *rest) days() []machineDay {
	if r.before == nil {
		return nil
	}
	return r.before.days[:r.whole]
}

// placesOf are the places of a GPU on the days on which they are what they were.
func (r *rest) placesOf(g int) []Place {
	if r.before == nil {
		return nil
	}
	return r.before.GPUs[g].places[:r.whole]
}

// again reports whether a run is found again, of those of the earlier observation as of those that are found.
func (r *rest) again(run *Run) bool {
	first, live := r.live[claimOf(run)]
	return live && run.First >= first
}

// number puts the runs that were found behind those that are known, and in the place of those that they are now.
func (w *walker) number(found []Run) {
	r := w.rest
	var before List[Run]
	if r.before != nil {
		before = r.before.Runs
		r.kept = firstRun(&before, r.settled)
	}
	later := sort.Search(len(found), func(i int) bool { return found[i].First >= r.settled })
	runs := newMaker(before, r.kept+len(found)-later)
	runs.keep(r.kept)
	w.numbers = w.numbers[:0]
	next := firstRun(&before, r.from)
	for i := range found[:later] {
		run, number := &found[i], -1
		if r.again(run) {
			for next < r.kept && !r.again(before.At(next)) {
				next++
			}
			if next < r.kept && before.At(next).First == run.First && claimOf(before.At(next)) == claimOf(run) {
				if number = next; !run.equal(before.At(next)) {
					runs.set(next, *run)
				}
				next++
			} else {
				r.differs = true
			}
		}
		w.numbers = append(w.numbers, int32(number))
	}
	for ; next < r.kept; next++ {
		r.differs = r.differs || r.again(before.At(next))
	}
	for i := range found[later:] {
		w.numbers = append(w.numbers, int32(r.kept+i))
	}
	runs.append(found[later:]...)
	w.machine.Runs = runs.List
	w.machine.last = lastOf(&w.machine.Runs, r.before)
}

// lastOf returns of each part of a list the last snapshot that shows one of its runs; before is the machine as it was
// earlier, nil: not known.
func lastOf(runs *List[Run], before *Machine) []int32 {
	last := make([]int32, len(runs.parts))
	for p, part := range runs.parts {
		if before != nil && runs.isPart(&before.Runs, p) {
			last[p] = before.last[p]
			continue
		}
		for i := range part {
			last[p] = max(last[p], part[i].Last)
		}
	}
	return last
}

// firstRun returns the index of the first run that begins at a snapshot or later.
func firstRun(runs *List[Run], snapshot int32) int {
	return sort.Search(runs.Len(), func(i int) bool { return runs.At(i).First >= snapshot })
}

// known returns the segments of a GPU as they were, how many of them still are, the one behind these (nil: nothing is
// known), and the number of the walked one behind them.
func (w *walker) known(g int) (before List[Segment], known int, was *Segment, next int) {
	r := w.rest
	if r.before == nil {
		return before, 0, nil, 0
	}
	of := &r.before.GPUs[g]
	known = of.At(r.settled)
	was = of.Segments.At(known)
	return of.Segments, known, was, w.at(int32(g), max(was.First, r.from+margin))
}
