package fleet

import (
	"context"
	"maps"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/elastic"
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
		query.TextColumn("zone", "Time zone", "Time zone of the hours"),
		query.TextColumn("since", "Since", "Beginning of the first hour"),
		query.TextColumn("through", "Through", "End of the newest hour"),
		query.TextColumn("completeThrough", "Final through", "Hours before this time are final"),
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
	times := func(name string, of func(published) int64) *data.Field {
		return frames.Time(name, mapped(a.pools, func(p published) pool.Micros { return facts.Micros(of(p)) }))
	}
	fields := []*data.Field{
		frames.Text("pool", mapped(a.pools, func(p published) string { return p.Pool })),
		frames.Text("zone", mapped(a.pools, func(p published) string { return p.Zone })),
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

// Dimensions are the dimensions whose values can be listed.
var Dimensions = append([]string{"pool"}, query.InFacts(query.Dimensions)...)

// valuesCatalog plans the question for values.
var valuesCatalog = query.Catalog{{Name: "values", Views: []query.View{{Name: "values", GroupBy: Dimensions,
	Metrics: []string{"values"}, Filters: append([]string{"pools"}, query.InFacts(query.UserFilters)...),
	Frame: query.FrameTable, Alerting: query.AlertNone}}}}

// Values returns the values of a dimension in a window, as they are stored, in the order of tables; single projects of
// lists. "" is a project list without any. The plan shows and orders them.
func (s *Store) Values(ctx context.Context, env query.Env, dimension string, f query.Filter,
	w pool.Window) (values []string, p *query.Plan, err error) {
	p, err = valuesCatalog.Plan(query.Request{Window: w,
		Model: query.Model{QueryType: "values", GroupBy: []string{dimension}, Filter: f}}, env)
	if err != nil {
		return nil, nil, err
	}
	values, err = retried(ctx, s, func(ctx context.Context, pinned *elastic.Pinned) ([]string, error) {
		return s.valuesOnce(ctx, pinned, dimension, p)
	})
	return values, p, err
}

func (s *Store) valuesOnce(ctx context.Context, pinned *elastic.Pinned, dimension string, p *query.Plan) ([]string,
	error) {
	a, err := s.look(ctx, pinned, p)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	if len(a.cover) > 0 {
		kind := facts.KindGPUs
		switch {
		case dimension == "schedd":
			kind = facts.KindWaits
		case dimension == "user" || dimension == jobProject || !p.Select.All(query.ByUser):
			kind = facts.KindUsers
		}
		err = a.each(ctx, wanted{kind: kind}, func(c cell) error {
			text := c.texts[dimension]
			if projects := pool.Projects(text); (dimension == "project" || dimension == jobProject) && len(projects) > 0 {
				for _, project := range projects {
					found[project] = true
				}
				return nil
			}
			found[text] = true
			return nil
		})
	}
	compare := func(a, b string) int { return query.CompareValues(dimension, a, b) }
	return slices.SortedFunc(maps.Keys(found), compare), err
}
