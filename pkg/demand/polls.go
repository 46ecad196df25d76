package demand

import (
	"cmp"
	"iter"
	"slices"
	"sort"
	"unsafe"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/queues"
)

// Polls are the moments at which the queues were polled, and the time that they cover (methodology section 14).
type Polls struct {
	Times []pool.Micros // ascending, distinct

	cadences map[int32]pool.Micros // by UTC day, if it has one of its own
	held     []interval            // from each poll to the next one, except poll gaps; ascending
}

const (
	defaultCadence = 30 * pool.Minute
	fewest         = 8 // distances between polls that a day's own cadence takes
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
	// Take the median distance of the polls of each UTC day.
	byDay := map[int32][]pool.Micros{}
	for _, t := range p.Times {
		byDay[pool.DayOf(t)] = append(byDay[pool.DayOf(t)], t)
	}
	for date, times := range byDay {
		if len(times) > fewest {
			p.cadences[date] = pool.MedianDistance(times)
		}
	}
	// Find the polls that no gap follows.
	for i := 1; i < len(p.Times); i++ {
		t, next := p.Times[i-1], p.Times[i]
		if next-t <= joining*p.Cadence(t) || spanned(days, t, next) {
			p.held = append(p.held, interval{t, next})
		}
	}
	return p
}

func micros(seconds uint32) pool.Micros { return pool.Micros(seconds) * pool.Second }

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
	return cmp.Or(p.cadences[pool.DayOf(t)], defaultCadence)
}

// from returns the number of the first poll at or after t.
func (p *Polls) from(t pool.Micros) int {
	return sort.Search(len(p.Times), func(i int) bool { return p.Times[i] >= t })
}

// upTo returns the number of the last poll at or before t, −1 if there is none.
func (p *Polls) upTo(t pool.Micros) int { return p.from(t+1) - 1 }

// newest returns the newest poll that is known, in the time range or after it; 0 if there is none.
func (p *Polls) newest() pool.Micros {
	if len(p.Times) == 0 {
		return 0
	}
	return p.Times[len(p.Times)-1]
}

// heldFrom returns the time over which a poll's state lasts: until the next one; zero without it, or if a gap follows.
func (p *Polls) heldFrom(poll pool.Micros) (at interval) {
	i := sort.Search(len(p.held), func(i int) bool { return p.held[i].from >= poll })
	if i < len(p.held) && p.held[i].from == poll {
		at = p.held[i]
	}
	return at
}

// Covers reports whether a moment lies in covered time.
func (p *Polls) Covers(t pool.Micros) bool {
	i := sort.Search(len(p.held), func(i int) bool { return p.held[i].to >= t })
	return i < len(p.held) && p.held[i].from <= t
}

// covered is the part of a window that polls cover.
func (p *Polls) covered(w pool.Window) pool.Micros {
	return newClock([]pool.Micros{w.From, w.To}, w, p.held).covered[0]
}

// Gaps counts the poll gaps that reach into a window.
func (p *Polls) Gaps(w pool.Window) (n int) {
	for i := 1; i < len(p.Times); i++ {
		if t := p.Times[i-1]; t < w.To && p.Times[i] > w.From && p.heldFrom(t).to == 0 {
			n++
		}
	}
	return n
}

// clock measures covered time, in all and of each bucket of a window.
type clock struct {
	edges   []pool.Micros // where buckets begin, cut to the window, and where the last one ends
	until   func(pool.Micros) pool.Micros
	covered []pool.Micros // in each bucket
}

// newClock cuts the buckets between some times to a window. held is the time that is covered, ascending.
func newClock(starts []pool.Micros, w pool.Window, held []interval) *clock {
	var cover pool.Cover
	for _, t := range held {
		cover.Add(t.from, t.to)
	}
	c := &clock{edges: make([]pool.Micros, len(starts)), until: cover.Until, covered: make([]pool.Micros, len(starts)-1)}
	for i, t := range starts {
		c.edges[i] = min(max(t, w.From), w.To)
	}
	for b := range c.covered {
		c.covered[b] = max(0, c.until(c.edges[b+1])-c.until(c.edges[b]))
	}
	return c
}

// bucket returns the bucket that holds t; the last one holds the window's end.
func (c *clock) bucket(t pool.Micros) int {
	return min(sort.Search(len(c.covered), func(i int) bool { return c.edges[i+1] > t }), len(c.covered)-1)
}

// parts yields the buckets that an interval of time reaches into, and its covered time in each, in microseconds.
func (c *clock) parts(from, to pool.Micros) iter.Seq2[int, float64] {
	from, to = max(from, c.edges[0]), min(to, c.edges[len(c.covered)])
	return func(yield func(int, float64) bool) {
		if from >= to {
			return
		}
		first, last := c.bucket(from), c.bucket(to)
		for b := first; b <= last; b++ {
			covered := c.covered[b]
			if b == first || b == last {
				covered = c.until(min(to, c.edges[b+1])) - c.until(max(from, c.edges[b]))
			}
			if !yield(b, float64(covered)) {
				return
			}
		}
	}
}

// average divides a sum over covered time by that time: NaN if nothing is covered.
func (c *clock) average(points []Sums) {
	for b := range points {
		p, covered := &points[b], float64(c.covered[b])
		p.Jobs, p.GPUs = aggregate.Ratio(p.Jobs, covered), aggregate.Ratio(p.GPUs, covered)
		p.Users = aggregate.Ratio(p.Users, covered)
	}
}

// interval is the time over which what a poll saw holds.
type interval struct{ from, to pool.Micros }

// pollSums are what polls saw: the jobs and GPUs of groups, or the jobs that free GPUs serve.
type pollSums struct {
	held     []interval             // how long each poll's state holds: up to the next one
	keys     []aggregate.Key        // the groups
	counts   [][reasons][]pollCount // by group, and the number of an obstacle or a reason
	lists    int                    // how many lists of counts are not empty
	roomless int                    // machines whose room is not known
	served   [][]int32              // by poll: waits
}

// pollCount is the jobs and GPUs of a group at a poll, by its number in pollSums.
type pollCount struct {
	poll       int
	jobs, gpus float64
}

func (s *pollSums) Bytes() int {
	bytes := 200 + cap(s.held)*int(unsafe.Sizeof(interval{})) +
		cap(s.keys)*int(unsafe.Sizeof(aggregate.Key{})+unsafe.Sizeof([reasons][]pollCount{}))
	for g := range s.counts {
		for _, list := range s.counts[g] {
			bytes += cap(list) * int(unsafe.Sizeof(pollCount{}))
		}
	}
	for _, list := range s.served {
		bytes += int(unsafe.Sizeof(list)) + 4*cap(list)
	}
	return bytes
}

// add adds jobs and GPUs to a group at the newest poll.
func (s *pollSums) add(group int32, word int, jobs, gpus float64) {
	list, poll := &s.counts[group][word], len(s.held)-1
	n := len(*list)
	if n == 0 {
		s.lists++
	}
	if n == 0 || (*list)[n-1].poll != poll {
		*list = append(*list, pollCount{poll: poll})
	}
	c := &(*list)[len(*list)-1]
	c.jobs += jobs
	c.gpus += gpus
}

// reaches reports whether a poll's time reaches into a window.
func (t interval) reaches(w pool.Window) bool { return t.to > w.From && t.from <= w.To }
