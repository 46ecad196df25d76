package runs

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// jobIndex numbers the jobs of all runs, and finds the runs of a job.
type jobIndex struct {
	jobs    pool.Numbered[timeline.Job]
	of      [][]int32    // by machine and run: the job's number, −1 without a GlobalJobId
	seen    [][]sighting // by job: its runs, in the order of machines, then of Machine.Runs
	before  [][]int      // by machine and run: the claim's run before it on the machine, −1 if there is none
	without [][]int32    // by machine: the runs without a GlobalJobId
}

// claim is the key of the pieces of a run on a machine: side and job; without a GlobalJobId side, user and GPU.
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

// sighting names a run.
type sighting struct{ machine, run int32 }

// JobOf returns the number of a run's job, −1 if it has no GlobalJobId.
func (o *Observed) JobOf(machine, run int) int32 { return o.jobs().of[machine][run] }

func (o *Observed) indexJobs() *jobIndex {
	machines, runs := len(o.Machines), 0
	for m := range o.Machines {
		runs += len(o.Machines[m].Runs)
	}
	x := &jobIndex{of: make([][]int32, machines), before: make([][]int, machines), without: make([][]int32, machines),
		jobs: pool.NewNumbered[timeline.Job](runs), seen: make([][]sighting, 0, runs)}
	// Number the jobs, and find the run before each one of a claim.
	for m := range o.Machines {
		all := o.Machines[m].Runs
		x.of[m], x.before[m] = slices.Repeat([]int32{-1}, len(all)), slices.Repeat([]int{-1}, len(all))
		newest := map[claim]int{}
		for r := range all {
			run := &all[r]
			if before, known := newest[claimOf(run)]; known {
				x.before[m][r] = before
			}
			newest[claimOf(run)] = r
			if run.Job.IsNone() {
				x.without[m] = append(x.without[m], int32(r))
				continue
			}
			number := x.jobs.Number(run.Job)
			if int(number) == len(x.seen) {
				x.seen = append(x.seen, nil)
			}
			x.of[m][r], x.seen[number] = number, append(x.seen[number], sighting{int32(m), int32(r)})
		}
	}
	return x
}

// runsOf appends a job's runs on one side of a machine, in their order.
func (o *Observed) runsOf(job int32, machine int, side pool.Side, found []int32) []int32 {
	for _, s := range o.jobs().seen[job] {
		if int(s.machine) == machine && o.Machines[machine].Runs[s.run].Side == side {
			found = append(found, s.run)
		}
	}
	return found
}

// reappeared decides runs that nothing else decided: the same job has a later run on backfill, so this one was evicted.
func (o *Observed) reappeared(ctx context.Context, x *Explanations, ads *foundAds) error {
	return parallel.EachWith(ctx, len(x.Machines), func(l *linker, m int) {
		for i := range x.Machines[m].Runs {
			e := &x.Machines[m].Runs[i]
			if e.Side == pool.Backfill && !e.final && e.Evidence == None && !e.Job.IsNone() && l.later(o, m, e, ads) {
				e.Outcome, e.Evidence, e.Cause = Evicted, Reappeared, UnknownCause
			}
		}
	})
}

// later reports whether a run's job has a later one on backfill. A machine's pieces are joined: they may be one run.
func (l *linker) later(o *Observed, m int, e *Explained, ads *foundAds) bool {
	job, machine := o.JobOf(m, int(e.Number)), int32(-1)
	for _, s := range o.jobs().seen[job] {
		run := &o.Machines[s.machine].Runs[s.run]
		if s.machine == machine || run.Side != pool.Backfill || run.First <= e.Last {
			continue
		}
		machine = s.machine
		l.turnTo(o, int(machine), ads)
		pieces := o.runsOf(job, int(machine), pool.Backfill, nil)
		if slices.ContainsFunc(l.partsOf(pieces, l.records(int(s.run)), nil), func(later part) bool {
			return later.first > e.Last
		}) {
			return true
		}
	}
	return false
}
