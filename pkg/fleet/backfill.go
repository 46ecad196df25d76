package fleet

import (
	"context"

	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/fleet/facts"
)

// backfill returns how the backfill pools are used: of each pool Σ of GPU-snapshots / snapshots, added up over pools.
func (a *asked) backfill(ctx context.Context) (*backfill.Figures, error) {
	snapshots, err := a.ofHours(ctx, "snapshots")
	if err != nil {
		return nil, err
	}
	s := summed[backfill.Sums]{asked: a, total: &backfill.Sums{}, drawn: true}
	w := wanted{kind: facts.KindGPUs, fields: []string{"poolAvailable", "poolUsed", "poolTaken"},
		having: []string{"poolAvailable", "poolUsed", "poolTaken", "poolOther"}}
	err = a.each(ctx, w, func(c cell) error {
		n := a.cover[c.pool]
		if n == nil || !n.drawn[c.bucket] {
			return nil
		}
		return s.add(c, func(to *backfill.Sums) {
			for i, average := range []*float64{&to.Available, &to.Used, &to.Taken} {
				*average += c.values[i] / snapshots[c.pool][c.bucket]
			}
		})
	})
	for _, g := range s.found.all {
		for b := range g.Points {
			g.Points[b].Snapshots = 1 // the added values are averages
		}
	}
	return s.figures(), err
}
