package demand

import (
	"cmp"
	"context"
	"maps"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/survival"
	"github.com/chtc/gpureports/pkg/timeline"
)

// since is from when on rows matter to a window.
func since(p *Polls, w pool.Window) pool.Micros {
	longest := slices.Max(append(slices.Collect(maps.Values(p.cadences)), defaultCadence))
	after := w.From - joining*longest // a run may have begun so long after the last poll that saw the job idle
	if i := p.upTo(w.From); i >= 0 {
		after = min(after, p.Times[i]) // jobs that waited at the poll before the window take free GPUs
	}
	return after
}

// sightings are the rows of one job, in the order of time.
type sightings struct{ idle, running []*queues.Row }

// rowsByJob gathers all rows of the jobs that were seen idle after a time.
func rowsByJob(v *queues.View, after pool.Micros) []sightings {
	var jobs pool.Numbered[timeline.Job]
	for _, d := range v.Days {
		for i := range d.Rows {
			if r := &d.Rows[i]; micros(r.Last) >= after && !r.Running {
				jobs.Number(r.Job)
			}
		}
	}
	all := make([]sightings, len(jobs.All))
	for _, d := range v.Days {
		for i := range d.Rows {
			r := &d.Rows[i]
			if n, wanted := jobs.Find(r.Job); wanted && r.Running {
				all[n].running = append(all[n].running, r)
			} else if wanted {
				all[n].idle = append(all[n].idle, r)
			}
		}
	}
	inOrder := func(a, b *queues.Row) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	}
	for i := range all {
		slices.SortStableFunc(all[i].idle, inOrder)
		slices.SortStableFunc(all[i].running, inOrder)
	}
	return all
}

// Sums are the figures of a group of waits in a window or in a bucket of it. NaN means that there is no value.
type Sums struct {
	Waits, Started, Left float64
	Elsewhere            float64 // how many of those that started did on machines outside the snapshots
	Waited               float64 // hours that those waited which started
	Jobs, GPUs, Users    float64 // waiting on average
	free                 float64 // GPUs that waiting jobs could have taken, on average
	efforts, ran         float64 // GPU-hours: wait + run, and run
	median, p90          float64 // hours until a half and a tenth still wait, only if requested
	oldest               pool.Micros

	within, withinLow, withinHigh float64 // percent, only if requested
	p90Held                       float64
	onOwn, knownRun               float64 // how many of those that started, only if requested
}

// add adds a wait that overlaps the window. newest is the newest poll in the window.
func (s *Sums) add(w *Wait, window pool.Window, newest pool.Micros) {
	s.Waits++
	switch {
	case w.Outcome == Started && window.Contains(w.End):
		s.Started++
		s.Waited += pool.Hours(w.End - w.Begin)
		if w.Elsewhere {
			s.Elsewhere++
		}
		if w.RanUntil != 0 && w.RanUntil <= window.To {
			s.efforts += w.Request.GPUs * pool.Hours(w.End-w.Begin+w.Ran)
			s.ran += w.Request.GPUs * pool.Hours(w.Ran)
		}
	case w.Outcome == Left && window.Contains(w.End):
		s.Left++
	}
	if w.sees(newest) {
		s.oldest = max(s.oldest, newest-w.Begin+1) // 0: none waits
	}
}

func (s *Sums) oldestHours() float64 {
	if s.oldest == 0 {
		return math.NaN()
	}
	return pool.Hours(s.oldest - 1)
}

type (
	// Figures are the sums over the waits of a window.
	Figures = aggregate.Figures[Sums]
	// GroupFigures are the figures of one group.
	GroupFigures = aggregate.Group[Sums]
)

// Frames returns the table of the view `summary`, otherwise series. A table shows that a group has too few waits for a
// metric, also if it is the only one.
func Frames(f *Figures, p *query.Plan, about *frames.About) data.Frames {
	if name := p.Metrics[0]; isWithin(name) || name == "startedOnOwnPercent" || name == p90HeldPercent {
		p = p.WithNulls()
	}
	return f.Frames(metrics, p, about)
}

