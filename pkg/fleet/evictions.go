package fleet

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/evictions"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
)

// evicting is a question about evictions under way.
type evicting struct {
	*asked
	whole   *summed[evictions.Sums] // counts all runs, without causes and evidence
	evicted *summed[evictions.Sums] // counts evictions: whole, unless groups know evictions only
	blind   map[string]bool         // pools whose completions cannot be seen
}

// evictions returns the sums over backfill runs: GPU-hours over hours, runs by where they began and ended.
func (a *asked) evictions(ctx context.Context, about *frames.About) (*evictions.Figures, error) {
	whole := &summed[evictions.Sums]{asked: a, total: &evictions.Sums{}}
	e := &evicting{asked: a, whole: whole, evicted: whole}
	if evictions.ByEviction(a.plan) {
		e.evicted = &summed[evictions.Sums]{asked: a, total: whole.total}
	}
	steps := []func(context.Context) error{e.runs, e.evictions}
	asks := func(metrics ...string) bool {
		return slices.ContainsFunc(a.plan.Metrics, func(m string) bool { return slices.Contains(metrics, m) })
	}
	if asks("evictedPercent") {
		steps = slices.Insert(steps, 0, e.blindness)
	}
	if asks("runs", "running", "unseen") {
		steps = append(steps, e.carried)
	}
	if asks("lostGpuHours", "lostPercent") {
		steps = append(steps, e.part(fieldSaved, "lost", func(s *evictions.Sums) *float64 { return &s.Lost }))
	}
	if asks("evictedGpuHours") {
		steps = append(steps, e.part(fieldBegan, "evicted", func(s *evictions.Sums) *float64 { return &s.Evicted }))
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	if len(e.blind) > 0 {
		about.Warn("pools with too few job ads, whose completions cannot be seen: %s: evictedPercent has no value",
			strings.Join(slices.Sorted(maps.Keys(e.blind)), ", "))
	}
	return e.figures()
}

// blindness finds the pools whose completions cannot be seen.
func (e *evicting) blindness(ctx context.Context) error {
	linked, counted, without := map[string]float64{}, map[string]float64{}, map[string]float64{}
	begun := wanted{kind: facts.KindHour, fields: []string{"linkedBegun", "countedBegun", "withoutAds"}}
	carried := wanted{kind: facts.KindHour, fields: []string{"linkedCarried", "countedCarried"},
		also: func(h hours) map[string]any { // the first hour of the window
			return map[string]any{"term": map[string]any{"hour": facts.Millis(h.from)}}
		}}
	for _, w := range []wanted{begun, carried} {
		if err := e.each(ctx, w, func(c cell) error {
			linked[c.pool.Pool] += c.values[0]
			if counted[c.pool.Pool] += c.values[1]; len(c.values) > 2 {
				without[c.pool.Pool] += c.values[2]
			}
			return nil
		}); err != nil {
			return err
		}
	}
	e.blind = map[string]bool{}
	for name := range linked {
		if evictions.Blind(without[name] == 0, int(linked[name]), int(counted[name])) {
			e.blind[name] = true
		}
	}
	return nil
}

func (e *evicting) add(s *summed[evictions.Sums], c cell, add func(to *evictions.Sums)) error {
	return s.add(c, func(to *evictions.Sums) {
		to.Blind = to.Blind || e.blind[c.pool.Pool]
		add(to)
	})
}

// runs adds up GPU-hours, runs that began, and those that ended without an eviction.
func (e *evicting) runs(ctx context.Context) error {
	ends := []runs.Outcome{runs.Yielded, runs.Completed, runs.Removed, runs.Held, runs.Lost, runs.Ambiguous}
	w := wanted{kind: facts.KindUsers, having: []string{"backfillHours", "backfillBegun", "backfillCarried"},
		fields: []string{"backfillHours", "backfillBegun", "unseenBegun", "yielded", "completed", "removed", "onHold",
			"outOfSight", "ambiguous"}}
	return e.each(ctx, w, func(c cell) error {
		return e.add(e.whole, c, func(to *evictions.Sums) {
			to.GPUHours += c.values[0]
			to.Runs += int(c.values[1])
			to.Unseen += int(c.values[2])
			for i, outcome := range ends {
				to.Outcomes[outcome] += int(c.values[3+i])
			}
		})
	})
}

// carried adds the runs that began before the window or bucket.
func (e *evicting) carried(ctx context.Context) error {
	w := wanted{kind: facts.KindUsers, fields: []string{"backfillCarried", "unseenCarried"}, also: e.first}
	return e.each(ctx, w, func(c cell) error {
		return e.add(e.whole, c, func(to *evictions.Sums) {
			to.Runs += int(c.values[0])
			to.Unseen += int(c.values[1])
		})
	})
}

// evictions adds up evictions, and in tables all GPU-hours of the evicted runs.
func (e *evicting) evictions(ctx context.Context) error {
	w := wanted{kind: facts.KindEvictions, fields: []string{"evictions", "evictedSaved", "lost", "evicted"},
		having: []string{"evictions"}}
	return e.each(ctx, w, func(c cell) error {
		err := e.add(e.evicted, c, func(to *evictions.Sums) {
			to.Outcomes[runs.Evicted] += int(c.values[0])
			to.Saved += int(c.values[1])
			if e.plan.Frame != query.FrameSeries { // which spreads them
				to.Lost += c.values[2]
				to.Evicted += c.values[3]
			}
		})
		if err != nil || e.plan.Frame != query.FrameSeries {
			return err
		}
		group, err := e.evicted.of(c)
		if err != nil {
			return err
		}
		drawn := &group.Drawn[c.bucket]
		*drawn = *drawn || e.keeps(c.pool, c.bucket)
		return nil
	})
}

// part returns the step that handles the GPU-hours of evicted runs since the hour of a field, from the fields that
// begin with a name: it omits those before the window from a table, and spreads those in the window over a series.
func (e *evicting) part(since, name string, of func(*evictions.Sums) *float64) func(context.Context) error {
	w := wanted{kind: facts.KindEvictions, by: []string{since}, hours: true,
		fields: []string{name, name + "First", name + "Last", "evictedGpus"}, having: []string{since}}
	if e.plan.Frame != query.FrameSeries {
		w.also = func(h hours) map[string]any {
			return between(since, map[string]any{"lt": facts.Millis(h.from)})
		}
	}
	spread := func(c cell) error {
		group, err := e.evicted.of(c)
		if err != nil {
			return err
		}
		held := heldBy(c, facts.NextHour(c.pool.zone, c.began))
		if group.Points == nil {
			before := c.values[0] - held(c.pool.from, c.time+1)
			*of(&group.Sums) -= before
			*of(e.whole.total) -= before
			return nil
		}
		starts := e.buckets.Starts
		for b := e.bucket(max(c.began, c.pool.from)); b < e.buckets.Len() && starts[b] <= c.time; b++ {
			*of(&group.Points[b]) += held(max(starts[b], c.pool.from), starts[b+1])
		}
		return nil
	}
	return func(ctx context.Context) error { return e.each(ctx, w, spread) }
}

// heldBy returns how many GPU-hours evicted runs held between two full hours. second is the hour after the one since
// which they count.
func heldBy(c cell, second pool.Micros) func(from, to pool.Micros) float64 {
	all, first, last, gpus := c.values[0], c.values[1], c.values[2], c.values[3]
	return func(from, to pool.Micros) (hours float64) {
		if from <= c.began && to > c.time {
			return all
		}
		if from <= c.began && c.began < to && c.began < c.time {
			hours += first
		}
		if from <= c.time && c.time < to {
			hours += last
		}
		return hours + gpus*pool.Hours(max(0, min(to, c.time)-max(from, second)))
	}
}

func (e *evicting) figures() (*evictions.Figures, error) {
	finish := func(sums *evictions.Sums, over float64) {
		ended := 0
		for outcome, n := range sums.Outcomes {
			if runs.Outcome(outcome) != runs.Running {
				ended += n
			}
		}
		sums.Outcomes[runs.Running] = sums.Runs - ended
		sums.Over = over
	}
	f := e.evicted.figures()
	finish(&f.Total, f.Total.GPUHours)
	for i := range f.Groups {
		g := &f.Groups[i]
		over := g
		if e.evicted != e.whole {
			var err error
			if over, err = e.over(*g); err != nil {
				return nil, err
			}
		}
		finish(&g.Sums, over.Sums.GPUHours)
		for b := range g.Points {
			g.Points[b].Over = over.Points[b].GPUHours
		}
	}
	return f, nil
}

// over returns the figures of all runs of a group of evictions.
func (e *evicting) over(g aggregate.Group[evictions.Sums]) (*aggregate.Group[evictions.Sums], error) {
	texts := slices.Clone(g.Texts)
	for i, name := range e.plan.GroupBy {
		if slices.Contains(evictionGroupings, name) {
			texts[i] = ""
		}
	}
	return e.whole.group(e.pools[0], texts) // whose Drawn is not used
}
