package fleet

import (
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
	pool   *published
	texts  map[string]string // by field
	time   pool.Micros       // beginning of the hour or day
	began  pool.Micros       // one of the two hours of evictions, if grouped by it
	bucket int               // that holds the time
	values []float64
}

// evictionGroupings are the groupings that only evictions have.
var evictionGroupings = []string{"cause", "evidence"}

// groupedBy returns the fields that the plan's groupings and filter need of facts: pool first, then others that the
// facts of a kind have.
func (a *asked) groupedBy(w wanted) []string {
	by := []string{"pool"}
	if w.kind == facts.KindHour {
		return by
	}
	for _, g := range slices.Concat(a.plan.GroupBy, w.by, query.NamesOf(filtersOf(&a.plan.Select, w.kind))) {
		field := g
		if known, ok := query.GroupingOf(g); ok {
			field = query.Groupings[known].Fact
		}
		if !slices.Contains(by, field) && (w.kind == facts.KindEvictions || !slices.Contains(evictionGroupings, g)) {
			by = append(by, field)
		}
	}
	return by
}

// filtersOf are the groupings by which a selection chooses facts of a kind.
func filtersOf(s *query.Selection, kind string) (by []query.Grouping) {
	for g := range query.NumGroupings {
		if !s.All(g) && (kind != facts.KindWaits || !g.OfGPU()) { // no GPUs wait
			by = append(by, g)
		}
	}
	return by
}

// textsOf are a group's texts by groupings, as answers show them.
func (a *asked) textsOf(groupings []string, texts map[string]string) []string {
	shown := make([]string, len(groupings))
	for i, g := range query.GroupingsOf(groupings) {
		d := &query.Groupings[g]
		stored := texts[d.Fact]
		if d.OfFact != nil {
			stored = d.OfFact(stored)
		}
		shown[i] = a.plan.Shown(d.Name, stored)
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

// drawnOf returns which buckets have a point: those of any pool, or of the pool that is the group.
func (a *asked) drawnOf(p *published) []bool {
	if slices.Contains(a.plan.GroupBy, "pool") {
		return p.drawn
	}
	return a.drawn
}

// empty returns zeros for the buckets that are drawn, NaN for the others.
func (a *asked) empty(p *published) []float64 {
	values := make([]float64, a.buckets.Len())
	for b, drawn := range a.drawnOf(p) {
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
		if err := query.CheckCells(n+1, buckets); err != nil {
			return nil, err
		}
		g.all = append(g.all, make())
	}
	return &g.all[n], nil
}

// summed are the figures of an answer under way.
type summed[S any] struct {
	*asked
	found   groups[aggregate.Group[S]]
	total   *S
	ofDrawn bool // facts of buckets without a point do not count in series
}

// group returns the figures of a group, created if there are none yet.
func (s *summed[S]) group(p *published, texts []string) (*aggregate.Group[S], error) {
	return s.found.of(texts, s.buckets.Len(), func() aggregate.Group[S] {
		g := aggregate.Group[S]{Texts: texts}
		if s.plan.Frame == query.FrameSeries {
			g.Points, g.Drawn = make([]S, s.buckets.Len()), slices.Clone(s.drawnOf(p))
		}
		return g
	})
}

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
	if g.Points != nil && (!s.ofDrawn || c.pool.drawn[c.bucket]) {
		add(&g.Points[c.bucket])
	}
	return nil
}

func (s *summed[S]) figures() *aggregate.Figures[S] {
	return &aggregate.Figures[S]{Groups: s.found.all, Total: *s.total, Times: s.times()}
}
