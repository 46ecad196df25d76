// Package fleet answers for many pools from the facts that they publish into Elasticsearch, which adds up: sums over
// hours and groups travel, nothing else does.
package fleet

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/allocation"
	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/evictions"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/userhours"
	"github.com/chtc/gpureports/pkg/utilization"
)

// Answer plans a query and answers it from the facts. all are the kinds of a pool's own data source. Errors are
// pool.BadQuery, pool.SourceError if Elasticsearch does not answer in full or in time, and ctx's.
func (s *Store) Answer(ctx context.Context, all query.Catalog, env query.Env, r query.Request) (data.Frames, error) {
	p, err := plan(all, r, env)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	return retried(ctx, s, func(ctx context.Context, pinned *elastic.Pinned) (data.Frames, error) {
		a, err := s.open(ctx, pinned, p)
		if err != nil {
			return nil, err
		}
		about := frames.Plain(p)
		if p.View == poolsView.Name {
			return a.listPools(about), nil
		}
		if a.tell(about); !a.known() {
			return about.Finish(nil), nil
		}
		answer, err := a.answer(ctx, about)
		if err != nil {
			return nil, err
		}
		about.Stat("Elasticsearch", "ms", counts.Milliseconds(start))
		return answer(), nil
	})
}

// retried calls ask with a point in time of the facts and a deadline: the store's, or three quarters of the time until
// ctx's, if that is earlier, so that the error names the server before the caller gives up. If a node went away in the
// meantime, it calls ask once more, because other nodes may have its data.
func retried[T any](ctx context.Context, s *Store, ask func(context.Context, *elastic.Pinned) (T, error)) (T, error) {
	within := s.timeout
	if deadline, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(deadline)*3/4)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	once := func() (answer T, err error) {
		pinned, err := s.client.Pin(ctx, s.index)
		if err != nil {
			return answer, err
		}
		defer pinned.Close(ctx)
		return ask(ctx, pinned)
	}
	answer, err := once()
	if elastic.Elsewhere(err) {
		return once()
	}
	return answer, err
}

// asked is a running query.
type asked struct {
	store   *Store
	pinned  *elastic.Pinned
	plan    *query.Plan
	pools   []*published // that the filter chooses, by name
	byName  map[string]*published
	buckets query.Buckets
	drawn   []bool // the buckets in which any pool has a point
}

// known reports whether any pool has data.
func (a *asked) known() bool {
	return slices.ContainsFunc(a.pools, func(p *published) bool { return p.known })
}

// answer requests the figures of the plan's kind, and returns a function that makes frames of them.
func (a *asked) answer(ctx context.Context, about *frames.About) (func() data.Frames, error) {
	switch a.plan.Kind {
	case userhours.Kind.Name:
		hours, err := a.userHours(ctx, about)
		return func() data.Frames { return userhours.Frames(hours, a.plan, about) }, err
	case backfill.Kind.Name:
		figures, err := a.backfill(ctx)
		return func() data.Frames { return backfill.Frames(figures, a.plan, about) }, err
	case demand.Kind.Name:
		figures, err := a.demand(ctx, about)
		return func() data.Frames {
			if figures == nil {
				return about.Finish(nil)
			}
			return demand.Frames(figures, a.plan, about)
		}, err
	case evictions.Kind.Name:
		figures, err := a.evictions(ctx, about)
		return func() data.Frames { return evictions.Frames(figures, a.plan, about) }, err
	case utilization.Kind.Name:
		figures, err := a.utilization(ctx)
		return func() data.Frames { return utilization.Frames(figures, a.plan, about) }, err
	}
	figures, err := a.allocation(ctx)
	return func() data.Frames { return allocation.Frames(figures, a.plan, about) }, err
}

// Catalog is the kinds that facts can answer, as far as they can.
var Catalog = query.Catalog{
	withPools(inFacts(allocation.Kind, "timeseries", "summary")),
	inFacts(userhours.Kind, "summary", "timeseries"),
	inFacts(backfill.Kind, "timeseries"),
	inFacts(evictions.Kind, "summary", "timeseries"),
	inFacts(utilization.Kind, "timeseries", "summary"),
	inFacts(demand.Kind, "timeseries", "summary"),
}

