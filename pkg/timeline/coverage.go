package timeline

import (
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
)

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
		for _, m := range s.Days[i].machines {
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

// cover finds the covered time: of the window's snapshots and of those near enough to reach into it.
func (s *Slices) cover() {
	v := s.View
	s.covered = nil
	first, end := s.first, s.end
	for first > 0 && s.Window.From-v.Times[first-1] <= pool.Day {
		first--
	}
	first = max(first-1, 0) // the neighbor, however far
	for end < len(v.Times) && v.Times[end]-s.Window.To <= pool.Hour {
		end++
	}
	end = min(end+1, len(v.Times))

	// Each snapshot covers its slice, or the time to the next one.
	day, next := -1, first // the day of the snapshot, and the first one after it
	var begin func(pool.Micros) pool.Micros
	for i := first; i < end; i++ {
		if i == next {
			day = v.DayAt(i)
			begin, next = s.flooring(v.Days[day]), v.Base[day]+len(v.Days[day].Times)
		}
		t := v.Times[i]
		from := t
		var to pool.Micros
		switch {
		case s.minutes > 0:
			from = begin(t)
			to = from + pool.Micros(s.minutes)*pool.Minute
		case i+1 < len(v.Times):
			to = min(v.Times[i+1], t+v.GapLimit(i))
		case s.Newest > t:
			to = t + v.GapLimit(i)
		default:
			to = t + v.Cadence(v.Days[day].Date)
		}
		if i+1 < len(v.Times) && !v.GapAfter(i) {
			to = max(to, v.Times[i+1])
		}
		s.covered.Add(from, to)
	}
}
