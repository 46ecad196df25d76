package backfill

import (
	"context"
	"crypto/sha256"
	"math"
	"slices"
	"sort"
	"unsafe"
	"weak"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Occupancy is how many GPUs of the backfill pool were in each state, summed over snapshots.
type Occupancy struct {
	Available float64 `json:"poolAvailable,omitempty"`
	Used      float64 `json:"poolUsed,omitempty"`
	Taken     float64 `json:"poolTaken,omitempty"`
	Other     float64 `json:"poolOther,omitempty"` // blocked, absent or unknown
	Snapshots float64 `json:"-"`
}

// Add adds another occupancy.
func (o *Occupancy) Add(b Occupancy) {
	o.Available += b.Available
	o.Used += b.Used
	o.Taken += b.Taken
	o.Other += b.Other
	o.Snapshots += b.Snapshots
}

// add adds a GPU that was in a state in some snapshots.
func (o *Occupancy) add(state runs.State, snapshots float64) {
	switch state {
	case runs.Available:
		o.Available += snapshots
	case runs.Used:
		o.Used += snapshots
	case runs.Taken:
		o.Taken += snapshots
	default:
		o.Other += snapshots
	}
}

// average is a number of GPU-snapshots per snapshot.
func (o *Occupancy) average(gpus float64) float64 { return aggregate.Ratio(gpus, o.Snapshots) }

func (o *Occupancy) usedPercent() float64 {
	if o.Snapshots == 0 {
		return math.NaN()
	}
	return aggregate.Percent(o.Used, o.Used+o.Available)
}

// calendar divides the window's snapshots into buckets: it has the first one of each, and the one after the last.
type calendar []int32

// newCalendar divides the window's snapshots, from first on, into the buckets in which their slices begin.
func newCalendar(slices []pool.Micros, first int, buckets query.Buckets) calendar {
	c := make(calendar, buckets.Len()+1)
	for b, start := range buckets.Starts {
		c[b] = int32(first + sort.Search(len(slices), func(i int) bool { return slices[i] >= start }))
	}
	c[0], c[buckets.Len()] = int32(first), int32(first+len(slices))
	return c
}

// snapshots is the number of the window's snapshots in a bucket.
func (c calendar) snapshots(bucket int) int { return int(c[bucket+1] - c[bucket]) }

// end is the snapshot after the last one.
func (c calendar) end() int32 { return c[len(c)-1] }

// spread yields the buckets that hold the window's snapshots from first to last, with how many of these each holds.
func (c calendar) spread(first, last int32, yield func(bucket int, snapshots float64)) {
	last = min(last, c.end()-1)
	b := sort.Search(len(c), func(b int) bool { return c[b] > first }) - 1
	for ; first <= last; b++ {
		if end := min(c[b+1], last+1); end > first {
			yield(b, float64(end-first))
			first = end
		}
	}
}

// states are never changed once they are counted. They count GPU-snapshots by state and bucket, by group.
type states struct {
	calendar
	keys   pool.Numbered[aggregate.Key]
	counts [][]Occupancy // by group and bucket
}

// memoKey names all that states depend on.
type memoKey struct {
	observed weak.Pointer[runs.Observed]
	calendar string
	question [sha256.Size]byte
}

// Bytes is about the live memory.
func (s *states) Bytes() int {
	perGroup := 3*unsafe.Sizeof(aggregate.Key{}) + uintptr(len(s.calendar))*unsafe.Sizeof(Occupancy{})
	return 9*len(s.calendar) + len(s.counts)*int(perGroup)
}

// occupy counts the states of chosen GPUs by groupings. Viewers share counts while windows hold the same snapshots.
func (a *answer) occupy(ctx context.Context, c calendar, by []string) (*states, error) {
	key := memoKey{weak.Make(a.Observed), pool.Key(c), a.Plan.Question(by)}
	return stores.Remember(a.memo, key, func() (*states, error) {
		return occupy(ctx, a.Observed, c, query.GroupingsOf(by), a.chosen)
	})
}

// occupy counts the states of all chosen GPUs of the pool by groupings, in each bucket of a calendar.
func occupy(ctx context.Context, o *runs.Observed, c calendar, by []query.Grouping,
	chosen aggregate.Filter) (*states, error) {
	s := &states{calendar: c}
	for m := range parallel.Until(ctx, len(o.Machines)) {
		for g := range o.Machines[m].GPUs {
			if err := s.countGPU(o, &o.Machines[m].GPUs[g], by, chosen); err != nil {
				return nil, err
			}
		}
	}
	return s, ctx.Err()
}

// countGPU counts the states of a GPU. A segment counts under the GPU's key on each UTC day.
func (s *states) countGPU(o *runs.Observed, gpu *runs.GPU, by []query.Grouping, chosen aggregate.Filter) error {
	first, end := s.calendar[0], s.end()
	bases := o.View.Base
	var place timeline.Place // that group belongs to; no GPU is in the zero one
	var project timeline.Symbol
	var group int
	var err error
	for _, segment := range gpu.Segments[gpu.At(first):] {
		if segment.First >= end {
			break
		}
		if segment.State == runs.Outside {
			continue
		}
		for from := max(segment.First, first); from <= segment.Last && from < end; {
			until := segment.Last
			if day := o.View.DayAt(int(from)); day+1 < len(bases) {
				until = min(until, int32(bases[day+1]-1))
			}
			if p := o.PlaceAt(gpu, from); p != place || segment.Project != project {
				place, project = p, segment.Project
				if group, err = s.group(keyOf(place, project), by, chosen); err != nil {
					return err
				}
			}
			if group >= 0 {
				s.spread(from, until, func(b int, snapshots float64) { s.counts[group][b].add(segment.State, snapshots) })
			}
			from = until + 1
		}
	}
	return nil
}

// group returns the number of a group, −1 if the filter leaves it out.
func (s *states) group(key aggregate.Key, by []query.Grouping, chosen aggregate.Filter) (int, error) {
	if !chosen.Keeps(key) {
		return -1, nil
	}
	buckets := len(s.calendar) - 1
	n := int(s.keys.Number(key.Within(by)))
	if n == len(s.counts) {
		if err := query.CheckCells(n+1, buckets); err != nil {
			return -1, err
		}
		counts := make([]Occupancy, buckets)
		for b := range counts {
			counts[b].Snapshots = float64(s.snapshots(b))
		}
		s.counts = append(s.counts, counts)
	}
	return n, nil
}

// keyOf is the key under which GPUs of the pool are counted.
func keyOf(p timeline.Place, project timeline.Symbol) aggregate.Key {
	k := aggregate.KeyOf(p)
	k[query.ByProject] = uint32(project)
	return k
}

// passes reports whether the filter chooses a GPU at a place with projects.
func (a *answer) passes(p timeline.Place, project timeline.Symbol) bool {
	return a.chosen.Keeps(keyOf(p, project))
}

// hourOfWeek averages over the window by local weekday and hour.
func (a *answer) hourOfWeek(ctx context.Context) (data.Frames, error) {
	hours, cells, err := a.Plan.Hours()
	if err != nil {
		return nil, err
	}
	c := newCalendar(a.sliceOf, a.first, hours)
	all, err := a.occupy(ctx, c, nil)
	if err != nil || len(all.counts) == 0 {
		return a.About.Finish(nil), err
	}
	var week aggregate.Week[Sums]
	for b, at := range cells {
		week[at[0]][at[1]].Add(all.counts[0][b]) // one group: nothing is grouped by
	}
	return frames.HeatMap(a.Plan, a.About, week.Values(metrics, a.Plan.Metrics[0])), nil
}

// changes are the numbers of changes of state, from and to; used → used is a change of job.
type changes [runs.States][runs.States]int64

// countTransitions counts the changes from one snapshot to the next without a gap, which is in the window, by group.
func (a *answer) countTransitions(ctx context.Context) (keys pool.Numbered[aggregate.Key], found []changes, err error) {
	o := a.Observed
	inPool := func(s runs.State) bool { return s != runs.Unknown && s != runs.Outside }
	for m := range parallel.Until(ctx, len(o.Machines)) {
		machine := &o.Machines[m]
		for i := range machine.GPUs {
			gpu := &machine.GPUs[i]
			for n := max(1, gpu.At(int32(a.first))); n < len(gpu.Segments); n++ {
				before, after := &gpu.Segments[n-1], &gpu.Segments[n]
				if int(after.First) >= a.end {
					break
				}
				if int(after.First) < a.first || o.GapAfter(before.Last) || !inPool(before.State) || !inPool(after.State) {
					continue
				}
				sameJob := before.Job == after.Job && (!before.Job.IsNone() || before.User == after.User)
				if before.State == after.State && (after.State != runs.Used || sameJob) {
					continue
				}
				key := keyOf(o.PlaceAt(gpu, after.First), after.Project)
				if a.chosen.Keeps(key) {
					n := int(keys.Number(key.Within(a.by)))
					if n == len(found) {
						found = append(found, changes{})
					}
					found[n][before.State][after.State]++
				}
			}
		}
	}
	return keys, found, ctx.Err()
}

// transitions lists changes of state, by group, then from and to in this order of states.
func (a *answer) transitions(ctx context.Context) (data.Frames, error) {
	type row struct {
		group    []string
		from, to runs.State
		count    int64
	}
	keys, counted, err := a.countTransitions(ctx)
	if err != nil {
		return nil, err
	}
	var rows frames.Rows[row]
	states := []runs.State{runs.Available, runs.Used, runs.Taken, runs.Blocked, runs.Absent}
	for n, key := range keys.All {
		group := key.Texts(a.Plan, a.Plan.GroupBy, a.Names)
		for _, from := range states {
			for _, to := range states {
				if count := counted[n][from][to]; count > 0 {
					rows = append(rows, &row{group, from, to, count})
				}
			}
		}
	}
	slices.SortStableFunc(rows, func(x, y *row) int { return query.CompareGroups(a.Plan.GroupBy, x.group, y.group) })
	groups := frames.GroupColumns(a.Plan, frames.Each(rows, func(r *row) []string { return r.group }))
	return frames.List(a.Plan, a.About, append(groups,
		rows.Text("from", func(r *row) string { return r.from.String() }),
		rows.Text("to", func(r *row) string { return r.to.String() }),
		rows.Whole("count", func(r *row) int64 { return r.count }))...), nil
}

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
