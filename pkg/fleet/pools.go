package fleet

import (
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

var freshness = []string{"ageHours", "coveragePercent"}

// poolsView lists the pools. Only fleets have it, because a pool's own data source has its health check instead.
var poolsView = query.View{
	Name: "pools", Label: "Pools",
	Description: "How far the facts of each pool reach, and how much of the time range they cover",
	Metrics:     freshness, DefaultMetrics: freshness, Filters: []string{"pools"}, Options: []string{"limit"},
	Alerting: query.AlertSingleMetric, Frame: query.FrameTable,
	Columns: []query.Column{
		query.TextColumn("zone", "Time zone", "Whose full hours the facts are of"),
		query.TextColumn("since", "Since", "Beginning of the first hour"),
		query.TextColumn("through", "Through", "End of the newest hour"),
		query.TextColumn("completeThrough", "Final through", "Earlier hours are of finished days: they change no more"),
	},
}

// withPools adds the view to a kind.
func withPools(k query.Kind) query.Kind {
	k.Views = append(k.Views, poolsView)
	k.Columns = append(slices.Clone(k.Columns), query.Metric("ageHours", "Age of the newest facts", query.Hours, 1,
		"Now − end of the newest hour that the pool has published"))
	return k
}

// listPools answers the view: a row for each pool, even for pools without facts in the window.
func (a *asked) listPools(about *frames.About) data.Frames {
	if len(a.pools) == 0 {
		a.tell(about)
		return about.Finish(nil)
	}
	values := map[string]func(published) float64{
		"ageHours":        func(p published) float64 { return pool.Hours(a.plan.Now - facts.Micros(p.Through)) },
		"coveragePercent": a.covers,
	}
	if a.plan.Numeric {
		shown := *a.plan
		shown.GroupBy = []string{"pool"}
		var rows []frames.Row
		for _, p := range a.pools {
			rows = append(rows, frames.Row{Group: []string{p.Pool}, Values: []float64{values[shown.Metrics[0]](p)}})
		}
		return frames.Table(&shown, about, rows)
	}
	texts := func(name string, of func(published) string) *data.Field {
		return frames.Text(name, mapped(a.pools, of))
	}
	times := func(name string, of func(published) int64) *data.Field {
		return frames.Time(name, mapped(a.pools, func(p published) pool.Micros { return facts.Micros(of(p)) }))
	}
	fields := []*data.Field{
		texts("pool", func(p published) string { return p.Pool }),
		texts("zone", func(p published) string { return p.Zone }),
		times("since", func(p published) int64 { return p.Since }),
		times("through", func(p published) int64 { return p.Through }),
		times("completeThrough", func(p published) int64 { return p.CompleteThrough }),
	}
	for _, m := range a.plan.Metrics {
		fields = append(fields, frames.Number(m, mapped(a.pools, values[m])))
	}
	return frames.List(a.plan, about, fields...)
}

// covers is the share of the window's full hours that a pool's facts cover, in percent.
func (a *asked) covers(p published) float64 {
	full := (a.plan.Window.To - a.plan.Window.From - p.cut + pool.Minute) / pool.Hour
	return 100 * a.coveredHours(p) / float64(max(full, 1))
}

func mapped[V any](all []published, of func(published) V) (values []V) {
	for _, p := range all {
		values = append(values, of(p))
	}
	return values
}
