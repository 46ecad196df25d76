package evictions

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// newest returns the runs that a list shows, newest first; those that end together by machine and first snapshot.
func (a *answer) newest(ctx context.Context, shows func(*Run) bool) ([]*Run, error) {
	var list []*Run
	err := a.each(ctx, func(r *Run) error {
		if shows(r) {
			kept := *r
			list = append(list, &kept)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(x, y *Run) int { return cmp.Compare(y.Until, x.Until) })
	return list[:a.about.Shown(len(list))], nil
}

// evicted returns the runs that were evicted in the window, newest first.
func (a *answer) evicted(ctx context.Context) ([]*Run, error) {
	return a.newest(ctx, func(r *Run) bool { return r.Result == runs.Evicted && a.takenOver(r) })
}

// events are the evictions, newest first.
func (a *answer) events(ctx context.Context) (data.Frames, error) {
	list, err := a.evicted(ctx)
	if err != nil {
		return nil, err
	}
	return frames.Columns(a.plan, a.about, slices.Concat(
		[]*data.Field{frames.Time("time", frames.Each(list, func(r *Run) pool.Micros { return r.End }))},
		a.subject(list),
		[]*data.Field{
			frames.Number("ranHours", frames.Each(list, func(r *Run) float64 { return pool.Hours(r.Length()) })),
			frames.Number("gpuHours", frames.Each(list, func(r *Run) float64 { return r.gpuHours(r.Length()) })),
			frames.Text("cause", frames.Each(list, func(r *Run) string { return r.Cause.String() })),
			frames.Text("evidence", frames.Each(list, func(r *Run) string { return r.Evidence.String() })),
			frames.Text("takenOverBy", frames.Each(list, a.takenOverBy)),
			frames.Time("savedUntil", frames.Each(list, savedUntil)),
			frames.Number("lostGpuHours", frames.Each(list, lost)),
		})...), nil
}

// list shows all runs, newest first.
func (a *answer) list(ctx context.Context) (data.Frames, error) {
	list, err := a.newest(ctx, func(*Run) bool { return true })
	if err != nil {
		return nil, err
	}
	evidence := func(r *Run) string {
		if r.Result == runs.Running {
			return runs.None.String()
		}
		return r.Evidence.String()
	}
	cause := func(r *Run) string {
		if r.Result == runs.Running {
			return runs.NoCause.String()
		}
		return r.Cause.String()
	}
	return frames.Columns(a.plan, a.about, append(a.subject(list),
		frames.Time("start", frames.Each(list, func(r *Run) pool.Micros { return r.Start })),
		frames.Time("end", frames.Each(list, func(r *Run) pool.Micros { return r.Until })),
		frames.Number("hours", frames.Each(list, func(r *Run) float64 { return pool.Hours(r.Length()) })),
		frames.Text("outcome", frames.Each(list, func(r *Run) string { return r.Result.String() })),
		frames.Text("evidence", frames.Each(list, evidence)),
		frames.Text("cause", frames.Each(list, cause)),
		frames.Text("link", frames.Each(list, func(r *Run) string { return r.Link.String() })),
		frames.Time("savedUntil", frames.Each(list, savedUntil)),
		frames.Number("lostGpuHours", frames.Each(list, lost)),
		frames.Number("evictedGpuHours", frames.Each(list, ofEvicted(func(r *Run) float64 {
			return r.gpuHours(r.Length())
		}))))...), nil
}

// savedUntil is when the job of an evicted run last saved its work; other runs have none.
func savedUntil(r *Run) pool.Micros {
	if r.Result != runs.Evicted {
		return frames.NoTime
	}
	return r.savedUntil()
}

// lost are the GPU-hours that an eviction cost; other runs have none.
var lost = ofEvicted(func(r *Run) float64 { return r.gpuHours(max(0, r.Until-r.savedUntil())) })

// ofEvicted is a figure that only evicted runs have.
func ofEvicted(figure func(*Run) float64) func(*Run) float64 {
	return func(r *Run) float64 {
		if r.Result != runs.Evicted {
			return math.NaN()
		}
		return figure(r)
	}
}

// subject are the columns that say which job ran where.
func (a *answer) subject(list []*Run) []*data.Field {
	return linked.Subject(a.plan, a.observed, list, func(r *Run) *linked.Run { return &r.Run })
}

func (a *answer) takenOverBy(r *Run) string {
	if !r.Takeover {
		return ""
	}
	return a.plan.Shown("takenOverBy", a.names[r.TakenBy])
}

// annotations mark the evictions.
func (a *answer) annotations(ctx context.Context) (data.Frames, error) {
	list, err := a.evicted(ctx)
	if err != nil {
		return nil, err
	}
	text := func(r *Run) string {
		text := fmt.Sprintf("%s ran %s h on %s (%s); %s, by %s", a.plan.Shown("user", a.names[r.User]),
			frames.Decimal(pool.Hours(r.Length())), r.IDs(a.observed, a.names), a.plan.Shown("device", a.names[r.Place.Device]),
			r.Cause, r.Evidence)
		if by := a.takenOverBy(r); by != "" {
			text += "; taken over by " + by
		}
		return text
	}
	end := frames.Each(list, func(r *Run) pool.Micros { return r.End })
	return frames.Columns(a.plan, a.about, frames.Time("time", end), frames.Time("timeEnd", end),
		frames.Text("title", frames.Each(list, func(r *Run) string { return "Evicted: " + a.names[r.Place.Machine] })),
		frames.Text("text", frames.Each(list, text)),
		frames.Text("tags", frames.Each(list, func(r *Run) string { return "eviction," + r.Cause.String() }))), nil
}
