package utilization

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
)

// list shows the runs, newest first.
func (a *answer) list() data.Frames {
	list := make([]*Run, len(a.runs))
	for i := range a.runs {
		list[i] = &a.runs[i]
	}
	slices.SortStableFunc(list, func(x, y *Run) int { return cmp.Compare(y.Until, x.Until) })
	return a.columns(list, func(r *Run) float64 {
		if a.figures.Total.Measured == 0 {
			return math.NaN()
		}
		return r.Idle / float64(len(r.GPUs))
	})
}

// idle shows the runs that are idle now, longest first, and how long they are.
func (a *answer) idle() data.Frames {
	var list []*Run
	for i := range a.runs {
		if a.runs[i].IdleSince != frames.NoTime {
			list = append(list, &a.runs[i])
		}
	}
	slices.SortStableFunc(list, func(x, y *Run) int { return cmp.Compare(x.IdleSince, y.IdleSince) })
	return a.columns(list, func(r *Run) float64 { return pool.Hours(r.idleUntil - r.IdleSince) })
}

func (a *answer) columns(list []*Run, idleHours func(*Run) float64) data.Frames {
	list = list[:a.about.Shown(len(list))]
	ids := func(r *Run) string {
		ids := make([]string, len(r.GPUs))
		for i, g := range r.GPUs {
			ids[i] = a.names[r.Machine.GPUs[g].ID]
		}
		return strings.Join(ids, ", ")
	}
	text := func(name string, of func(*Run) string) *data.Field { return frames.Text(name, frames.Each(list, of)) }
	return frames.Columns(a.plan, a.about,
		text("machine", func(r *Run) string { return a.names[r.Place.Machine] }),
		frames.Numbers("gpus", frames.Each(list, func(r *Run) int64 { return int64(len(r.GPUs)) })),
		text("gpuIds", ids),
		text("device", func(r *Run) string { return a.plan.Shown("device", a.names[r.Place.Device]) }),
		text("category", func(r *Run) string { return r.Category.String() }),
		text("user", func(r *Run) string { return a.plan.Shown("user", a.names[r.User]) }),
		text("job", func(r *Run) string { return a.plan.Shown("job", a.observed.View.Names.JobText(r.Job)) }),
		frames.Time("start", frames.Each(list, func(r *Run) pool.Micros { return r.Start })),
		frames.Time("end", frames.Each(list, func(r *Run) pool.Micros { return r.Until })),
		frames.Number("hours", frames.Each(list, func(r *Run) float64 { return pool.Hours(r.Whole()) })),
		frames.Number("utilizationPercent", frames.Each(list, func(r *Run) float64 { return r.percent(r.Busy) })),
		frames.Number("idleHours", frames.Each(list, idleHours)),
		frames.Time("idleSince", frames.Each(list, func(r *Run) pool.Micros { return r.IdleSince })))
}
