package timeline

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// Slices are the slices of methodology section 4 with a snapshot in a window, numbered from 0 in the order of time.
type Slices struct {
	View   *View
	Window pool.Window
	Begin  []pool.Micros // the beginning of each slice, ascending; the first can lie before the window
	Days   []DaySlices   // the days with a snapshot in the window
	Newest pool.Micros   // the newest snapshot that is known

	zone    *localtime.Zone
	minutes int
	first   int // number of the view's first snapshot in the window
	end     int
	covered pool.Cover
}

// DaySlices are the slices of one day of the view.
type DaySlices struct {
	*Day
	Index       int // in View.Days
	First, Last int // its slices without those that it shares with a neighbor; none if First > Last

	lo, hi  int     // its snapshots in those slices: [lo, hi)
	from    int     // its first snapshot in the window
	ordinal []int32 // the slices of its snapshots from `from` on
}

// Slices forms the slices of a window; minutes 0 makes every snapshot its own slice.
func (v *View) Slices(ctx context.Context, zone *localtime.Zone, minutes int, w pool.Window) (*Slices, error) {
	s := &Slices{View: v, Window: w, zone: zone, minutes: minutes}
	s.first, s.end = v.Snapshots(w)
	for i, d := range v.Days {
		base, n := v.Base[i], len(d.Times)
		if base+n <= s.first || base >= s.end {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// Number the day's snapshots by their slices.
		from, to := max(0, s.first-base), min(n, s.end-base)
		ordinal := make([]int32, 0, to-from)
		floor := s.flooring(d)
		for _, t := range d.Times[from:to] {
			slice := floor(t)
			if n := len(s.Begin); n == 0 || s.Begin[n-1] != slice {
				s.Begin = append(s.Begin, slice)
			}
			ordinal = append(ordinal, int32(len(s.Begin)-1))
		}
		s.Days = append(s.Days, DaySlices{Day: d, Index: i, lo: from, hi: to, from: from, ordinal: ordinal})
	}
	for i := range s.Days {
		d := &s.Days[i]
		// A slice that two days share belongs to neither.
		if i > 0 && s.sharedWithNext(i-1) {
			_, d.lo = d.In(int(d.ordinal[0]))
		}
		if s.sharedWithNext(i) {
			d.hi, _ = d.In(int(d.ordinal[len(d.ordinal)-1]))
		}
		d.First, d.Last = 0, -1
		if d.lo < d.hi {
			d.First, d.Last = int(d.ordinal[d.lo-d.from]), int(d.ordinal[d.hi-1-d.from])
		}
	}
	if n := len(v.Times); n > 0 {
		s.Newest = v.Times[n-1]
	}
	s.cover()
	return s, nil
}

// ExtendTo notes a snapshot after the view's last one, which then lasts to the gap limit if it is its own slice.
func (s *Slices) ExtendTo(newest pool.Micros) {
	if newest > s.Newest {
		s.Newest = newest
		s.cover()
	}
}

// Snapshots returns the day's snapshots in the window: [from, to).
func (d *DaySlices) Snapshots() (from, to int) { return d.from, d.from + len(d.ordinal) }

// Snapshots returns the beginnings of the slices that hold the window's snapshots, a snapshot each, in order.
func (s *Slices) Snapshots() []pool.Micros {
	begins := make([]pool.Micros, 0, s.end-s.first)
	for i := range s.Days {
		for _, n := range s.Days[i].ordinal {
			begins = append(begins, s.Begin[n])
		}
	}
	return begins
}

// N is the number of slices: the denominator of averages.
func (s *Slices) N() int { return len(s.Begin) }

// At returns the number of the slice that holds a moment; false if no snapshot of the window lies in that slice. The
// two passes of a repeated hour are different slices. A slice that is one snapshot lasts to the next one, at most to
// the gap limit, the data's last one for the cadence.
func (s *Slices) At(t pool.Micros) (int, bool) {
	if s.minutes > 0 {
		return slices.BinarySearch(s.Begin, s.zone.Slice(t, s.minutes))
	}
	i, exact := slices.BinarySearch(s.Begin, t)
	if !exact {
		i--
	}
	if i < 0 {
		return 0, false
	}
	return i, t < s.until(s.first+i)
}

// until is when a slice ends that is a snapshot of the view.
func (s *Slices) until(snapshot int) pool.Micros {
	v, t := s.View, s.View.Times[snapshot]
	switch next := snapshot + 1; {
	case next < len(v.Times):
		return min(v.Times[next], t+v.GapLimit(snapshot))
	case s.Newest > t:
		return t + v.GapLimit(snapshot)
	}
	return t + v.Cadence(v.Days[v.DayAt(snapshot)].Date)
}

// flooring returns a function that gives the beginning of a snapshot's slice on one day.
func (s *Slices) flooring(d *Day) func(pool.Micros) pool.Micros {
	if s.minutes == 0 {
		return func(t pool.Micros) pool.Micros { return t }
	}
	begin := pool.Micros(d.Date) * pool.Day
	end := begin + pool.Day
	offset := s.zone.Offset(begin)
	if offset != s.zone.Offset(end) || s.zone.Changes(begin, end) { // clocks change on this day: ask for each snapshot
		return func(t pool.Micros) pool.Micros { return s.zone.Slice(t, s.minutes) }
	}
	return func(t pool.Micros) pool.Micros { return localtime.Floor(t, pool.Micros(s.minutes)*pool.Minute, offset) }
}

// sharedWithNext reports whether a day's last slice is the next day's first, as where zones are no multiple of slices.
func (s *Slices) sharedWithNext(i int) bool {
	return i+1 < len(s.Days) && s.Days[i].ordinal[len(s.Days[i].ordinal)-1] == s.Days[i+1].ordinal[0]
}

// Piece is a run of consecutive slices in which both sides of a GPU say the same (methodology section 4): for each side
// the row that gives its state, by its number in the day, 0 for none. A Claimed primary row hides the backfill row.
type Piece struct {
	First, Last       int32
	Primary, Backfill uint32
	Holders           *[2][]Holder // who holds Claimed sides; nil: the user of each row, whose job does not matter
}

// Holder is a user who claims a side of a GPU in a slice, and the job of the user's last claim there.
type Holder struct {
	User Symbol
	Job  Job
}

// In returns the day's snapshots in a slice: [from, to), none if both are the same.
func (d *DaySlices) In(slice int) (from, to int) {
	i, _ := slices.BinarySearch(d.ordinal, int32(slice))
	j, _ := slices.BinarySearch(d.ordinal, int32(slice)+1)
	return d.from + i, d.from + j
}

// SliceSide is one side of a GPU in a slice, which can hold several statuses: the row that gives its state, of equals
// the latest one, and the holders of all claims.
type SliceSide struct {
	Day     *Day // nil if there is no row
	I       int  // the GPU on that day
	Row     *Row
	Holders []Holder // who has its claims

	number uint32 // the row's, in the day
}

// sliceState is the state of a GPU's slice, by side.
type sliceState [2]SliceSide

var noRow Row // the one of a side without a row

// reset takes out all rows, and keeps the memory of holders.
func (m *sliceState) reset() {
	for side := range m {
		m[side] = SliceSide{Row: &noRow, Holders: m[side].Holders[:0]}
	}
}

// add adds a status of a day's i-th GPU. jobs are the day's; nil: only the users of holders matter.
func (m *sliceState) add(d *Day, i int, status uint32, jobs Jobs) {
	for _, c := range d.FurtherClaims(status) { // further claims come first: of equal rows the last one gives the state
		m[c.Side].Holders = withHolder(m[c.Side].Holders, Holder{c.User, c.Job})
	}
	for side, number := range d.statuses[status] {
		at, row := &m[side], &d.Rows[number]
		if number != 0 && row.State >= at.Row.State {
			at.Day, at.I, at.Row, at.number = d, i, row, number
		}
		if row.State == pool.Claimed {
			h := Holder{User: row.User}
			if jobs != nil {
				h.Job = jobs[status][side]
			}
			at.Holders = withHolder(at.Holders, h)
		}
	}
}

// Pieces appends the pieces of the day's i-th GPU, in order. With jobs, which are those of the day, each claim has its
// holders. Slices that the day shares with a neighbor are left to Slices.Shared.
func (d *DaySlices) Pieces(i int, jobs Jobs, pieces []Piece) []Piece {
	var state sliceState
	first, last := int32(0), int32(-1) // the slices that have this state
	for span := range d.SpansIn(i, d.lo, d.hi) {
		from, to := d.ordinal[span.First-d.from], d.ordinal[span.End-1-d.from]
		if from == last { // the slice began in the span before
			pieces = state.append(pieces, first, last-1, jobs)
			state.add(d.Day, i, span.Status, jobs)
			first, from = last, last+1
		}
		if from <= to {
			pieces = state.append(pieces, first, last, jobs)
			state.reset()
			state.add(d.Day, i, span.Status, jobs)
			first, last = from, to
		}
	}
	return state.append(pieces, first, last, jobs)
}

// append appends the slices from first to last, each of which has the state, as a piece.
func (m *sliceState) append(pieces []Piece, first, last int32, jobs Jobs) []Piece {
	primary, backfill := &m[pool.Primary], &m[pool.Backfill]
	if first > last || primary.number|backfill.number == 0 {
		return pieces
	}
	p := Piece{First: first, Last: last, Primary: primary.number}
	if primary.Row.State != pool.Claimed {
		p.Backfill = backfill.number
	}
	// Name the holders of claimed sides, if they are not just the users of the rows, or if jobs matter.
	for side := range m {
		row, all := m[side].Row, m[side].Holders
		if row.State != pool.Claimed || jobs == nil && len(all) == 1 && all[0].User == row.User {
			continue
		}
		if p.Holders == nil {
			p.Holders = new([2][]Holder)
		}
		p.Holders[side] = slices.Clone(all)
	}
	return append(pieces, p)
}

// withHolder adds a holder, or replaces the job of the same user's earlier claim. The unknown user is one like any
// other (methodology section 6).
func withHolder(holders []Holder, h Holder) []Holder {
	if i := slices.IndexFunc(holders, func(of Holder) bool { return of.User == h.User }); i >= 0 {
		holders[i] = h
		return holders
	}
	return append(holders, h)
}

// Shared calls visit for each GPU with a row in each slice that two days share, with both sides.
func (s *Slices) Shared(ctx context.Context, visit func(slice int, sides [2]SliceSide)) error {
	for i := range parallel.Until(ctx, len(s.Days)) {
		if !s.sharedWithNext(i) {
			continue
		}
		a, b := &s.Days[i], &s.Days[i+1]
		slice := int(b.ordinal[0])
		var gpus pool.Numbered[GPU]
		var states []sliceState // by the GPUs' numbers
		add := func(d *DaySlices, begin, end int) {
			jobs := d.Jobs()
			for i := range d.GPUs() {
				n := int(gpus.Number(d.GPU(i)))
				if n == len(states) {
					states = append(states, sliceState{{Row: &noRow}, {Row: &noRow}})
				}
				for span := range d.SpansIn(i, begin, end) {
					states[n].add(d.Day, i, span.Status, jobs)
				}
			}
		}
		// the earlier day's snapshots from its last own slice onward, and the later day's up to its first own slice
		begin, _ := a.In(slice)
		_, end := b.In(slice)
		add(a, begin, a.from+len(a.ordinal))
		add(b, b.from, end)
		for _, sides := range states {
			if sides[pool.Primary].Row.State == pool.Claimed {
				sides[pool.Backfill] = SliceSide{Row: &noRow}
			}
			if sides[pool.Primary].Day != nil || sides[pool.Backfill].Day != nil {
				visit(slice, sides)
			}
		}
	}
	return ctx.Err()
}
