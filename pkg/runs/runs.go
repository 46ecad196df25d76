// Package runs derives the history of GPUs from snapshots: the state of each GPU of the backfill pool, and the runs of
// jobs on backfill and primary slots (methodology sections 7 and 8). Job ads then explain the runs: exact times,
// outcomes and causes (section 9 and htcondor.md).
//
// [Observer.ObserveWindow] observes the snapshots: every GPU, with the runs of both sides. The rules for gaps, pieces
// and sharpening are the same on primary slots; kinds choose the runs that they are about by Run.Side. A run's First
// and Last are snapshots of Observed.View. [Observed.History] looks up job ads, corrects their dates by the access
// points' clocks, and finds times and outcomes, and the runs between snapshots.
package runs

import (
	"context"
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Reach is how far beyond the window snapshots count as evidence, so that zooming never changes an outcome.
const Reach = 7 * pool.Day

// Tolerance is the greatest assumed difference between the clocks of access points and collector.
const Tolerance = 120 * pool.Second

// State is the state of a GPU of the backfill pool at a snapshot (methodology section 7).
type State uint8

const (
	Unknown   State = iota // the machine has no row
	Taken                  // a primary row is Claimed
	Used                   // a backfill row is Claimed, by a job
	Available              // a backfill row is Unclaimed
	Blocked                // a backfill row in another state
	Absent                 // no backfill row
	Outside                // no backfill row that day, nor the day before: not in the pool
	States    int   = iota // their number
)

func (s State) String() string {
	return [...]string{"unknown", "taken", "used", "available", "blocked", "absent", "outside"}[s]
}

// Segment is an unbroken sequence of snapshots without a gap in which a GPU has one state, one job and one project.
type Segment struct {
	First, Last int32 // snapshots, by their number in the view
	// The run that gives the state, as an index in Machine.Runs: the one that holds the GPU at First, and the one at Last.
	// They differ only when an owner took another GPU of the run in the meantime. −1: no run.
	RunFirst, RunLast int32
	// From the row that gives the state, from First to Last.
	Job           timeline.Job
	User, Project timeline.Symbol
	State         State
}

// GPU is a GPU that a snapshot shows.
type GPU struct {
	GPU      timeline.GPU
	ID       timeline.Symbol
	Segments []Segment        // all observed snapshots, ascending
	places   []timeline.Place // on each day of the view
}

// PlaceAt returns the place of a GPU on the UTC day of a snapshot.
func (o *Observed) PlaceAt(g *GPU, snapshot int32) timeline.Place {
	return g.places[o.View.DayAt(int(snapshot))]
}

// At returns the index of the segment that holds a snapshot.
func (g *GPU) At(snapshot int32) int {
	return sort.Search(len(g.Segments), func(i int) bool { return g.Segments[i].Last >= snapshot })
}

// Ending says how the snapshots see a run end.
type Ending uint8

const (
	Vanished    Ending = iota // the next snapshot shows the machine, and the run no more
	Interrupted               // a gap follows, or the machine goes silent
	EndOfData                 // the last observed snapshot shows it
)

// Run is a job's hold of GPUs of one machine over consecutive snapshots (methodology section 8).
type Run struct {
	Job         timeline.Job
	User        timeline.Symbol // RemoteOwner at its first snapshot
	Project     timeline.Symbol // as its first row has it
	GPUs        []int32         // indices in Machine.GPUs, ascending: the union over its snapshots
	Leader      int32           // the first GPU, by id, of its first snapshot: its device and category are the run's
	First, Last int32           // the first and the last snapshot that show it
	Gone        int32           // the first later snapshot that does not; of EndOfData the number of snapshots
	Side        pool.Side
	Ending      Ending
	Takeover    bool            // when it ended, a primary slot held one of its GPUs
	TakenBy     timeline.Symbol // RemoteOwner of that claim
	holds       []hold          // when each of the GPUs was held
}

// hold says at which snapshots a run held one of its GPUs.
type hold struct{ gpu, first, last int32 }

// Machine is a machine with a GPU.
type Machine struct {
	Name timeline.Symbol
	GPUs []GPU // by id
	Runs []Run // by first snapshot

	days []machineDay // each day of the view
}

// machineDay is the state of a machine on a day.
type machineDay struct {
	index    int32 // in the day's machines; −1 without a row
	backfill bool  // it has a backfill row
}

// distance is the time between two moments, in either order.
func distance(a, b pool.Micros) pool.Micros { return max(a-b, b-a) }

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
	first := make([]sighting, runs) // most jobs have a single run
	// Number the jobs, and find the run before each one of a claim.
	for m := range o.Machines {
		all := o.Machines[m].Runs
		x.of[m], x.before[m] = slices.Repeat([]int32{-1}, len(all)), slices.Repeat([]int{-1}, len(all))
		newest := map[claim]int{} // without a GlobalJobId
		for r := range all {
			run := &all[r]
			if run.Job.IsNone() {
				if before, known := newest[claimOf(run)]; known {
					x.before[m][r] = before
				}
				newest[claimOf(run)] = r
				x.without[m] = append(x.without[m], int32(r))
				continue
			}
			number := x.jobs.Number(run.Job)
			if int(number) == len(x.seen) {
				x.seen = append(x.seen, first[number:number:number+1])
			}
			for _, s := range slices.Backward(x.seen[number]) {
				if int(s.machine) != m {
					break
				}
				if all[s.run].Side == run.Side {
					x.before[m][r] = int(s.run)
					break
				}
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
