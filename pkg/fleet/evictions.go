package fleet

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/evictions"
	"github.com/chtc/gpureports/pkg/facts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
)

// evicting is a question about evictions under way.
type evicting struct {
	*asked
	total evictions.GroupFigures
	whole groups[evictions.GroupFigures] // of all runs: without causes and evidence
	found groups[evictions.GroupFigures] // of evictions, by cause or evidence; empty where these do not matter
	blind map[string]bool                // pools whose completions cannot be seen
}

// evictions returns what backfill runs add up to: GPU-hours over hours, runs by where they began and ended.
func (a *asked) evictions(ctx context.Context, about *frames.About) (*evictions.Figures, error) {
	e := &evicting{asked: a}
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
		steps = append(steps, e.lost)
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
	return e.figures(), nil
}

// blindness finds the pools whose completions cannot be seen.
func (e *evicting) blindness(ctx context.Context) error {
	type links struct{ linked, counted, without float64 }
	of := map[string]*links{}
	add := func(pool string, linked, counted float64) *links {
		if of[pool] == nil {
			of[pool] = &links{}
		}
		of[pool].linked, of[pool].counted = of[pool].linked+linked, of[pool].counted+counted
		return of[pool]
	}
	sum := func(w wanted, use func(cell)) error {
		w.kind = facts.KindHour
		return e.store.aggregate(ctx, e.pinned, e.sums(w, []string{"pool"}), func(found sum) {
			use(cell{found, found.texts["pool"], 0})
		})
	}
	if err := sum(wanted{fields: []string{"linkedBegun", "countedBegun", "withoutAds"}}, func(c cell) {
		add(c.pool, c.values[0], c.values[1]).without += c.values[2]
	}); err != nil {
		return err
	}
	if err := sum(wanted{fields: []string{"linkedCarried", "countedCarried"}, also: e.ofWindow}, func(c cell) {
		add(c.pool, c.values[0], c.values[1])
	}); err != nil {
		return err
	}
	e.blind = map[string]bool{}
	for name, l := range of {
		if evictions.Blind(l.without == 0, int(l.linked), int(l.counted)) {
			e.blind[name] = true
		}
	}
	return nil
}

// ofWindow matches the first hour of the window.
func (e *evicting) ofWindow(from, _ pool.Micros) map[string]any {
	return map[string]any{"term": map[string]any{"hour": facts.Millis(from)}}
}

// textsOfAll are the texts of the group without cause and evidence.
func (e *evicting) textsOfAll(texts map[string]string) []string {
	texts = maps.Clone(texts)
	for _, g := range ofEvictions {
		delete(texts, g)
	}
	return e.textsOf(e.plan.GroupBy, texts)
}

// of returns the figures of a group.
func (e *evicting) of(of *groups[evictions.GroupFigures], texts []string, c cell) *evictions.GroupFigures {
	g := of.of(texts, func() evictions.GroupFigures {
		g := evictions.GroupFigures{Texts: texts}
		if e.plan.Frame == query.FrameSeries {
			g.Buckets = make([]evictions.Bucket, e.buckets.Len())
			for b, drawn := range e.drawn(c.pool) {
				g.Buckets[b].Drawn = drawn
			}
		}
		return g
	})
	g.Blind = g.Blind || e.blind[c.pool]
	return g
}

// all returns the figures of a group of runs.
func (e *evicting) all(c cell) *evictions.GroupFigures {
	return e.of(&e.whole, e.textsOfAll(c.texts), c)
}

// evicted returns the figures of a group of evictions.
func (e *evicting) evicted(c cell) *evictions.GroupFigures {
	if evictions.ByEviction(e.plan.GroupBy) {
		return e.of(&e.found, e.textsOf(e.plan.GroupBy, c.texts), c)
	}
	return e.all(c)
}

// drawn returns the buckets that have a point: those of a pool, if it is a group.
func (e *evicting) drawn(of string) []bool {
	if c := e.cover[of]; slices.Contains(e.plan.GroupBy, "pool") && c != nil {
		return c.drawn
	}
	all := make([]bool, e.buckets.Len())
	drawn, _ := e.points()
	for _, b := range drawn {
		all[b] = true
	}
	return all
}

// runs adds up GPU-hours, runs that began, and those that ended without an eviction.
func (e *evicting) runs(ctx context.Context) error {
	ends := []runs.Outcome{runs.Completed, runs.Removed, runs.Held, runs.Lost, runs.Ambiguous}
	w := wanted{kind: facts.KindUsers, having: []string{"backfillHours", "backfillBegun", "backfillCarried"},
		fields: []string{"backfillHours", "backfillBegun", "unseenBegun", "completed", "removed", "onHold", "outOfSight",
			"ambiguous"}}
	return e.each(ctx, w, func(c cell) {
		group := e.all(c)
		for _, g := range []*evictions.GroupFigures{group, &e.total} {
			g.Sums.GPUHours += c.values[0]
			g.Sums.Runs += int(c.values[1])
			g.Sums.Unseen += int(c.values[2])
			for i, outcome := range ends {
				g.Sums.Outcomes[outcome] += int(c.values[3+i])
			}
			g.Blind = g.Blind || e.blind[c.pool]
		}
		if group.Buckets != nil {
			group.Buckets[c.bucket].GPUHours += c.values[0]
			group.Buckets[c.bucket].Runs += int(c.values[1])
		}
	})
}

