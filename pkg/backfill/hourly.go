package backfill

import (
	"context"
	"math"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
)

// Hours is how the backfill pool was used in consecutive hours. Sums over hours and groups are those of longer windows.
type Hours struct {
	GPUs      map[HourOf]*Hourly
	Snapshots []int // of each hour
}

// HourOf is a group's hour, by its number.
type HourOf struct {
	linked.Group
	Hour int
}

// Hourly is the GPU-snapshots of a group in an hour, by state.
type Hourly struct {
	Available, Used, Taken int64
	Other                  int64 // blocked, absent or unknown
}

// ByHour returns how the backfill pool was used in each of consecutive hours, given by their beginnings and the end of
// the last one. Errors are those of Answer.
func ByHour(ctx context.Context, s *stores.Stores, env query.Env, hours []pool.Micros) (*Hours, error) {
	w := pool.Window{From: hours[0], To: hours[len(hours)-1] - 1}
	o, err := s.Runs.Look(ctx, w, env.Lists)
	if err != nil {
		return nil, err
	}
	first, end := o.View.Snapshots(w)
	h := &Hours{GPUs: map[HourOf]*Hourly{}, Snapshots: make([]int, len(hours)-1)}
	if first == end {
		return h, nil
	}
	c := newCalendar(o.View.Times, first, end, query.Buckets{Starts: hours})
	names := o.View.Names.Texts()
	g := &grouping{by: []string{"category", "device", "memory", "project"}, names: names}
	everything := func(string) bool { return true }
	all := runs.Choose(runs.Filter{Machine: everything, Device: everything, Project: everything, User: everything,
		Ownership: func(pool.Ownership) bool { return true }}, o.View)
	groups, err := occupy(ctx, o, c, len(hours)-1, g, all)
	if err != nil {
		return nil, err
	}
	for b := range h.Snapshots {
		h.Snapshots[b] = c.snapshots(b)
	}
	for k, of := range groups {
		group := linked.GroupOf(k.place.Category(), k.place, names[k.project], "", names)
		for b, counts := range of.counts {
			sums := Hourly{Available: counts[runs.Available], Used: counts[runs.Used], Taken: counts[runs.Taken]}
			for state, n := range counts {
				if s := runs.State(state); s != runs.Available && s != runs.Used && s != runs.Taken {
					sums.Other += n
				}
			}
			if sums != (Hourly{}) {
				h.GPUs[HourOf{group, b}] = &sums
			}
		}
	}
	return h, nil
}

// Occupied is how many GPUs of a group were in each state on average, by point of a series. NaN: there is none.
type Occupied struct {
	Texts                  []string
	Available, Used, Taken []float64
}

// OccupiedFrames returns the series of the pool's occupancy.
func OccupiedFrames(groups []Occupied, times []pool.Micros, p *query.Plan, about *frames.About) data.Frames {
	var series []frames.Series
	for i := range groups {
		for _, metric := range p.Metrics {
			series = append(series, frames.Series{Group: groups[i].Texts, Metric: metric, Times: times,
				Values: groups[i].metric(metric)})
		}
	}
	return frames.TimeSeries(p, about, series)
}

func (o *Occupied) metric(name string) []float64 {
	switch name {
	case "available":
		return o.Available
	case "used":
		return o.Used
	case "taken":
		return o.Taken
	}
	percent := make([]float64, len(o.Used)) // usedPercent
	for i, used := range o.Used {
		if percent[i] = math.NaN(); used+o.Available[i] > 0 {
			percent[i] = 100 * used / (used + o.Available[i])
		}
	}
	return percent
}
