package fleet

import (
	"context"
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/facts"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/utilization"
)

// utilization returns what GPUs did: GPU-hours add up over hours and pools, averages are of each pool's covered time.
func (a *asked) utilization(ctx context.Context) (*utilization.Figures, error) {
	f := &utilization.Figures{}
	f.Drawn, f.Times = a.points()
	var found groups[utilization.GroupFigures]
	of := func(c cell) *utilization.GroupFigures {
		texts := a.textsOf(a.plan.GroupBy, c.texts)
		return found.of(texts, func() utilization.GroupFigures {
			return utilization.GroupFigures{Texts: texts, Buckets: a.emptyUsage(c.pool)}
		})
	}
	err := a.each(ctx, wanted{kind: facts.KindUsers, fields: []string{"held", "measured", "busy", "idle", "begun"},
		having: []string{"held", "begun", "carried"}}, func(c cell) {
		group := of(c)
		amounts := utilization.Amounts{Held: c.values[0], Measured: c.values[1], Busy: c.values[2], Idle: c.values[3]}
		for _, sums := range []*utilization.Sums{&group.Sums, &f.Total} {
			sums.Add(amounts)
			sums.Runs += int(c.values[4])
		}
		if n := a.cover[c.pool]; n != nil && group.Buckets != nil && n.drawn[c.bucket] {
			b := &group.Buckets[c.bucket]
			b.Add(amounts)
			b.BusyGPUs += amounts.Busy / n.covered[c.bucket]
			b.IdleGPUs += amounts.Idle / n.covered[c.bucket]
		}
	})
	if err == nil && slices.Contains(a.plan.Metrics, "runs") {
		err = a.each(ctx, wanted{kind: facts.KindUsers, fields: []string{"carried"}, also: a.first}, func(c cell) {
			of(c).Sums.Runs += int(c.values[0])
			f.Total.Runs += int(c.values[0])
		})
	}
	f.Groups = found.all
	return f, err
}

// emptyUsage returns the buckets of a series, without a point where the pool that is the group has none.
func (a *asked) emptyUsage(of string) []utilization.Bucket {
	if a.plan.Frame != query.FrameSeries {
		return nil
	}
	buckets := make([]utilization.Bucket, a.buckets.Len())
	for b, zero := range a.empty(of) {
		if math.IsNaN(zero) {
			buckets[b] = utilization.Bucket{Amounts: utilization.Amounts{Measured: zero}, BusyGPUs: zero, IdleGPUs: zero}
		}
	}
	return buckets
}
