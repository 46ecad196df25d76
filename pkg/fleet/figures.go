package fleet

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/allocation"
	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/facts"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/userhours"
)

// cell is what facts of one group of one pool add up to in one bucket.
type cell struct {
	sum
	pool   string
	bucket int
}

// each calls use with the sums of the groups that the filter chooses, by pool and bucket.
func (a *asked) each(ctx context.Context, kind string, fields []string, use func(cell)) error {
	s := &a.plan.Select
	by := []string{"pool"}
	need := func(field string, needed bool) {
		if needed && !slices.Contains(by, field) {
			by = append(by, field)
		}
	}
	for _, g := range a.plan.GroupBy {
		need(g, true)
	}
	need("category", !s.AllCategories())
	need("ownership", !s.AllOwnerships())
	need("device", !s.Devices.All() || !s.OldDevices)
	need("tier", !s.Tiers.All())
	need("project", !s.Projects.All())
	need("user", kind == facts.KindUsers)
	return a.store.aggregate(ctx, a.pinned, a.sums(kind, by, fields...), func(found sum) {
		if chosen(s, found.texts) {
			use(cell{found, found.texts["pool"], a.bucket(found.time)})
		}
	})
}

// chosen reports whether the filter lets a group pass, by those of its texts that are there.
func chosen(s *query.Selection, texts map[string]string) bool {
	if text, ok := texts["category"]; ok {
		if c, known := pool.ParseCategory(text); !known || !s.Categories[c] {
			return false
		}
	}
	if text, ok := texts["ownership"]; ok {
		if o, known := pool.ParseOwnership(text); !known || !s.Ownerships[o] {
			return false
		}
	}
	for field, match := range map[string]func(string) bool{"device": s.MatchModel, "tier": s.Tiers.Match,
		"project": s.MatchProjects, "user": s.MatchUser} {
		if text, ok := texts[field]; ok && !match(text) {
			return false
		}
	}
	return true
}

// textsOf are a group's texts by groupings, as answers show them.
func (a *asked) textsOf(groupings []string, texts map[string]string) []string {
	shown := make([]string, len(groupings))
	for i, g := range groupings {
		shown[i] = texts[g]
		if c, ok := pool.ParseCategory(texts[g]); ok && g == "category" {
			shown[i] = c.String()
		}
		if g == "device" || g == "user" {
			shown[i] = a.plan.Shown(g, texts[g])
		}
	}
	return shown
}

// sideOf is the side of a group: groupings have the category or the slots.
func sideOf(texts map[string]string) pool.Side {
	if c, ok := pool.ParseCategory(texts["category"]); ok {
		return c.Side()
	}
	if texts["slots"] == pool.Backfill.String() {
		return pool.Backfill
	}
	return pool.Primary
}

// points returns the buckets in which any pool has a point, and their times: of the whole window its newest hour.
func (a *asked) points() (drawn []int, times []pool.Micros) {
	for b := range a.buckets.Len() {
		seen := false
		for _, c := range a.cover {
			seen = seen || c.drawn[b]
		}
		if !seen {
			continue
		}
		at := a.buckets.Starts[b]
		if a.buckets.Whole {
			for _, p := range a.pools {
				at = max(at, p.to-pool.Hour)
			}
		}
		drawn, times = append(drawn, b), append(times, at)
	}
	return drawn, times
}

// empty returns zeros for each bucket; of one pool's group NaN where the pool has no point.
func (a *asked) empty(of string) []float64 {
	values := make([]float64, a.buckets.Len())
	if !slices.Contains(a.plan.GroupBy, "pool") {
		return values
	}
	for b := range values {
		if !a.cover[of].drawn[b] {
			values[b] = math.NaN()
		}
	}
	return values
}

// figures returns the averages of allocation: of each pool Σ of GPU-slices / N, added up over pools.
func (a *asked) figures(ctx context.Context) (*allocation.Figures, error) {
	wants := allocation.ClassesOf(a.plan.Metrics)
	fields := make([]string, len(wants))
	for i, class := range wants {
		fields[i] = facts.ClassFields[class]
	}
	kind := facts.KindGPUs
	if !a.plan.Select.Users.All() {
		kind = facts.KindUsers
	}
	f := &allocation.Figures{Slices: slices.Repeat([]float64{1}, a.buckets.Len())}
	f.Drawn, f.Times = a.points()
	index := map[string]int{}
	err := a.each(ctx, kind, fields, func(c cell) {
		n := a.cover[c.pool]
		if n == nil || n.slices[c.bucket] == 0 {
			return
		}
		texts := a.textsOf(a.plan.GroupBy, c.texts)
		key := fmt.Sprintf("%q", texts)
		g, known := index[key]
		if !known {
			g = len(f.Groups)
			index[key] = g
			sums := &counts.Sums{}
			for _, class := range wants {
				sums[class] = a.empty(c.pool)
			}
			f.Groups = append(f.Groups, allocation.GroupFigures{Texts: texts, Side: sideOf(c.texts), Sums: sums})
		}
		for i, class := range wants {
			f.Groups[g].Sums[class][c.bucket] += c.values[i] / n.slices[c.bucket]
		}
	})
	return f, err
}

// hours returns GPU-hours: of each pool Σ of claimed GPU-slices / N · D, added up over pools.
func (a *asked) hours(ctx context.Context) (*userhours.Hours, error) {
	drawn, times := a.points()
	at := map[int]int{} // points by their bucket
	for i, b := range drawn {
		at[b] = i
	}
	h := &userhours.Hours{Times: times}
	by := userhours.Groupings(a.plan)
	index := map[string]int{}
	err := a.each(ctx, facts.KindUsers, []string{facts.ClassFields[counts.Claimed]}, func(c cell) {
		n := a.cover[c.pool]
		if n == nil || !n.drawn[c.bucket] {
			return
		}
		group, user := a.textsOf(by, c.texts), a.plan.Shown("user", c.texts["user"])
		key := fmt.Sprintf("%q %q", group, user)
		u, known := index[key]
		if !known {
			u = len(h.Usages)
			index[key] = u
			empty := a.empty(c.pool)
			hours := make([]float64, len(drawn))
			for i, b := range drawn {
				hours[i] = empty[b]
			}
			h.Usages = append(h.Usages, userhours.Usage{Group: group, User: user, Hours: hours})
		}
		h.Usages[u].Hours[at[c.bucket]] += c.values[0] / n.slices[c.bucket] * n.covered[c.bucket]
	})
	h.Sort(a.plan)
	return h, err
}