// noSums are metrics that cannot be made from sums over hours.
var noSums = []string{"idleRuns", "idleNow", "medianHoursToEviction", "maxEvictionsPerJob", "ended", "meanHours",
	"medianWaitHours", "p90WaitHours", "expansionFactor", "waitingUsers", "oldestHours", "freeWhileWaiting",
	"startedElsewhere", "withinPercent", "withinLow", "withinHigh", "startedOnOwnPercent", "p90HeldPercent",
	"attributedPercent"}

// inFacts returns the views of a kind that facts can answer: by pool, too, and in buckets of full hours.
func inFacts(k query.Kind, views ...string) query.Kind {
	known := k.Views
	k.Views = nil
	for _, v := range known {
		if !slices.Contains(views, v.Name) {
			continue
		}
		v.GroupBy = append([]string{"pool"}, query.InFacts(v.GroupBy)...)
		v.Filters = append([]string{"pools"}, query.InFacts(v.Filters)...)
		v.Metrics, v.DefaultMetrics = without(v.Metrics, noSums), without(v.DefaultMetrics, noSums)
		if k.Name != userhours.Kind.Name { // facts hold the projects of jobs by hours, not by runs
			v.GroupBy, v.Filters = without(v.GroupBy, []string{jobProject}), without(v.Filters, []string{"jobProjects"})
		}
		v.BucketMinutes, v.Beside = 60, nil
		v.Options = without(v.Options, []string{"withinMinutes"})
		k.Views = append(k.Views, v)
	}
	return k
}

func without(words, others []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(others, w) })
}

// plan plans a request. A question that a pool's own data source could answer is refused with that advice. Errors are
// pool.BadQuery.
func plan(all query.Catalog, r query.Request, env query.Env) (*query.Plan, error) {
	p, err := Catalog.Plan(r, env)
	if err == nil {
		return p, nil
	}
	r.Asked = query.Asked{} // the other catalog resolves it anew
	if _, ofPool := all.Plan(r, env); ofPool == nil {
		return nil, pool.BadQuery("%w. The facts of many pools hold no single machines, GPUs, jobs or runs, and full hours "+
			"only: ask the data source of the pool itself", err)
	}
	return nil, err
}

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
	values := map[string]func(*published) float64{
		"ageHours":        func(p *published) float64 { return pool.Hours(a.plan.Now - facts.Micros(p.Through)) },
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
	times := func(name string, of func(*published) int64) *data.Field {
		return frames.Time(name, mapped(a.pools, func(p *published) pool.Micros { return facts.Micros(of(p)) }))
	}
	fields := []*data.Field{
		frames.Text("pool", mapped(a.pools, func(p *published) string { return p.Pool })),
		frames.Text("zone", mapped(a.pools, func(p *published) string { return p.Zone })),
		times("since", func(p *published) int64 { return p.Since }),
		times("through", func(p *published) int64 { return p.Through }),
		times("completeThrough", func(p *published) int64 { return p.CompleteThrough }),
	}
	for _, m := range a.plan.Metrics {
		fields = append(fields, frames.Number(m, mapped(a.pools, values[m])))
	}
	return frames.List(a.plan, about, fields...)
}

// covers is the share of the window's full hours that a pool's facts cover, in percent.
func (a *asked) covers(p *published) float64 {
	full := (a.plan.Window.To - a.plan.Window.From - p.cut + pool.Minute) / pool.Hour
	return 100 * p.coveredHours() / float64(max(full, 1))
}

func mapped[V any](all []*published, of func(*published) V) (values []V) {
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
	kind := facts.KindGPUs
	switch {
	case dimension == "schedd":
		kind = facts.KindWaits
	case dimension == "user" || dimension == jobProject || !p.Select.All(query.ByUser):
		kind = facts.KindUsers
	}
	// Read the facts of that kind, and collect what they have.
	values, err = retried(ctx, s, func(ctx context.Context, pinned *elastic.Pinned) ([]string, error) {
		a, err := s.open(ctx, pinned, p)
		if err != nil || !a.known() {
			return nil, err
		}
		found := map[string]bool{}
		err = a.each(ctx, wanted{kind: kind}, func(c cell) error {
			text := c.texts[dimension]
			projects := pool.Projects(text)
			if dimension != "project" && dimension != jobProject || len(projects) == 0 {
				projects = []string{text}
			}
			for _, project := range projects {
				found[project] = true
			}
			return nil
		})
		compare := func(a, b string) int { return query.CompareValues(dimension, a, b) }
		return slices.SortedFunc(maps.Keys(found), compare), err
	})
	return values, p, err
}
