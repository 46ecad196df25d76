package utilization

import (
	"context"
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
)

// Sums are what a group of runs adds up to in a window or in a bucket of it.
type Sums struct {
	Amounts
	Runs, IdleRuns     int
	IdleNow            int     // GPUs of runs that are idle now
	BusyGPUs, IdleGPUs float64 // in a bucket, on average over the covered time
}

func (s *Sums) add(r *Run) {
	s.Add(r.Amounts)
	s.Runs++
	if r.isIdle {
		s.IdleRuns++
	}
	if r.IdleSince != frames.NoTime {
		s.IdleNow += len(r.GPUs)
	}
}

// percent is a share of the measured GPU-hours in percent, NaN below one of them.
func (a *Amounts) percent(part float64) float64 {
	if aggregate.TooFew(a.Measured) {
		return math.NaN()
	}
	return aggregate.Percent(part, a.Measured)
}

// Figures are what the runs of a window add up to.
type Figures = aggregate.Figures[Sums]

// measuredMetrics are the metrics without a value if nothing is measured at all.
var measuredMetrics = []string{"utilizationPercent", "busy", "idle", "busyGpuHours", "idleGpuHours", "idlePercent",
	"idleRuns", "idleNow"}

// metricsOf are the metrics that have a value if runs add up to a total.
func metricsOf(total *Sums) aggregate.Metrics[Sums] {
	return metrics.Without(func(name string) bool { return total.Measured == 0 && slices.Contains(measuredMetrics, name) })
}

// Frames returns the table of the view `summary`, otherwise series.
func Frames(f *Figures, p *query.Plan, about *frames.About) data.Frames {
	return f.Frames(metricsOf(&f.Total), p, about)
}

func (a *answer) sum(list []*Run) error {
	by := query.GroupingsOf(a.Plan.GroupBy)
	for _, r := range list {
		a.figures.Total.add(r)
		n := int(a.keys.Number(r.Key().Within(by)))
		if n == len(a.figures.Groups) {
			g := aggregate.Group[Sums]{}
			if a.buckets.Starts != nil {
				if err := query.CheckCells(n+1, a.buckets.Len()); err != nil {
					return err
				}
				g.Points = make([]Sums, a.buckets.Len())
			}
			a.figures.Groups = append(a.figures.Groups, g)
		}
		g := &a.figures.Groups[n]
		g.Sums.add(r)
		for _, of := range r.buckets {
			g.Points[a.buckets.Of(of.start)].Add(of.Amounts)
		}
		r.buckets = nil
	}
	return nil
}

// sums shows the sums of the groups.
func (a *answer) sums() data.Frames {
	f := &a.figures
	for n := range f.Groups {
		f.Groups[n].Texts = a.keys.All[n].Texts(a.Plan, a.Plan.GroupBy, a.Names)
	}
	if a.Plan.Frame != query.FrameSeries {
		return Frames(f, a.Plan, a.About)
	}
	f.Times = aggregate.Times(a.buckets, a.Slices.Begin, a.Plan.Window.To)
	covered, drawn := a.covered(), a.drawn()
	for n := range f.Groups {
		g := &f.Groups[n]
		g.Drawn = drawn
		for b := range g.Points {
			of := &g.Points[b]
			of.BusyGPUs, of.IdleGPUs = aggregate.Ratio(of.Busy, covered[b]), aggregate.Ratio(of.Idle, covered[b])
		}
	}
	return Frames(f, a.Plan, a.About)
}

