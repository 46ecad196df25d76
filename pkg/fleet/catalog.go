// Package fleet answers for many pools from the facts that they publish into Elasticsearch, which adds up: sums over
// hours and groups travel, nothing else does.
package fleet

import (
	"slices"

	"github.com/chtc/gpureports/pkg/allocation"
	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/evictions"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/userhours"
	"github.com/chtc/gpureports/pkg/utilization"
)

// Catalog is the kinds that facts can answer, as far as they can.
var Catalog = query.Catalog{
	withPools(ofFacts(allocation.Kind, "timeseries", "summary")),
	ofFacts(userhours.Kind, "summary", "timeseries"),
	ofFacts(backfill.Kind, "timeseries"),
	ofFacts(evictions.Kind, "summary", "timeseries"),
	ofFacts(utilization.Kind, "timeseries", "summary"),
	ofFacts(demand.Kind, "timeseries", "summary"),
}

// withoutFacts are groupings and filters that facts do not distinguish.
var withoutFacts = []string{"machine", "machines", "preventReason", "idle", "takenOverBy"}

// noSums are metrics that cannot be made from sums over hours.
var noSums = []string{"idleRuns", "idleNow", "medianHoursToEviction", "maxEvictionsPerJob", "ended", "meanHours",
	"medianWaitHours", "p90WaitHours", "expansionFactor", "waitingUsers", "oldestHours", "freeWhileWaiting",
	"startedElsewhere"}

// ofFacts returns the views of a kind that facts can answer: by pool, too, and in buckets of full hours.
func ofFacts(k query.Kind, views ...string) query.Kind {
	known := k.Views
	k.Views = nil
	for _, v := range known {
		if !slices.Contains(views, v.Name) {
			continue
		}
		v.GroupBy = append([]string{"pool"}, without(v.GroupBy, withoutFacts)...)
		v.Filters = append([]string{"pools"}, without(v.Filters, withoutFacts)...)
		v.Metrics, v.DefaultMetrics = without(v.Metrics, noSums), without(v.DefaultMetrics, noSums)
		v.BucketMinutes = 60
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
	if _, ofPool := all.Plan(r, env); ofPool == nil {
		return nil, pool.BadQuery("%w. The facts of many pools hold no single machines, GPUs, jobs or runs, and full hours "+
			"only: ask the data source of the pool itself", err)
	}
	return nil, err
}
