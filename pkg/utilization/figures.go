package utilization

import (
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// Figures are what the runs of a window add up to, in no order of groups.
type Figures struct {
	Groups []GroupFigures
	Total  Sums
	Drawn  []int         // of a series: the buckets that have a point
	Times  []pool.Micros // of those points
}

// GroupFigures are those of one group.
type GroupFigures struct {
	Texts   []string // by the plan's groupings, as answers show them
	Sums    Sums     // of the whole window
	Buckets []Bucket // of a series
}

// Bucket is what a group's GPUs did in a bucket of time. NaN: there is no point.
type Bucket struct {
	Amounts
	BusyGPUs, IdleGPUs float64 // on average over the covered time
}

// Frames returns the table of the view `summary`, else series.
func Frames(f *Figures, p *query.Plan, about *frames.About) data.Frames {
	if p.View == "summary" {
		return f.summary(p, about)
	}
	var series []frames.Series
	for _, g := range f.Groups {
		for _, metric := range p.Metrics {
			values := make([]float64, len(f.Drawn))
			for i, b := range f.Drawn {
				values[i] = f.point(metric, &g.Buckets[b])
			}
			series = append(series, frames.Series{Group: g.Texts, Metric: metric, Times: f.Times, Values: values})
		}
	}
	return frames.TimeSeries(p, about, series)
}

// ofMeasured are the metrics without a value where nothing is measured at all.
var ofMeasured = []string{"utilizationPercent", "busyGpuHours", "idleGpuHours", "idlePercent", "idleRuns"}

func (f *Figures) summary(p *query.Plan, about *frames.About) data.Frames {
	values := func(s *Sums) []float64 {
		v := make([]float64, len(p.Metrics))
		for i, name := range p.Metrics {
			if v[i] = s.metric(name); f.Total.Measured == 0 && slices.Contains(ofMeasured, name) {
				v[i] = math.NaN()
			}
		}
		return v
	}
	rows := make([]frames.Row, len(f.Groups))
	for i := range f.Groups {
		rows[i] = frames.Row{Group: f.Groups[i].Texts, Values: values(&f.Groups[i].Sums)}
	}
	return frames.Table(p, about, rows, frames.Total{Name: "All", Values: values(&f.Total)})
}

// point returns a metric of a bucket; NaN where it has no value.
func (f *Figures) point(metric string, b *Bucket) float64 {
	switch {
	case metric == "utilizationPercent":
		return b.percent(b.Busy)
	case f.Total.Measured == 0:
		return math.NaN()
	case metric == "busy":
		return b.BusyGPUs
	}
	return b.IdleGPUs
}
