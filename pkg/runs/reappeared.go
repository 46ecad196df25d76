package runs

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// sighting is one run of a job on backfill, in a list of all its runs.
type sighting struct {
	machine int32
	run     *Run
	next    int32 // index of another run of the job; −1 = none
}

// jobIndex finds the runs of a job on backfill.
type jobIndex struct {
	heads     map[timeline.Job]int32
	sightings []sighting
}

func (o *Observed) index() *jobIndex {
	n := 0
	for m := range o.Machines {
		n += len(o.Machines[m].Runs)
	}
	x := &jobIndex{make(map[timeline.Job]int32, n), make([]sighting, 0, n)}
	for m := range o.Machines {
		for r := range o.Machines[m].Runs {
			run := &o.Machines[m].Runs[r]
			if run.Side != pool.Backfill || run.Job.IsNone() {
				continue
			}
			s := sighting{int32(m), run, -1}
			if head, known := x.heads[run.Job]; known {
				s.next = head
			}
			x.heads[run.Job] = int32(len(x.sightings))
			x.sightings = append(x.sightings, s)
		}
	}
	return x
}

// later tells whether the job has a run that begins after a snapshot, and that passes.
func (x *jobIndex) later(job timeline.Job, snapshot int32, passes func(sighting) bool) bool {
	i, known := x.heads[job]
	for ; known && i >= 0; i = x.sightings[i].next {
		if s := x.sightings[i]; s.run.First > snapshot && passes(s) {
			return true
		}
	}
	return false
}

// reappeared decides runs that nothing else decided: the same job has a later run, so this one was evicted. To a run cut by
// a gap a later one on the same machine with a GPU in common proves nothing: it may be the same run (methodology section 8).
func (o *Observed) reappeared(ctx context.Context, x *Explanations) error {
	index := o.indexed()
	return Parallel(ctx, len(x.Machines), func(m int) {
		for i := range x.Machines[m].Runs {
			e := &x.Machines[m].Runs[i]
			if e.Side != pool.Backfill || e.final || e.Evidence != None || e.Job.IsNone() {
				continue
			}
			if index.later(e.Job, e.Last, func(s sighting) bool {
				return e.Outcome != Lost || s.machine != int32(m) || !slices.ContainsFunc(e.GPUs, func(g int32) bool { return slices.Contains(s.run.GPUs, g) })
			}) {
				e.Outcome, e.Evidence, e.Cause = Evicted, Reappeared, UnknownCause
			}
		}
	})
}