// drawn returns which buckets have a point: those with a slice, and with completeBucketsOnly of them the complete ones.
// The newest bucket has none while usage, which is not known after the newest snapshot, is known for less than half of
// its covered time: GPUs that compute all the time would seem to stop there.
func (a *answer) drawn() []bool {
	var newest pool.Micros
	if times := a.Observed.View.Times; len(times) > 0 {
		newest = times[len(times)-1]
	}
	drawn := make([]bool, a.buckets.Len())
	for _, begin := range a.Slices.Begin {
		b := a.buckets.Of(max(begin, a.buckets.Starts[0]))
		from, to := a.buckets.Starts[b], a.buckets.Starts[b+1]
		known := a.Slices.Covered(pool.Window{From: from, To: min(to, newest)})
		drawn[b] = a.Plan.Keep(a.buckets, b, newest) && 2*known >= a.Slices.Covered(pool.Window{From: from, To: to})
	}
	return drawn
}

// covered are the covered hours of each bucket.
func (a *answer) covered() []float64 {
	hours := make([]float64, a.buckets.Len())
	for b := range hours {
		hours[b] = pool.Hours(a.Slices.Covered(pool.Window{From: a.buckets.Starts[b], To: a.buckets.Starts[b+1]}))
	}
	return hours
}

// hourOfWeek sums over the window by local weekday and hour.
func (a *answer) hourOfWeek() data.Frames {
	var sums aggregate.Week[Sums]
	var hours [7][24]float64
	for b, covered := range a.covered() {
		day, hour := a.cells[b][0], a.cells[b][1]
		hours[day][hour] += covered
		for n := range a.figures.Groups { // one: a heat map has no groups
			sums[day][hour].Add(a.figures.Groups[n].Points[b].Amounts)
		}
	}
	for day := range sums {
		for hour := range sums[day] {
			of := &sums[day][hour]
			of.IdleGPUs = aggregate.Ratio(of.Idle, hours[day][hour])
		}
	}
	return frames.HeatMap(a.Plan, a.About, sums.Values(metricsOf(&a.figures.Total), a.Plan.Metrics[0]))
}

// Hourly is what the runs of a group did in an hour. Sums over hours and groups give the figures of longer windows; a
// window has Begun of its hours and Carried of its first one as its runs.
type Hourly struct {
	Amounts
	Begun   int `json:"begun,omitempty"`   // runs that start in the hour
	Carried int `json:"carried,omitempty"` // runs that started before the hour, and continue in it
}

// ByHour returns what runs did in each of consecutive hours, given by their beginnings and the end of the last one.
// Errors come from Answer, and pool.SourceError if the job source does not answer: figures without it are others.
func ByHour(ctx context.Context, s *stores.Stores, env query.Env, hours []pool.Micros) (
	map[linked.HourOf]*Hourly, error) {
	p, err := query.Catalog{Kind}.Plan(query.Request{
		Model: query.Model{QueryType: Kind.Name, Bucket: "1h",
			GroupBy: query.NamesOf(append(linked.HourlyBy, query.ByUser))},
		Window: pool.Window{From: hours[0], To: hours[len(hours)-1]},
	}, env)
	if err != nil {
		return nil, err
	}
	a, err := load(ctx, s, p)
	if err != nil {
		return nil, err
	}
	if s.Ads != nil && !a.History.Sharp {
		return nil, pool.SourceError("job ads could not be read")
	}
	all, buckets := map[linked.HourOf]*Hourly{}, query.Buckets{Starts: hours}
	// Count the runs of each group in the hours that they overlap.
	for _, r := range a.runs {
		key := r.Key().Within(query.GroupingsOf(p.GroupBy))
		for b := buckets.Of(max(r.Start, hours[0])); b < buckets.Len() && hours[b] <= r.Until; b++ {
			of := pool.In(all, linked.HourOf{Key: key, Hour: b})
			if r.Start >= hours[b] {
				of.Begun++
			} else {
				of.Carried++
			}
		}
	}
	// Add what their GPUs did.
	for n, key := range a.keys.All {
		for b := range hours[1:] {
			if of := a.figures.Groups[n].Points[b].Amounts; of != (Amounts{}) {
				all[linked.HourOf{Key: key, Hour: b}].Amounts = of
			}
		}
	}
	return all, nil
}