// CohortOf returns the waits that overlap a window, as a survival curve takes them.
func CohortOf(waits []*Wait, window pool.Window) survival.Cohort {
	cohort := make(survival.Cohort, 0, len(waits))
	for _, w := range waits {
		if !w.overlaps(window) {
			continue
		}
		it := survival.Item{Entry: max(w.Known, window.From) - w.Begin, Exit: min(w.End, window.To) - w.Begin}
		if w.Outcome == Started && window.Contains(w.End) {
			it.Fate = survival.Event
		}
		if it.Entry < it.Exit {
			cohort = append(cohort, it)
		}
	}
	return cohort
}

// addUsers adds up the covered time in which each user waits, by group; of tells the group of each wait, −1: none.
func (r *remembered) addUsers(c *clock, of []int32, groups []GroupFigures) {
	type time struct {
		user     timeline.Symbol
		from, to pool.Micros
	}
	last := make([]time, len(groups)) // the user who is added up, by group
	add := func(group int32) {
		for b, covered := range c.parts(last[group].from, last[group].to) {
			groups[group].Points[b].Users += covered
		}
	}
	for _, i := range r.byUser {
		group := of[i]
		if group < 0 {
			continue
		}
		switch w, t := &r.waits[i], &last[group]; {
		case t.user == w.Owner && w.Counted <= t.to:
			t.to = max(t.to, w.End)
		default:
			add(group)
			*t = time{w.Owner, w.Counted, w.End}
		}
	}
	for group := range groups {
		add(int32(group))
	}
}

// How likely a job starts soon, and how often the usual wait was kept (methodology sections 18 and 21).

func isWithin(metric string) bool {
	return slices.Contains([]string{"withinPercent", "withinLow", "withinHigh"}, metric)
}

// within returns the share of a cohort with a survival curve, in percent, that starts within an age, and its 95 %
// interval; NaN if too few are known from an early age on, or the curve ends before the age.
func within(c survival.Cohort, curve *survival.Curve, age pool.Micros) (percent, low, high float64) {
	early := 0
	for _, it := range c {
		if 2*it.Entry <= age {
			early++
		}
	}
	at := curve.At(age)
	if early < fewestWithin || at.Survival > 0 && curve.Until < age {
		return math.NaN(), math.NaN(), math.NaN()
	}
	low, high = at.Interval()
	return 100 * (1 - at.Survival), 100 * (1 - high), 100 * (1 - low)
}

const (
	fewestWithin = 5  // waits that are known from an early age on, for a share that started within an age
	usualDays    = 7  // before a day, whose waits give its usual wait
	fewestUsual  = 20 // waits that a share of kept usual waits rests on
	wholeOfUsual = pool.Micros(1) << 60
)

// usualReach is the window of the waits that p90Held needs for a window.
func usualReach(w pool.Window) pool.Window {
	return pool.Window{From: w.From - usualDays*pool.Day, To: w.To}
}

// p90Held returns the share of the waits that begin in a window, in percent, that are at most as long as the usual wait
// of their UTC day: the age at which a tenth of the waits of the seven days before still waited. all are the waits of
// one group that overlap usualReach. NaN if too few have a usual wait, or the curve ends before it.
func p90Held(all []*Wait, w pool.Window) float64 {
	// Put the waits to the days on which they begin.
	days := int((w.To-w.From)/pool.Day) + 2
	begun := make([][]*Wait, days)
	first := (w.From + pool.Day - 1) / pool.Day
	for _, it := range all {
		if day := it.Begin/pool.Day - first; w.Contains(it.Begin) && day >= 0 {
			begun[day] = append(begun[day], it)
		}
	}
	// Find the usual wait of each day, and measure the day's waits by it.
	byEnd := slices.Clone(all)
	slices.SortFunc(byEnd, func(a, b *Wait) int { return cmp.Compare(a.End, b.End) })
	var held survival.Cohort
	for day, waits := range begun {
		if len(waits) == 0 {
			continue
		}
		begin := (first + pool.Micros(day)) * pool.Day
		past := pool.Window{From: begin - usualDays*pool.Day, To: begin}
		from := sort.Search(len(byEnd), func(i int) bool { return byEnd[i].End >= past.From })
		usual, reached := CohortOf(byEnd[from:], past).KaplanMeier().AtMost(0.1)
		if !reached {
			continue
		}
		for _, it := range CohortOf(waits, w) {
			scaled := survival.Item{Entry: shareOfUsual(it.Entry, usual), Exit: shareOfUsual(it.Exit, usual), Fate: it.Fate}
			if it.Exit > usual { // it matters only that the wait was longer
				scaled.Exit, scaled.Fate = wholeOfUsual+1, survival.Censored
			}
			held = append(held, scaled)
		}
	}
	// Read the share off the curve of all waits.
	curve := held.KaplanMeier()
	at := curve.At(wholeOfUsual)
	if len(held) < fewestUsual || at.Survival > 0 && curve.Until < wholeOfUsual {
		return math.NaN()
	}
	return 100 * (1 - at.Survival)
}

