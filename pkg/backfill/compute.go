package backfill

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
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

// occupancy counts GPU-snapshots by bucket: how many GPUs were in each state, summed over snapshots.
type occupancy struct {
	counts [][runs.States]int64
	full   [][runs.States]int32 // change of the number of GPUs in the state over all of the bucket
}

// calendar says which bucket each snapshot of the window is in.
type calendar struct {
	first, end int     // the window's snapshots
	bucket     []int32 // of each of them
	begin      []int32 // the first snapshot of each bucket; one more than there are buckets
}

func newCalendar(times []pool.Micros, first, end int, buckets query.Buckets) *calendar {
	c := &calendar{first: first, end: end, bucket: make([]int32, end-first), begin: make([]int32, buckets.Len()+1)}
	b := 0
	for i := range c.bucket {
		for buckets.Starts[b+1] <= times[first+i] {
			b++
			c.begin[b] = int32(first + i)
		}
		c.bucket[i] = int32(b)
	}
	c.begin[0] = int32(first)
	for b++; b < len(c.begin); b++ {
		c.begin[b] = int32(end)
	}
	return c
}

// snapshots is the number of the window's snapshots in a bucket.
func (c *calendar) snapshots(bucket int) int { return int(c.begin[bucket+1] - c.begin[bucket]) }

func newOccupancy(buckets int) *occupancy {
	return &occupancy{make([][runs.States]int64, buckets), make([][runs.States]int32, buckets+1)}
}

// add counts a GPU's state at the snapshots from first to last, all in the window.
func (o *occupancy) add(c *calendar, s runs.State, first, last int32) {
	a, b := c.bucket[int(first)-c.first], c.bucket[int(last)-c.first]
	if a == b {
		o.counts[a][s] += int64(last - first + 1)
		return
	}
	o.counts[a][s] += int64(c.begin[a+1] - first)
	o.counts[b][s] += int64(last - c.begin[b] + 1)
	o.full[a+1][s]++
	o.full[b][s]--
}

// finish turns full into counts.
func (o *occupancy) finish(c *calendar) {
	var gpus [runs.States]int64
	for b := range o.counts {
		n := int64(c.snapshots(b))
		for s := range gpus {
			gpus[s] += int64(o.full[b][s])
			o.counts[b][s] += gpus[s] * n
		}
	}
}

// occupy counts the states of all chosen GPUs of the pool by group.
func occupy(o *runs.Observed, c *calendar, buckets int, g *grouping, chosen *runs.Chosen) (map[group]*occupancy,
	error) {
	groups := map[group]*occupancy{}
	bases := o.View.Base
	for m := range o.Machines {
		for i := range o.Machines[m].GPUs {
			gpu := &o.Machines[m].GPUs[i]
			var place runs.Place
			var into *occupancy
			var project timeline.Symbol
			known, byProject := false, g.byProject()
			n, _ := slices.BinarySearchFunc(gpu.Segments, int32(c.first),
				func(s runs.Segment, first int32) int { return int(s.Last - first) })
			for _, s := range gpu.Segments[n:] {
				if int(s.First) >= c.end {
					break
				}
				if s.State == runs.Outside || !chosen.Project(s.Project) {
					continue
				}
				for first, last := max(s.First, int32(c.first)), min(s.Last, int32(c.end-1)); first <= last; {
					until := last
					if day := o.View.DayAt(int(first)); day+1 < len(bases) {
						until = min(until, int32(bases[day+1]-1))
					}
					if p := o.PlaceAt(gpu, first); !known || p != place || byProject && s.Project != project {
						place, project, known, into = p, s.Project, true, nil
						if chosen.Place(p) {
							k := g.within(p, s.Project)
							if into = groups[k]; into == nil {
								if err := query.Hold(len(groups)+1, buckets); err != nil {
									return nil, err
								}
								into = newOccupancy(buckets)
								groups[k] = into
							}
						}
					}
					if into != nil {
						into.add(c, s.State, first, until)
					}
					first = until + 1
				}
			}
		}
	}
	for _, into := range groups {
		into.finish(c)
	}
	return groups, nil
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

// transition is a change of state; used → used is a change of job.
type transition struct {
	group    group
	from, to runs.State
}

// transitions counts the changes between consecutive snapshots without a gap, the later one in the window.
func transitions(o *runs.Observed, first, end int, g *grouping, chosen *runs.Chosen) map[transition]int {
	counts := map[transition]int{}
	inPool := func(s runs.State) bool { return s != runs.Unknown && s != runs.Outside }
	for m := range o.Machines {
		machine := &o.Machines[m]
		for i := range machine.GPUs {
			gpu := &machine.GPUs[i]
			for n := 1; n < len(gpu.Segments); n++ {
				before, after := &gpu.Segments[n-1], &gpu.Segments[n]
				if int(after.First) < first || int(after.First) >= end || o.GapAfter(before.Last) || !inPool(before.State) ||
					!inPool(after.State) {
					continue
				}
				if before.State == after.State && (after.State != runs.Used || sameJob(machine.Runs, before, after)) {
					continue
				}
				if p := o.PlaceAt(gpu, after.First); chosen.Place(p) && chosen.Project(after.Project) {
					counts[transition{g.of(p), before.State, after.State}]++
				}
			}
		}
	}
	return counts
}

// sameJob reports whether one job holds a GPU in two used segments. Stale rows alone have no run: they are of another
// job.
func sameJob(all []runs.Run, before, after *runs.Segment) bool {
	x, y := max(before.RunFirst, before.RunLast), max(after.RunFirst, after.RunLast)
	if x < 0 || y < 0 {
		return false
	}
	a, b := &all[x], &all[y]
	return a.Job == b.Job && (!a.Job.IsNone() || a.User == b.User)
}
