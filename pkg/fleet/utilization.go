package fleet

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/utilization"
)

// utilization returns the usage of GPUs: GPU-hours add up over hours and pools, averages are of each pool's
// covered time.
func (a *asked) utilization(ctx context.Context) (*utilization.Figures, error) {
	f := &utilization.Figures{Times: a.times()}
	var found groups[utilization.GroupFigures]
	of := func(c cell) (*utilization.GroupFigures, error) {
		texts := a.textsOf(a.plan.GroupBy, c.texts)
		return found.of(texts, a.buckets.Len(), func() utilization.GroupFigures {
			g := utilization.GroupFigures{Texts: texts}
			if a.plan.Frame == query.FrameSeries {
				g.Points, g.Drawn = make([]utilization.Sums, a.buckets.Len()), a.drawn(c.pool)
			}
			return g
		})
	}
	err := a.each(ctx, wanted{kind: facts.KindUsers, fields: []string{"held", "measured", "busy", "idle", "begun"},
		having: []string{"held", "begun", "carried"}}, func(c cell) error {
		group, err := of(c)
		if err != nil {
			return err
		}
		amounts := utilization.Amounts{Held: c.values[0], Measured: c.values[1], Busy: c.values[2], Idle: c.values[3]}
		for _, sums := range []*utilization.Sums{&group.Sums, &f.Total} {
			sums.Add(amounts)
			sums.Runs += int(c.values[4])
		}
		if n := a.cover[c.pool]; n != nil && group.Points != nil && n.drawn[c.bucket] {
			b := &group.Points[c.bucket]
			b.Add(amounts)
			if covered := n.covered[c.bucket]; covered > 0 {
				b.BusyGPUs += amounts.Busy / covered
				b.IdleGPUs += amounts.Idle / covered
			}
		}
		return nil
	})
	if err == nil && slices.Contains(a.plan.Metrics, "runs") {
		err = a.each(ctx, wanted{kind: facts.KindUsers, fields: []string{"carried"}, also: a.first}, func(c cell) error {
			group, err := of(c)
			if err != nil {
				return err
			}
			group.Sums.Runs += int(c.values[0])
			f.Total.Runs += int(c.values[0])
			return nil
		})
	}
	f.Groups = found.all
	return f, err
}
