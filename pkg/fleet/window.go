package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/facts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// published is a pool with the full hours of the window: [from, to) of what it has published.
type published struct {
	facts.Checkpoint
	from, to pool.Micros
	cut      pool.Micros // what full hours leave out of the window
	late     pool.Micros // what the facts lack at the window's end
}

// coverage is N and D of a pool in each bucket.
type coverage struct {
	slices, covered []float64
	drawn           []bool // the buckets that have a point
}

// look begins to answer from the facts as they are now. Whoever does so closes what is pinned.
func (s *Store) look(ctx context.Context, p *query.Plan) (*asked, error) {
	pinned, err := s.client.Pin(ctx, s.index)
	if err != nil {
		return nil, err
	}
	a := &asked{store: s, pinned: pinned, plan: p, cover: map[string]*coverage{}}
	if err := a.look(ctx); err != nil {
		pinned.Close(ctx)
		return nil, err
	}
	return a, nil
}

// look reads what the pools have published and which hours have snapshots.
func (a *asked) look(ctx context.Context) error {
	points, err := a.store.pools(ctx, a.pinned)
	if err != nil {
		return err
	}
	p := a.plan
	for _, point := range points {
		if p.Select.Pools.Match(point.Pool) {
			a.pools = append(a.pools, hoursOf(point, p.Window))
		}
	}
	if a.buckets, err = p.Buckets(p.Window.From - pool.Hour); err != nil {
		return err
	}
	if len(a.within(nil)) == 0 {
		return nil
	}
	n := a.buckets.Len()
	q := a.sums(wanted{kind: facts.KindHour, fields: []string{"slices", "coveredHours"}}, []string{"pool"})
	err = a.store.aggregate(ctx, a.pinned, q, func(found sum) {
		c := a.cover[found.texts["pool"]]
		if c == nil {
			c = &coverage{slices: make([]float64, n), covered: make([]float64, n), drawn: make([]bool, n)}
			a.cover[found.texts["pool"]] = c
		}
		b := a.bucket(found.time)
		c.slices[b] += found.values[0]
		c.covered[b] += found.values[1]
	})
	a.draw()
	return err
}

// draw finds the buckets that have a point: those with a slice. Pools without any are left out.
func (a *asked) draw() {
	for _, p := range a.pools {
		c := a.cover[p.Pool]
		if c == nil {
			continue
		}
		seen := false
		for b, n := range c.slices {
			c.drawn[b] = n > 0 && a.plan.Keep(a.buckets, b, facts.Micros(p.Through))
			seen = seen || n > 0
		}
		if !seen {
			delete(a.cover, p.Pool)
		}
	}
}

// hoursOf returns which hours of a pool lie in a window as a whole. A window that ends with the last millisecond of an
// hour holds it.
func hoursOf(point facts.Checkpoint, w pool.Window) published {
	minute := facts.Micros(point.Through) % pool.Hour // with which the zone's hours begin
	p := published{Checkpoint: point}
	p.from = minute + (w.From-minute+pool.Hour-1)/pool.Hour*pool.Hour
	p.to = minute + (w.To+pool.Second/1000-minute)/pool.Hour*pool.Hour
	if p.cut = w.To - w.From - max(0, p.to-p.from); p.cut < pool.Second {
		p.cut = 0
	}
	p.late = max(0, p.to-max(p.from, facts.Micros(point.Through)))
	p.from, p.to = max(p.from, facts.Micros(point.Since)), min(p.to, facts.Micros(point.Through))
	return p
}

// sums are what is wanted in the window, by pool and what else is told apart, in the plan's buckets.
func (a *asked) sums(w wanted, by []string) sums {
	q := sums{kind: w.kind, by: by, fields: w.fields, filter: []map[string]any{anyOf(a.within(w.also))}}
	having := w.having
	if having == nil {
		having = w.fields
	}
	var exist []map[string]any
	for _, field := range having {
		exist = append(exist, map[string]any{"exists": map[string]any{"field": field}})
	}
	if len(exist) > 0 {
		q.filter = append(q.filter, anyOf(exist))
	}
	switch bucket := a.plan.Bucket; {
	case w.hours:
		q.hours = true
	case bucket == nil:
	case bucket.Minutes >= int(pool.Day/pool.Minute):
		q.day = a.plan.Location.String() // longer buckets are made of days
	default:
		q.hours = true
	}
	return q
}

