package demand

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
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

// oldestHours is the longest wait that the newest poll sees.
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

// Frames returns the table of the view `summary`, otherwise series.
func Frames(f *Figures, p *query.Plan, about *frames.About) data.Frames {
	if slices.Contains(promises, p.Metrics[0]) {
		p = p.WithNulls()
	}
	return f.Frames(metrics, p, about)
}

// promises are the metrics of which a table shows that a group has too few waits for them, also if only one is named.
var promises = []string{"withinPercent", "withinLow", "withinHigh", "startedOnOwnPercent", p90HeldPercent}

// CohortOf returns the waits that overlap a window, as a survival curve takes them.
func CohortOf(waits []*Wait, window pool.Window) *survival.Cohort {
	cohort := make(survival.Cohort, 0, len(waits))
	for _, w := range waits {
		if !w.overlaps(window) {
			continue
		}
		it := survival.Item{Entry: max(w.Known, window.From) - w.Begin, Exit: min(w.End, window.To) - w.Begin}
		if w.Outcome == Started && window.Contains(w.End) {
			it.Fate = survival.Event
		}
		cohort.Add(it)
	}
	return &cohort
}

// gpusClass is the class of the number of GPUs that a job asks for, rounded up, as an index in query.GPUCounts.
func gpusClass(gpus float64) int {
	most := []float64{1, 2, 4, 8} // the last class has no bound
	return sort.Search(len(most), func(i int) bool { return gpus <= most[i] })
}

// memoryClass is the class of the memory that each of a job's GPUs must have.
func memoryClass(mib float64) string {
	if mib == 0 {
		return "any"
	}
	return pool.MemoryClass(mib)
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
