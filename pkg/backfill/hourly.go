package backfill

import (
	"context"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
)

// Hours is how the backfill pool was used in consecutive hours. Sums over them give the figures of longer windows.
type Hours struct {
	GPUs      map[linked.HourOf]Occupancy
	Snapshots []int // by hour
}

// ByHour returns how the backfill pool was used in the hours between consecutive times. Errors come from Answer.
func ByHour(ctx context.Context, s *stores.Stores, env query.Env, hours []pool.Micros) (*Hours, error) {
	w := pool.Window{From: hours[0], To: hours[len(hours)-1] - 1}
	o, err := s.Runs.ObserveWindow(ctx, w, env.Lists)
	if err != nil {
		return nil, err
	}
	first, end := o.View.Snapshots(w)
	h := &Hours{GPUs: map[linked.HourOf]Occupancy{}, Snapshots: make([]int, len(hours)-1)}
	if first == end {
		return h, nil
	}
	c := newCalendar(o.View.Times[first:end], first, query.Buckets{Starts: hours})
	found, err := occupy(ctx, o, c, linked.HourlyBy, nil)
	if err != nil {
		return nil, err
	}
	for b := range h.Snapshots {
		h.Snapshots[b] = c.snapshots(b)
	}
	for n, key := range found.keys.All {
		for b, counts := range found.counts[n] {
			if counts.Available+counts.Used+counts.Taken+counts.Other > 0 {
				h.GPUs[linked.HourOf{Key: key, Hour: b}] = counts
			}
		}
	}
	return h, nil
}
