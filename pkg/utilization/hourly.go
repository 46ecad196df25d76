package utilization

import (
	"context"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
)

// Hourly is what the runs of a group did in an hour. Sums over hours and groups give the figures of longer windows; a
// window has Begun of its hours and Carried of its first one as its runs.
type Hourly struct {
	Amounts
	Begun   int `json:"begun,omitempty"`   // runs that start in the hour
	Carried int `json:"carried,omitempty"` // runs that started before the hour, and continue in it
}

// ByHour returns what runs did in each of consecutive hours, given by their beginnings and the end of the last one.
// Errors come from Answer, and pool.SourceError if the job source does not answer: figures without it are others.
func ByHour(ctx context.Context, s *stores.Stores, env query.Env, hours []pool.Micros) (
	map[linked.HourOf]*Hourly, error) {
	p, err := query.Catalog{Kind}.Plan(query.Request{
		Model: query.Model{QueryType: Kind.Name, Bucket: "1h",
			GroupBy: query.NamesOf(append(linked.HourlyBy, query.ByUser))},
		Window: pool.Window{From: hours[0], To: hours[len(hours)-1]},
	}, env)
	if err != nil {
		return nil, err
	}
	a, err := load(ctx, s, p)
	if err != nil {
		return nil, err
	}
	if s.Ads != nil && !a.History.Sharp {
		return nil, pool.SourceError("job ads could not be read")
	}
	all := a.countRuns(hours)
	for n, key := range a.keys.All {
		for b := range hours[1:] {
			if of := a.figures.Groups[n].Points[b].Amounts; of != (Amounts{}) {
				all[linked.HourOf{Key: key, Hour: b}].Amounts = of
			}
		}
	}
	return all, nil
}

// countRuns counts the runs of each group in the hours that they overlap.
func (a *answer) countRuns(hours []pool.Micros) map[linked.HourOf]*Hourly {
	all := map[linked.HourOf]*Hourly{}
	buckets, by := query.Buckets{Starts: hours}, query.GroupingsOf(a.Plan.GroupBy)
	for _, r := range a.runs {
		group := r.Key().Within(by)
		for b := buckets.Of(max(r.Start, hours[0])); b < buckets.Len() && hours[b] <= r.Until; b++ {
			of := pool.In(all, linked.HourOf{Key: group, Hour: b})
			if r.Start >= hours[b] {
				of.Begun++
			} else {
				of.Carried++
			}
		}
	}
	return all
}