// shareOfUsual is an age up to the usual wait as a share of it, in units of 1/wholeOfUsual.
func shareOfUsual(age, usual pool.Micros) pool.Micros {
	if age >= usual {
		return wholeOfUsual
	}
	high, low := bits.Mul64(uint64(age), uint64(wholeOfUsual))
	share, _ := bits.Div64(high, low, uint64(usual))
	return pool.Micros(share)
}

// Hours is who waited in consecutive hours. Sums over hours and groups give the figures of longer windows; a window has
// the waits that began in its hours, and those that were carried into its first one.
type Hours struct {
	Waits   map[linked.HourOf]*Hourly
	Covered []float64 // the part of each hour that polls cover
}

// Hourly is the sum over the waits of a group in an hour.
type Hourly struct {
	Begun    int     `json:"waitsBegun,omitempty"`
	Carried  int     `json:"waitsCarried,omitempty"` // waits that began before the hour
	Started  int     `json:"waitsStarted,omitempty"` // waits that end in the hour
	Left     int     `json:"waitsLeft,omitempty"`
	Waited   float64 `json:"waited,omitempty"`          // hours that those waited which started
	JobHours float64 `json:"waitingJobHours,omitempty"` // in covered time
	GPUHours float64 `json:"waitingGpuHours,omitempty"`
}

// ByHour returns who waited in the hours between consecutive times; nil without polls. Errors come from Answer.
func ByHour(ctx context.Context, s *stores.Stores, env query.Env, hours []pool.Micros) (*Hours, error) {
	p, err := query.Catalog{Kind}.Plan(query.Request{Model: query.Model{QueryType: Kind.Name},
		Window: pool.Window{From: hours[0], To: hours[len(hours)-1]}}, env)
	if err != nil {
		return nil, err
	}
	_, a, err := load(ctx, s, p)
	if err != nil || a == nil {
		return nil, err
	}
	h := &Hours{Waits: map[linked.HourOf]*Hourly{}}
	c := newClock(hours, p.Window, a.polls.held)
	for _, covered := range c.covered {
		h.Covered = append(h.Covered, pool.Hours(covered))
	}
	for i := range a.all {
		if w := &a.all[i]; w.Counted < p.Window.To && w.End >= p.Window.From {
			h.add(w, a.keyOf(i), c)
		}
	}
	return h, nil
}

func (h *Hours) add(w *Wait, key aggregate.Key, c *clock) {
	of := func(hour int) *Hourly { return pool.In(h.Waits, linked.HourOf{Key: key, Hour: hour}) }
	for b := c.bucket(w.Counted); b < len(c.covered) && c.edges[b] <= w.End; b++ {
		in := of(b)
		if from, to := max(w.Counted, c.edges[b]), min(w.End, c.edges[b+1]); from < to {
			waited := pool.Hours(c.until(to) - c.until(from))
			in.JobHours += waited
			in.GPUHours += w.Request.GPUs * waited
		}
		if w.Counted >= c.edges[b] {
			in.Begun++
		} else {
			in.Carried++
		}
	}
	if w.End >= c.edges[len(c.covered)] {
		return
	}
	switch in := of(c.bucket(w.End)); w.Outcome {
	case Started:
		in.Started++
		in.Waited += pool.Hours(w.End - w.Begin)
	case Left:
		in.Left++
	}
}
