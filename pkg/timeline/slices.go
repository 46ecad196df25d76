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
	lasts := s.View.GapLimit(s.first + i)
	if n := s.first + i; n+1 == len(s.View.Times) && s.Newest <= s.Begin[i] { // the data's last one
		lasts = s.View.Cadence(s.View.Days[s.View.DayAt(n)].Date)
	}
	return i, t < s.Begin[i]+lasts
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

// Own returns the first and the last of the day's snapshots in slices that it shares with no other day.
func (d *DaySlices) Own() (first, last uint16) { return uint16(d.lo), uint16(d.hi - 1) }

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

// StatusRows returns the rows of a status, by side.
func (d *Day) StatusRows(status uint32) [2]*Row {
	s := &d.statuses[status]
	return [2]*Row{&d.Rows[s.Primary], &d.Rows[s.Backfill]}
}

// Pieces appends the pieces of the day's i-th GPU, in order. With jobs, which are those of the day, each claim has its
// holders. Slices that the day shares with a neighbor are left to Slices.Shared.
func (d *DaySlices) Pieces(i int, jobs Jobs, pieces []Piece) []Piece {
	state := sliceState{day: d.Day, gpu: i, jobs: jobs}
	first, last := int32(0), int32(-1) // the slices that have this state
	for span := range d.SpansIn(i, d.lo, d.hi) {
		from, to := d.ordinal[span.First-d.from], d.ordinal[span.End-1-d.from]
		if from == last { // the slice began in the span before
			pieces = state.append(pieces, first, last-1)
			state.add(span.Status)
			first, from = last, last+1
		}
		if from <= to {
			pieces = state.append(pieces, first, last)
			state.rows, state.holders = [2]uint32{}, [2][]Holder{state.holders[0][:0], state.holders[1][:0]}
			state.add(span.Status)
			first, last = from, to
		}
	}
	return state.append(pieces, first, last)
}

// sliceState is the state of a GPU's slice, which can hold several statuses: the best of each side, of equals the
// latest one, and the holders of all claims.
type sliceState struct {
	day     *Day
	gpu     int // its number in the day
	rows    [2]uint32
	jobs    Jobs // the day's; nil: only the users of holders matter
	holders [2][]Holder
}

func (m *sliceState) add(status uint32) {
	for _, c := range m.day.claims(status) { // further claims come first: of equal rows the last one gives the state
		m.holders[c.Side] = withHolder(m.holders[c.Side], Holder{c.User, c.Job})
	}
	s := &m.day.statuses[status]
	for side, row := range [2]uint32{s.Primary, s.Backfill} {
		r := &m.day.Rows[row]
		if r.State >= m.day.Rows[m.rows[side]].State {
			m.rows[side] = row
		}
		if r.State == pool.Claimed {
			h := Holder{User: r.User}
			if m.jobs != nil {
				h.Job = m.jobs.Of(status, pool.Side(side))
			}
			m.holders[side] = withHolder(m.holders[side], h)
		}
	}
}

// append appends the slices from first to last, each of which has the state, as a piece.
func (m *sliceState) append(pieces []Piece, first, last int32) []Piece {
	primary, backfill := m.rows[pool.Primary], m.rows[pool.Backfill]
	if first > last || primary|backfill == 0 {
		return pieces
	}
	if m.day.Rows[primary].State == pool.Claimed {
		backfill = 0
	}
	return append(pieces, Piece{first, last, primary, backfill, m.claimants()})
}

// claimants are the holders of the claimed sides, if they are not just the users of the rows, or if jobs matter.
func (m *sliceState) claimants() (sides *[2][]Holder) {
	for side, row := range m.rows {
		r, all := &m.day.Rows[row], m.holders[side]
		if r.State != pool.Claimed || m.jobs == nil && len(all) == 1 && all[0].User == r.User {
			continue
		}
		if sides == nil {
			sides = new([2][]Holder)
		}
		sides[side] = slices.Clone(all)
	}
	return sides
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

// SharedSide is one side of a GPU in a slice that two days share: the row that gives its state, and where it is.
type SharedSide struct {
	Day     *Day // nil if there is no row
	I       int  // the GPU on that day
	Row     *Row
	Holders []Holder // who has its claims
}

// Shared calls visit for each GPU in each slice that two days share.
func (s *Slices) Shared(ctx context.Context, visit func(slice int, primary, backfill SharedSide)) error {
	for i := range parallel.Until(ctx, len(s.Days)) {
		if !s.sharedWithNext(i) {
			continue
		}
		a, b := &s.Days[i], &s.Days[i+1]
		slice := int(b.ordinal[0])
		gpus := map[GPU]int{}
		for i := range b.GPUs() {
			gpus[b.GPU(i)] = i
		}
		// the earlier day's snapshots from its last own slice onward, and the later day's up to its first own slice
		begin, _ := a.In(slice)
		_, end := b.In(slice)
		jobsA, jobsB := a.Jobs(), b.Jobs()
		for i := range a.GPUs() {
			parts := []sliceState{a.mix(i, begin, a.from+len(a.ordinal), jobsA)}
			if j, both := gpus[a.GPU(i)]; both {
				parts = append(parts, b.mix(j, b.from, end, jobsB))
				delete(gpus, a.GPU(i))
			}
			join(slice, parts, visit)
		}
		for j := range b.GPUs() {
			if _, only := gpus[b.GPU(j)]; only {
				join(slice, []sliceState{b.mix(j, b.from, end, jobsB)}, visit)
			}
		}
	}
	return ctx.Err()
}

// mix unites the states of a GPU in its snapshots [begin, end).
func (d *DaySlices) mix(i, begin, end int, jobs Jobs) sliceState {
	m := sliceState{day: d.Day, gpu: i, jobs: jobs}
	for span := range d.SpansIn(i, begin, end) {
		m.add(span.Status)
	}
	return m
}

// join unites the parts of a slice, which are on different days.
func join(slice int, parts []sliceState, visit func(int, SharedSide, SharedSide)) {
	var sides [2]SharedSide
	for side := range sides {
		at := &sides[side]
		at.Row = new(Row)
		for _, p := range parts {
			if row := p.rows[side]; row != 0 && p.day.Rows[row].State >= at.Row.State {
				at.Day, at.I, at.Row = p.day, p.gpu, &p.day.Rows[row]
			}
			for _, h := range p.holders[side] {
				at.Holders = withHolder(at.Holders, h)
			}
		}
		if at.Row.State != pool.Claimed {
			at.Holders = nil
		}
	}
	primary, backfill := sides[pool.Primary], sides[pool.Backfill]
	if primary.Row.State == pool.Claimed {
		backfill = SharedSide{Row: new(Row)}
	}
	if primary.Day != nil || backfill.Day != nil {
		visit(slice, primary, backfill)
	}
}
