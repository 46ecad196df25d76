package linked

import (
	"iter"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
)

// Run is a run as a window shows it.
type Run struct {
	*runs.Explained      // its start is looked for no further before the window than evidence goes
	Machine, Number int  // where it is among those that are explained
	Unseen          bool // and whether among those that no snapshot shows
	Category        pool.Category
	Until           pool.Micros  // its end, cut to the window
	Result          runs.Outcome // Running if it ends after the window
}

// RunsIn yields the runs that overlap a window, by machine and first snapshot, a machine's unseen ones after its
// others.
func RunsIn(o *runs.Observed, x *runs.Explanations, w pool.Window) iter.Seq[Run] {
	since, until := o.Since(w), w.To // the end of runs that are open at the end of the data
	if n := len(o.View.Times); o.End == n && n > 0 && w.To-o.View.Times[n-1] > o.View.GapLimit(n-1) {
		until = o.View.Times[n-1]
	}
	return func(yield func(Run) bool) {
		for m := range x.Machines {
			for list, of := range [][]runs.Explained{x.Machines[m].Runs, x.Machines[m].Unseen} {
				for i := range of {
					e := of[i].From(o, since)
					r := Run{e, m, i, list == 1, e.Place.Category(), e.End, e.Outcome}
					if e.Side == pool.Primary {
						r.Category = pool.PrimaryCategory(e.Place.Ownership == pool.CHTCOwned, e.Project != 0)
					}
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

// IDs are the ids of the run's GPUs. names are the names of symbols.
func (r *Run) IDs(o *runs.Observed, names []string) string {
	ids := make([]string, len(r.GPUs))
	for i, g := range r.GPUs {
		ids[i] = names[o.Machines[r.Machine].GPUs[g].ID]
	}
	return strings.Join(ids, ", ")
}

// Subject are the columns of a list that say which job ran where.
func Subject[R any](p *query.Plan, o *runs.Observed, list []*R, run func(*R) *Run) []*data.Field {
	names := o.View.Names.Texts()
	texts := func(of func(*Run) string) []string {
		return frames.Each(list, func(r *R) string { return of(run(r)) })
	}
	return []*data.Field{
		frames.Text("machine", texts(func(r *Run) string { return names[r.Place.Machine] })),
		frames.Numbers("gpus", frames.Each(list, func(r *R) int64 { return int64(len(run(r).GPUs)) })),
		frames.Text("gpuIds", texts(func(r *Run) string { return r.IDs(o, names) })),
		frames.Text("device", texts(func(r *Run) string { return p.Shown("device", names[r.Place.Device]) })),
		frames.Text("category", texts(func(r *Run) string { return r.Category.String() })),
		frames.Text("user", texts(func(r *Run) string { return p.Shown("user", names[r.User]) })),
		frames.Text("job", texts(func(r *Run) string { return p.Shown("job", o.View.Names.JobText(r.Job)) })),
	}
}
