// Package userhours answers who used how many GPU-hours (methodology section 6).
package userhours

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
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
	hours, err := compute(ctx, s.Counts, p, loaded)
	if err != nil {
		return nil, err
	}
	about.Stat("Computation", "ms", counts.Milliseconds(start))
	return Frames(hours, p, about), nil
}

// Usage is what one user held in one group, by bucket.
type Usage struct {
	Group []string // by the groupings other than user
	User  string
	Hours []float64 // GPU-hours: Σ n / N · D of the bucket; NaN: it has no point
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
	Times  []pool.Micros // of the buckets with a slice
}

// compute returns the GPU-hours of each group and user, by bucket. A table has one bucket, the window.
func compute(ctx context.Context, kept *counts.Cache, p *query.Plan, s *timeline.Slices) (*Hours, error) {
	by := Groupings(p)
	count, err := counts.New(ctx, kept, p, s, append(slices.Clone(by), "user"), counts.Claimed)
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
		h.Usages = append(h.Usages, Usage{Group: g.Texts[:len(by)], User: g.Texts[len(by)], Hours: hours[:len(count.Drawn)]})
	}
	return h, nil
}

// Groupings are the plan's without the user.
func Groupings(p *query.Plan) []string {
	return slices.DeleteFunc(slices.Clone(p.GroupBy), func(g string) bool { return g == "user" })
}
