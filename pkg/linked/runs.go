package linked

import (
	"iter"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/runs"
)

// Run is a run as a window shows it.
type Run struct {
	*runs.Explained              // its start is looked for no further before the window than evidence goes
	Until           pool.Micros  // its end, cut to the window
	Machine, Number int32        // where it is among those that are explained
	Unseen          bool         // and whether among those that no snapshot shows
	Result          runs.Outcome // Running if it ends after the window
	Category        pool.Category

	JobProject uint32 // symbol + 1 of the projects of its job; 0: they are not known, or do not matter
}

// RunsIn yields the runs that overlap a window, by machine and first snapshot, unseen ones last.
func RunsIn(o *runs.Observed, x *runs.Explanations, w pool.Window) iter.Seq[Run] {
	since, until := o.Since(w), w.To // the end of runs that are open at the end of the data
	if n := len(o.View.Times); o.End == n && n > 0 && w.To-o.View.Times[n-1] > o.View.GapLimit(n-1) {
		until = o.View.Times[n-1]
	}
	return func(yield func(Run) bool) {
		for m := range x.Machines {
			for list, of := range [][]runs.Explained{x.Machines[m].Runs, x.Machines[m].Unseen} {
				for i := range of {
					// The history of a short window has mostly runs outside it.
					if of[i].Start > w.To || of[i].End < w.From && of[i].Outcome != runs.Running {
						continue
					}
					e := of[i].From(o, since)
					r := Run{e, e.End, int32(m), int32(i), list == 1, e.Outcome,
						pool.CategoryOf(e.Side, e.Place.Ownership, e.Project != 0), 0}
					if r.Result == runs.Running {
						r.Until = max(until, e.Start)
					}
					if r.Until > w.To {
						r.Until, r.Result = w.To, runs.Running
					}
					if e.Start <= w.To && r.Until >= w.From && !yield(r) {
						return
					}
				}
			}
		}
	}
}

// Length is the run's length until the window's end; 0 if clocks differ by more than that.
func (r *Run) Length() pool.Micros { return max(0, r.Until-r.Start) }

// IDs are the ids of a run's GPUs.
func (o *Opening) IDs(r *Run) string {
	ids := make([]string, len(r.GPUs))
	for i, g := range r.GPUs {
		ids[i] = o.Names[o.Observed.Machines[r.Machine].GPUs[g].ID]
	}
	return strings.Join(ids, ", ")
}

// GPUHours is a length of the run times its GPUs.
func (r *Run) GPUHours(d pool.Micros) float64 { return pool.Hours(d) * float64(len(r.GPUs)) }

// GPUHoursIn are the GPU-hours of the run from a time onward, as far as they lie in [from, to].
func (r *Run) GPUHoursIn(since, from, to pool.Micros) float64 {
	return r.GPUHours(max(0, min(r.Until, to)-max(since, from)))
}

// Saved reports whether its job saved something in this run.
func (r *Run) Saved() bool { return r.LastSave() > r.Start }

// LastSave is when the job of an evicted run last saved its work; the run's start if it never did in this run.
func (r *Run) LastSave() pool.Micros { return max(r.Start, r.SavedUntil) }

// Key is the key under which the run is counted.
func (r *Run) Key() aggregate.Key {
	k := aggregate.KeyOf(r.Place)
	k.SetRow(r.Place.Ownership, r.Side, r.Project, r.User)
	k[query.ByCause], k[query.ByEvidence] = uint32(r.Cause), uint32(r.Evidence)
	k[query.ByJobProject], k[query.ByUsedMemory] = r.JobProject, uint32(query.UsedMemory(float64(r.PeakMiB)))
	if r.Takeover {
		k[query.ByTakenOver] = uint32(r.TakenBy) + 1
	}
	return k
}

// Passes reports whether the run passes a filter.
func (r *Run) Passes(f aggregate.Filter) bool {
	if len(f) == 0 { // a history has many runs
		return true
	}
	key := r.Key()
	return f.Keeps(&key)
}

// Passes reports whether a run passes a filter. If the projects of jobs matter, it finds those of the run, and counts
// its GPU hours in the window by how they are known.
func (o *Opening) Passes(r *Run, f aggregate.Filter) bool {
	if o.Projects == nil {
		return r.Passes(f)
	}
	list, how := o.Projects.Of(r.Job, o.Names[r.User])
	if how != queues.ByNone {
		r.JobProject = uint32(list) + 1
	}
	passes := r.Passes(f)
	if passes {
		o.Hours[how] += r.GPUHoursIn(r.Start, o.Plan.Window.From, o.Plan.Window.To)
	}
	return passes
}

// Subject are the columns of a list that say which job ran where.
func (o *Opening) Subject(list frames.Rows[Run]) []*data.Field {
	return []*data.Field{
		list.Text("machine", func(r *Run) string { return o.Names[r.Place.Machine] }),
		list.Whole("gpus", func(r *Run) int64 { return int64(len(r.GPUs)) }),
		list.Text("gpuIds", o.IDs),
		list.Text("device", func(r *Run) string { return o.Plan.Shown("device", o.Names[r.Place.Device]) }),
		list.Text("category", func(r *Run) string { return r.Category.String() }),
		list.Text("user", func(r *Run) string { return o.Plan.Shown("user", o.Names[r.User]) }),
		list.Text("job", func(r *Run) string { return o.Plan.Shown("job", o.Observed.View.Names.JobText(r.Job)) }),
	}
}
