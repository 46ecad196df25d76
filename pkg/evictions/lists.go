package evictions

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
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
	slices.SortStableFunc(list, func(x, y *Run) int { return cmp.Compare(y.until, x.until) })
	return list[:a.about.Shown(len(list))], nil
}

// evicted returns the runs that were evicted in the window, newest first.
func (a *answer) evicted(ctx context.Context) ([]*Run, error) {
	return a.newest(ctx, func(r *Run) bool { return r.result == runs.Evicted && a.takenOver(r) })
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
			frames.Number("ranHours", frames.Each(list, func(r *Run) float64 { return pool.Hours(r.length()) })),
			frames.Number("gpuHours", frames.Each(list, func(r *Run) float64 { return r.gpuHours(r.length()) })),
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
		if r.result == runs.Running {
			return runs.None.String()
		}
		return r.Evidence.String()
	}
	cause := func(r *Run) string {
		if r.result == runs.Running {
			return runs.NoCause.String()
		}
		return r.Cause.String()
	}
	return frames.Columns(a.plan, a.about, append(a.subject(list),
		frames.Time("start", frames.Each(list, func(r *Run) pool.Micros { return r.begin })),
		frames.Time("end", frames.Each(list, func(r *Run) pool.Micros { return r.until })),
		frames.Number("hours", frames.Each(list, func(r *Run) float64 { return pool.Hours(r.length()) })),
		frames.Text("outcome", frames.Each(list, func(r *Run) string { return r.result.String() })),
		frames.Text("evidence", frames.Each(list, evidence)),
		frames.Text("cause", frames.Each(list, cause)),
		frames.Text("link", frames.Each(list, func(r *Run) string { return r.Link.String() })),
		frames.Time("savedUntil", frames.Each(list, savedUntil)),
		frames.Number("lostGpuHours", frames.Each(list, lost)),
		frames.Number("evictedGpuHours", frames.Each(list, ofEvicted(func(r *Run) float64 {
			return r.gpuHours(r.length())
		}))))...), nil
}

// savedUntil is when the job of an evicted run last saved its work; other runs have none.
func savedUntil(r *Run) pool.Micros {
	if r.result != runs.Evicted {
		return frames.NoTime
	}
	return r.savedUntil()
}

// lost are the GPU-hours that an eviction cost; other runs have none.
var lost = ofEvicted(func(r *Run) float64 { return r.gpuHours(max(0, r.until-r.savedUntil())) })

// ofEvicted is a figure that only evicted runs have.
func ofEvicted(figure func(*Run) float64) func(*Run) float64 {
	return func(r *Run) float64 {
		if r.result != runs.Evicted {
			return math.NaN()
		}
		return figure(r)
	}
}

// subject are the columns that say which job ran where.
func (a *answer) subject(list []*Run) []*data.Field {
	return []*data.Field{
		frames.Text("machine", frames.Each(list, func(r *Run) string { return a.names[r.Place.Machine] })),
		frames.Numbers("gpus", frames.Each(list, func(r *Run) int64 { return int64(len(r.GPUs)) })),
		frames.Text("gpuIds", frames.Each(list, a.ids)),
		frames.Text("device", frames.Each(list, a.device)),
		frames.Text("category", frames.Each(list, func(r *Run) string { return r.Place.Category().String() })),
		frames.Text("user", frames.Each(list, a.user)),
		frames.Text("job", frames.Each(list, func(r *Run) string {
			return a.plan.Shown("job", a.observed.View.Names.JobText(r.Job))
		})),
	}
}

func (a *answer) ids(r *Run) string {
	gpus := a.observed.Machines[r.machine].GPUs
	ids := make([]string, len(r.GPUs))
	for i, g := range r.GPUs {
		ids[i] = a.names[gpus[g].ID]
	}
	return strings.Join(ids, ", ")
}

func (a *answer) device(r *Run) string { return a.plan.Shown("device", a.names[r.Place.Device]) }

func (a *answer) user(r *Run) string { return a.plan.Shown("user", a.names[r.User]) }

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
		text := fmt.Sprintf("%s ran %s h on %s (%s); %s, by %s", a.user(r), frames.Decimal(pool.Hours(r.length())),
			a.ids(r), a.device(r), r.Cause, r.Evidence)
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
