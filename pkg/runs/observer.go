package runs

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Observer observes a timeline, and caches observations with their histories, because the panels of a dashboard ask
// for one window at one moment. It is safe for concurrent use.
type Observer struct {
	timeline *timeline.Timeline
	cache    *otter.Cache[string, *Observed] // by all that they are made from
	missing  atomic.Int64                    // bytes of the largest observation that is larger than the cache
}

// NewObserver returns an observer of a timeline whose cache is bounded to that many bytes.
func NewObserver(tl *timeline.Timeline, bytes uint64) *Observer {
	return &Observer{timeline: tl, cache: otter.Must(&otter.Options[string, *Observed]{
		MaximumWeight: max(bytes, 1),
		Weigher:       func(_ string, o *Observed) uint32 { return uint32(min(o.bytes(), math.MaxUint32)) },
		Executor:      func(maintain func()) { maintain() },
	})}
}

// Close empties the cache.
func (w *Observer) Close() { w.cache.InvalidateAll() }

// MissingBytes is about how many bytes the largest observation takes that could not be cached; 0 without one.
func (w *Observer) MissingBytes() int { return int(w.missing.Load()) }

// ObserveWindow loads the snapshots of a window and of its reach, and observes the GPUs.
func (w *Observer) ObserveWindow(ctx context.Context, window pool.Window, lists pool.Lists) (*Observed, error) {
	v, err := w.Load(ctx, window)
	if err != nil {
		return nil, err
	}
	return w.Observe(ctx, v, window, lists)
}

// Load loads the snapshots of a window and of its reach.
func (w *Observer) Load(ctx context.Context, window pool.Window) (*timeline.View, error) {
	reach := reachOf(window)
	return w.timeline.Load(ctx, reach.From, reach.To)
}

// reachOf is a window with its reach. It begins with a UTC day, so that moving windows share an observation; a window's
// part of it begins at [Observed.Since].
func reachOf(window pool.Window) pool.Window {
	return pool.Window{From: pool.Micros(pool.DayOf(window.From-Reach)) * pool.Day, To: window.To + Reach}
}

// Observe observes the GPUs in the snapshots that were loaded for a window.
func (w *Observer) Observe(ctx context.Context, v *timeline.View, window pool.Window,
	lists pool.Lists) (*Observed, error) {
	reach := reachOf(window)
	first, end := v.Snapshots(reach)
	// The addresses of the days' segments are theirs alone, because the observation keeps them alive.
	key := pool.Key(v.Days, first, end, lists.Key())
	load := func(ctx context.Context, _ string) (*Observed, error) {
		o, err := Observe(ctx, v, reach, lists)
		if err == nil {
			w.makeRoom(o)
		}
		return o, err
	}
	o, err := w.cache.Get(ctx, key, otter.LoaderFunc[string, *Observed](load))
	if err != nil {
		return nil, fmt.Errorf("observing the pool: %w", err)
	}
	return o, nil
}

// makeRoom evicts the observations that no query can request anymore, because one of their days has changed since.
func (w *Observer) makeRoom(o *Observed) {
	if bytes := o.bytes(); uint64(bytes) > w.cache.GetMaximum() {
		w.missing.Store(max(w.missing.Load(), int64(bytes)))
	}
	days := make(map[int32]*timeline.Day, len(o.View.Days))
	for _, d := range o.View.Days {
		days[d.Date] = d
	}
	for key, kept := range w.cache.All() {
		if slices.ContainsFunc(kept.View.Days, func(d *timeline.Day) bool {
			return days[d.Date] != nil && days[d.Date] != d
		}) {
			w.cache.Invalidate(key)
		}
	}
}

// Since returns the first observed snapshot of a window's reach, before which no start is searched for (section 8).
func (o *Observed) Since(w pool.Window) int32 {
	first, _ := o.View.Snapshots(pool.Window{From: w.From - Reach, To: w.To})
	return int32(max(first, o.First))
}

// From returns a run as seen from a snapshot onward: a copy if it began earlier.
func (e *Explained) From(o *Observed, since int32) *Explained {
	if e.First >= since || e.Last < since {
		return e
	}
	run, cut := *e.Run, *e
	run.First, cut.Run = since, &run
	if !cut.StartByAd {
		cut.Start = o.View.Times[since]
	}
	return &cut
}

// bytes estimates the memory of an observation, with its histories.
func (o *Observed) bytes() int {
	// A run with its job in the index; a segment with the periods that are derived from it. A history takes at most three
	// quarters of the rest.
	const perSnapshot, perRun, perSegment, perPlace = 8, 248, 52, 16
	n := len(o.gaps) * perSnapshot
	for m := range o.Machines {
		n += len(o.Machines[m].Runs) * perRun
		for g := range o.Machines[m].GPUs {
			gpu := &o.Machines[m].GPUs[g]
			n += len(gpu.Segments)*perSegment + len(gpu.places)*perPlace
		}
	}
	return n / 4 * 7
}
