// Package userhours answers who used how many GPU-hours (methodology section 6).
package userhours

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Answer answers a query of the kind. Errors come from the timeline.
func Answer(ctx context.Context, s *stores.Stores, p *query.Plan) (data.Frames, error) {
	loaded, about, err := counts.Load(ctx, s.Timeline, p)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	projects, err := linked.JobProjects(ctx, s, p, about)
	if err != nil {
		return nil, err
	}
	hours, err := compute(ctx, s.Memo, p, loaded, projects)
	if err != nil {
		return nil, err
	}
	if projects != nil {
		by := hours.Attributed()
		by.Tell(about)
	}
	about.Stat("Computation", "ms", counts.Milliseconds(start))
	return Frames(hours, p, about), nil
}

// Usage is what one user held in one group, by bucket.
type Usage struct {
	Group []string // by the groupings other than user
	User  string
	Hours []float64 // GPU-hours: Σ n / N · D of the bucket; NaN: it has no point

	By linked.Attributed // the window's hours, if the projects of jobs matter
}

func (u *Usage) total() (sum float64) {
	for _, h := range u.Hours {
		if !math.IsNaN(h) {
			sum += h
		}
	}
	return sum
}

// Hours are the GPU-hours of a window.
type Hours struct {
	Usages []Usage       // in no order
	Times  []pool.Micros // when the buckets with a slice begin
}

// compute returns the GPU-hours of each group and user, by bucket. A table has one bucket, the window.
// projects are those of jobs; nil: they do not matter.
func compute(ctx context.Context, memo *stores.Memo, p *query.Plan, s *timeline.Slices,
	projects *queues.Projects) (*Hours, error) {
	by := Groupings(p)
	groupings := append(slices.Clone(by), "user")
	if projects != nil {
		groupings = append(groupings, "attribution")
	}
	count, err := counts.New(ctx, memo, p, s, projects, groupings, counts.Claimed)
	if err != nil {
		return nil, err
	}
	perSlice := make([]float64, len(count.Drawn)) // hours that a GPU-slice of the bucket represents
	for i, b := range count.Drawn {
		covered := s.Covered(pool.Window{From: count.Buckets.Starts[b], To: count.Buckets.Starts[b+1]})
		perSlice[i] = pool.Hours(covered) / count.Slices[b]
	}
	h := &Hours{Times: count.Times}
	for _, g := range count.Groups {
		hours := g.Sums[counts.Claimed] // in place: the count is not shared
		for i, b := range count.Drawn {
			hours[i] = hours[b] * perSlice[i]
		}
		u := Usage{Group: g.Texts[:len(by)], User: g.Texts[len(by)], Hours: hours[:len(count.Drawn)]}
		u.By[g.Key[query.ByAttribution]] = u.total()
		h.Usages = append(h.Usages, u)
	}
	if projects != nil {
		h.unite()
	}
	return h, nil
}

// unite adds up the usages of a user in a group whose projects are known in different ways.
func (h *Hours) unite() {
	slices.SortFunc(h.Usages, func(a, b Usage) int { // sums depend on the order of adding
		return cmp.Or(slices.Compare(a.Group, b.Group), cmp.Compare(a.User, b.User), slices.Compare(b.By[:], a.By[:]))
	})
	var keys pool.Numbered[string]
	var all []Usage
	for _, u := range h.Usages {
		n := int(keys.Number(fmt.Sprintf("%q %q", u.Group, u.User)))
		if n == len(all) {
			all = append(all, u)
			continue
		}
		for i, hours := range u.Hours {
			all[n].Hours[i] += hours
		}
		for how, hours := range u.By {
			all[n].By[how] += hours
		}
	}
	h.Usages = all
}

// Attributed are the hours of all usages by how the projects of their jobs are known.
func (h *Hours) Attributed() (by linked.Attributed) {
	for i := range h.Usages {
		for how, hours := range h.Usages[i].By {
			by[how] += hours
		}
	}
	return by
}

// Groupings are the plan's without the user.
func Groupings(p *query.Plan) []string {
	return slices.DeleteFunc(slices.Clone(p.GroupBy), func(g string) bool { return g == "user" })
}
