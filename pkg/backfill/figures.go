package backfill

import (
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"gonum.org/v1/gonum/stat"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/survival"
)

// Sums are the sums over the GPUs of a group in a window or in a bucket of it.
type Sums struct {
	Occupancy
	ended   int                   // of a bucket: the complete vacancies that end in it
	hours   float64               // of these
	periods *[measures]statistics // of a table
}

// statistics holds the statistics on a group's periods by one measure.
type statistics struct {
	fates  [fates]int
	hours  []float64 // of the complete ones that end in the window, ascending
	cohort survival.Cohort
	curve  survival.Curve // of the cohort, if a metric is read off it
}

// add adds a period of a window that begins at from, also to the cohort if a curve is wanted.
func (s *statistics) add(p *Period, from pool.Micros, wantsCurve bool) {
	fate := p.fate()
	s.fates[fate]++
	end := survival.Censored
	if fate == complete {
		s.hours = append(s.hours, pool.Hours(p.Length()))
		end = survival.Event
	}
	if wantsCurve && (fate == complete || fate == censored) {
		s.cohort.Add(survival.Item{Entry: max(0, from-p.Start), Exit: p.Length(), Fate: end})
	}
}

// restrictedMean is the area under the curve in hours; NaN without periods.
func (s *statistics) restrictedMean() float64 {
	if s.curve.Until == 0 {
		return math.NaN()
	}
	return s.curve.Area(s.curve.Until)
}

// vacancies is a figure of the complete vacancies' hours; NaN if there are fewer than least.
func vacancies(least int, figure func(hours []float64) float64) func(*Sums) float64 {
	return func(s *Sums) float64 {
		hours := s.periods[vacancy].hours
		if len(hours) < least {
			return math.NaN()
		}
		return figure(hours)
	}
}

// meanHours is the mean of the vacancies of a table, or of those that end in a bucket; NaN if there are none.
func (s *Sums) meanHours() float64 {
	if s.periods == nil {
		return s.hours / float64(s.ended)
	}
	return vacancies(1, func(hours []float64) float64 { return stat.Mean(hours, nil) })(s)
}

// number is the number of vacancies with a fate.
func number(of fate) func(*Sums) float64 {
	return func(s *Sums) float64 { return float64(s.periods[vacancy].fates[of]) }
}

// tenureBelow is the first hour at which the curve of tenures is below a share.
func tenureBelow(share float64) func(*Sums) float64 {
	return func(s *Sums) float64 { return s.periods[tenure].curve.HoursBelow(share) }
}

// ofCurves are the metrics that are read off the curve of a measure.
var ofCurves = [measures][]string{vacancy: {"kmMedianHours", "restrictedMeanHours"},
	tenure: {"hours90", "hours75", "hours50"}}

type (
	// Figures are the sums over the GPUs of the backfill pool.
	Figures = aggregate.Figures[Sums]
	// GroupFigures are the figures of one group.
	GroupFigures = aggregate.Group[Sums]
)

// Frames returns the table of the view `summary`, otherwise series.
func Frames(f *Figures, p *query.Plan, about *frames.About) data.Frames {
	return f.Frames(metrics, p, about)
}

// addUp adds up the periods of a measure, by group.
func (a *answer) addUp(m measure) {
	s := &a.statistics[m]
	s.total = &statistics{}
	readOff := slices.ContainsFunc(a.plan.Metrics, func(name string) bool { return slices.Contains(ofCurves[m], name) })
	wantsCurve := readOff || a.plan.View == "survival"
	for i := range a.periods[m] {
		p := &a.periods[m][i]
		key := keyOf(p.Place, p.Project)
		n := int(s.keys.Number(key.Within(a.plan.GroupBy)))
		if n == len(s.of) {
			s.of = append(s.of, &statistics{})
		}
		s.of[n].add(p, a.plan.Window.From, wantsCurve)
		s.total.add(p, a.plan.Window.From, wantsCurve)
	}
	for _, of := range append(s.of, s.total) {
		slices.Sort(of.hours)
		if readOff {
			of.curve = of.cohort.KaplanMeier()
		}
	}
}

// figures are the figures of the window's buckets; a table has one, the window, and statistics on periods.
func (a *answer) figures() (*Figures, error) {
	buckets, times := a.buckets, a.observed.View.Times
	f := &Figures{Times: aggregate.Times(buckets, a.slices, buckets.Starts[0]),
		Total: Sums{Occupancy: Occupancy{Snapshots: float64(a.end - a.first)}, periods: new([measures]statistics)}}
	var keys pool.Numbered[aggregate.Key]
	group := func(key aggregate.Key) *GroupFigures { // valid until the next call
		n := int(keys.Number(key))
		if n == len(f.Groups) {
			g := GroupFigures{Texts: key.Texts(a.plan, a.plan.GroupBy, a.names), Sums: Sums{periods: new([measures]statistics)},
				Points: make([]Sums, buckets.Len()), Drawn: make([]bool, buckets.Len())}
			for b := range g.Points {
				g.Points[b].Snapshots = float64(a.states.snapshots(b))
			}
			f.Groups = append(f.Groups, g)
		}
		return &f.Groups[n]
	}
	for n, key := range a.states.keys.All {
		g := group(key)
		for b, counts := range a.states.counts[n] {
			in := occupancyOf(counts, a.states.snapshots(b))
			g.Points[b].Occupancy = in
			f.Total.Available += in.Available
			f.Total.Used += in.Used
			f.Total.Taken += in.Taken
		}
	}
	if err := query.Hold(len(f.Groups)+len(a.statistics[vacancy].keys.All), buckets.Len()); err != nil {
		return nil, err
	}
	for _, m := range a.wanted() {
		for n, key := range a.statistics[m].keys.All {
			group(key).Sums.periods[m] = *a.statistics[m].of[n]
		}
		f.Total.periods[m] = *a.statistics[m].total
	}
	for i := range a.periods[vacancy] {
		if p := &a.periods[vacancy][i]; p.fate() == complete {
			key := keyOf(p.Place, p.Project)
			at := &group(key.Within(a.plan.GroupBy)).Points[buckets.Of(p.End)]
			at.ended++
			at.hours += pool.Hours(p.Length())
		}
	}
	for n := range f.Groups {
		g := &f.Groups[n]
		for b := range g.Points {
			of := &g.Points[b]
			g.Drawn[b] = (of.Snapshots > 0 || of.ended > 0) && a.plan.Keep(buckets, b, times[len(times)-1])
		}
		g.Sums.Occupancy = g.Points[0].Occupancy
	}
	return f, nil
}

// survival draws the share of periods that last longer than an age.
func (a *answer) survival() data.Frames {
	of := &a.statistics[a.measure()]
	lives := make([]frames.Lives, len(of.keys.All))
	for n, key := range of.keys.All {
		lives[n] = frames.Lives{Group: key.Texts(a.plan, a.plan.GroupBy, a.names), Items: &of.of[n].cohort}
	}
	return frames.Curves(a.plan, a.about, a.plan.Duration, "GPUs", lives, (*survival.Cohort).KaplanMeier)
}
