package allocation

import (
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Figures are what summaries and series are made from: GPU-slices by group and bucket.
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
		f.Groups = append(f.Groups, GroupFigures{Texts: c.Groups[g].Texts(p, p.GroupBy, names),
			Side: c.Groups[g].SideOf(p.GroupBy), Sums: c.Of(g)})
	}
	return f
}

// needs are the classes that a metric is made from.
func needs(metric string) []counts.Class {
	switch metric {
	case "allocatedPercent", "available":
		return []counts.Class{counts.Claimed, counts.Unclaimed}
	case "allocated":
		return []counts.Class{counts.Claimed}
	case "free":
		return []counts.Class{counts.Free}
	case "unclaimed":
		return []counts.Class{counts.Unclaimed}
	case "drained":
		return []counts.Class{counts.Drained}
	case "prevented":
		return []counts.Class{counts.Prevented}
	}
	return nil
}

// ClassesOf are the classes that metrics are made from.
func ClassesOf(metrics []string) (all []counts.Class) {
	for _, m := range metrics {
		for _, class := range needs(m) {
			if !slices.Contains(all, class) {
				all = append(all, class)
			}
		}
	}
	return all
}

// metric is the formula of methodology section 5 over the sums of GPU-slices in a bucket and its N; NaN where it has
// none.
func metric(name string, sums *counts.Sums, bucket int, n float64) float64 {
	switch name {
	case "allocatedPercent":
		available := sums[counts.Claimed][bucket] + sums[counts.Unclaimed][bucket]
		if available == 0 {
			return math.NaN()
		}
		return 100 * sums[counts.Claimed][bucket] / available
	case "available":
		return (sums[counts.Claimed][bucket] + sums[counts.Unclaimed][bucket]) / n
	}
	return sums[needs(name)[0]][bucket] / n
}
