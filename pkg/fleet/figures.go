package fleet

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// wanted says which facts are added up, in addition to those that the plan's groupings and filter need.
type wanted struct {
	kind   string
	by     []string // further fields to group by
	fields []string // fields to add up
	having []string // fields of which a fact has at least one; nil: of those that are added up
	hours  bool     // group by hour
	// also is another query for the facts of pools in a window; nil: none
	also func(hours) map[string]any
}

// cell is the sum of the facts of one group of one pool in one bucket.
type cell struct {
	sum
	pool   string
	bucket int
}

// stored are the fields that groupings are made from, if they have another name.
var stored = map[string]string{"machineType": "ownership"}

// ofEvictions are the groupings that only evictions have.
var ofEvictions = []string{"cause", "evidence"}

// each calls use with the sums of the groups that the filter chooses, by pool and bucket. Its errors are returned.
func (a *asked) each(ctx context.Context, w wanted, use func(cell) error) error {
	s := &a.plan.Select
	by := []string{"pool"}
	need := func(field string, needed bool) {
		if needed && !slices.Contains(by, field) {
			by = append(by, field)
		}
	}
	for _, g := range slices.Concat(a.plan.GroupBy, w.by) {
		need(cmp.Or(stored[g], g), w.kind == facts.KindEvictions || !slices.Contains(ofEvictions, g))
	}
	need("category", !s.AllCategories())
	need("ownership", !s.AllOwnerships())
	need("device", !s.Devices.All() || !s.OldDevices && w.kind != facts.KindWaits)
	need("memory", !s.AllMemories())
	need("tier", !s.Tiers.All())
	need("project", !s.Projects.All())
	need("user", !s.Users.All())
	need("schedd", !s.Schedds.All())
	need("gpus", !s.GPUs.All())
	need("gpuMemory", !s.GPUMemory.All())
	return a.store.aggregate(ctx, a.pinned, a.sums(w, by), func(found sum) error {
		if !chosen(s, found.texts) {
			return nil
		}
		return use(cell{found, found.texts["pool"], a.bucket(found.time)})
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
		"memory": s.MatchMemory, "project": s.MatchProjects, "user": s.MatchUser, "schedd": s.Schedds.Match,
		"gpus": s.GPUs.Match, "gpuMemory": s.GPUMemory.Match} {
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
		if o, ok := pool.ParseOwnership(texts["ownership"]); ok && g == "machineType" {
			shown[i] = o.MachineType()
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
		if !a.some[b] {
			continue
		}
		at := a.buckets.Starts[b]
		if a.buckets.Whole {
			for _, p := range a.pools {
				at = max(at, facts.FloorHour(p.zone, p.to-1))
			}
		}
		drawn, times = append(drawn, b), append(times, at)
	}
	return drawn, times
}

// times returns the times of the buckets' points.
func (a *asked) times() []pool.Micros {
	if _, times := a.points(); a.buckets.Whole {
		return times
	}
	return a.buckets.Starts[:a.buckets.Len()]
}

// drawn returns which buckets have a point: those of any pool, or of the pool that is the group.
func (a *asked) drawn(of string) []bool {
	if !slices.Contains(a.plan.GroupBy, "pool") {
		return slices.Clone(a.some)
	}
	if c := a.cover[of]; c != nil {
		return slices.Clone(c.drawn)
	}
	return make([]bool, a.buckets.Len())
}

// empty returns zeros for the buckets that are drawn, NaN for the others.
func (a *asked) empty(of string) []float64 {
	values := make([]float64, a.buckets.Len())
	for b, drawn := range a.drawn(of) {
		if !drawn {
			values[b] = math.NaN()
		}
	}
	return values
}

// ofHours adds up a field of the facts of hours, by pool and bucket.
func (a *asked) ofHours(ctx context.Context, field string) (map[string][]float64, error) {
	sums := map[string][]float64{}
	q := a.sums(wanted{kind: facts.KindHour, fields: []string{field}}, []string{"pool"})
	err := a.store.aggregate(ctx, a.pinned, q, func(found sum) error {
		name := found.texts["pool"]
		if sums[name] == nil {
			sums[name] = make([]float64, a.buckets.Len())
		}
		sums[name][a.bucket(found.time)] += found.values[0]
		return nil
	})
	return sums, err
}

// groups are the values of an answer for each group of texts, in the order in which they are found first.
type groups[T any] struct {
	at  map[string]int
	all []T
}

// of returns a group's value, created if there is none yet. It is valid until the next call. Errors: pool.BadQuery if
// there are too many groups for that number of buckets.
func (g *groups[T]) of(texts []string, buckets int, make func() T) (*T, error) {
	key := fmt.Sprintf("%q", texts)
	at, known := g.at[key]
	if !known {
		if g.at == nil {
			g.at = map[string]int{}
		}
		at = len(g.all)
		if err := query.Hold(at+1, buckets); err != nil {
			return nil, err
		}
		g.at[key], g.all = at, append(g.all, make())
	}
	return &g.all[at], nil
}
