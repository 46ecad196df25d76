package userhours

import (
	"cmp"
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// usage is what one user held of one group, by bucket.
type usage struct {
	group []string // by the groupings other than user
	user  string
	hours []float64 // GPU-hours: Σ n / N · D of the bucket
}

func (u *usage) total() (sum float64) {
	for _, h := range u.hours {
		sum += h
	}
	return sum
}

// hours are the GPU-hours of a window.
type hours struct {
	usages []usage
	times  []pool.Micros // of the buckets with a slice
}

// compute returns the GPU-hours of each group and user, by bucket. A table has one bucket, the window.
func compute(ctx context.Context, kept *counts.Cache, p *query.Plan, s *timeline.Slices) (*hours, error) {
	by := groupings(p)
	count, err := counts.New(ctx, kept, p, s, append(slices.Clone(by), "user"), counts.Claimed)
	if err != nil {
		return nil, err
	}
	drawn := count.Drawn(p, s.Newest)
	perSlice := make([]float64, len(drawn)) // hours that a GPU-slice of the bucket stands for
	h := &hours{times: make([]pool.Micros, len(drawn))}
	for i, b := range drawn {
		covered := s.Covered(pool.Window{From: count.Buckets.Starts[b], To: count.Buckets.Starts[b+1]})
		perSlice[i] = pool.Hours(covered) / float64(count.Slices[b])
		h.times[i] = count.Point(b)
	}
	names := s.View.Names.Texts()
	for g := range count.Groups {
		u := usage{group: count.Groups[g].Texts(p, by, names), user: count.Groups[g].Texts(p, []string{"user"}, names)[0],
			hours: make([]float64, len(drawn))}
		for i, b := range drawn {
			u.hours[i] = count.Sum(g, counts.Claimed, b) * perSlice[i]
		}
		h.usages = append(h.usages, u)
	}
	slices.SortFunc(h.usages, func(a, b usage) int {
		return cmp.Or(query.CompareGroups(by, a.group, b.group), cmp.Compare(b.total(), a.total()),
			cmp.Compare(a.user, b.user))
	})
	return h, nil
}

// groupings are the plan's without the user.
func groupings(p *query.Plan) []string {
	return slices.DeleteFunc(slices.Clone(p.GroupBy), func(g string) bool { return g == "user" })
}
