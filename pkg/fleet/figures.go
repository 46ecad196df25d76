package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/aggregate"
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

// cell is the sum of the facts of one group of one pool in one bucket, hour or day.
type cell struct {
	pool   string
	texts  map[string]string // by field
	time   pool.Micros       // beginning of the hour or day
	began  pool.Micros       // one of the two hours of evictions, if grouped by it
	bucket int               // that holds the time
	values []float64
}

// stored are the fields that groupings are made from, if they have another name.
var stored = map[string]string{"machineType": "ownership"}

// ofEvictions are the groupings that only evictions have.
var ofEvictions = []string{"cause", "evidence"}

// groupedBy returns the fields that the plan's groupings and filter need of facts: pool first, then others that the
// facts of a kind have.
func (a *asked) groupedBy(w wanted) []string {
	by := []string{"pool"}
	if w.kind == facts.KindHour {
		return by
	}
	for _, g := range slices.Concat(a.plan.GroupBy, w.by) {
		if field := cmp.Or(stored[g], g); !slices.Contains(by, field) &&
			(w.kind == facts.KindEvictions || !slices.Contains(ofEvictions, g)) {
			by = append(by, field)
		}
	}
	for _, f := range filtersOf(&a.plan.Select, w.kind) {
		if !f.all && !slices.Contains(by, f.field) {
			by = append(by, f.field)
		}
	}
	return by
}

// filter is the part of a plan's filter about a field of facts.
type filter struct {
	field string
	all   bool // every text passes
	match func(text string) bool
}

func filtersOf(s *query.Selection, kind string) []filter {
	return []filter{
		{"category", !slices.Contains(s.Categories[:], false), func(text string) bool {
			c, known := pool.ParseCategory(text)
			return known && s.Categories[c]
		}},
		{"ownership", !slices.Contains(s.Ownerships, false), func(text string) bool {
			o, known := pool.ParseOwnership(text)
			return known && s.Ownerships[o]
		}},
		{"device", s.Devices.All() && (s.OldDevices || kind == facts.KindWaits), s.MatchModel},
		{"memory", !slices.Contains(s.Memories, false), s.MatchMemory},
		{"tier", s.Tiers.All(), s.Tiers.Match},
		{"project", s.Projects.All(), s.MatchProjects},
		{"user", s.Users.All(), s.MatchUser},
		{"schedd", s.Schedds.All(), s.Schedds.Match},
		{"gpus", s.GPUs.All(), s.GPUs.Match},
		{"gpuMemory", s.GPUMemory.All(), s.GPUMemory.Match},
	}
}

// textsOf are a group's texts by groupings, as answers show them.
func (a *asked) textsOf(groupings []string, texts map[string]string) []string {
	shown := make([]string, len(groupings))
	for i, g := range groupings {
		shown[i] = a.plan.Shown(g, texts[g])
		if c, ok := pool.ParseCategory(texts[g]); ok && g == "category" {
			shown[i] = c.String()
		}
		if o, ok := pool.ParseOwnership(texts["ownership"]); ok && g == "machineType" {
			shown[i] = o.MachineType()
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

// times returns the times of the buckets' points: of the whole window its newest hour.
func (a *asked) times() []pool.Micros {
	times := slices.Clone(a.buckets.Starts[:a.buckets.Len()])
	for _, p := range a.pools {
		if a.buckets.Whole {
			times[0] = max(times[0], facts.FloorHour(p.zone, p.to-1))
		}
	}
	return times
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

// groups are the values of an answer for each group of texts, in the order in which they are found first.
type groups[T any] struct {
	keys pool.Numbered[string]
	all  []T
}

// of returns a group's value, created if there is none yet. It is valid until the next call. Errors: pool.BadQuery if
// there are too many groups for that number of buckets.
func (g *groups[T]) of(texts []string, buckets int, make func() T) (*T, error) {
	n := int(g.keys.Number(fmt.Sprintf("%q", texts)))
	if n == len(g.all) {
		if err := query.Hold(n+1, buckets); err != nil {
			return nil, err
		}
		g.all = append(g.all, make())
	}
	return &g.all[n], nil
}

// summed are the figures of an answer under way.
type summed[S any] struct {
	*asked
	found groups[aggregate.Group[S]]
	total *S
	drawn bool // facts of buckets without a point do not count in series
}

// group returns the figures of a group, created if there are none yet.
func (s *summed[S]) group(of string, texts []string) (*aggregate.Group[S], error) {
	return s.found.of(texts, s.buckets.Len(), func() aggregate.Group[S] {
		g := aggregate.Group[S]{Texts: texts}
		if s.plan.Frame == query.FrameSeries {
			g.Points, g.Drawn = make([]S, s.buckets.Len()), s.asked.drawn(of)
		}
		return g
	})
}

// of returns the figures of a cell's group.
func (s *summed[S]) of(c cell) (*aggregate.Group[S], error) {
	return s.group(c.pool, s.textsOf(s.plan.GroupBy, c.texts))
}

// add adds a cell to the figures of its group, of its bucket in a series, and of all groups.
func (s *summed[S]) add(c cell, add func(to *S)) error {
	g, err := s.of(c)
	if err != nil {
		return err
	}
	add(&g.Sums)
	add(s.total)
	if n := s.cover[c.pool]; g.Points != nil && (!s.drawn || n != nil && n.drawn[c.bucket]) {
		add(&g.Points[c.bucket])
	}
	return nil
}

// figures are the added sums.
func (s *summed[S]) figures() *aggregate.Figures[S] {
	return &aggregate.Figures[S]{Groups: s.found.all, Total: *s.total, Times: s.times()}
}
