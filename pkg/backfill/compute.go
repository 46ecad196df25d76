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
	shared  bool
	project timeline.Symbol
}

// grouping forms groups.
type grouping struct {
	by    []string
	names []string
	shown func(column, stored string) string // as answers show it
}

func (g *grouping) of(p runs.Place) (k group) {
	for _, name := range g.by {
		switch name {
		case "category", "ownership":
			k.place.Ownership = p.Ownership
		case "device":
			k.place.Device = p.Device
		case "machineType":
			k.shared = p.Ownership == pool.OpenCapacity
		case "machine":
			k.place.Machine = p.Machine
		case "memory":
			k.place.Memory = p.Memory
		}
	}
	return k
}

// within returns the group of a GPU whose row has a project, where that matters.
func (g *grouping) within(p runs.Place, project timeline.Symbol) group {
	k := g.of(p)
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
		if name != "machineType" {
			values[i] = g.shown(name, k.place.Text(name, g.names))
			continue
		}
		values[i] = pool.ResearcherOwned.MachineType()
		if k.shared {
			values[i] = pool.OpenCapacity.MachineType()
		}
	}
	return values
}

// statistics are what a group's periods say.
type statistics struct {
	hours                  []float64 // of the complete ones that end in the window
	censored, unknownStart int
	items                  []survival.Item // those with a known start
	expected               int             // periods to be added
	curveOnly              bool            // hours are not asked for
}

func (s *statistics) add(p *Period, w pool.Window) {
	if s.items == nil {
		s.items = make([]survival.Item, 0, s.expected)
		if !s.curveOnly {
			s.hours = make([]float64, 0, s.expected)
		}
	}
	switch {
	case p.UnknownStart:
		s.unknownStart++
		return
	case p.LeftTruncated:
		return
	case p.Censored():
		s.censored++
	case !s.curveOnly:
		s.hours = append(s.hours, pool.Hours(p.Length()))
	}
	fate := survival.Event
	if p.Censored() {
		fate = survival.Censored
	}
	s.items = append(s.items, survival.Item{Entry: max(0, w.From-p.Start), Exit: p.Length(), Fate: fate})
}

func (s *statistics) metric(name string) float64 {
	n := float64(len(s.hours))
	switch name {
	case "count":
		return n
	case "censored":
		return float64(s.censored)
	case "unknownStart":
		return float64(s.unknownStart)
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
		return slices.Min(s.hours)
	case "maxHours":
		return slices.Max(s.hours)
	}
	// sdHours
	if n < 2 {
		return math.NaN()
	}
	return stat.StdDev(s.hours, nil)
}

// ofCurve reads a metric off a Kaplan–Meier curve; NaN when it is not reached.
func ofCurve(name string, c survival.Curve) float64 {
	age, ok := pool.Micros(0), false
	switch name {
	case "restrictedMeanHours":
		if c.Until == 0 {
			return math.NaN()
		}
		return c.RestrictedMean()
	case "kmMedianHours":
		age, ok = c.Median()
	case "hours90":
		age, ok = c.FirstBelow(0.9)
	case "hours75":
		age, ok = c.FirstBelow(0.75)
	case "hours50":
		age, ok = c.FirstBelow(0.5)
	}
	if !ok {
		return math.NaN()
	}
	return pool.Hours(age)
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
