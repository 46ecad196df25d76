package runs

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// jobIndex numbers the jobs of all runs, and finds a job's runs on backfill.
type jobIndex struct {
	jobs   []timeline.Job
	of     [][]int32  // of each machine's runs: the job's number, −1 without a GlobalJobId
	newest []sighting // of each job, its runs on backfill: a list linked by before
	before []sighting
}

// sighting names a run; none has machine −1.
type sighting struct{ machine, run, before int32 }

func (o *Observed) indexJobs() *jobIndex {
	n := 0
	for m := range o.Machines {
		n += len(o.Machines[m].Runs)
	}
	x := &jobIndex{of: make([][]int32, len(o.Machines))}
	numbers := make(map[timeline.Job]int32, n)
	for m := range o.Machines {
		machine := &o.Machines[m]
		x.of[m] = make([]int32, len(machine.Runs))
		for r := range machine.Runs {
			run := &machine.Runs[r]
			if run.Job.IsNone() {
				x.of[m][r] = -1
				continue
			}
			job, known := numbers[run.Job]
			if !known {
				job = int32(len(x.jobs))
				numbers[run.Job] = job
				x.jobs = append(x.jobs, run.Job)
				x.newest = append(x.newest, sighting{-1, -1, -1})
			}
			x.of[m][r] = job
			if run.Side == pool.Backfill {
				s := sighting{int32(m), int32(r), -1}
				if x.newest[job].machine >= 0 {
					s.before = int32(len(x.before))
					x.before = append(x.before, x.newest[job])
				}
				x.newest[job] = s
			}
		}
	}
	return x
}

// later tells whether a job has a run on backfill that begins after a snapshot, and that passes.
func (o *Observed) later(job int32, snapshot int32, passes func(machine int, r *Run) bool) bool {
	x := o.jobs()
	for s := x.newest[job]; s.machine >= 0; s = x.before[s.before] {
		if r := &o.Machines[s.machine].Runs[s.run]; r.First > snapshot && passes(int(s.machine), r) {
			return true
		}
		if s.before < 0 {
			break
		}
	}
	return false
}

// reappeared decides runs that nothing else decided: the same job has a later run, so this one was evicted. To a run cut by
// a gap a later one on the same machine with a GPU in common proves nothing: it may be the same run (methodology section 8).
func (o *Observed) reappeared(ctx context.Context, x *Explanations) error {
	jobs := o.jobs().of
	return Parallel(ctx, len(x.Machines), func(_, m int) {
		for i := range x.Machines[m].Runs {
			e := &x.Machines[m].Runs[i]
			if e.Side != pool.Backfill || e.final || e.Evidence != None || e.Job.IsNone() {
				continue
			}
			if o.later(jobs[m][e.number], e.Last, func(machine int, r *Run) bool {
				return e.Outcome != Lost || machine != m || !slices.ContainsFunc(e.GPUs, func(g int32) bool { return slices.Contains(r.GPUs, g) })
			}) {
				e.Outcome, e.Evidence, e.Cause = Evicted, Reappeared, UnknownCause
			}
		}
	})
}
