package evictions

import (
	"context"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/survival"
)

// Run is a run on backfill as a window shows it.
type Run struct {
	*runs.Explained // as all that is observed shows it
	machine         int
	begin           pool.Micros  // its start, looked for no further before the window than evidence goes
	until           pool.Micros  // its end, cut to the window
	result          runs.Outcome // Running if it ends after the window
	inside          pool.Micros  // its time in the window
}

// length is the run's length until the window's end; 0 if clocks differ by more than that.
func (r *Run) length() pool.Micros { return max(0, r.until-r.begin) }

// gpuHours is a length of the run times its GPUs.
func (r *Run) gpuHours(d pool.Micros) float64 { return pool.Hours(d) * float64(len(r.GPUs)) }

// saved reports whether its job saved something in this run.
func (r *Run) saved() bool { return r.savedUntil() > r.begin }

// savedUntil is when the job of an evicted run last saved its work; the run's start if it never did in this run.
func (r *Run) savedUntil() pool.Micros { return max(r.begin, r.SavedUntil) }

// gpuHoursIn are the GPU-hours of the run from a time onward, as far as they lie in [from, to].
func (r *Run) gpuHoursIn(since, from, to pool.Micros) float64 {
	return r.gpuHours(max(0, min(r.until, to)-max(since, from)))
}

// key is the key under which the run is counted.
func (r *Run) key() aggregate.Key {
	k := aggregate.PlaceKey(r.Place)
	k.Project, k.User, k.Cause, k.Evidence = r.Project, r.User, r.Cause, r.Evidence
	k.TakenOver, k.TakenBy = r.Takeover, r.TakenBy
	return k
}

// item is a run as a survival curve takes it: eviction is the event, another end that is seen competes, and a run that
// is still going on or was lost from sight is censored.
func (r *Run) item(w pool.Window) survival.Item {
	fate := survival.Competing
	switch r.result {
	case runs.Evicted:
		fate = survival.Event
	case runs.Running, runs.Lost, runs.Ambiguous:
		fate = survival.Censored
	}
	return survival.Item{Entry: max(0, w.From-r.begin), Exit: r.length(), Fate: fate}
}

// view shows the runs of an observation in a window.
type view struct {
	observed *runs.Observed
	window   pool.Window
	since    int32       // the first snapshot of the evidence before the window
	until    pool.Micros // the end of runs that are open at the end of the data
}

func newView(o *runs.Observed, w pool.Window) view {
	v := view{observed: o, window: w, since: o.Since(w), until: w.To}
	if n := len(o.View.Times); o.End == n && n > 0 && w.To-o.View.Times[n-1] > o.View.GapLimit(n-1) {
		v.until = o.View.Times[n-1]
	}
	return v
}

// show returns a machine's run as the window shows it; false if it is not on backfill or does not overlap the window.
func (v *view) show(machine int, e *runs.Explained) (r Run, ok bool) {
	if e.Side != pool.Backfill {
		return r, false
	}
	w := v.window
	r = Run{Explained: e, machine: machine, begin: e.Start, until: e.End, result: e.Outcome}
	if e.First < v.since && e.Last >= v.since && !e.StartByAd {
		r.begin = v.observed.View.Times[v.since]
	}
	if r.result == runs.Running {
		r.until = max(v.until, r.begin)
	}
	if r.until > w.To {
		r.until, r.result = w.To, runs.Running
	}
	r.inside = max(0, r.until-max(r.begin, w.From))
	return r, r.begin <= w.To && r.until >= w.From
}

// each yields the runs that overlap the window, by machine and first snapshot, a machine's unseen ones after its
// others. A run is valid until the next one. Errors come from yield and ctx.
func (v *view) each(ctx context.Context, x *runs.Explanations, yield func(*Run) error) error {
	var r Run
	for m := range x.Machines {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		of := &x.Machines[m]
		for _, list := range [][]runs.Explained{of.Runs, of.Unseen} {
			for i := range list {
				ok := false
				if r, ok = v.show(m, &list[i]); ok {
					if err := yield(&r); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}
