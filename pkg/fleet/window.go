package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/allocation"
	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/evictions"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/userhours"
)

// published is a pool with the full hours of the window that it has published: [from, to).
type published struct {
	facts.Checkpoint
	zone     *time.Location
	from, to pool.Micros
	cut      pool.Micros // time of the window outside full hours
	late     pool.Micros // time without facts at the window's end

	// by bucket:
	slices, covered, snapshots []float64 // N, D and the number of snapshots
	polled                     []float64 // hours that polls cover
	drawn                      []bool    // whether it has a point

	known bool // any bucket has data
}

// open begins to answer: it reads which hours the pools have published and which hours have snapshots.
func (s *Store) open(ctx context.Context, pinned *elastic.Pinned, p *query.Plan) (*asked, error) {
	a := &asked{store: s, pinned: pinned, plan: p, byName: map[string]*published{}}
	points, err := s.pools(ctx, pinned)
	if err != nil {
		return nil, err
	}
	for _, point := range points {
		if p.Select.Match(query.ByPool, point.Pool) {
			a.pools = append(a.pools, hoursOf(point, p.Window))
		}
	}
	if a.buckets, err = p.Buckets(p.Window.From - pool.Hour); err != nil {
		return nil, err
	}
	if len(a.within(nil)) == 0 {
		return a, nil
	}
	n := a.buckets.Len()
	if err := query.CheckCells(len(a.pools), n); err != nil {
		return nil, err
	}
	a.drawn = make([]bool, n)
	for _, p := range a.pools {
		for _, sums := range []*[]float64{&p.slices, &p.covered, &p.snapshots, &p.polled} {
			*sums = make([]float64, n)
		}
		p.drawn, a.byName[p.Pool] = make([]bool, n), p
	}
	// Read which hours have snapshots, and what they are worth.
	bySlices := slices.Contains([]string{allocation.Kind.Name, userhours.Kind.Name, valuesCatalog[0].Name}, p.Kind)
	bySnapshots := slices.Contains([]string{backfill.Kind.Name, evictions.Kind.Name}, p.Kind)
	hour := wanted{kind: facts.KindHour, fields: []string{"slices", "coveredHours", "snapshots", "polledHours"}}
	err = a.each(ctx, hour, func(c cell) error {
		p, b := c.pool, c.bucket
		for i, sums := range [][]float64{p.slices, p.covered, p.snapshots, p.polled} {
			sums[b] += c.values[i]
		}
		// figures that are counted by slices need a slice; an hour can be covered without one
		p.drawn[b] = p.drawn[b] || c.values[0] > 0 || bySnapshots && c.values[2] > 0
		p.known = p.known || p.drawn[b] || !bySlices && (c.values[1] > 0 || c.values[2] > 0)
		return nil
	})
	a.draw()
	return a, err
}

// draw keeps the buckets that have data and that the query wants.
func (a *asked) draw() {
	for _, p := range a.pools {
		for b := range p.drawn {
			p.drawn[b] = p.drawn[b] && a.keeps(p, b)
			a.drawn[b] = a.drawn[b] || p.drawn[b]
		}
	}
}

// keeps reports whether a pool's facts reach as far as a bucket must be covered to have a point.
func (a *asked) keeps(p *published, bucket int) bool {
	return a.plan.Keep(a.buckets, bucket, facts.Micros(p.Through))
}

// hoursOf returns which hours of a pool's zone lie in a window as a whole. A window that ends with the last millisecond
// of an hour holds it.
func hoursOf(point facts.Checkpoint, w pool.Window) *published {
	p := &published{Checkpoint: point, zone: time.UTC}
	if zone, err := localtime.Location(point.Zone); err == nil {
		p.zone = zone
	}
	if p.from = facts.FloorHour(p.zone, w.From); p.from < w.From {
		p.from = facts.NextHour(p.zone, p.from)
	}
	p.to = facts.FloorHour(p.zone, w.To+pool.Second/1000)
	if p.cut = w.To - w.From - max(0, p.to-p.from); p.cut < pool.Second {
		p.cut = 0
	}
	p.late = max(0, p.to-max(p.from, facts.Micros(point.Through)))
	p.from, p.to = max(p.from, facts.Micros(point.Since)), min(p.to, facts.Micros(point.Through))
	return p
}

// hours are the hours of a zone from one to another.
type hours struct {
	from, to pool.Micros
	zone     string
}

