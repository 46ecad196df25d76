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

// after returns the job's first run that begins after a snapshot; its machine −1 when there is none.
func (x *jobIndex) after(job timeline.Job, snapshot int32) sighting {
	best := sighting{machine: -1}
	i, known := x.heads[job]
	for ; known && i >= 0; i = x.sightings[i].next {
		s := x.sightings[i]
		if s.run.First > snapshot && (best.run == nil || s.run.First < best.run.First) {
			best = s
		}
	}
	return best
}

// reappeared decides runs that nothing else decided: the same job has a later run, so this one was evicted. A run cut by
// a gap stays lost when its job is next seen on the same machine with a GPU in common (methodology section 8).
func (o *Observed) reappeared(ctx context.Context, x *Explanations) error {
	index := o.indexed()
	return Parallel(ctx, len(x.Machines), func(m int) {
		for i := range x.Machines[m].Runs {
			e := &x.Machines[m].Runs[i]
			if e.Side != pool.Backfill || e.final || e.Evidence != None || e.Job.IsNone() {
				continue
			}
			later := index.after(e.Job, e.Last)
			if later.run == nil || e.Outcome == Lost && later.machine == int32(m) && slices.ContainsFunc(e.GPUs, func(g int32) bool { return slices.Contains(later.run.GPUs, g) }) {
				continue
			}
			e.Outcome, e.Evidence, e.Cause = Evicted, Reappeared, UnknownCause
		}
	})
}
