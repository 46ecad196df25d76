package runs

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// jobIndex numbers the jobs of all runs, and finds the runs of a job on one side.
type jobIndex struct {
	jobs    []timeline.Job
	numbers map[timeline.Job]int32 // shared with later observations
	added   map[timeline.Job]int32 // of jobs that numbers lacks; nil: none, and numbers is not shared yet
	of      [][]int32              // of each machine's runs: the job's number, −1 without a GlobalJobId
	newest  [2][]sighting          // by side, of each job
	before  [][]sighting           // of each machine's runs: the claim's run before it, on the same side
	without [][]int32              // of each machine: the runs without a GlobalJobId

	mark, after *byte // name this index and the one that it continues: its jobs have the numbers that they had there
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

var nowhere = sighting{-1, -1}

// number returns a job's number.
func (x *jobIndex) number(job timeline.Job) (number int32, known bool) {
	if number, known = x.numbers[job]; !known {
		number, known = x.added[job]
	}
	return number, known
}

// sightings yields the runs of a job.
func (x *jobIndex) sightings(job int32) iter.Seq[sighting] {
	return func(yield func(sighting) bool) {
		for side := range x.newest {
			for s := x.newest[side][job]; s.machine >= 0; s = x.before[s.machine][s.run] {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// continues reports whether all jobs of an earlier index are in this one, with their numbers.
func (x *jobIndex) continues(earlier *jobIndex) bool {
	n := len(earlier.jobs)
	return x == earlier || x.after == earlier.mark ||
		n <= len(x.jobs) && slices.Equal(x.jobs[:n], earlier.jobs)
}

// indexAfter has jobs keep the numbers that they had in an earlier observation.
func (o *Observed) indexAfter(earlier *Observed, rests []rest) {
	kept, sum := make([]int, len(rests)), 0
	for m := range rests {
		kept[m] = rests[m].kept
		sum += kept[m]
	}
	if sum == 0 {
		return
	}
	before := earlier.jobs()
	o.jobs = sync.OnceValue(func() *jobIndex {
		if x := o.continueIndex(before, kept); x != nil {
			return x
		}
		return o.indexJobs()
	})
}

func newJobIndex(machines int) *jobIndex {
	return &jobIndex{of: make([][]int32, machines), before: make([][]sighting, machines),
		without: make([][]int32, machines), mark: new(byte)}
}

// indexJobs numbers the jobs.
func (o *Observed) indexJobs() *jobIndex {
	x := newJobIndex(len(o.Machines))
	runs := 0
	for m := range o.Machines {
		runs += o.Machines[m].Runs.Len()
	}
	x.numbers, x.jobs = make(map[timeline.Job]int32, runs), make([]timeline.Job, 0, runs)
	for side := range x.newest {
		x.newest[side] = make([]sighting, 0, runs)
	}
	nameless := map[claim]int32{} // of a machine: the newest run of each claim without a GlobalJobId
	for m := range o.Machines {
		n := o.Machines[m].Runs.Len()
		x.of[m], x.before[m] = make([]int32, n), make([]sighting, n)
		clear(nameless)
		for r, run := range o.Machines[m].Runs.All() {
			if run.Job.IsNone() {
				x.of[m][r], x.before[m][r] = -1, nowhere
				claim := claimOf(run)
				if before, known := nameless[claim]; known {
					x.before[m][r] = sighting{int32(m), before}
				}
				nameless[claim] = int32(r)
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

// continueIndex numbers the jobs of an observation that continues an earlier one, of which the first runs of each
// machine, as many as kept, are of the jobs that they were of; nil if all runs of a job have gone.
func (o *Observed) continueIndex(earlier *jobIndex, kept []int) *jobIndex {
	x := newJobIndex(len(o.Machines))
	x.after = earlier.mark
	x.jobs, x.numbers, x.added = slices.Clone(earlier.jobs), earlier.numbers, maps.Clone(earlier.added)
	if x.added == nil {
		x.added = map[timeline.Job]int32{}
	}
	for side := range x.newest {
		x.newest[side] = slices.Clone(earlier.newest[side])
	}
	for m := range o.Machines {
		n := o.Machines[m].Runs.Len()
		x.of[m], x.before[m] = make([]int32, n), make([]sighting, n)
		copy(x.of[m], earlier.of[m][:kept[m]])
		copy(x.before[m], earlier.before[m][:kept[m]])
		n, _ = slices.BinarySearch(earlier.without[m], int32(kept[m]))
		x.without[m] = slices.Clip(earlier.without[m][:n])
	}
	var lost []int32 // jobs of runs that are not kept
	for m, of := range earlier.of {
		for _, job := range of[kept[m]:] {
			if job < 0 {
				continue
			}
			lost = append(lost, job)
			for side := range x.newest {
				x.forget(earlier, job, side, kept)
			}
		}
	}
	for m := range o.Machines {
		runs := &o.Machines[m].Runs
		for r := kept[m]; r < runs.Len(); r++ {
			run, at := runs.At(r), sighting{int32(m), int32(r)}
			if run.Job.IsNone() {
				x.of[m][r], x.before[m][r] = -1, x.namelessBefore(&o.Machines[m], m, claimOf(run))
				x.without[m] = append(x.without[m], int32(r))
				continue
			}
			x.of[m][r] = x.add(run.Job)
			link := &x.newest[run.Side][x.of[m][r]]
			for link.machine > at.machine || link.machine == at.machine && link.run > at.run {
				link = &x.before[link.machine][link.run]
			}
			x.before[m][r], *link = *link, at
		}
	}
	for _, job := range lost {
		if x.newest[pool.Primary][job].machine < 0 && x.newest[pool.Backfill][job].machine < 0 {
			return nil
		}
	}
	return x
}

// forget takes the runs of a job on a side that are not kept out of their list.
func (x *jobIndex) forget(earlier *jobIndex, job int32, side int, kept []int) {
	link := &x.newest[side][job]
	for s := earlier.newest[side][job]; s.machine >= 0; s = earlier.before[s.machine][s.run] {
		if int(s.run) < kept[s.machine] {
			*link = s
			link = &x.before[s.machine][s.run]
		}
	}
	*link = nowhere
}

// namelessBefore returns the last run of a claim without a GlobalJobId among those that are listed of the machine.
func (x *jobIndex) namelessBefore(machine *Machine, number int, c claim) sighting {
	for _, r := range slices.Backward(x.without[number]) {
		if claimOf(machine.Runs.At(int(r))) == c {
			return sighting{int32(number), r}
		}
	}
	return nowhere
}

// add returns a job's number, a new one if it has none.
func (x *jobIndex) add(job timeline.Job) int32 {
	number, known := x.number(job)
	if known {
		return number
	}
	number = int32(len(x.jobs))
	x.jobs = append(x.jobs, job)
	if x.added != nil {
		x.added[job] = number
	} else {
		x.numbers[job] = number
	}
	for side := range x.newest {
		x.newest[side] = append(x.newest[side], nowhere)
	}
	return number
}

// reappeared decides runs that nothing else decided: the same job has a later run on backfill, so this one was evicted.
// It changes only runs of jobs that are explained again; the parts of the list that an earlier one shares hold none.
func (o *Observed) reappeared(ctx context.Context, x *Explanations, ads *Ads, again *again) error {
	return parallel.Each(ctx, len(x.Machines), func(l *linker, m int) {
		for _, e := range x.Machines[m].Runs.others(again.explainedRuns(m)) {
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
			after = after || o.Machines[machine].Runs.At(int(s.run)).First > e.Last
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
