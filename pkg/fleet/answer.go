// Package fleet answers for many pools from the facts that they publish into Elasticsearch, which adds up: sums over
// hours and groups travel, nothing else does.
package fleet

import (
	"context"
	"slices"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/allocation"
	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/evictions"
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
		return s.answerOnce(ctx, pinned, p, start)
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

func (s *Store) answerOnce(ctx context.Context, pinned *elastic.Pinned, p *query.Plan, start time.Time) (data.Frames,
	error) {
	a, err := s.look(ctx, pinned, p)
	if err != nil {
		return nil, err
	}
	about := frames.Plain(p)
	if p.View == poolsView.Name {
		return a.listPools(about), nil
	}
	a.tell(about)
	if len(a.cover) == 0 {
		return about.Finish(nil), nil
	}
	answer, err := a.answer(ctx, about)
	if err != nil {
		return nil, err
	}
	about.Stat("Elasticsearch", "ms", float64(time.Since(start).Microseconds())/1000)
	return answer(), nil
}

// asked is a running query.
type asked struct {
	store   *Store
	pinned  *elastic.Pinned
	plan    *query.Plan
	pools   []published // that the filter chooses
	buckets query.Buckets
	hours   map[string]*coverage // by pool
	cover   map[string]*coverage // by pool, without those that have no data
	some    []bool               // the buckets in which any pool has a point
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
