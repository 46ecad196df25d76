package backfill

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/survival"
	"github.com/chtc/gpureports/pkg/timeline"
)

// group is what GPUs are counted under; what is not asked for is zero.
type group struct {
	place   runs.Place
	project timeline.Symbol
}

// grouping forms groups.
type grouping struct {
	by    []string
	names []string
	shown func(column, stored string) string // as answers show it
}

// within returns the group of a GPU whose row has a project, where that matters.
func (g *grouping) within(p runs.Place, project timeline.Symbol) group {
	k := group{place: p.Within(g.by)}
	if g.byProject() {
		k.project = project
	}
	return k
}

// byProject reports whether projects are told apart: in hourly sums only.
func (g *grouping) byProject() bool { return slices.Contains(g.by, "project") }

func (g *grouping) texts(k group) []string {
	values := make([]string, len(g.by))
	for i, name := range g.by {
		values[i] = g.shown(name, k.place.Text(name, g.names))
	}
	return values
}

// statistics are what a group's periods say.
type statistics struct {
	fates  [fates]int
	hours  []float64 // of the complete ones that end in the window, ascending
	cohort survival.Cohort
	curve  survival.Summary // of the cohort, where it is asked for
}

// expect makes room for periods that are to be added.
func (s *statistics) expect(n [fates]int, m measure) {
	for f := range n {
		s.fates[f] += n[f]
	}
	s.cohort.Grow(n[complete] + n[censored])
	if m == vacancy {
		s.hours = slices.Grow(s.hours, n[complete])
	}
}

// addUp adds periods of a measure to the statistics of their groups and to those of all.
func (c *chosen) addUp(w pool.Window, m measure, of []*statistics, all *statistics) {
	all.expect(c.total(), m)
	for k := range of {
		of[k].expect(c.fates[k], m)
	}
	c.byLength(w, func(group int32, it survival.Item) { // for all medians and curves
		into := of[group]
		into.cohort.Add(it)
		all.cohort.Add(it)
		if m == vacancy && it.Fate == survival.Event {
			hours := pool.Hours(it.Exit)
			into.hours, all.hours = append(into.hours, hours), append(all.hours, hours)
		}
	})
}

// levels are what is read off curves, in the order of levelsOf.
var (
	levels   = []float64{survival.AtMost(0.5), 0.9, 0.75, 0.5}
	levelsOf = []string{"kmMedianHours", "hours90", "hours75", "hours50"}
)

func (s *statistics) metric(name string) float64 {
	n := float64(len(s.hours))
	switch name {
	case "count":
		return n
	case "censored":
		return float64(s.fates[censored])
	case "unknownStart":
		return float64(s.fates[unknownStart])
	case "gpuHours":
		return floats.Sum(s.hours)
	}
	if n == 0 {
		return math.NaN()
	}
	switch name {
	case "meanHours":
		return stat.Mean(s.hours, nil)
	case "medianHours":
		return pool.Median(s.hours)
	case "minHours":
		return s.hours[0]
	case "maxHours":
		return s.hours[len(s.hours)-1]
	}
	// sdHours
	if n < 2 {
		return math.NaN()
	}
	return stat.StdDev(s.hours, nil)
}

// ofCurve reads a metric off the summary of the Kaplan–Meier curve; NaN when it is not reached.
func (s *statistics) ofCurve(name string) float64 {
	switch {
	case s.curve.Reached == nil: // no periods
		return math.NaN()
	case name == "restrictedMeanHours":
		if s.curve.Until == 0 {
			return math.NaN()
		}
		return s.curve.Area
	}
	if age := s.curve.Reached[slices.Index(levelsOf, name)]; age >= 0 {
		return pool.Hours(age)
	}
	return math.NaN()
}

// ofOccupancy reads a metric off a bucket's counts.
func ofOccupancy(name string, counts [runs.States]int64, snapshots int) float64 {
	available, used, taken := float64(counts[runs.Available]), float64(counts[runs.Used]), float64(counts[runs.Taken])
	n := float64(snapshots)
	switch {
	case n == 0:
		return math.NaN()
	case name == "available":
		return available / n
	case name == "used":
		return used / n
	case name == "taken":
		return taken / n
	case used+available == 0:
		return math.NaN()
	}
	return 100 * used / (used + available) // usedPercent
}
