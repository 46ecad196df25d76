package runs

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Observer observes a timeline, and keeps what it observed lately: the panels of a dashboard ask for one window at one
// moment. It is safe for concurrent use.
type Observer struct {
	timeline *timeline.Timeline
	turn     *semaphore.Weighted // one observation at a time: it takes all cores
	budget   int                 // bytes

	mu   sync.Mutex
	kept []kept // what was asked for last comes first: each new snapshot makes what was asked for often useless
	lack int    // bytes of the largest observation that has no room even alone, with all that is known of it; 0 = none
}

// kept is an observation that is kept. It grows when its runs are explained.
type kept struct {
	lookKey
	*Observed
	bytes int // without what is known of it
}

// lookKey is what an observation is made from, beside the days of the view, which are looked at when it is found.
type lookKey struct {
	first, last pool.Micros // the observed snapshots
	lists       string
}

// NewObserver returns an observer of a timeline that keeps so many bytes.
func NewObserver(tl *timeline.Timeline, bytes uint64) *Observer {
	return &Observer{timeline: tl, turn: semaphore.NewWeighted(1), budget: int(min(bytes, math.MaxInt))}
}

// Close forgets what was observed.
func (w *Observer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = nil
}

// Look loads the snapshots of a window and of its reach, and observes the GPUs. The reach begins with a UTC day, so
// that windows that move on share what is observed; what a window sees of it begins at [Observed.Since].
func (w *Observer) Look(ctx context.Context, window pool.Window, lists pool.Lists) (*Observed, error) {
	reach := pool.Window{From: pool.Micros(pool.DayOf(window.From-Reach)) * pool.Day, To: window.To + Reach}
	v, err := w.timeline.Load(ctx, reach.From, reach.To)
	if err != nil {
		return nil, err
	}
	key := lookKey{lists: fmt.Sprint(slices.Sorted(maps.Keys(lists.CHTCOwned)), lists.Excluded)}
	if first, end := v.Snapshots(reach); first < end {
		key.first, key.last = v.Times[first], v.Times[end-1]
	}
	if o := w.find(key, v); o != nil {
		return o, nil
	}
	if err := w.turn.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("observing the pool: %w", err)
	}
	defer w.turn.Release(1)
	if o := w.find(key, v); o != nil { // observed meanwhile
		return o, nil
	}
	earlier := w.earlier(key)
	o, err := observe(ctx, v, reach, lists, earlier)
	if err != nil {
		return nil, fmt.Errorf("observing the pool: %w", err)
	}
	if earlier != nil {
		o.after(earlier)
	}
	w.keep(key, o)
	return o, nil
}

// keep keeps an observation, and lets go of those that nobody can ask for any more as a day of theirs has changed, and,
// where there is no room, of those that were not asked for the longest time.
func (w *Observer) keep(key lookKey, o *Observed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	days := make(map[int32]*timeline.Day, len(o.View.Days))
	for _, d := range o.View.Days {
		days[d.Date] = d
	}
	others := slices.DeleteFunc(w.kept, func(k kept) bool {
		return k.lookKey == key || slices.ContainsFunc(k.View.Days, func(d *timeline.Day) bool {
			return days[d.Date] != nil && days[d.Date] != d
		})
	})
	w.kept = slices.Insert(others, 0, kept{key, o, o.bytes()})
	w.shrink()
}

// shrink lets go of what there is no room for. w.mu is held.
func (w *Observer) shrink() {
	bytes := 0
	for i, k := range w.kept {
		if bytes += k.bytes + int(k.known.size.Load()); bytes > w.budget {
			if i == 0 {
				w.lack = max(w.lack, k.bytes/4*7) // what is known of runs takes at most as much as three quarters of the rest
			}
			clear(w.kept[i:])
			w.kept = w.kept[:i]
			return
		}
	}
}

// Lack returns about how many bytes the largest observation takes that could not be kept; 0 if there was none.
func (w *Observer) Lack() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lack
}

// earlier returns the observation that was asked for last of those that began with the same snapshot, nil without.
func (w *Observer) earlier(key lookKey) *Observed {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.kept {
		if k.first == key.first && k.lists == key.lists {
			return k.Observed
		}
	}
	return nil
}

// find returns what was observed before over the same days, nil without.
func (w *Observer) find(key lookKey, v *timeline.View) *Observed {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, k := range w.kept {
		if k.lookKey == key && slices.Equal(k.View.Days, v.Days) {
			copy(w.kept[1:], w.kept[:i])
			w.kept[0] = k
			w.shrink()
			return k.Observed
		}
	}
	return nil
}

// Since returns the first observed snapshot of a window's reach: no start is looked for before it (methodology section
// 8).
func (o *Observed) Since(w pool.Window) int32 {
	first, _ := o.View.Snapshots(pool.Window{From: w.From - Reach, To: w.To})
	return int32(max(first, o.First))
}

// From returns a run as it is seen from a snapshot on: a copy where it began before.
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

// DaysOf returns the days of a view that have a snapshot in the window.
func DaysOf(v *timeline.View, w pool.Window) []*timeline.Day {
	first, end := v.Snapshots(w)
	if first == end {
		return nil
	}
	return v.Days[v.DayAt(first) : v.DayAt(end-1)+1]
}

// bytes is about what an observation takes, without what is known of it.
func (o *Observed) bytes() int {
	// A run with its job in the index; a segment with the changes of state that begin with it, and what kinds keep of the
	// periods, of which there are about two for five segments.
	const perSnapshot, perRun, perSegment, perPlace = 8, 224, 28 + 12 + 76*2/5, 12
	n := len(o.gaps) * perSnapshot
	for m := range o.Machines {
		n += o.Machines[m].Runs.Len() * perRun
		for g := range o.Machines[m].GPUs {
			gpu := &o.Machines[m].GPUs[g]
			n += gpu.Segments.Len()*perSegment + len(gpu.places)*perPlace
		}
	}
	return n
}
