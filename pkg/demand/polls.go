package demand

import (
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/queues"
)

// Polls are the moments at which the queues were polled, and the time that they cover (methodology section 14).
type Polls struct {
	Times []pool.Micros // ascending, distinct

	cadences map[int32]pool.Micros // by UTC day, if it has one of its own
	gaps     []bool                // whether there is a poll gap after each poll
	held     []interval            // from each poll to the next one, except poll gaps

	coveredUntil func(t pool.Micros) pool.Micros // see coveredBy
}

const (
	defaultCadence = 30 * pool.Minute
	fewest         = 8 // distances that a day's own cadence takes
	joining        = 3 // cadences over which rows are joined, runs are waited for, and polls are missed
)

// NewPolls finds the polls of all rows in reach, their cadences and gaps.
func NewPolls(days []*queues.Day) *Polls {
	p := &Polls{Times: []pool.Micros{}, cadences: map[int32]pool.Micros{}}
	for _, d := range days {
		for _, t := range d.Times {
			p.Times = append(p.Times, micros(t))
		}
	}
	slices.Sort(p.Times)
	p.Times = slices.Compact(p.Times)
	p.findCadences()
	p.gaps = make([]bool, len(p.Times))
	for i, t := range p.Times[:max(len(p.Times)-1, 0)] {
		if next := p.Times[i+1]; next-t > joining*p.Cadence(t) && !spanned(days, t, next) {
			p.gaps[i] = true
		} else {
			p.held = append(p.held, interval{t, next})
		}
	}
	p.coveredUntil = coveredBy(p.held)
	return p
}

func micros(seconds uint32) pool.Micros { return pool.Micros(seconds) * pool.Second }

// findCadences takes the median distance of the polls of each UTC day.
func (p *Polls) findCadences() {
	for first := 0; first < len(p.Times); {
		date, end := pool.DayOf(p.Times[first]), first+1
		for end < len(p.Times) && pool.DayOf(p.Times[end]) == date {
			end++
		}
		if end-first-1 >= fewest {
			p.cadences[date] = pool.MedianDistance(p.Times[first:end])
		}
		first = end
	}
}

// spanned reports whether one row goes from a poll to the next one, so that it saw the job at both: polls between them
// then found nothing to write, and the time is known.
func spanned(days []*queues.Day, before, next pool.Micros) bool {
	for _, d := range days {
		if pool.Micros(d.Date)*pool.Day > before || micros(d.Last) < next {
			continue
		}
		for i := range d.Rows {
			if micros(d.Rows[i].First) <= before && micros(d.Rows[i].Last) >= next {
				return true
			}
		}
	}
	return false
}

// Cadence is the poll cadence of the UTC day of t.
func (p *Polls) Cadence(t pool.Micros) pool.Micros {
	if c, ok := p.cadences[pool.DayOf(t)]; ok {
		return c
	}
	return defaultCadence
}

// from returns the number of the first poll at or after t.
func (p *Polls) from(t pool.Micros) int {
	return sort.Search(len(p.Times), func(i int) bool { return p.Times[i] >= t })
}

// upTo returns the number of the last poll at or before t, −1 if there is none.
func (p *Polls) upTo(t pool.Micros) int { return p.from(t+1) - 1 }

// isNewest reports whether no poll is later than t.
func (p *Polls) isNewest(t pool.Micros) bool { return p.from(t+1) == len(p.Times) }

// newest returns the newest poll that is known, in the time range or after it; 0 if there is none.
func (p *Polls) newest() pool.Micros {
	if len(p.Times) == 0 {
		return 0
	}
	return p.Times[len(p.Times)-1]
}

// gapAfter reports whether there is a poll gap right after a poll.
func (p *Polls) gapAfter(poll pool.Micros) bool { return p.gaps[p.from(poll)] }

// interval is the time over which what a poll saw holds: until the next one; zero without it, or if a gap follows.
func (p *Polls) interval(poll int) (at interval) {
	if poll+1 < len(p.Times) && !p.gaps[poll] {
		at = interval{p.Times[poll], p.Times[poll+1]}
	}
	return at
}

// Covers reports whether a moment lies in covered time.
func (p *Polls) Covers(t pool.Micros) bool {
	i := sort.Search(len(p.held), func(i int) bool { return p.held[i].to >= t })
	return i < len(p.held) && p.held[i].from <= t
}

// Gaps counts the poll gaps that reach into a window.
func (p *Polls) Gaps(w pool.Window) (n int) {
	for i, gap := range p.gaps {
		if gap && p.Times[i] < w.To && p.Times[i+1] > w.From {
			n++
		}
	}
	return n
}
