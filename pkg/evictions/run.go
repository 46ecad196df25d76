package evictions

import (
	"context"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/survival"
)

// Run is a run on backfill as a window shows it.
type Run struct{ linked.Run }

// gpuHours is a length of the run times its GPUs.
func (r *Run) gpuHours(d pool.Micros) float64 { return pool.Hours(d) * float64(len(r.GPUs)) }

// saved reports whether its job saved something in this run.
func (r *Run) saved() bool { return r.savedUntil() > r.Start }

// savedUntil is when the job of an evicted run last saved its work; the run's start if it never did in this run.
func (r *Run) savedUntil() pool.Micros { return max(r.Start, r.SavedUntil) }

// gpuHoursIn are the GPU-hours of the run from a time onward, as far as they lie in [from, to].
func (r *Run) gpuHoursIn(since, from, to pool.Micros) float64 {
	return r.gpuHours(max(0, min(r.Until, to)-max(since, from)))
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
	switch r.Result {
	case runs.Evicted:
		fate = survival.Event
	case runs.Running, runs.Lost, runs.Ambiguous:
		fate = survival.Censored
	}
	return survival.Item{Entry: max(0, w.From-r.Start), Exit: r.Length(), Fate: fate}
}

// each yields the backfill runs that overlap a window, as [linked.RunsIn] does. A run is valid until the next one.
// Errors come from yield and ctx.
func each(ctx context.Context, o *runs.Observed, x *runs.Explanations, w pool.Window, yield func(*Run) error) error {
	var run Run
	for r := range linked.RunsIn(o, x, w) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if r.Side != pool.Backfill {
			continue
		}
		run.Run = r
		if err := yield(&run); err != nil {
			return err
		}
	}
	return nil
}
