package demand

import (
	"sort"
	"unsafe"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/pool"
)

// clock measures covered time, in all and of each bucket of a window.
type clock struct {
	edges   []pool.Micros // of buckets, cut to the window: one more than there are buckets
	until   func(pool.Micros) pool.Micros
	covered []pool.Micros // of each bucket
}

// newClock cuts buckets, by their beginnings and the last one's end, to a window. until returns the covered time up to
// a moment.
func newClock(starts []pool.Micros, w pool.Window, until func(pool.Micros) pool.Micros) *clock {
	c := &clock{edges: make([]pool.Micros, len(starts)), until: until, covered: make([]pool.Micros, len(starts)-1)}
	for i, t := range starts {
		c.edges[i] = min(max(t, w.From), w.To)
	}
	for b := range c.covered {
		c.covered[b] = max(0, until(c.edges[b+1])-until(c.edges[b]))
	}
	return c
}

// bucket returns the bucket that holds t; the last one holds the window's end.
func (c *clock) bucket(t pool.Micros) int {
	return min(sort.Search(len(c.covered), func(i int) bool { return c.edges[i+1] > t }), len(c.covered)-1)
}

// level averages a level over the covered time of buckets.
type level struct {
	*clock
	totals []float64 // level × covered time of each bucket, in microseconds
}

func newLevel(c *clock) level { return level{c, make([]float64, len(c.covered))} }

// add adds much to the level over an interval of time.
func (l *level) add(from, to pool.Micros, much float64) {
	from, to = max(from, l.edges[0]), min(to, l.edges[len(l.covered)])
	if from >= to {
		return
	}
	first, last := l.bucket(from), l.bucket(to)
	for b := first; b <= last; b++ {
		covered := l.covered[b]
		if b == first || b == last {
			covered = l.until(min(to, l.edges[b+1])) - l.until(max(from, l.edges[b]))
		}
		l.totals[b] += much * float64(covered)
	}
}

// means returns the average of each bucket; NaN if nothing is covered.
func (l *level) means() []float64 {
	means := make([]float64, len(l.totals))
	for b, total := range l.totals {
		means[b] = aggregate.Ratio(total, float64(l.covered[b]))
	}
	return means
}

// interval is the time over which what a poll saw holds.
type interval struct{ from, to pool.Micros }

// group is the key under which jobs or GPUs are counted, with a reason or an obstacle.
type group struct {
	key  aggregate.Key
	word uint8 // of the obstacle or the reason
}

// pollSums are the numbers of jobs and GPUs of groups at polls.
type pollSums struct {
	held     []interval // of the polls, each up to the next one
	groups   pool.Numbered[group]
	counts   []pollCount // by poll
	newest   []int       // by group: the last of its counts
	roomless int         // machines whose room is not known
}

// pollCount is the jobs and GPUs of a group at a poll, by their numbers in pollSums.
type pollCount struct {
	poll, group int32
	jobs, gpus  float64
}

// Bytes is the live memory.
func (s *pollSums) Bytes() int {
	return cap(s.counts)*int(unsafe.Sizeof(pollCount{})) + 2*cap(s.groups.All)*int(unsafe.Sizeof(group{})) +
		cap(s.held)*int(unsafe.Sizeof(interval{})) + 8*cap(s.newest) + 200
}

// add adds jobs and GPUs to a group at the newest poll.
func (s *pollSums) add(g group, jobs, gpus float64) {
	poll, n := int32(len(s.held)-1), s.groups.Number(g)
	if int(n) == len(s.newest) {
		s.newest = append(s.newest, -1)
	}
	if at := s.newest[n]; at < 0 || s.counts[at].poll != poll {
		s.newest[n] = len(s.counts)
		s.counts = append(s.counts, pollCount{poll: poll, group: n})
	}
	c := &s.counts[s.newest[n]]
	c.jobs += jobs
	c.gpus += gpus
}

// averages are the levels of jobs and of GPUs of the groups that a window has, over the time that the polls cover.
func (s *pollSums) averages(starts []pool.Micros, w pool.Window) (*clock, map[group]*[2]level) {
	c := newClock(starts, w, coveredBy(s.held))
	all := map[group]*[2]level{}
	for _, n := range s.counts {
		at := s.held[n.poll]
		if at.to <= w.From || at.from > w.To {
			continue
		}
		g := s.groups.All[n.group]
		if all[g] == nil {
			all[g] = &[2]level{newLevel(c), newLevel(c)}
		}
		all[g][0].add(at.from, at.to, n.jobs)
		all[g][1].add(at.from, at.to, n.gpus)
	}
	return c, all
}

// coveredBy returns a clock's measure of the time that intervals cover; they are in order.
func coveredBy(all []interval) func(pool.Micros) pool.Micros {
	before := make([]pool.Micros, len(all)+1)
	for i, t := range all {
		before[i+1] = before[i] + t.to - t.from
	}
	return func(t pool.Micros) pool.Micros {
		i := sort.Search(len(all), func(i int) bool { return all[i].from >= t })
		if i == 0 {
			return 0
		}
		return before[i-1] + min(t, all[i-1].to) - all[i-1].from
	}
}
