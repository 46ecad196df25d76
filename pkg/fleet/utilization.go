package fleet

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/utilization"
)

// utilization returns the usage of GPUs: GPU-hours add up over hours and pools, averages are of each pool's
// covered time.
func (a *asked) utilization(ctx context.Context) (*utilization.Figures, error) {
	s := summed[utilization.Sums]{asked: a, total: &utilization.Sums{}, drawn: true}
	err := a.each(ctx, wanted{kind: facts.KindUsers, fields: []string{"held", "measured", "busy", "idle", "begun"},
		having: []string{"held", "begun", "carried"}}, func(c cell) error {
		return s.add(c, func(to *utilization.Sums) {
			to.Add(utilization.Amounts{Held: c.values[0], Measured: c.values[1], Busy: c.values[2], Idle: c.values[3]})
			to.Runs += int(c.values[4])
			if n := a.cover[c.pool]; n != nil && n.covered[c.bucket] > 0 {
				to.BusyGPUs += c.values[2] / n.covered[c.bucket]
				to.IdleGPUs += c.values[3] / n.covered[c.bucket]
			}
		})
	})
	if err == nil && slices.Contains(a.plan.Metrics, "runs") {
		err = a.each(ctx, wanted{kind: facts.KindUsers, fields: []string{"carried"}, also: a.first}, func(c cell) error {
			return s.add(c, func(to *utilization.Sums) { to.Runs += int(c.values[0]) })
		})
	}
	return s.figures(), err
}
