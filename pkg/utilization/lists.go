package utilization

import (
	"cmp"
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
)

func (a *answer) list() data.Frames {
	list := frames.Newest(a.About, a.runs, func(r *Run) pool.Micros { return r.Until })
	return a.columns(list, func(r *Run) float64 {
		if a.figures.Total.Measured == 0 {
			return math.NaN()
		}
		return r.Idle / float64(len(r.GPUs))
	})
}

// idle shows the runs that are idle now, longest first, and how long they are.
func (a *answer) idle() data.Frames {
	list := slices.DeleteFunc(a.runs, func(r *Run) bool { return r.IdleSince == frames.NoTime })
	slices.SortStableFunc(list, func(x, y *Run) int { return cmp.Compare(x.IdleSince, y.IdleSince) })
	list = list[:a.About.Shown(len(list))]
	return a.columns(list, func(r *Run) float64 { return pool.Hours(r.idleUntil - r.IdleSince) })
}

func (a *answer) columns(list frames.Rows[Run], idleHours func(*Run) float64) data.Frames {
	subject := frames.Each(list, func(r *Run) *linked.Run { return &r.Run })
	return frames.Columns(a.Plan, a.About, append(a.Subject(subject),
		list.Time("start", func(r *Run) pool.Micros { return r.Start }),
		list.Time("end", func(r *Run) pool.Micros { return r.Until }),
		list.Number("hours", func(r *Run) float64 { return pool.Hours(r.Length()) }),
		list.Number("utilizationPercent", func(r *Run) float64 { return r.percent(r.Busy) }),
		list.Number("idleHours", idleHours),
		list.Time("idleSince", func(r *Run) pool.Micros { return r.IdleSince }))...)
}
