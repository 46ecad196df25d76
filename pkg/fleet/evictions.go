package fleet

import (
	"context"
	"maps"
	"slices"
	"strings"

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
	total evictions.Sums
	whole groups[evictions.GroupFigures] // of all runs: without causes and evidence
	found groups[evictions.GroupFigures] // of evictions, by cause or evidence; empty if these do not matter
	blind map[string]bool                // pools whose completions cannot be seen

	partly map[string]bool // pools whose facts are of the earlier version
}

// evictions returns the sums over backfill runs: GPU-hours over hours, runs by where they began and ended.
func (a *asked) evictions(ctx context.Context, about *frames.About) (*evictions.Figures, error) {
	e := &evicting{asked: a, partly: map[string]bool{}}
	for _, p := range a.pools {
		if a.cover[p.Pool] != nil && p.Version == facts.Earlier {
			e.partly[p.Pool] = true
		}
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
	if len(e.partly) > 0 {
		about.Warn("pools whose facts are of version %d: %s: yielded, evictedGpuHours and checkpointedPercent have no "+
			"value for their runs, and all hours of their evicted runs count as lost. Publish them again with this "+
			"version of gpureports", facts.Earlier, strings.Join(slices.Sorted(maps.Keys(e.partly)), ", "))
	}
	return e.figures()
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
		return e.store.aggregate(ctx, e.pinned, e.sums(w, []string{"pool"}), func(found sum) error {
			use(cell{found, found.texts["pool"], 0})
			return nil
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
func (e *evicting) ofWindow(h hours) map[string]any {
	return map[string]any{"term": map[string]any{"hour": facts.Millis(h.from)}}
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
func (e *evicting) of(of *groups[evictions.GroupFigures], texts []string, c cell) (*evictions.GroupFigures,
	error) {
	g, err := of.of(texts, e.buckets.Len(), func() evictions.GroupFigures {
		g := evictions.GroupFigures{Texts: texts}
		if e.plan.Frame == query.FrameSeries {
			g.Points, g.Drawn = make([]evictions.Sums, e.buckets.Len()), e.drawn(c.pool)
		}
		return g
	})
	if err == nil {
		g.Sums.Blind = g.Sums.Blind || e.blind[c.pool]
		g.Sums.Partly = g.Sums.Partly || e.partly[c.pool]
		e.total.Partly = e.total.Partly || e.partly[c.pool]
	}
	return g, err
}

// all returns the figures of a group of runs.
func (e *evicting) all(c cell) (*evictions.GroupFigures, error) {
	return e.of(&e.whole, e.textsOfAll(c.texts), c)
}

// evicted returns the figures of a group of evictions.
func (e *evicting) evicted(c cell) (*evictions.GroupFigures, error) {
	if evictions.ByEviction(e.plan.GroupBy) {
		return e.of(&e.found, e.textsOf(e.plan.GroupBy, c.texts), c)
	}
	return e.all(c)
}

// runs adds up GPU-hours, runs that began, and those that ended without an eviction.
func (e *evicting) runs(ctx context.Context) error {
	ends := []runs.Outcome{runs.Yielded, runs.Completed, runs.Removed, runs.Held, runs.Lost, runs.Ambiguous}
	w := wanted{kind: facts.KindUsers, having: []string{"backfillHours", "backfillBegun", "backfillCarried"},
		fields: []string{"backfillHours", "backfillBegun", "unseenBegun", "yielded", "completed", "removed", "onHold",
			"outOfSight", "ambiguous"}}
	return e.each(ctx, w, func(c cell) error {
		group, err := e.all(c)
		if err != nil {
			return err
		}
		for _, sums := range []*evictions.Sums{&group.Sums, &e.total} {
			sums.GPUHours += c.values[0]
			sums.Runs += int(c.values[1])
			sums.Unseen += int(c.values[2])
			for i, outcome := range ends {
				sums.Outcomes[outcome] += int(c.values[3+i])
			}
			sums.Blind = sums.Blind || e.blind[c.pool]
		}
		if group.Points != nil {
			at := &group.Points[c.bucket]
			at.GPUHours += c.values[0]
			at.Runs += int(c.values[1])
			at.Outcomes[runs.Yielded] += int(c.values[3])
		}
		return nil
	})
}

// carried adds the runs that began before the window or bucket.
func (e *evicting) carried(ctx context.Context) error {
	w := wanted{kind: facts.KindUsers, fields: []string{"backfillCarried", "unseenCarried"}, also: e.first}
	return e.each(ctx, w, func(c cell) error {
		group, err := e.all(c)
		if err != nil {
			return err
		}
		for _, sums := range []*evictions.Sums{&group.Sums, &e.total} {
			sums.Runs += int(c.values[0])
			sums.Unseen += int(c.values[1])
		}
		if group.Points != nil {
			group.Points[c.bucket].Runs += int(c.values[0])
		}
		return nil
	})
}

// evictions adds up evictions, and all GPU-hours of the evicted runs.
func (e *evicting) evictions(ctx context.Context) error {
	w := wanted{kind: facts.KindEvictions, fields: []string{"evictions", "lost", "evicted", "evictedSaved"},
		having: []string{"evictions"}}
	return e.each(ctx, w, func(c cell) error {
		group, err := e.evicted(c)
		if err != nil {
			return err
		}
		for _, sums := range []*evictions.Sums{&group.Sums, &e.total} {
			sums.Outcomes[runs.Evicted] += int(c.values[0])
			sums.Lost += c.values[1]
			sums.Evicted += c.values[2]
			sums.Saved += int(c.values[3])
		}
		if group.Points != nil {
			group.Points[c.bucket].Outcomes[runs.Evicted] += int(c.values[0])
			drawn := &group.Drawn[c.bucket]
			*drawn = *drawn || e.plan.Keep(e.buckets, c.bucket, e.through(c.pool))
		}
		return nil
	})
}

// through is the end of a pool's facts.
func (e *evicting) through(name string) pool.Micros {
	return facts.Micros(e.pool(name).Through)
}

func (e *evicting) pool(name string) *published {
	return &e.pools[slices.IndexFunc(e.pools, func(p published) bool { return p.Pool == name })]
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
	return func(ctx context.Context) error { return e.spread(ctx, w, of) }
}

func (e *evicting) spread(ctx context.Context, w wanted, of func(*evictions.Sums) *float64) error {
	return e.each(ctx, w, func(c cell) error {
		group, err := e.evicted(c)
		if err != nil {
			return err
		}
		by := e.pool(c.pool)
		held := heldBy(c, facts.NextHour(by.zone, c.began))
		if group.Points == nil {
			before := c.values[0] - held(by.from, c.time+1)
			*of(&group.Sums) -= before
			*of(&e.total) -= before
			return nil
		}
		starts := e.buckets.Starts
		for b := e.bucket(max(c.began, by.from)); b < e.buckets.Len() && starts[b] <= c.time; b++ {
			*of(&group.Points[b]) += held(max(starts[b], by.from), starts[b+1])
		}
		return nil
	})
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

// figures are the added sums.
func (e *evicting) figures() (*evictions.Figures, error) {
	f := &evictions.Figures{Total: e.total, Times: e.times()}
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
	finish(&f.Total, f.Total.GPUHours)
	if f.Groups = e.whole.all; evictions.ByEviction(e.plan.GroupBy) {
		f.Groups = e.found.all
	}
	for i := range f.Groups {
		over := &f.Groups[i]
		if evictions.ByEviction(e.plan.GroupBy) {
			var err error
			if over, err = e.over(f.Groups[i].Texts); err != nil {
				return nil, err
			}
		}
		finish(&f.Groups[i].Sums, over.Sums.GPUHours)
		for b := range f.Groups[i].Points {
			f.Groups[i].Points[b].Over = over.Points[b].GPUHours
			f.Groups[i].Points[b].Partly = f.Groups[i].Sums.Partly
		}
	}
	return f, nil
}

// over returns the figures of all runs of a group of evictions.
func (e *evicting) over(texts []string) (*evictions.GroupFigures, error) {
	texts = slices.Clone(texts)
	for i, g := range e.plan.GroupBy {
		if slices.Contains(ofEvictions, g) {
			texts[i] = ""
		}
	}
	return e.whole.of(texts, e.buckets.Len(), func() evictions.GroupFigures {
		return evictions.GroupFigures{Texts: texts, Points: make([]evictions.Sums, e.buckets.Len())}
	})
}
