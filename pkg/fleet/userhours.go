package fleet

import (
	"context"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/userhours"
)

// userHours returns GPU-hours: of each pool Σ of claimed GPU-slices / N · D, added up over pools.
func (a *asked) userHours(ctx context.Context) (*userhours.Hours, error) {
	by := userhours.Groupings(a.plan)
	var found groups[userhours.Usage]
	w := wanted{kind: facts.KindUsers, by: []string{"user"}, fields: []string{facts.ClassFields[counts.Claimed]}}
	err := a.each(ctx, w, func(c cell) error {
		n := a.cover[c.pool]
		if n == nil || !n.drawn[c.bucket] {
			return nil
		}
		group, user := a.textsOf(by, c.texts), a.plan.Shown("user", c.texts["user"])
		usage, err := found.of(append(group, user), a.buckets.Len(), func() userhours.Usage {
			return userhours.Usage{Group: group, User: user, Hours: a.empty(c.pool)}
		})
		if err != nil {
			return err
		}
		usage.Hours[c.bucket] += c.values[0] / n.slices[c.bucket] * n.covered[c.bucket]
		return nil
	})
	return &userhours.Hours{Times: a.times(), Usages: found.all}, err
}
