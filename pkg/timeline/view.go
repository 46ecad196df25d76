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

// newView joins days, ascending by date.
func newView(names *Names, days []*Day, notices []Notice) *View {
	n := 0
	for _, d := range days {
		n += len(d.Times)
	}
	v := &View{Names: names, Notices: notices, Times: make([]pool.Micros, 0, n), Ends: make([]pool.Micros, 0, n),
		dayOf: make([]int32, 0, n), bridges: map[int]pool.Micros{}}
	for _, d := range days {
		if len(d.Times) > 0 {
			v.dayOf = append(v.dayOf, slices.Repeat([]int32{int32(len(v.Days))}, len(d.Times))...)
			v.Base, v.Days = append(v.Base, len(v.Times)), append(v.Days, d)
			v.Times, v.Ends = append(v.Times, d.Times...), append(v.Ends, d.Ends...)
		}
	}
	// No gap lies between the snapshots around incomplete ones (methodology section 1).
	for _, d := range days {
		for _, left := range d.incomplete {
			if next, _ := slices.BinarySearch(v.Times, left.Time); next > 0 && next < len(v.Times) {
				v.bridges[next-1] = v.Times[next] - v.Times[next-1]
			}
		}
	}
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
				if span.End-span.First > 1 && len(d.FurtherClaims(span.Status)) > 0 {
					shared[d.GPU(i)] = true
					break
				}
			}
		}
	}
	return len(shared)
}

// Coverage describes the data that an answer is based on (methodology section 10). Every answer has one.
type Coverage struct {
	Window         pool.Window
	Snapshots      int         // in the window
	Slices         int         // N
	Covered        pool.Micros // D
	Gaps           []Gap       // those that overlap the window
	RowsWithoutGPU int         // how many rows of the window's snapshots lack one
	Excluded       []Excluded  // with a machine on the window's days
}

// Gap is a distance of two snapshots above the gap limit (methodology section 1).
type Gap struct{ From, To pool.Micros }

// Excluded is an exclusion with the machines that it takes out, ascending.
type Excluded struct {
	pool.Exclusion
	Machines []string
}

// Coverage returns the window's coverage.
func (s *Slices) Coverage(lists pool.Lists) Coverage {
	c := Coverage{Window: s.Window, Snapshots: s.end - s.first, Slices: s.N(), Covered: s.Covered(s.Window),
		Gaps: s.View.Gaps(s.Window)}
	for i := range s.Days {
		d := &s.Days[i]
		for _, rows := range d.RowsWithoutGPU[d.from : d.from+len(d.ordinal)] {
			c.RowsWithoutGPU += int(rows)
		}
	}
	if len(lists.Excluded) == 0 {
		return c
	}
	names := s.View.Names.Texts()
	seen, machines := make([]bool, len(names)), map[*pool.Exclusion][]string{}
	for i := range s.Days {
		for _, m := range s.Days[i].Machines {
			if seen[m.Name] {
				continue
			}
			seen[m.Name] = true
			if e := lists.ExclusionOf(names[m.Name]); e != nil {
				machines[e] = append(machines[e], names[m.Name])
			}
		}
	}
	for i := range lists.Excluded {
		if e := &lists.Excluded[i]; machines[e] != nil {
			slices.Sort(machines[e])
			c.Excluded = append(c.Excluded, Excluded{*e, machines[e]})
		}
	}
	return c
}

// Gaps returns the gaps that overlap a window; one that only touches it does not.
func (v *View) Gaps(w pool.Window) (gaps []Gap) {
	first, end := v.Snapshots(w)
	for i := max(first-1, 0); i < end; i++ {
		if v.GapAfter(i) && v.Times[i] < w.To && v.Times[i+1] > w.From {
			gaps = append(gaps, Gap{v.Times[i], v.Times[i+1]})
		}
	}
	return gaps
}

// Covered is D of a range of time, cut to the window: the union of the slices with data, snapshots outside the window
// included, and of the time between two consecutive snapshots, unless it is a gap (methodology sections 6 and 12).
func (s *Slices) Covered(w pool.Window) pool.Micros {
	return max(0, s.covered.Until(min(w.To, s.Window.To))-s.covered.Until(max(w.From, s.Window.From)))
}

// cover finds the time that the view's snapshots cover: each its slice, or the time to the next one.
func (s *Slices) cover() {
	v := s.View
	s.covered = nil
	for k, d := range v.Days {
		begin := s.flooring(d)
		for i := v.Base[k]; i < v.Base[k]+len(d.Times); i++ {
			from, to := begin(v.Times[i]), s.until(i)
			if s.minutes > 0 {
				to = from + pool.Micros(s.minutes)*pool.Minute
				if i+1 < len(v.Times) && !v.GapAfter(i) {
					to = max(to, v.Times[i+1])
				}
			}
			s.covered.Add(from, to)
		}
	}
}

// Place is what a GPU is counted under on a UTC day (methodology sections 2 and 5).
type Place struct {
	Machine   Symbol
	Device    Symbol // 0 = unknown
	Ownership pool.Ownership
	Memory    uint8 // index in pool.MemoryClasses
	Tier      int32 // index in pool.Lists.TierNames
}

// Category is the category of a backfill slot of the GPU.
func (p Place) Category() pool.Category { return pool.CategoryOf(pool.Backfill, p.Ownership, false) }

// Counted returns the place of each of the day's GPUs. names are the texts of symbols.
func (d *Day) Counted(names []string, lists pool.Lists) []Place {
	machines, models := make([]Place, len(d.Machines)), make([]Place, len(d.Models))
	for i := range d.Machines {
		m := &d.Machines[i]
		machines[i] = Place{Machine: m.Name, Ownership: m.Ownership(lists.IsCHTCOwned(names[m.Name]))}
	}
	tiers := lists.TierNames()
	for i, m := range d.Models {
		models[i] = Place{Device: m.Device, Tier: int32(slices.Index(tiers, lists.TierOf(names[m.Device]))),
			Memory: uint8(slices.Index(pool.MemoryClasses, pool.MemoryClass(m.Memory)))}
	}
	places := make([]Place, len(d.gpus))
	for i, g := range d.gpus {
		places[i] = machines[g.Machine]
		places[i].Device, places[i].Memory, places[i].Tier = models[g.Model].Device, models[g.Model].Memory,
			models[g.Model].Tier
	}
	return places
}

// Counting returns the places of single GPUs, for callers that stay with a day or two.
func Counting(names []string, lists pool.Lists) func(d *Day, i int) Place {
	kept := map[*Day][]Place{}
	return func(d *Day, i int) Place {
		places, known := kept[d]
		if !known {
			if len(kept) == 2 {
				clear(kept)
			}
			places = d.Counted(names, lists)
			kept[d] = places
		}
		return places[i]
	}
}
