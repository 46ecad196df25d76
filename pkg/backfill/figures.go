package backfill

import (
	"cmp"
	"context"
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
	ended   int                   // the complete vacancies that end in a bucket
	hours   float64               // their length
	periods *[measures]statistics // only in a table
}

// statistics holds the statistics on a group's periods by one measure.
type statistics struct {
	fates  [fates]int
	hours  []float64 // how long the complete ones are that end in the window, ascending
	cohort survival.Cohort
	curve  survival.Curve // the cohort's, only in a table
}

// add adds an item of the curve. Items must come by length.
func (s *statistics) add(it survival.Item) {
	s.cohort = append(s.cohort, it)
	if it.Fate == survival.Event {
		s.hours = append(s.hours, pool.Hours(it.Exit))
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

// Figures are the sums over the GPUs of the backfill pool.
type Figures = aggregate.Figures[Sums]

// Frames returns series of figures.
func Frames(f *Figures, p *query.Plan, about *frames.About) data.Frames {
	return f.Frames(metrics, p, about)
}

// addUp adds up the periods of a measure, by group. In a table and for curves their lengths matter: they are sorted
// once, instead of the hours and cohort of each group.
func (a *answer) addUp(m measure) {
	s := &a.statistics[m]
	s.total = &statistics{}
	type grouped struct {
		survival.Item
		of *statistics
	}
	var byLength []grouped
	lengths := a.Plan.View == "summary" || a.Plan.View == "survival"
	if lengths {
		byLength = make([]grouped, 0, len(a.periods[m]))
	}
	// Number the groups, and count the fates of their periods. A GPU's periods follow each other, mostly in one group.
	group, before := 0, &Period{} // no GPU is in the zero place
	for _, p := range a.periods[m] {
		if p.Place != before.Place || p.Project != before.Project {
			group = int(s.keys.Number(keyOf(p.Place, p.Project).Within(a.by)))
		}
		if before = p; group == len(s.of) {
			s.of = append(s.of, &statistics{})
		}
		of, fate := s.of[group], p.fate()
		of.fates[fate]++
		s.total.fates[fate]++
		if lengths && (fate == complete || fate == censored) {
			it := survival.Item{Entry: max(0, a.Plan.Window.From-p.Start), Exit: p.Length()}
			if fate == complete {
				it.Fate = survival.Event
			}
			byLength = append(byLength, grouped{it, of})
		}
	}
	if !lengths {
		return
	}
	// Give each group its items by length.
	slices.SortFunc(byLength, func(p, q grouped) int { return cmp.Compare(p.Exit, q.Exit) })
	all := append(s.of, s.total)
	for _, of := range all {
		of.hours = make([]float64, 0, of.fates[complete])
		of.cohort = make(survival.Cohort, 0, of.fates[complete]+of.fates[censored])
	}
	for _, it := range byLength {
		it.of.add(it.Item)
		s.total.add(it.Item)
	}
	if a.Plan.View == "summary" {
		for _, of := range all {
			of.curve = of.cohort.KaplanMeier()
		}
	}
}

// sums shows the figures of the window's buckets; a table has one, the window, and statistics on periods.
func (a *answer) sums(ctx context.Context) (data.Frames, error) {
	buckets, err := a.Plan.Buckets(a.Plan.Window.From)
	if err != nil {
		return nil, err
	}
	c := newCalendar(a.sliceOf, a.first, buckets)
	states, err := a.occupy(ctx, c, a.Plan.GroupBy)
	if err != nil {
		return nil, err
	}
	if err := query.CheckCells(len(states.counts)+len(a.statistics[vacancy].of), buckets.Len()); err != nil {
		return nil, err
	}
	f := &Figures{Times: aggregate.Times(buckets, a.Slices.Begin, buckets.Starts[0]),
		Total: Sums{periods: new([measures]statistics)}}
	var keys pool.Numbered[aggregate.Key]
	group := func(key aggregate.Key) *aggregate.Group[Sums] { // valid until the next call
		n := int(keys.Number(key))
		if n == len(f.Groups) {
			g := aggregate.Group[Sums]{Sums: Sums{periods: new([measures]statistics)}, Points: make([]Sums, buckets.Len()),
				Texts: key.Texts(a.Plan, a.Plan.GroupBy, a.Names), Drawn: make([]bool, buckets.Len())}
			for b := range g.Points {
				g.Points[b].Snapshots = float64(c.snapshots(b))
			}
			f.Groups = append(f.Groups, g)
		}
		return &f.Groups[n]
	}
	// Fill in the states, then the statistics of a table, then the vacancies that end in buckets.
	for n, key := range states.keys.All {
		g := group(key)
		for b, in := range states.counts[n] {
			g.Points[b].Occupancy = in
			f.Total.Add(in)
		}
	}
	f.Total.Snapshots = float64(a.end - a.first)
	for _, m := range a.wanted {
		for n, key := range a.statistics[m].keys.All {
			group(key).Sums.periods[m] = *a.statistics[m].of[n]
		}
		f.Total.periods[m] = *a.statistics[m].total
	}
	for _, p := range a.periods[vacancy] {
		if p.fate() == complete {
			at := &group(keyOf(p.Place, p.Project).Within(a.by)).Points[buckets.Of(p.End)]
			at.ended++
			at.hours += pool.Hours(p.Length())
		}
	}
	// Draw the points that rest on something.
	times := a.Observed.View.Times
	for n := range f.Groups {
		g := &f.Groups[n]
		for b := range g.Points {
			of := &g.Points[b]
			g.Drawn[b] = (of.Snapshots > 0 || of.ended > 0) && a.Plan.Keep(buckets, b, times[len(times)-1])
		}
		g.Sums.Occupancy = g.Points[0].Occupancy
	}
	return Frames(f, a.Plan, a.About), nil
}

// survival draws the share of periods that last longer than an age.
func (a *answer) survival(context.Context) (data.Frames, error) {
	of := &a.statistics[a.wanted[0]]
	lives := make([]frames.Lives, len(of.keys.All))
	for n, key := range of.keys.All {
		lives[n] = frames.Lives{Group: key.Texts(a.Plan, a.Plan.GroupBy, a.Names), Items: of.of[n].cohort}
	}
	return frames.Curves(a.Plan, a.About, a.Plan.Duration, "GPUs", lives, survival.Cohort.KaplanMeier), nil
}
