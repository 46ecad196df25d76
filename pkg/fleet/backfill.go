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
	var found groups[backfill.GroupFigures]
	w := wanted{kind: facts.KindGPUs, fields: []string{"poolAvailable", "poolUsed", "poolTaken"},
		having: []string{"poolAvailable", "poolUsed", "poolTaken", "poolOther"}}
	err = a.each(ctx, w, func(c cell) error {
		n := a.cover[c.pool]
		if n == nil || !n.drawn[c.bucket] {
			return nil
		}
		texts := a.textsOf(a.plan.GroupBy, c.texts)
		of, err := found.of(texts, a.buckets.Len(), func() backfill.GroupFigures {
			g := backfill.GroupFigures{Texts: texts, Points: make([]backfill.Sums, a.buckets.Len()), Drawn: a.drawn(c.pool)}
			for b := range g.Points {
				g.Points[b].Snapshots = 1 // the added values are averages
			}
			return g
		})
		if err != nil {
			return err
		}
		at := &of.Points[c.bucket]
		for i, average := range []*float64{&at.Available, &at.Used, &at.Taken} {
			*average += c.values[i] / snapshots[c.pool][c.bucket]
		}
		return nil
	})
	return &backfill.Figures{Groups: found.all, Times: a.times()}, err
}
