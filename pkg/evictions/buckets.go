package evictions

import (
	"context"
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
)

// bucket is what a group of runs adds up to in a bucket of time.
type bucket struct {
	runs, evictions int
	gpuHours, lost  float64
}

// timeseries counts evictions in the bucket that holds their time, and hours and runs in every bucket that they
// overlap.
func (a *answer) timeseries(ctx context.Context) (data.Frames, error) {
	p, w := a.plan, a.plan.Window
	buckets, err := p.Buckets(w.From)
	if err != nil {
		return nil, err
	}
	live := a.live(buckets)
	g := grouping{p.GroupBy, a.names}
	groups, whole := map[group][]bucket{}, map[group][]bucket{}
	into := func(in map[group][]bucket, k group) ([]bucket, error) {
		if in[k] == nil {
			if err := query.Hold(len(groups)+len(whole)+1, buckets.Len()); err != nil {
				return nil, err
			}
			in[k] = make([]bucket, buckets.Len())
		}
		return in[k], nil
	}
	for i := range a.runs {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r := &a.runs[i]
		counted := !g.byEviction() || r.Result == runs.Evicted
		var own, all []bucket
		if counted {
			if own, err = into(groups, g.of(r, false)); err != nil {
				return nil, err
			}
		}
		if g.byEviction() {
			if all, err = into(whole, g.of(r, true)); err != nil {
				return nil, err
			}
		}
		from := max(r.Start, w.From)
		for b := buckets.Of(from); b < buckets.Len() && buckets.Starts[b] <= r.Until; b++ {
			hours := r.gpuHours(max(0, min(r.Until, buckets.Starts[b+1])-max(from, buckets.Starts[b])))
			if counted {
				own[b].runs++
				own[b].gpuHours += hours
				if r.Result == runs.Evicted {
					own[b].lost += hours
				}
			}
			if all != nil {
				all[b].gpuHours += hours
			}
		}
		if r.Result == runs.Evicted {
			b := buckets.Of(r.End)
			own[b].evictions++
		}
	}
	if g.byEviction() && slices.Contains(p.Metrics, "runs") {
		a.about.Info("runs have a cause only when they were evicted: by cause there is no metric runs")
	}
	newest := a.observed.View.Times
	var series []frames.Series
	for k, counts := range groups {
		over := counts
		if g.byEviction() {
			without := k
			without.cause, without.evidence = 0, 0
			over = whole[without]
		}
		for _, metric := range p.Metrics {
			if metric == "runs" && g.byEviction() {
				continue
			}
			s := frames.Series{Group: g.texts(k), Metric: metric}
			for b := range counts {
				if !live[b] && counts[b].evictions == 0 || !p.Keep(buckets, b, newest[len(newest)-1]) {
					continue
				}
				at := buckets.Starts[b]
				if buckets.Whole {
					at = a.newestSlice()
				}
				s.Times = append(s.Times, at)
				s.Values = append(s.Values, counts[b].metric(metric, over[b].gpuHours))
			}
			series = append(series, s)
		}
	}
	return frames.TimeSeries(p, a.about, series), nil
}

func (b bucket) metric(name string, hours float64) float64 {
	switch name {
	case "evictions":
		return float64(b.evictions)
	case "ratePer100GpuHours":
		return rate(float64(b.evictions), hours)
	case "lostGpuHours":
		return b.lost
	}
	return float64(b.runs)
}

// live tells which buckets have a slice: the others do not exist, unless an ad tells of an eviction in them.
func (a *answer) live(buckets query.Buckets) []bool {
	live := make([]bool, buckets.Len())
	first, end := a.observed.View.Snapshots(a.plan.Window)
	for _, t := range a.observed.View.Times[first:end] {
		live[buckets.Of(max(t, buckets.Starts[0]))] = true
	}
	return live
}

// newestSlice is the beginning of the window's newest slice.
func (a *answer) newestSlice() pool.Micros {
	if n := len(a.slices); n > 0 {
		return a.slices[n-1]
	}
	return a.plan.Window.To
}

// hourOfWeek sums over the window by local weekday and hour.
func (a *answer) hourOfWeek() (data.Frames, error) {
	w := a.plan.Window
	buckets, cells, err := a.plan.Hours()
	if err != nil || len(a.runs) == 0 {
		return a.about.Finish(nil), err
	}
	var evictions, hours frames.Week
	var seen [7][24]bool
	first, end := a.observed.View.Snapshots(w)
	for _, t := range a.observed.View.Times[first:end] {
		at := cells[buckets.Of(t)]
		seen[at[0]][at[1]] = true
	}
	for i := range a.runs {
		r := &a.runs[i]
		if r.Result == runs.Evicted {
			at := cells[buckets.Of(r.End)]
			evictions[at[0]][at[1]]++
			seen[at[0]][at[1]] = true
		}
		from := max(r.Start, w.From)
		for b := buckets.Of(from); b < buckets.Len() && buckets.Starts[b] < r.Until; b++ {
			at := cells[b]
			// clocks differ: it may end before it starts
			hours[at[0]][at[1]] += r.gpuHours(max(0, min(r.Until, buckets.Starts[b+1])-max(from, buckets.Starts[b])))
		}
	}
	week := &evictions
	for day := range week {
		for hour := range week[day] {
			if a.plan.Metrics[0] == "ratePer100GpuHours" {
				week[day][hour] = rate(week[day][hour], hours[day][hour])
			} else if !seen[day][hour] {
				week[day][hour] = math.NaN()
			}
		}
	}
	return frames.HeatMap(a.plan, a.about, week), nil
}
