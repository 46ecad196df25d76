package demand

import (
	"math"
	"sort"

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
	parts   []float64 // level × covered time, of buckets that an interval fills in part
	changes []float64 // of the level that fills whole buckets
}

func newLevel(c *clock) level {
	return level{c, make([]float64, len(c.covered)), make([]float64, len(c.covered)+1)}
}

// add adds much to the level over an interval of time.
func (l *level) add(from, to pool.Micros, much float64) {
	n := len(l.covered)
	from, to = max(from, l.edges[0]), min(to, l.edges[n])
	if from >= to {
		return
	}
	first, last := l.bucket(from), l.bucket(to)
	if first == last {
		l.parts[first] += much * float64(l.until(to)-l.until(from))
		return
	}
	l.parts[first] += much * float64(l.until(l.edges[first+1])-l.until(from))
	l.parts[last] += much * float64(l.until(to)-l.until(l.edges[last]))
	l.changes[first+1] += much
	l.changes[last] -= much
}

// totals returns level × covered time of each bucket, in microseconds.
func (l *level) totals() []float64 {
	totals := make([]float64, len(l.parts))
	whole := 0.0
	for b := range totals {
		whole += l.changes[b]
		totals[b] = l.parts[b] + whole*float64(l.covered[b])
	}
	return totals
}

// means returns the average of each bucket; NaN if nothing is covered.
func (l *level) means() []float64 {
	means := l.totals()
	for b, c := range l.covered {
		if c == 0 {
			means[b] = math.NaN()
		} else {
			means[b] /= float64(c)
		}
	}
	return means
}
