package evictions

import (
	"context"
	"math"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
)

// tally counts the runs of each group by bucket.
type tally struct {
	*groups
	buckets query.Buckets
	from    pool.Micros // the window's beginning
	held    int         // groups with buckets
	counted [][]Bucket  // by group; nil = none
	// whole has the GPU hours of all runs where groups are causes, which only evicted runs have: rates are over all.
	whole [][]Bucket
}

// into returns a group's buckets.
func (t *tally) into(groups *[][]Bucket, k int32) ([]Bucket, error) {
	for len(*groups) <= int(k) {
		*groups = append(*groups, nil)
	}
	if (*groups)[k] == nil {
		if t.held++; query.Hold(t.held, t.buckets.Len()) != nil {
			return nil, query.Hold(t.held, t.buckets.Len())
		}
		(*groups)[k] = make([]Bucket, t.buckets.Len())
	}
	return (*groups)[k], nil
}

// add counts an eviction in the bucket that holds its time, and hours and runs in every bucket that they overlap.
func (t *tally) add(r *Run) (err error) {
	var own, all []Bucket
	evicted, byEviction := r.Result == runs.Evicted, t.byCause || t.byEvidence
	if evicted || !byEviction {
		if own, err = t.into(&t.counted, t.number(r.row, false)); err != nil {
			return err
		}
	}
	if byEviction {
		if all, err = t.into(&t.whole, t.number(r.row, true)); err != nil {
			return err
		}
	}
	from, starts := max(r.Start, t.from), t.buckets.Starts
	for b := t.buckets.Of(from); b < t.buckets.Len() && starts[b] <= r.Until; b++ {
		hours := r.gpuHours(max(0, min(r.Until, starts[b+1])-max(from, starts[b])))
		if own != nil {
			own[b].Runs++
			own[b].GPUHours += hours
		}
		if evicted {
			own[b].Lost += hours
		}
		if all != nil {
			all[b].GPUHours += hours
		}
	}
	if evicted {
		own[t.buckets.Of(r.End)].Evictions++
	}
	return nil
}

// over returns the buckets whose GPU hours a group's rates are over.
func (t *tally) over(n int) []Bucket {
	if !t.byEviction() {
		return t.counted[n]
	}
	k := t.keys.All[n]
	k.cause, k.evidence = 0, 0
	return t.whole[t.keys.Number(k)]
}

// timeseries are the figures of the window's buckets.
func (a *answer) timeseries(ctx context.Context) (*Figures, error) {
	p, w := a.plan, a.plan.Window
	buckets, err := p.Buckets(w.From)
	if err != nil {
		return nil, err
	}
	t := tally{groups: a.groups, buckets: buckets, from: w.From}
	if err := a.each(ctx, func(_ int32, r *Run) error { return t.add(r) }); err != nil {
		return nil, err
	}
	f := &Figures{Times: buckets.Starts}
	if buckets.Whole {
		f.Times = []pool.Micros{a.newestSlice()}
	}
	live, times := a.live(buckets), a.observed.View.Times
	for n, counts := range t.counted {
		if counts == nil {
			continue
		}
		over := t.over(n)
		for b := range counts {
			counts[b].Over = over[b].GPUHours
			counts[b].Drawn = (live[b] || counts[b].Evictions > 0) && p.Keep(buckets, b, times[len(times)-1])
		}
		f.Groups = append(f.Groups, GroupFigures{Texts: t.texts(t.keys.All[n]), Buckets: counts})
	}
	return f, nil
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
func (a *answer) hourOfWeek(ctx context.Context) (data.Frames, error) {
	w := a.plan.Window
	buckets, cells, err := a.plan.Hours()
	if err != nil {
		return nil, err
	}
	var evictions, hours frames.Week
	var seen [7][24]bool
	first, end := a.observed.View.Snapshots(w)
	for _, t := range a.observed.View.Times[first:end] {
		at := cells[buckets.Of(t)]
		seen[at[0]][at[1]] = true
	}
	some := false
	err = a.each(ctx, func(_ int32, r *Run) error {
		some = true
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
		return nil
	})
	if err != nil || !some {
		return a.about.Finish(nil), err
	}
	week := &evictions
	var rates rates
	for day := range week {
		for hour := range week[day] {
			if a.plan.Metrics[0] == "ratePer100GpuHours" {
				rates.add(int(week[day][hour]), hours[day][hour])
				week[day][hour] = rate(week[day][hour], hours[day][hour])
			} else if !seen[day][hour] {
				week[day][hour] = math.NaN()
			}
		}
	}
	rates.notice(a.about)
	return frames.HeatMap(a.plan, a.about, week), nil
}