// anyOf matches what any of several queries does.
func anyOf(queries []map[string]any) map[string]any {
	return map[string]any{"bool": map[string]any{"should": queries, "minimum_should_match": 1}}
}

// within matches the hours of the pools, and what is wanted of them besides: pools with the same hours are asked for
// together.
func (a *asked) within(also func(from, to pool.Micros) map[string]any) (either []map[string]any) {
	type hours struct{ from, to pool.Micros }
	names := map[hours][]string{}
	for _, p := range a.pools {
		if p.from < p.to {
			names[hours{p.from, p.to}] = append(names[hours{p.from, p.to}], p.Pool)
		}
	}
	for _, h := range slices.SortedFunc(maps.Keys(names), func(x, y hours) int {
		return strings.Compare(names[x][0], names[y][0])
	}) {
		all := []map[string]any{{"terms": map[string]any{"pool": names[h]}},
			between("hour", map[string]any{"gte": facts.Millis(h.from), "lt": facts.Millis(h.to)})}
		if also != nil {
			all = append(all, also(h.from, h.to))
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
func (a *asked) first(from, to pool.Micros) map[string]any {
	if a.plan.Bucket != nil && pool.Micros(a.plan.Bucket.Minutes)*pool.Minute <= pool.Hour {
		return map[string]any{"match_all": map[string]any{}}
	}
	return map[string]any{"terms": map[string]any{"hour": a.firstHours(from, to)}}
}

// firstHours are the first hours of each bucket, in ms, of those from one to another.
func (a *asked) firstHours(from, to pool.Micros) (first []int64) {
	last := -1
	for h := from; h < to; h += pool.Hour {
		if b := a.bucket(h); b != last {
			first, last = append(first, facts.Millis(h)), b
		}
	}
	return first
}

// bucket is the number of the bucket that holds an hour or a day.
func (a *asked) bucket(t pool.Micros) int {
	if a.buckets.Whole {
		return 0
	}
	return a.buckets.Of(t)
}

// lateWarning is how late facts are when that is a warning: publishing each hour has them within two.
const lateWarning = 3 * pool.Hour

// tell says what full hours leave out of the window, and what facts lack.
func (a *asked) tell(about *frames.About) {
	if len(a.pools) == 0 {
		if a.plan.Select.Pools.All() {
			about.Warn("no pool has published facts under %s: run gpureports publish for each of them", a.store.index)
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
			about.Info("the facts of pool %s begin at %s UTC", p.Pool, frames.Stamp(since))
		}
	}
	for _, left := range slices.Sorted(maps.Keys(cut)) {
		if a.plan.OnDashboard { // where each panel would repeat it
			about.Stat("Left out by full hours: "+strings.Join(cut[left], ", "), "m", float64(left)/float64(pool.Minute))
			continue
		}
		about.Info("facts are of full hours: %s min at the ends of the time range are left out (%s)",
			frames.Decimal(float64(left)/float64(pool.Minute)), strings.Join(cut[left], ", "))
	}
	a.figuresAbout(about)
}

// tellLate says what the facts of a pool lack at the window's end.
func (a *asked) tellLate(about *frames.About, p published) {
	text := fmt.Sprintf("the facts of pool %s end at %s UTC: the newest %s h of the time range are missing", p.Pool,
		frames.Stamp(facts.Micros(p.Through)), frames.Decimal(pool.Hours(p.late)))
	switch {
	case p.late > lateWarning && a.plan.Now-facts.Micros(p.Through) > lateWarning:
		about.Warn("%s", text)
	case a.plan.OnDashboard: // where each panel would repeat it
		about.Stat("Hours that the facts of "+p.Pool+" lack", "h", pool.Hours(p.late))
	default:
		about.Info("%s", text)
	}
}

// figuresAbout adds the coverage of the pools.
func (a *asked) figuresAbout(about *frames.About) {
	about.Stat("Pools", "locale", float64(len(a.pools)))
	for _, p := range a.pools {
		covered := 0.0
		if c := a.cover[p.Pool]; c != nil {
			for _, hours := range c.covered {
				covered += hours
			}
		}
		if window := pool.Hours(max(0, p.to-p.from)); window > 0 {
			about.Stat("Coverage of "+p.Pool, "percent", 100*covered/window)
		}
	}
}
