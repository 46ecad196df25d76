package fleet

import (
	"context"

	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/facts"
)

// backfill returns how the backfill pools are used: of each pool Σ of GPU-snapshots / snapshots, added up over pools.
func (a *asked) backfill(ctx context.Context) ([]backfill.Occupied, error) {
	snapshots, err := a.ofHours(ctx, "snapshots")
	if err != nil {
		return nil, err
	}
	drawn, _ := a.points()
	at := pointsOf(drawn)
	var found groups[backfill.Occupied]
	w := wanted{kind: facts.KindGPUs, fields: []string{"poolAvailable", "poolUsed", "poolTaken"},
		having: []string{"poolAvailable", "poolUsed", "poolTaken", "poolOther"}}
	err = a.each(ctx, w, func(c cell) {
		n := a.cover[c.pool]
		if n == nil || !n.drawn[c.bucket] {
			return
		}
		texts := a.textsOf(a.plan.GroupBy, c.texts)
		of := found.of(texts, func() backfill.Occupied {
			point := func() []float64 { return a.emptyPoints(c.pool, drawn) }
			return backfill.Occupied{Texts: texts, Available: point(), Used: point(), Taken: point()}
		})
		for i, values := range [][]float64{of.Available, of.Used, of.Taken} {
			values[at[c.bucket]] += c.values[i] / snapshots[c.pool][c.bucket]
		}
	})
	return found.all, err
}
