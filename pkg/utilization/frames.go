package utilization

import (
	"context"
	"math"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// answer builds one answer's frames.
type answer struct {
	plan     *query.Plan
	about    *frames.About
	observed *runs.Observed
	names    []string
	runs     []Run // that overlap the window and pass the filter, by machine and first snapshot
	slices   *timeline.Slices

	buckets query.Buckets // of a series or heat map
	cells   [][2]int      // of a heat map: weekday and hour of each bucket

	total  Sums
	groups map[group]*Sums
	series map[group][]Amounts // in each bucket
}

// prepare finds the buckets of a series or heat map.
func (a *answer) prepare() (err error) {
	a.groups, a.series = map[group]*Sums{}, map[group][]Amounts{}
	switch a.plan.Frame {
	case query.FrameSeries:
		a.buckets, err = a.plan.Buckets(a.plan.Window.From)
	case query.FrameHeatMap:
		a.buckets, a.cells, err = a.plan.Hours()
	}
	return err
}

// sum adds up runs.
func (a *answer) sum(list []Run) error {
	g := grouping{a.plan.GroupBy, a.names, a.plan.Shown}
	var last group // of neighbours, most are in one
	var of *Sums
	var in []Amounts
	for i := range list {
		r := &list[i]
		a.total.add(r)
		k := g.of(r)
		if of == nil || k != last {
			last, of, in = k, a.groups[k], a.series[k]
		}
		if of == nil {
			of = &Sums{}
			a.groups[k] = of
		}
		of.add(r)
		if a.buckets.Starts == nil {
			continue
		}
		if in == nil {
			if err := query.Hold(len(a.series)+1, a.buckets.Len()); err != nil {
				return err
			}
			in = make([]Amounts, a.buckets.Len())
			a.series[k] = in
		}
		for i := range r.buckets {
			in[r.shift+r.buckets[i].bucket].Add(r.buckets[i].Amounts)
		}
		r.buckets = nil
	}
	return nil
}

func (a *answer) frames(context.Context) (data.Frames, error) {
	switch a.plan.View {
	case "timeseries", "summary":
		return Frames(a.figures(), a.plan, a.about), nil
	case "runs":
		return a.list(), nil
	case "idle":
		return a.idle(), nil
	}
	return a.hourOfWeek(), nil
}

// figures are what the runs add up to, by group.
func (a *answer) figures() *Figures {
	g := grouping{a.plan.GroupBy, a.names, a.plan.Shown}
	f := &Figures{Total: a.total}
	var covered []float64
	if a.plan.Frame == query.FrameSeries {
		covered = a.covered()
		f.Drawn, f.Times = a.points()
	}
	for k, sums := range a.groups {
		group := GroupFigures{Texts: g.texts(k), Sums: *sums}
		for b, amounts := range a.series[k] {
			group.Buckets = append(group.Buckets, Bucket{amounts, ratio(amounts.Busy, covered[b]),
				ratio(amounts.Idle, covered[b])})
		}
		f.Groups = append(f.Groups, group)
	}
	return f
}

// points returns the buckets that are drawn, and the times of their points.
func (a *answer) points() (drawn []int, times []pool.Micros) {
	var newest pool.Micros
	if times := a.observed.View.Times; len(times) > 0 {
		newest = times[len(times)-1]
	}
	for b, live := range a.live() {
		if !live || !a.plan.Keep(a.buckets, b, newest) {
			continue
		}
		at := a.buckets.Starts[b]
		if a.buckets.Whole {
			at = a.slices.Begin[len(a.slices.Begin)-1]
		}
		drawn, times = append(drawn, b), append(times, at)
	}
	return drawn, times
}

// live returns which buckets have a slice: the others do not exist.
func (a *answer) live() []bool {
	live := make([]bool, a.buckets.Len())
	for _, begin := range a.slices.Begin {
		live[a.buckets.Of(max(begin, a.buckets.Starts[0]))] = true
	}
	return live
}

// covered are the covered hours of each bucket.
func (a *answer) covered() []float64 {
	hours := make([]float64, a.buckets.Len())
	for b := range hours {
		hours[b] = pool.Hours(a.slices.Covered(pool.Window{From: a.buckets.Starts[b], To: a.buckets.Starts[b+1]}))
	}
	return hours
}

// average returns a metric of a heat map; NaN where it has no value. Hours are the covered ones.
func (a *answer) average(metric string, of *Amounts, hours float64) float64 {
	switch {
	case metric == "utilizationPercent":
		return of.percent(of.Busy)
	case hours == 0 || a.total.Measured == 0:
		return math.NaN()
	}
	return of.Idle / hours
}

// hourOfWeek sums over the window by local weekday and hour.
func (a *answer) hourOfWeek() data.Frames {
	var sums [7][24]Amounts
	var hours [7][24]float64
	for _, amounts := range a.series { // one: a heat map has no groups
		for b := range amounts {
			sums[a.cells[b][0]][a.cells[b][1]].Add(amounts[b])
		}
	}
	for b, covered := range a.covered() {
		hours[a.cells[b][0]][a.cells[b][1]] += covered
	}
	var week frames.Week
	for day := range week {
		for hour := range week[day] {
			week[day][hour] = a.average(a.plan.Metrics[0], &sums[day][hour], hours[day][hour])
		}
	}
	return frames.HeatMap(a.plan, a.about, &week)
}

// list shows the runs, newest first.
func (a *answer) list() data.Frames {
	list := make([]*Run, len(a.runs))
	for i := range a.runs {
		list[i] = &a.runs[i]
	}
	runs.Sort(list, func(r *Run) pool.Micros { return -r.Until })
	return a.columns(list, func(r *Run) float64 {
		if a.total.Measured == 0 {
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
	runs.Sort(list, func(r *Run) pool.Micros { return r.IdleSince })
	return a.columns(list, func(r *Run) float64 { return pool.Hours(r.idleUntil - r.IdleSince) })
}

func (a *answer) columns(list []*Run, idleHours func(*Run) float64) data.Frames {
	list = list[:frames.Shown(a.plan, a.about, len(list))]
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
