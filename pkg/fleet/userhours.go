package fleet

import (
	"context"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/facts"
	"github.com/chtc/gpureports/pkg/userhours"
)

// userHours returns GPU-hours: of each pool Σ of claimed GPU-slices / N · D, added up over pools.
func (a *asked) userHours(ctx context.Context) (*userhours.Hours, error) {
	drawn, times := a.points()
	at := map[int]int{} // points by their bucket
	for i, b := range drawn {
		at[b] = i
	}
	by := userhours.Groupings(a.plan)
	var found groups[userhours.Usage]
	w := wanted{kind: facts.KindUsers, by: []string{"user"}, fields: []string{facts.ClassFields[counts.Claimed]}}
	err := a.each(ctx, w, func(c cell) {
		n := a.cover[c.pool]
		if n == nil || !n.drawn[c.bucket] {
			return
		}
		group, user := a.textsOf(by, c.texts), a.plan.Shown("user", c.texts["user"])
		usage := found.of(append(group, user), func() userhours.Usage {
			empty := a.empty(c.pool)
			hours := make([]float64, len(drawn))
			for i, b := range drawn {
				hours[i] = empty[b]
			}
			return userhours.Usage{Group: group, User: user, Hours: hours}
		})
		usage.Hours[at[c.bucket]] += c.values[0] / n.slices[c.bucket] * n.covered[c.bucket]
	})
	h := &userhours.Hours{Times: times, Usages: found.all}
	h.Sort(a.plan)
	return h, err
}
