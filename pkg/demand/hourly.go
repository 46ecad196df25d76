package demand

import (
	"context"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
)

// Hours is who waited in consecutive hours. Sums over hours and groups give the figures of longer windows; a window has
// the waits that began in its hours, and those that were carried into its first one.
type Hours struct {
	Waits   map[linked.HourOf]*Hourly
	Covered []float64 // the part of each hour that polls cover
}

// Hourly is the sum over the waits of a group in an hour.
type Hourly struct {
	Begun    int     `json:"waitsBegun,omitempty"`
	Carried  int     `json:"waitsCarried,omitempty"` // waits that began before the hour
	Started  int     `json:"waitsStarted,omitempty"` // waits that end in the hour
	Left     int     `json:"waitsLeft,omitempty"`
	Waited   float64 `json:"waited,omitempty"`          // hours that those waited which started
	JobHours float64 `json:"waitingJobHours,omitempty"` // in covered time
	GPUHours float64 `json:"waitingGpuHours,omitempty"`
}

// ByHour returns who waited in the hours between consecutive times; nil without polls. Errors come from Answer.
func ByHour(ctx context.Context, s *stores.Stores, env query.Env, hours []pool.Micros) (*Hours, error) {
	p, err := query.Catalog{Kind}.Plan(query.Request{Model: query.Model{QueryType: Kind.Name},
		Window: pool.Window{From: hours[0], To: hours[len(hours)-1]}}, env)
	if err != nil {
		return nil, err
	}
	_, a, err := load(ctx, s, p)
	if err != nil || a == nil {
		return nil, err
	}
	h := &Hours{Waits: map[linked.HourOf]*Hourly{}}
	c := newClock(hours, p.Window, a.polls.coveredUntil)
	for _, covered := range c.covered {
		h.Covered = append(h.Covered, pool.Hours(covered))
	}
	for i := range a.all {
		if w := &a.all[i]; w.Counted < p.Window.To && w.End >= p.Window.From {
			h.add(w, a.keyOf(i), c)
		}
	}
	return h, nil
}

func (h *Hours) add(w *Wait, key aggregate.Key, c *clock) {
	hours := query.Buckets{Starts: c.edges}
	of := func(hour int) *Hourly { return pool.In(h.Waits, linked.HourOf{Key: key, Hour: hour}) }
	for b := hours.Of(max(w.Counted, c.edges[0])); b < hours.Len() && c.edges[b] <= w.End; b++ {
		in := of(b)
		if from, to := max(w.Counted, c.edges[b]), min(w.End, c.edges[b+1]); from < to {
			waited := pool.Hours(c.until(to) - c.until(from))
			in.JobHours += waited
			in.GPUHours += w.Request.GPUs * waited
		}
		if w.Counted >= c.edges[b] {
			in.Begun++
		} else {
			in.Carried++
		}
	}
	if w.End >= c.edges[hours.Len()] {
		return
	}
	switch in := of(hours.Of(w.End)); w.Outcome {
	case Started:
		in.Started++
		in.Waited += pool.Hours(w.End - w.Begin)
	case Left:
		in.Left++
	}
}
