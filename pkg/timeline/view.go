package timeline

import (
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// View is a range of whole UTC days of a timeline, for pure computations to read. It is never changed.
// Its snapshots are numbered from 0 across days.
type View struct {
	Names   *Names
	Days    []*Day        // ascending by date; days without a snapshot are left out
	Base    []int         // number of each day's first snapshot
	Times   []pool.Micros // when each snapshot's first row was taken, ascending
	Ends    []pool.Micros // when their last rows were
	Notices []Notice      // faults of the data that the view was made from
	Work    Work

	dayOf   []int32             // the day of each snapshot
	limits  []pool.Micros       // the gap limit of each day
	bridges map[int]pool.Micros // the distance from a snapshot to the next one, if only incomplete ones lie between
	state   snapshots.State     // the source's state when the view was made
	stats   *loadStats          // about the days that were loaded
	loaded  []*Day              // those without a snapshot, too
}

// Notice is something that a user should know about the data, with numbers.
type Notice = snapshots.Notice

// bridge finds the snapshots between which incomplete ones are left out: no gap lies there (methodology section 1).
func (v *View) bridge(days []*Day) {
	for _, d := range days {
		for _, left := range d.incomplete {
			next := sort.Search(len(v.Times), func(i int) bool { return v.Times[i] > left.Time })
			if next == 0 || next == len(v.Times) {
				continue
			}
			if v.bridges == nil {
				v.bridges = map[int]pool.Micros{}
			}
			v.bridges[next-1] = v.Times[next] - v.Times[next-1]
		}
	}
}

// newView joins days, ascending by date.
func newView(names *Names, days []*Day, notices []Notice) *View {
	n := 0
	for _, d := range days {
		n += len(d.Times)
	}
	v := &View{Names: names, Notices: notices, Times: make([]pool.Micros, 0, n), Ends: make([]pool.Micros, 0, n),
		dayOf: make([]int32, 0, n)}
	for _, d := range days {
		if len(d.Times) > 0 {
			v.dayOf = append(v.dayOf, slices.Repeat([]int32{int32(len(v.Days))}, len(d.Times))...)
			v.Base, v.Days = append(v.Base, len(v.Times)), append(v.Days, d)
			v.Times, v.Ends = append(v.Times, d.Times...), append(v.Ends, d.Ends...)
		}
	}
	v.bridge(days)
	for _, d := range v.Days {
		v.limits = append(v.limits, max(v.Cadence(d.Date)*5/2, leastGapLimit))
	}
	return v
}

// Snapshots returns the numbers of the snapshots in the window: [first, end).
func (v *View) Snapshots(w pool.Window) (first, end int) {
	first = sort.Search(len(v.Times), func(i int) bool { return v.Times[i] >= w.From })
	end = sort.Search(len(v.Times), func(i int) bool { return v.Times[i] > w.To })
	return first, max(first, end)
}

// DayAt returns the index in Days of the day that holds a snapshot.
func (v *View) DayAt(snapshot int) int { return int(v.dayOf[snapshot]) }

// Places returns the index of each GPU among those of Days[day], −1 for one without a row on it.
func (v *View) Places(day int) []int32 {
	places := slices.Repeat([]int32{-1}, v.Names.GPUs())
	for i := range v.Days[day].GPUs() {
		places[v.Days[day].GPU(i)] = int32(i)
	}
	return places
}

// Cadence is the cadence of a UTC day (methodology section 1).
func (v *View) Cadence(date int32) pool.Micros {
	end := sort.Search(len(v.Days), func(i int) bool { return v.Days[i].Date > date })
	for i := end - 1; i >= 0 && v.Days[i].Date >= date-1; i-- {
		if v.Days[i].cadence > 0 {
			return v.Days[i].cadence
		}
	}
	return defaultCadence
}

// GapLimit is the distance to the next snapshot above which there is a gap after the given one.
func (v *View) GapLimit(snapshot int) pool.Micros {
	return max(v.limits[v.DayAt(snapshot)], v.bridges[snapshot])
}

// GapAfter reports whether there is a gap between a snapshot and the next one; false for the last.
func (v *View) GapAfter(snapshot int) bool {
	return snapshot+1 < len(v.Times) && v.Times[snapshot+1]-v.Times[snapshot] > v.GapLimit(snapshot)
}

const (
	defaultCadence = 15 * pool.Minute
	leastGapLimit  = 20 * pool.Minute
)

// SharedGPUs counts the GPUs that several jobs hold at once, on one side, in at least two snapshots of a window, one
// after the other: slots share them. (A leftover row beside the next job's is in one snapshot.)
func (v *View) SharedGPUs(w pool.Window) int {
	first, end := v.Snapshots(w)
	shared := map[GPU]bool{}
	for k, d := range v.Days {
		from, to := max(first-v.Base[k], 0), min(end-v.Base[k], len(d.Times))
		if len(d.extras) == 0 || from >= to {
			continue
		}
		for i := range d.GPUs() {
			for span := range d.SpansIn(i, from, to) {
				if span.End-span.First > 1 && len(d.claims(span.Status)) > 0 {
					shared[d.GPU(i)] = true
					break
				}
			}
		}
	}
	return len(shared)
}