// within matches the hours of the pools, and what also returns for them. One clause matches all pools with the same
// hours.
func (a *asked) within(also func(hours) map[string]any) (either []map[string]any) {
	names := map[hours][]string{}
	for _, p := range a.pools {
		if h := (hours{p.from, p.to, p.zone.String()}); h.from < h.to {
			names[h] = append(names[h], p.Pool)
		}
	}
	for _, h := range slices.SortedFunc(maps.Keys(names), func(x, y hours) int {
		return strings.Compare(names[x][0], names[y][0])
	}) {
		all := []map[string]any{{"terms": map[string]any{"pool": names[h]}},
			between("hour", map[string]any{"gte": facts.Millis(h.from), "lt": facts.Millis(h.to)})}
		if also != nil {
			all = append(all, also(h))
		}
		either = append(either, map[string]any{"bool": map[string]any{"filter": all}})
	}
	return either
}

// between matches times, in ms.
func between(field string, bounds map[string]any) map[string]any {
	bounds["format"] = "epoch_millis"
	return map[string]any{"range": map[string]any{field: bounds}}
}

// first matches the first hours of buckets.
func (a *asked) first(h hours) map[string]any {
	if a.plan.Bucket != nil && pool.Micros(a.plan.Bucket.Minutes)*pool.Minute <= pool.Hour {
		return map[string]any{"match_all": map[string]any{}}
	}
	i := slices.IndexFunc(a.pools, func(p *published) bool { return p.zone.String() == h.zone })
	var first []int64 // in ms
	last := -1
	for at := h.from; at < h.to; at = facts.NextHour(a.pools[i].zone, at) {
		if b := a.bucket(at); b != last {
			first, last = append(first, facts.Millis(at)), b
		}
	}
	return map[string]any{"terms": map[string]any{"hour": first}}
}

// bucket is the number of the bucket that holds an hour or a day.
func (a *asked) bucket(t pool.Micros) int {
	if a.buckets.Whole {
		return 0
	}
	return a.buckets.Of(t)
}

// tell adds the omitted parts of hours, and notices about missing facts.
func (a *asked) tell(about *frames.About) {
	if len(a.pools) == 0 {
		if a.plan.Select.All(query.ByPool) {
			about.Warn("no pool has published facts under %s. Run gpureports publish for each of them", a.store.index)
		} else {
			about.Warn("filter.pools: no pool that has published facts matches")
		}
		return
	}
	cut := map[pool.Micros][]string{}
	for _, p := range a.pools {
		if p.cut > 0 {
			cut[p.cut] = append(cut[p.cut], p.Pool)
		}
		if p.late > 0 {
			a.tellLate(about, p)
		}
		if since := facts.Micros(p.Since); since > a.plan.Window.From && since < a.plan.Window.To {
			about.Tell("Hours before the facts of "+p.Pool, "h", pool.Hours(since-a.plan.Window.From),
				"the facts of pool %s begin at %s UTC", p.Pool, frames.Stamp(since))
		}
	}
	for _, left := range slices.Sorted(maps.Keys(cut)) {
		pools, minutes := strings.Join(cut[left], ", "), float64(left)/float64(pool.Minute)
		about.Tell("Left out by full hours: "+pools, "m", minutes, "facts are of full hours: %s min at the ends of the time "+
			"range are left out (%s)", frames.Decimal(minutes), pools)
	}
	about.Stat("Pools", "locale", float64(len(a.pools)))
	for _, p := range a.pools {
		if window := pool.Hours(max(0, p.to-p.from)); window > 0 {
			about.Stat("Coverage of "+p.Pool, "percent", 100*p.coveredHours()/window)
		}
	}
}

// tellLate adds a pool's missing facts at the window's end, which warn if they are later than usual.
func (a *asked) tellLate(about *frames.About, p *published) {
	const lateWarning = 3 * pool.Hour // with hourly publishing facts arrive within two hours
	text := fmt.Sprintf("the facts of pool %s end at %s UTC: the newest %s h of the time range are missing", p.Pool,
		frames.Stamp(facts.Micros(p.Through)), frames.Decimal(pool.Hours(p.late)))
	if p.late > lateWarning && a.plan.Now-facts.Micros(p.Through) > lateWarning {
		about.Warn("%s", text)
		return
	}
	about.Tell("Hours that the facts of "+p.Pool+" lack", "h", pool.Hours(p.late), "%s", text)
}

// coveredHours is the time that a pool's facts cover; 0 without data.
func (p *published) coveredHours() (hours float64) {
	if p.known {
		for _, covered := range p.covered {
			hours += covered
		}
	}
	return hours
}
