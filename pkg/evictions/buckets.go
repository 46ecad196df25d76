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

// tally counts the runs of each group by bucket.
type tally struct {
	grouping
	buckets query.Buckets
	from    pool.Micros // the window's beginning
	counted map[group][]bucket
	// whole has the GPU hours of all runs where groups are causes, which only evicted runs have: rates are over all.
	whole map[group][]bucket
}

// into returns a group's buckets.
func (t *tally) into(groups map[group][]bucket, k group) ([]bucket, error) {
	if groups[k] == nil {
		if err := query.Hold(len(t.counted)+len(t.whole)+1, t.buckets.Len()); err != nil {
			return nil, err
		}
		groups[k] = make([]bucket, t.buckets.Len())
	}
	return groups[k], nil
}

// add counts an eviction in the bucket that holds its time, and hours and runs in every bucket that they overlap.
func (t *tally) add(r *Run) (err error) {
	var own, all []bucket
	evicted := r.Result == runs.Evicted
	if evicted || !t.byEviction() {
		if own, err = t.into(t.counted, t.of(r, false)); err != nil {
			return err
		}
	}
	if t.byEviction() {
		if all, err = t.into(t.whole, t.of(r, true)); err != nil {
			return err
		}
	}
	from, starts := max(r.Start, t.from), t.buckets.Starts
	for b := t.buckets.Of(from); b < t.buckets.Len() && starts[b] <= r.Until; b++ {
		hours := r.gpuHours(max(0, min(r.Until, starts[b+1])-max(from, starts[b])))
		if own != nil {
			own[b].runs++
			own[b].gpuHours += hours
		}
		if evicted {
			own[b].lost += hours
		}
		if all != nil {
			all[b].gpuHours += hours
		}
	}
	if evicted {
		own[t.buckets.Of(r.End)].evictions++
	}
	return nil
}

// over returns the buckets whose GPU hours a group's rates are over.
func (t *tally) over(k group) []bucket {
	if !t.byEviction() {
		return t.counted[k]
	}
	k.cause, k.evidence = 0, 0
	return t.whole[k]
}

func (a *answer) timeseries(ctx context.Context) (data.Frames, error) {
	p, w := a.plan, a.plan.Window
	buckets, err := p.Buckets(w.From)
	if err != nil {
		return nil, err
	}
	t := tally{grouping{p.GroupBy, a.names, p.Shown}, buckets, w.From, map[group][]bucket{}, map[group][]bucket{}}
	for i := range a.runs {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := t.add(&a.runs[i]); err != nil {
			return nil, err
		}
	}
	metrics := p.Metrics
	if t.byEviction() && slices.Contains(metrics, "runs") {
		a.about.Info("runs have a cause only when they were evicted: by cause there is no metric runs")
		metrics = slices.DeleteFunc(slices.Clone(metrics), func(m string) bool { return m == "runs" })
	}
	live := a.live(buckets)
	var series []frames.Series
	for k := range t.counted {
		for _, metric := range metrics {
			series = append(series, a.drawn(&t, k, metric, live))
		}
	}
	a.rates.notice(a.about)
	return frames.TimeSeries(p, a.about, series), nil
}

// drawn is a group's series: a point for each bucket that is live, or holds an eviction.
func (a *answer) drawn(t *tally, k group, metric string, live []bool) frames.Series {
	counts, over, newest := t.counted[k], t.over(k), a.observed.View.Times
	s := frames.Series{Group: t.texts(k), Metric: metric}
	for b := range counts {
		if !live[b] && counts[b].evictions == 0 || !a.plan.Keep(t.buckets, b, newest[len(newest)-1]) {
			continue
		}
		at := t.buckets.Starts[b]
		if t.buckets.Whole {
			at = a.newestSlice()
		}
		if metric == "ratePer100GpuHours" {
			a.rates.add(counts[b].evictions, over[b].gpuHours)
		}
		s.Times = append(s.Times, at)
		s.Values = append(s.Values, counts[b].metric(metric, over[b].gpuHours))
	}
	return s
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

// live reports which buckets have a slice: the others do not exist, unless an ad shows an eviction in them.
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
				a.rates.add(int(week[day][hour]), hours[day][hour])
				week[day][hour] = rate(week[day][hour], hours[day][hour])
			} else if !seen[day][hour] {
				week[day][hour] = math.NaN()
			}
		}
	}
	a.rates.notice(a.about)
	return frames.HeatMap(a.plan, a.about, week), nil
}
