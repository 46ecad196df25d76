package allocation

import (
	"slices"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Figures are the data of summaries and series: GPU-slices by group and bucket.
type Figures struct {
	Groups []GroupFigures
	Slices []float64     // N of each bucket
	Drawn  []int         // the buckets that have a point
	Times  []pool.Micros // of these points
}

// GroupFigures are the GPU-slices of a group.
type GroupFigures struct {
	Texts []string // by the plan's groupings
	Side  pool.Side
	Sums  *counts.Sums // those of ClassesOf the plan's metrics; NaN in buckets without a point
}

// figuresOf returns the figures of a count.
func figuresOf(c *counts.Count, s *timeline.Slices, p *query.Plan) *Figures {
	names := s.View.Names.Texts()
	f := &Figures{Slices: make([]float64, len(c.Slices)), Drawn: c.Drawn(p, s.Newest)}
	for b, n := range c.Slices {
		f.Slices[b] = float64(n)
	}
	for _, b := range f.Drawn {
		f.Times = append(f.Times, c.Point(b))
	}
	for g := range c.Groups {
		key := &c.Groups[g]
		side := key.Side
		if slices.Contains(p.GroupBy, "category") { // groupings have the category or the side
			side = key.Category.Side()
		}
		f.Groups = append(f.Groups, GroupFigures{Texts: key.Texts(p, p.GroupBy, names), Side: side, Sums: c.Of(g)})
	}
	return f
}

// needs are the classes that metrics are made from.
var needs = map[string][]counts.Class{
	"allocatedPercent": {counts.Claimed, counts.Unclaimed}, "available": {counts.Claimed, counts.Unclaimed},
	"allocated": {counts.Claimed}, "free": {counts.Free}, "unclaimed": {counts.Unclaimed},
	"drained": {counts.Drained}, "prevented": {counts.Prevented},
}

// ClassesOf are the classes that metrics are made from.
func ClassesOf(metrics []string) (all []counts.Class) {
	for _, m := range metrics {
		for _, class := range needs[m] {
			if !slices.Contains(all, class) {
				all = append(all, class)
			}
		}
	}
	return all
}

// point is a bucket of a group's GPU-slices.
type point struct {
	sums   *counts.Sums
	bucket int
	slices float64 // N
}

func (p *point) of(class counts.Class) float64 { return p.sums[class][p.bucket] }

// allocatedPercent is the allocated share of the GPUs that can be; NaN if there are none.
func (p *point) allocatedPercent() float64 {
	return aggregate.Percent(p.of(counts.Claimed), p.of(counts.Claimed)+p.of(counts.Unclaimed))
}

func (p *point) available() float64 {
	return (p.of(counts.Claimed) + p.of(counts.Unclaimed)) / p.slices
}

// average is the number of GPUs that count as a class, on average over the slices.
func average(class counts.Class) func(*point) float64 {
	return func(p *point) float64 { return p.of(class) / p.slices }
}
