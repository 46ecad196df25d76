package utilization

import (
	"context"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
)

// Hourly is what the runs of a group did in an hour. Sums over hours and groups are those of longer windows; a window
// has Begun of its hours and Carried of its first one as its runs.
type Hourly struct {
	Hour      int // its number
	Category  pool.Category
	Device    string
	Memory    string
	Ownership pool.Ownership
	Project   string
	User      string

	Amounts
	Begun   int // runs that start in the hour
	Carried int // runs that started before the hour, and go on in it
}

// groupings of Hourly.
var hourlyGroupings = []string{"category", "device", "memory", "ownership", "project", "user"}

// ByHour returns what runs did in each of consecutive hours, given by their beginnings and the end of the last one, in
// no order. Errors are those of Answer, and pool.SourceError where the job source does not answer: figures without it
// are others.
func ByHour(ctx context.Context, s *stores.Stores, env query.Env, hours []pool.Micros) ([]Hourly, error) {
	p, err := query.Catalog{Kind}.Plan(query.Request{
		Model:  query.Model{QueryType: Kind.Name, GroupBy: hourlyGroupings, Bucket: "1h"},
		Window: pool.Window{From: hours[0], To: hours[len(hours)-1]},
	}, env)
	if err != nil {
		return nil, err
	}
	a, sharp, err := load(ctx, s, p)
	if err != nil {
		return nil, err
	}
	if s.Ads != nil && !sharp {
		return nil, pool.SourceError("job ads could not be read")
	}
	counted := a.countRuns(hours)
	for k, amounts := range a.series {
		for b, of := range amounts {
			if b < len(hours)-1 && of != (Amounts{}) {
				counted[hourOf{k, b}].Amounts = of
			}
		}
	}
	all := make([]Hourly, 0, len(counted))
	for k, h := range counted {
		h.Hour, h.Category, h.Ownership = k.hour, k.category, k.place.Ownership
		h.Device, h.Memory = a.names[k.place.Device], pool.MemoryClasses[k.place.Memory]
		h.Project, h.User = a.names[k.project], a.names[k.user]
		all = append(all, *h)
	}
	return all, nil
}

// hourOf is a group's hour.
type hourOf struct {
	group
	hour int
}

// countRuns counts the runs of each group in the hours that they overlap.
func (a *answer) countRuns(hours []pool.Micros) map[hourOf]*Hourly {
	counted := map[hourOf]*Hourly{}
	g := grouping{a.plan.GroupBy, a.names, a.plan.Shown}
	buckets := query.Buckets{Starts: hours}
	for i := range a.runs {
		r := &a.runs[i]
		for b := buckets.Of(max(r.Start, hours[0])); b < buckets.Len() && hours[b] <= r.Until; b++ {
			k := hourOf{g.of(r), b}
			if counted[k] == nil {
				counted[k] = &Hourly{}
			}
			if r.Start >= hours[b] {
				counted[k].Begun++
			} else {
				counted[k].Carried++
			}
		}
	}
	return counted
}
