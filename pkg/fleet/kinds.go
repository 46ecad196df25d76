package fleet

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/allocation"
	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/fleet/facts"
)

// allocation returns the averages of allocation: of each pool Σ of GPU-slices / N, added up over pools.
func (a *asked) allocation(ctx context.Context) (*allocation.Figures, error) {
	wants := allocation.ClassesOf(a.plan.Metrics)
	w := wanted{kind: facts.KindGPUs, fields: make([]string, len(wants)), having: facts.ClassFields[:]}
	for i, class := range wants {
		w.fields[i] = facts.ClassFields[class]
	}
	if !a.plan.Select.Users.All() {
		w.kind, w.having = facts.KindUsers, facts.ClassFields[counts.Claimed:counts.Claimed+1]
	}
	f := &allocation.Figures{Slices: slices.Repeat([]float64{1}, a.buckets.Len())}
	f.Drawn, f.Times = a.points()
	var found groups[allocation.GroupFigures]
	err := a.each(ctx, w, func(c cell) error {
		n := a.cover[c.pool]
		if n == nil || n.slices[c.bucket] == 0 {
			return nil
		}
		texts := a.textsOf(a.plan.GroupBy, c.texts)
		group, err := found.of(texts, a.buckets.Len(), func() allocation.GroupFigures {
			sums := &counts.Sums{}
			for _, class := range wants {
				sums[class] = a.empty(c.pool)
			}
			return allocation.GroupFigures{Texts: texts, Side: sideOf(c.texts), Sums: sums}
		})
		if err != nil {
			return err
		}
		for i, class := range wants {
			group.Sums[class][c.bucket] += c.values[i] / n.slices[c.bucket]
		}
		return nil
	})
	f.Groups = found.all
	return f, err
}
