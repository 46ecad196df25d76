package pool

import (
	"slices"
	"sort"
	"time"
)

// Micros is a time as the product counts it: microseconds since 1970 UTC, the resolution of the snapshots' text.
type Micros = int64

// Micros per unit of time.
const (
	Second Micros = 1e6
	Minute        = 60 * Second
	Hour          = 60 * Minute
	Day           = 24 * Hour
)

// Time returns t as a time in UTC.
func Time(t Micros) time.Time { return time.UnixMicro(t).UTC() }

// Window is a closed interval of time [From, To] (methodology, introduction).
type Window struct{ From, To Micros }

// NewWindow cuts nanoseconds inwards, so that no snapshot outside the interval gets in.
func NewWindow(from, to time.Time) Window {
	f := from.UnixMicro()
	if from.Nanosecond()%1000 != 0 {
		f++
	}
	return Window{From: f, To: to.UnixMicro()}
}

// Contains reports whether t lies in the window.
func (w Window) Contains(t Micros) bool { return w.From <= t && t <= w.To }

// Hours is the window's length.
func (w Window) Hours() float64 { return Hours(w.To - w.From) }

// Hours returns a length of time in hours.
func Hours(d Micros) float64 { return float64(d) / float64(Hour) }

// Cover is the time that ranges of time cover together.
type Cover []stretch

// stretch is an unbroken range of covered time [from, to); before is the covered time ahead of it.
type stretch struct{ from, to, before Micros }

// Add adds a range of time. Ranges come in the order of their beginnings.
func (c *Cover) Add(from, to Micros) {
	before := Micros(0)
	if n := len(*c); n > 0 {
		last := &(*c)[n-1]
		if from <= last.to {
			last.to = max(last.to, to)
			return
		}
		before = last.before + last.to - last.from
	}
	*c = append(*c, stretch{from, to, before})
}

// Until is how much time is covered before t.
func (c Cover) Until(t Micros) Micros {
	i := sort.Search(len(c), func(i int) bool { return c[i].from >= t }) - 1
	if i < 0 {
		return 0
	}
	return c[i].before + min(t, c[i].to) - c[i].from
}

// DayOf is the UTC day of t, counted from 1970-01-01.
func DayOf(t Micros) int32 {
	d := t / Day
	if t%Day < 0 {
		d--
	}
	return int32(d)
}

// Median returns the median of one or more values, which it sorts: the one in the middle, or the mean of the two there
// (gonum's stat.Quantile takes the lower one). Of integers it drops a half.
func Median[T int64 | float64](values []T) T {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// MedianDistance returns the median distance of two or more ascending times, to a microsecond.
func MedianDistance(times []Micros) Micros {
	distances := make([]Micros, len(times)-1)
	for i := range distances {
		distances[i] = times[i+1] - times[i]
	}
	return Median(distances)
}
