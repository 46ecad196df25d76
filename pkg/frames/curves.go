package frames

import (
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/survival"
)

// Lives are the data of a group's survival curve.
type Lives struct {
	Group []string // by the plan's groupings
	Items *survival.Cohort
}

// Curves draws a survival curve for each group. duration and subjects ("GPUs") are words for notices: of curves that
// are conditional on reaching an age, and of groups that never have enough at risk for one.
func Curves(p *query.Plan, a *About, duration, subjects string, groups []Lives,
	estimator func(*survival.Cohort) survival.Curve) data.Frames {
	slices.SortStableFunc(groups, func(x, y Lives) int { return query.CompareGroups(p.GroupBy, x.Group, y.Group) })
	var curves []Curve
	few := 0
	for _, g := range groups {
		drawn, ok := g.Items.Drawn(estimator)
		if !ok {
			few++
			continue
		}
		hours, heights := drawn.Steps()
		curves = append(curves, Curve{Group: g.Group, From: pool.Hours(drawn.From), To: pool.Hours(drawn.Until),
			Hours: hours, Values: heights})
		if drawn.From > 0 {
			a.Info("%s: the curve is conditional on reaching %s h, from where at least %d %s are at risk",
				strings.TrimSpace(duration+" "+strings.Join(g.Group, ", ")), Decimal(pool.Hours(drawn.From)), survival.MinAtRisk,
				subjects)
		}
	}
	if few > 0 {
		a.Info("%s without a curve: never %d %s at risk", Count(few, "group"), survival.MinAtRisk, subjects)
	}
	return Survival(p, a, curves)
}
