package aggregate

import (
	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// Figures are the sums of a window, in no order of groups.
type Figures[S any] struct {
	Groups []Group[S]
	Total  S             // only in a table
	Times  []pool.Micros // when the points of a series are
}

// Group is the sum of one group.
type Group[S any] struct {
	Texts  []string // by the plan's groupings, as answers show them
	Sums   S        // only in a table
	Points []S      // only in a series
	Drawn  []bool   // whether there is a point; nil: there is each
}

// Frames returns the table of the view `summary`, otherwise series.
func (f *Figures[S]) Frames(metrics Metrics[S], p *query.Plan, about *frames.About) data.Frames {
	if p.View != "summary" {
		return f.series(metrics, p, about)
	}
	values := func(s *S) []float64 { return metrics.Values(p.Metrics, s) }
	rows := make([]frames.Row, len(f.Groups))
	for i := range f.Groups {
		rows[i] = frames.Row{Group: f.Groups[i].Texts, Values: values(&f.Groups[i].Sums)}
	}
	return frames.Table(p, about, rows, frames.Total{Name: "All", Values: values(&f.Total)})
}

func (f *Figures[S]) series(metrics Metrics[S], p *query.Plan, about *frames.About) data.Frames {
	var all []frames.Series
	figures := metrics.Figures(p.Metrics)
	for i := range f.Groups {
		g := &f.Groups[i]
		times, points := g.drawn(f.Times)
		for m, name := range p.Metrics {
			values := make([]float64, len(points))
			for n, of := range points {
				values[n] = figures[m](of)
			}
			all = append(all, frames.Series{Group: g.Texts, Metric: name, Times: times, Values: values})
		}
	}
	return frames.TimeSeries(p, about, all)
}

// drawn returns the points that there are, and their times.
func (g *Group[S]) drawn(times []pool.Micros) (at []pool.Micros, points []*S) {
	for b := range g.Points {
		if g.Drawn == nil || g.Drawn[b] {
			at, points = append(at, times[b]), append(points, &g.Points[b])
		}
	}
	return at, points
}

// Times returns the times of the points of buckets: their beginnings; of the whole window the beginning of its newest
// slice, or another time if it has no slice.
func Times(buckets query.Buckets, slices []pool.Micros, other pool.Micros) []pool.Micros {
	if !buckets.Whole {
		return buckets.Starts[:buckets.Len()]
	}
	if n := len(slices); n > 0 {
		other = slices[n-1]
	}
	return []pool.Micros{other}
}

// Week is the sum of each weekday (0 = Monday) and local hour.
type Week[S any] [7][24]S

// Figures returns the figures of a metric.
func (w *Week[S]) Figures(metrics Metrics[S], name string) *frames.Week {
	figure := metrics.Figures([]string{name})[0]
	var values frames.Week
	for day := range w {
		for hour := range w[day] {
			values[day][hour] = figure(&w[day][hour])
		}
	}
	return &values
}
