package runs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Look loads the snapshots of a window and of its reach, and observes the GPUs.
func Look(ctx context.Context, tl *timeline.Timeline, w pool.Window, lists pool.Lists) (*Observed, error) {
	reach := pool.Window{From: w.From - Reach, To: w.To + Reach}
	v, err := tl.Load(ctx, reach.From, reach.To)
	if err != nil {
		return nil, err
	}
	return looks.get(ctx, tl, v, reach, lists)
}

// Forget drops what was observed of a timeline that is closed: it would hold its days.
func Forget(tl *timeline.Timeline) {
	looks.mu.Lock()
	defer looks.mu.Unlock()
	looks.entries = slices.DeleteFunc(looks.entries, func(e remembered) bool { return e.timeline == tl })
}

// DaysOf returns the days of a view that have a snapshot in the window.
func DaysOf(v *timeline.View, w pool.Window) []*timeline.Day {
	first, end := v.Snapshots(w)
	if first == end {
		return nil
	}
	return v.Days[v.DayAt(first) : v.DayAt(end-1)+1]
}

// memory keeps the latest observations of all timelines: the panels of a dashboard ask for one window at one moment.
type memory struct {
	turn chan struct{} // one observation at a time: it takes all cores
	most int           // bytes

	mu      sync.Mutex
	entries []remembered // the latest first
}

type remembered struct {
	timeline   *timeline.Timeline
	days       []*timeline.Day
	first, end int
	lists      string
	observed   *Observed
	bytes      int
}

var looks = memory{turn: make(chan struct{}, 1), most: 256 << 20}

// get observes a timeline's view, or returns what was observed before over the same days and snapshots, with the same lists.
func (m *memory) get(ctx context.Context, tl *timeline.Timeline, v *timeline.View, reach pool.Window, lists pool.Lists) (*Observed, error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("observing the pool: %w", ctx.Err())
	}
	wanted := remembered{timeline: tl, days: v.Days, lists: fmt.Sprint(slices.Sorted(maps.Keys(lists.CHTCOwned)), lists.Excluded)}
	wanted.first, wanted.end = v.Snapshots(reach)
	if o := m.find(wanted); o != nil {
		return o, nil
	}
	o, err := Observe(ctx, v, reach, lists)
	if err != nil {
		return nil, fmt.Errorf("observing the pool: %w", err)
	}
	wanted.observed, wanted.bytes = o, o.bytes()
	m.add(wanted)
	return o, nil
}

// find returns what was observed before, nil without.
func (m *memory) find(wanted remembered) *Observed {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.entries, func(e remembered) bool {
		return e.first == wanted.first && e.end == wanted.end && e.lists == wanted.lists && slices.Equal(e.days, wanted.days)
	})
	if i < 0 {
		return nil
	}
	e := m.entries[i]
	m.entries = slices.Insert(slices.Delete(m.entries, i, i+1), 0, e)
	return e.observed
}

// add puts an observation first, and drops the oldest ones beyond the bytes that may be kept.
func (m *memory) add(e remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = slices.Insert(m.entries, 0, e)
	all := 0
	for i := range m.entries {
		if all += m.entries[i].bytes; all > m.most {
			m.entries = slices.Delete(m.entries, i, len(m.entries))
			break
		}
	}
}

// bytes is about what an observation takes.
func (o *Observed) bytes() int {
	const perSnapshot, perRun, perSegment, perPlace = 8, 184, 28, 12 // a run with its job in the index
	n := len(o.gaps) * perSnapshot
	for m := range o.Machines {
		n += len(o.Machines[m].Runs) * perRun
		for g := range o.Machines[m].GPUs {
			gpu := &o.Machines[m].GPUs[g]
			n += len(gpu.Segments)*perSegment + len(gpu.places)*perPlace
		}
	}
	return n
}
