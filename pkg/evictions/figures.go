package evictions

import (
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
)

// Figures are what the backfill runs of a window add up to, in no order of groups.
type Figures struct {
	Groups []GroupFigures
	Total  GroupFigures  // of a table
	Times  []pool.Micros // of the points of a series, by bucket
}

// GroupFigures are those of one group.
type GroupFigures struct {
	Texts   []string // by the plan's groupings, as answers show them
	Sums    Sums     // of a table
	Hours   float64  // of a table: the GPU-hours that its rates are over
	Blind   bool     // completions cannot be seen
	Buckets []Bucket // of a series
}

// Bucket is what a group of runs adds up to in a bucket of time.
type Bucket struct {
	Runs, Evictions int
	GPUHours, Lost  float64
	Over            float64 // the GPU-hours that its rate is over
	Drawn           bool    // there is a point
}

// Frames returns the table of the view `summary`, else series.
func Frames(f *Figures, p *query.Plan, about *frames.About) data.Frames {
	if p.View == "summary" {
		return f.summary(p, about)
	}
	return f.series(p, about)
}

// ofEvictions are the metrics that exist by cause and evidence.
var ofEvictions = []string{"evictions", "ratePer100GpuHours", "rateLow", "rateHigh", "lostGpuHours",
	"medianHoursToEviction"}

// ofRates are the metrics that have no value over too few GPU-hours.
var ofRates = []string{"ratePer100GpuHours", "rateLow", "rateHigh"}

func (f *Figures) summary(p *query.Plan, about *frames.About) data.Frames {
	values := func(g *GroupFigures) []float64 {
		v := make([]float64, len(p.Metrics))
		for i, name := range p.Metrics {
			v[i] = math.NaN()
			if !ByEviction(p.GroupBy) || slices.Contains(ofEvictions, name) {
				v[i] = g.Sums.metric(name, g.Hours, g.Blind)
			}
		}
		return v
	}
	told := slices.ContainsFunc(p.Metrics, func(name string) bool { return slices.Contains(ofRates, name) })
	var rates rates
	rows := make([]frames.Row, len(f.Groups))
	for i := range f.Groups {
		g := &f.Groups[i]
		if told {
			rates.add(g.Sums.Outcomes[runs.Evicted], g.Hours)
		}
		rows[i] = frames.Row{Group: g.Texts, Values: values(g)}
	}
	rates.notice(about)
	return frames.Table(p, about, rows, frames.Total{Name: "All", Values: values(&f.Total)})
}

func (f *Figures) series(p *query.Plan, about *frames.About) data.Frames {
	metrics := p.Metrics
	if ByEviction(p.GroupBy) && slices.Contains(metrics, "runs") {
		about.Info("runs have a cause only when they were evicted: by cause there is no metric runs")
		metrics = slices.DeleteFunc(slices.Clone(metrics), func(m string) bool { return m == "runs" })
	}
	var rates rates
	var series []frames.Series
	for i := range f.Groups {
		g := &f.Groups[i]
		for _, metric := range metrics {
			s := frames.Series{Group: g.Texts, Metric: metric}
			for b := range g.Buckets {
				of := &g.Buckets[b]
				if !of.Drawn {
					continue
				}
				if metric == "ratePer100GpuHours" {
					rates.add(of.Evictions, of.Over)
				}
				s.Times, s.Values = append(s.Times, f.Times[b]), append(s.Values, of.metric(metric))
			}
			series = append(series, s)
		}
	}
	rates.notice(about)
	return frames.TimeSeries(p, about, series)
}

func (b *Bucket) metric(name string) float64 {
	switch name {
	case "evictions":
		return float64(b.Evictions)
	case "ratePer100GpuHours":
		return rate(float64(b.Evictions), b.Over)
	case "lostGpuHours":
		return b.Lost
	}
	return float64(b.Runs)
}
