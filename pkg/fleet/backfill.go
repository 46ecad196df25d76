package fleet

import (
	"context"

	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/facts"
)

// backfill returns how the backfill pools are used: of each pool Σ of GPU-snapshots / snapshots, added up over pools.
func (a *asked) backfill(ctx context.Context) ([]backfill.Occupied, error) {
	snapshots := map[string][]float64{} // by pool and bucket
	q := a.sums(wanted{kind: facts.KindHour, fields: []string{"snapshots"}}, []string{"pool"})
	err := a.store.aggregate(ctx, a.pinned, q, func(found sum) {
		name := found.texts["pool"]
		if snapshots[name] == nil {
			snapshots[name] = make([]float64, a.buckets.Len())
		}
		snapshots[name][a.bucket(found.time)] += found.values[0]
	})
	if err != nil {
		return nil, err
	}
	drawn, _ := a.points()
	at := map[int]int{} // points by their bucket
	for i, b := range drawn {
		at[b] = i
	}
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
			empty := a.empty(c.pool)
			point := func() []float64 {
				values := make([]float64, len(drawn))
				for i, b := range drawn {
					values[i] = empty[b]
				}
				return values
			}
			return backfill.Occupied{Texts: texts, Available: point(), Used: point(), Taken: point()}
		})
		for i, values := range [][]float64{of.Available, of.Used, of.Taken} {
			values[at[c.bucket]] += c.values[i] / snapshots[c.pool][c.bucket]
		}
	})
	return found.all, err
}