// carried adds the runs that began before the window or bucket.
func (e *evicting) carried(ctx context.Context) error {
	w := wanted{kind: facts.KindUsers, fields: []string{"backfillCarried", "unseenCarried"}, also: e.first}
	return e.each(ctx, w, func(c cell) {
		group := e.all(c)
		for _, g := range []*evictions.GroupFigures{group, &e.total} {
			g.Sums.Runs += int(c.values[0])
			g.Sums.Unseen += int(c.values[1])
		}
		if group.Buckets != nil {
			group.Buckets[c.bucket].Runs += int(c.values[0])
		}
	})
}

// evictions adds up evictions, and what the evicted runs held in all.
func (e *evicting) evictions(ctx context.Context) error {
	w := wanted{kind: facts.KindEvictions, fields: []string{"evictions", "lost"}, having: []string{"evictions"}}
	return e.each(ctx, w, func(c cell) {
		group := e.evicted(c)
		for _, g := range []*evictions.GroupFigures{group, &e.total} {
			g.Sums.Outcomes[runs.Evicted] += int(c.values[0])
			g.Sums.Lost += c.values[1]
		}
		if group.Buckets != nil {
			b := &group.Buckets[c.bucket]
			b.Evictions += int(c.values[0])
			b.Drawn = b.Drawn || e.plan.Keep(e.buckets, c.bucket, e.through(c.pool))
		}
	})
}

// through is the end of a pool's facts.
func (e *evicting) through(name string) pool.Micros {
	i := slices.IndexFunc(e.pools, func(p published) bool { return p.Pool == name })
	return facts.Micros(e.pools[i].Through)
}

// lost leaves out of a table what evicted runs held before the window, and spreads over a series what they held in it.
func (e *evicting) lost(ctx context.Context) error {
	w := wanted{kind: facts.KindEvictions, by: []string{fieldBegan}, hours: true,
		fields: []string{"lost", "lostFirst", "lostLast", "evictedGpus"}, having: []string{"evictions"}}
	if e.plan.Frame != query.FrameSeries {
		w.also = func(from, _ pool.Micros) map[string]any {
			return between(fieldBegan, map[string]any{"lt": facts.Millis(from)})
		}
	}
	from := map[string]pool.Micros{}
	for _, p := range e.pools {
		from[p.Pool] = p.from
	}
	return e.each(ctx, w, func(c cell) {
		group, held := e.evicted(c), heldBy(c)
		if group.Buckets == nil {
			before := c.values[0] - held(from[c.pool], c.time+pool.Hour)
			group.Sums.Lost -= before
			e.total.Sums.Lost -= before
			return
		}
		starts := e.buckets.Starts
		for b := e.bucket(max(c.began, from[c.pool])); b < e.buckets.Len() && starts[b] <= c.time; b++ {
			group.Buckets[b].Lost += held(max(starts[b], from[c.pool]), starts[b+1])
		}
	})
}

// heldBy returns how many GPU-hours evicted runs held between two full hours.
func heldBy(c cell) func(from, to pool.Micros) float64 {
	lost, first, last, gpus := c.values[0], c.values[1], c.values[2], c.values[3]
	return func(from, to pool.Micros) (hours float64) {
		if from <= c.began && to > c.time {
			return lost
		}
		if from <= c.began && c.began < to && c.began < c.time {
			hours += first
		}
		if from <= c.time && c.time < to {
			hours += last
		}
		return hours + gpus*pool.Hours(max(0, min(to, c.time)-max(from, c.began+pool.Hour)))
	}
}

// figures are what was added up.
func (e *evicting) figures() *evictions.Figures {
	f := &evictions.Figures{Total: e.total, Times: e.buckets.Starts}
	if e.buckets.Whole {
		_, f.Times = e.points()
	}
	finish := func(g, over *evictions.GroupFigures) {
		ended := 0
		for outcome, n := range g.Sums.Outcomes {
			if runs.Outcome(outcome) != runs.Running {
				ended += n
			}
		}
		g.Sums.Outcomes[runs.Running] = g.Sums.Runs - ended
		g.Hours = over.Sums.GPUHours
		for b := range g.Buckets {
			g.Buckets[b].Over = over.Buckets[b].GPUHours
		}
	}
	finish(&f.Total, &f.Total)
	if f.Groups = e.whole.all; evictions.ByEviction(e.plan.GroupBy) {
		f.Groups = e.found.all
	}
	for i := range f.Groups {
		over := &f.Groups[i]
		if evictions.ByEviction(e.plan.GroupBy) {
			over = e.over(f.Groups[i].Texts)
		}
		finish(&f.Groups[i], over)
	}
	return f
}

// over returns the figures of all runs of a group of evictions.
func (e *evicting) over(texts []string) *evictions.GroupFigures {
	texts = slices.Clone(texts)
	for i, g := range e.plan.GroupBy {
		if slices.Contains(ofEvictions, g) {
			texts[i] = ""
		}
	}
	return e.whole.of(texts, func() evictions.GroupFigures {
		return evictions.GroupFigures{Texts: texts, Buckets: make([]evictions.Bucket, e.buckets.Len())}
	})
}
