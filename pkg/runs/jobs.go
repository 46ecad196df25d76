package runs

import (
	"context"
	"iter"
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
	without [][]int32     // of each machine: the runs without a GlobalJobId
}

// claim is the key of runs of one machine that are pieces of one: side and job; without a GlobalJobId side, user
// and GPU.
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

// sighting names a run; none has machine −1. A job's runs are in the order of machines, then of Machine.Runs.
type sighting struct{ machine, run int32 }

var nowhere = sighting{-1, -1}

// sightings yields the runs of a job, from the last to the first of the last side, then those of the first one.
func (x *jobIndex) sightings(job int32) iter.Seq[sighting] {
	return func(yield func(sighting) bool) {
		for _, newest := range slices.Backward(x.newest[:]) {
			for s := newest[job]; s.machine >= 0; s = x.before[s.machine][s.run] {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// JobOf returns the number of a run's job, −1 if it has no GlobalJobId.
func (o *Observed) JobOf(machine, run int) int32 { return o.jobs().of[machine][run] }

// indexJobs numbers the jobs.
func (o *Observed) indexJobs() *jobIndex {
	machines, runs := len(o.Machines), 0
	for m := range o.Machines {
		runs += len(o.Machines[m].Runs)
	}
	x := &jobIndex{of: make([][]int32, machines), before: make([][]sighting, machines), without: make([][]int32, machines)}
	x.numbers, x.jobs = make(map[timeline.Job]int32, runs), make([]timeline.Job, 0, runs)
	for side := range x.newest {
		x.newest[side] = make([]sighting, 0, runs)
	}
	withoutJobID := map[claim]int32{} // of a machine: the newest run of each claim without a GlobalJobId
	for m := range o.Machines {
		n := len(o.Machines[m].Runs)
		x.of[m], x.before[m] = make([]int32, n), make([]sighting, n)
		clear(withoutJobID)
		for r := range o.Machines[m].Runs {
			run := &o.Machines[m].Runs[r]
			if run.Job.IsNone() {
				x.of[m][r], x.before[m][r] = -1, nowhere
				claim := claimOf(run)
				if before, known := withoutJobID[claim]; known {
					x.before[m][r] = sighting{int32(m), before}
				}
				withoutJobID[claim] = int32(r)
				x.without[m] = append(x.without[m], int32(r))
				continue
			}
			x.of[m][r] = x.add(run.Job)
			newest := &x.newest[run.Side][x.of[m][r]]
			x.before[m][r] = *newest
			*newest = sighting{int32(m), int32(r)}
		}
	}
	return x
}

// add returns a job's number, a new one if it has none.
func (x *jobIndex) add(job timeline.Job) int32 {
	number, known := x.numbers[job]
	if known {
		return number
	}
	number = int32(len(x.jobs))
	x.jobs = append(x.jobs, job)
	x.numbers[job] = number
	for side := range x.newest {
		x.newest[side] = append(x.newest[side], nowhere)
	}
	return number
}

// reappeared decides runs that nothing else decided: the same job has a later run on backfill, so this one was evicted.
func (o *Observed) reappeared(ctx context.Context, x *Explanations, ads *Ads) error {
	return parallel.Each(ctx, len(x.Machines), func(l *linker, m int) {
		for i := range x.Machines[m].Runs {
			e := &x.Machines[m].Runs[i]
			if e.Side == pool.Backfill && !e.final && e.Evidence == None && !e.Job.IsNone() && l.later(o, m, e, ads) {
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
		l.parts = l.partsOf(l.pieces, l.records(int(l.pieces[0])), l.parts[:0])
		if slices.ContainsFunc(l.parts, func(later part) bool { return later.first > e.Last }) {
			return true
		}
	}
	return false
}
