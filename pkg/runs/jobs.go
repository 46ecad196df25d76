package runs

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// jobIndex numbers the jobs of all runs, and finds the runs of a job on one side.
type jobIndex struct {
	jobs    []timeline.Job
	numbers map[timeline.Job]int32
	of      [][]int32     // of each machine's runs: the job's number, −1 without a GlobalJobId
	newest  [2][]sighting // by side, of each job
	before  [][]sighting  // of each machine's runs: the claim's run before it, on the same side
}

// claim is what makes runs of one machine pieces of one: side and job; without a GlobalJobId side, user and GPU.
type claim struct {
	job  timeline.Job
	user timeline.Symbol
	gpu  int32
	side pool.Side
}

func claimOf(r *Run) claim {
	if r.Job.IsNone() {
		return claim{user: r.User, gpu: r.GPUs[0], side: r.Side}
	}
	return claim{job: r.Job, side: r.Side}
}

// sighting names a run; none has machine −1. A job's runs stand by machine, then as in Machine.Runs.
type sighting struct{ machine, run int32 }

func (o *Observed) indexJobs() *jobIndex {
	n := 0
	for m := range o.Machines {
		n += len(o.Machines[m].Runs)
	}
	x := &jobIndex{of: make([][]int32, len(o.Machines)), before: make([][]sighting, len(o.Machines))}
	x.numbers = make(map[timeline.Job]int32, n)
	nameless := map[claim]int32{} // of a machine: the newest run of each claim without a GlobalJobId
	for m := range o.Machines {
		machine := &o.Machines[m]
		x.of[m], x.before[m] = make([]int32, len(machine.Runs)), make([]sighting, len(machine.Runs))
		clear(nameless)
		for r := range machine.Runs {
			run := &machine.Runs[r]
			if run.Job.IsNone() {
				x.of[m][r], x.before[m][r] = -1, sighting{-1, -1}
				claim := claimOf(run)
				if before, known := nameless[claim]; known {
					x.before[m][r] = sighting{int32(m), before}
				}
				nameless[claim] = int32(r)
				continue
			}
			job, known := x.numbers[run.Job]
			if !known {
				job = int32(len(x.jobs))
				x.numbers[run.Job] = job
				x.jobs = append(x.jobs, run.Job)
				for side := range x.newest {
					x.newest[side] = append(x.newest[side], sighting{-1, -1})
				}
			}
			newest := &x.newest[run.Side][job]
			x.of[m][r], x.before[m][r] = job, *newest
			*newest = sighting{int32(m), int32(r)}
		}
	}
	return x
}

// reappeared decides runs that nothing else decided: the same job has a later run on backfill, so this one was evicted.
func (o *Observed) reappeared(ctx context.Context, x *Explanations, ads *Ads, again *again) error {
	return parallel.Each(ctx, len(x.Machines), func(l *linker, m int) {
		for i := range x.Machines[m].Runs {
			e := &x.Machines[m].Runs[i]
			if e.Side == pool.Backfill && !e.final && e.Evidence == None && !e.Job.IsNone() &&
				again.explained(o.jobs().of[m][e.number]) && l.later(o, m, e, ads) {
				e.Outcome, e.Evidence, e.Cause = Evicted, Reappeared, UnknownCause
			}
		}
	})
}

// later reports whether a run's job has a later one on backfill. Pieces may be one run, so all of a machine's are
// joined.
func (l *linker) later(o *Observed, m int, e *Explained, ads *Ads) bool {
	index := o.jobs()
	for s := index.newest[pool.Backfill][index.of[m][e.number]]; s.machine >= 0; {
		machine, after := s.machine, false
		for l.pieces = l.pieces[:0]; s.machine == machine; s = index.before[machine][s.run] {
			after = after || o.Machines[machine].Runs[s.run].First > e.Last
			l.pieces = append(l.pieces, s.run)
		}
		if !after {
			continue
		}
		slices.Reverse(l.pieces)
		l.read(o, int(machine), ads)
		l.joined = l.explain(l.pieces, l.records(int(l.pieces[0])), l.joined[:0])
		if slices.ContainsFunc(l.joined, func(later Explained) bool { return later.First > e.Last }) {
			return true
		}
	}
	return false
}
