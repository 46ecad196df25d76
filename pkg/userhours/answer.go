// Package userhours answers who used how many GPU-hours (methodology section 6).
package userhours

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/frames"
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
		var by linked.Attributed
		for _, u := range hours.Usages {
			for how, held := range u.By {
				by[how] += held
			}
		}
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

// compute returns the GPU-hours of each group and user, by bucket. projects are those of jobs; nil: they do not matter.
func compute(ctx context.Context, memo stores.Memo, p *query.Plan, s *timeline.Slices,
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
	if projects != nil { // add up those of a user in a group whose projects are known in different ways
		slices.SortFunc(h.Usages, func(a, b Usage) int { // sums depend on the order of adding
			return cmp.Or(slices.Compare(a.Group, b.Group), cmp.Compare(a.User, b.User), slices.Compare(b.By[:], a.By[:]))
		})
		h.Usages = unite(h.Usages)
	}
	return h, nil
}

// unite adds up the usages of a user in a group, in their order.
func unite(usages []Usage) (all []Usage) {
	var keys pool.Numbered[string]
	for _, u := range usages {
		n := int(keys.Number(fmt.Sprintf("%q %q", u.Group, u.User)))
		if n == len(all) {
			u.Hours = slices.Clone(u.Hours)
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
	return all
}

// Groupings are the plan's without the user.
func Groupings(p *query.Plan) []string {
	return slices.DeleteFunc(slices.Clone(p.GroupBy), func(g string) bool { return g == "user" })
}

type line struct {
	group     []string // and the user, "" of all
	userCount float64  // NaN: none
	hours     float64
	total     float64 // the table's sum
	rowType   string

	by linked.Attributed
}

// Frames returns the table of the view `summary`, whose hours have one bucket, otherwise series.
func Frames(h *Hours, p *query.Plan, about *frames.About) data.Frames {
	by := Groupings(p)
	slices.SortFunc(h.Usages, func(a, b Usage) int { // the most hours first
		return cmp.Or(query.CompareGroups(by, a.Group, b.Group), cmp.Compare(b.total(), a.total()),
			cmp.Compare(a.User, b.User))
	})
	if p.View == "summary" {
		return summary(h, p, about)
	}
	return series(h, p, about)
}

// summary returns the table: each group, its users below it, the total last; for one named metric only the groups.
func summary(h *Hours, p *query.Plan, about *frames.About) data.Frames {
	shown := *p
	if !p.Numeric {
		shown.GroupBy = append(slices.Clone(p.GroupBy), "user")
		shown.Metrics = append([]string{"userCount"}, p.Metrics...)
	}
	// Put each group before its users, and add up the total.
	var lines []line
	total := line{userCount: float64(len(byHours(h)))}
	for first, end := 0, 0; first < len(h.Usages); first = end {
		group := h.Usages[first].Group
		at := len(lines)
		lines = append(lines, line{group: append(slices.Clone(group), ""), rowType: "group"})
		for ; end < len(h.Usages) && slices.Equal(h.Usages[end].Group, group); end++ {
			u := &h.Usages[end]
			lines[at].userCount++
			lines[at].hours += u.total()
			if !p.Numeric {
				lines = append(lines, line{append(slices.Clone(group), u.User), math.NaN(), u.total(), 0, "user", u.By})
			}
			for how, hours := range u.By {
				lines[at].by[how] += hours
				total.by[how] += hours
			}
		}
		total.hours += lines[at].hours
	}
	total.total = total.hours
	// Show shares of the total, which comes last.
	rows := make([]frames.Row, len(lines))
	for i := range lines {
		l := &lines[i]
		l.total = total.hours
		rows[i] = frames.Row{Group: l.group[:len(shown.GroupBy)], Values: metrics.Values(shown.Metrics, l), Type: l.rowType}
	}
	name := "All"
	if len(p.GroupBy) == 0 { // the first column has users
		name = ""
	}
	return frames.Ordered(&shown, about, rows, frames.Total{Name: name, Values: metrics.Values(shown.Metrics, &total)})
}

// series returns GPU-hours over time. Grouped by user it has the users with the most hours, and the rest as Other.
func series(h *Hours, p *query.Plan, about *frames.About) data.Frames {
	// Keep the users with the most hours.
	at := slices.Index(p.GroupBy, "user")
	shown := p
	kept := map[string]bool{}
	if at >= 0 {
		users := byHours(h)
		for _, name := range users[:min(p.Max(10), len(users))] {
			kept[name] = true
		}
		if rest := len(users) - len(kept); rest > 0 {
			about.Count("Users in "+query.Other, rest, "limit: the %d users with the most hours, the other %s are %s", len(kept),
				frames.Thousands(rest), query.Other)
		}
		if p.Limit > 0 { // it limits users: their series are all shown
			unlimited := *p
			unlimited.Limit = query.MaxRows
			shown = &unlimited
		}
	}
	// Add up the others as one.
	usages := slices.Clone(h.Usages)
	for i := range usages {
		switch u := &usages[i]; {
		case at < 0:
			u.User = ""
		case !kept[u.User]:
			u.User = query.Other
		}
	}
	var all []frames.Series
	for _, u := range unite(usages) {
		group := u.Group
		if at >= 0 {
			group = slices.Insert(slices.Clone(group), at, u.User)
		}
		all = append(all, frames.Series{Group: group, Metric: "gpuHours", Times: h.Times, Values: u.Hours})
	}
	return frames.TimeSeries(shown, about, all)
}

// byHours are the users by their hours in the window, the most first.
func byHours(h *Hours) []string {
	totals := map[string]float64{}
	for _, u := range h.Usages {
		totals[u.User] += u.total()
	}
	return slices.SortedFunc(maps.Keys(totals), func(a, b string) int {
		return cmp.Or(cmp.Compare(totals[b], totals[a]), cmp.Compare(a, b))
	})
}
