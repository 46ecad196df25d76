package evictions

import (
	"context"
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Sums are the sums over a group of runs in a window or in a bucket of it (methodology section 8).
type Sums struct {
	Runs     int
	Unseen   int
	Outcomes [runs.Outcomes]int
	GPUHours float64
	Lost     float64       // GPU-hours of the evicted runs since their jobs last saved their work
	Evicted  float64       // GPU-hours of the evicted runs
	Saved    int           // evicted runs in which the job saved something
	Over     float64       // the GPU-hours that rates are over
	Blind    bool          // completions cannot be seen
	evicted  []*linked.Run // that end in it
}

// add adds the part of a run in [from, to].
func (s *Sums) add(r *linked.Run, from, to pool.Micros) {
	s.Runs++
	if r.Link == runs.AdOnly {
		s.Unseen++
	}
	hours := r.GPUHoursIn(r.Start, from, to)
	s.GPUHours += hours
	if r.Result == runs.Evicted {
		s.Lost += r.GPUHoursIn(r.LastSave(), from, to)
		s.Evicted += hours
	}
}

// end counts the outcome of a run.
func (s *Sums) end(r *linked.Run) {
	if s.Outcomes[r.Result]++; r.Result != runs.Evicted {
		return
	}
	s.evicted = append(s.evicted, r)
	if r.Saved() {
		s.Saved++
	}
}

// most is the most evictions of one job.
func (s *Sums) most() (most int) {
	of := make(map[timeline.Job]int, len(s.evicted))
	for _, r := range s.evicted {
		if !r.Job.IsNone() {
			of[r.Job]++
			most = max(most, of[r.Job])
		}
	}
	return most
}

// evictedPercent is the share of evictions among the ends that say how the job fared.
func (s *Sums) evictedPercent() float64 {
	if s.Blind {
		return math.NaN()
	}
	ended := s.Outcomes[runs.Evicted] + s.Outcomes[runs.Yielded] + s.Outcomes[runs.Completed] +
		s.Outcomes[runs.Removed] + s.Outcomes[runs.Held]
	return aggregate.Percent(float64(s.Outcomes[runs.Evicted]), float64(ended))
}

func (s *Sums) medianHours() float64 {
	if s.Blind || len(s.evicted) == 0 {
		return math.NaN()
	}
	return pool.Median(frames.Each(s.evicted, func(r *linked.Run) float64 { return pool.Hours(r.Length()) }))
}

// rate is events per 100 GPU-hours, NaN over too few of them.
func (s *Sums) rate(events float64) float64 {
	if aggregate.TooFew(s.Over) {
		return math.NaN()
	}
	return 100 * events / s.Over
}

// Figures are the sums over the backfill runs of a window.
type Figures = aggregate.Figures[Sums]

// evictionMetrics are the metrics that exist by cause, evidence and who took over.
var evictionMetrics = []string{"evictions", "ratePer100GpuHours", "rateLow", "rateHigh", "lostGpuHours",
	"evictedGpuHours", "checkpointedPercent", "medianHoursToEviction"}

// rateMetrics are the metrics that have no value over too few GPU-hours.
var rateMetrics = []string{"ratePer100GpuHours", "rateLow", "rateHigh"}

// ByEviction reports whether the groups of a plan know evictions only: a run that did not end so has no cause, and its
// evidence is about another outcome (methodology section 8).
func ByEviction(p *query.Plan) bool {
	return slices.ContainsFunc(query.GroupingsOf(p.GroupBy), isOfEviction) || !p.Select.All(query.ByTakenOver)
}

func isOfEviction(g query.Grouping) bool {
	return g == query.ByCause || g == query.ByEvidence || g == query.ByTakenOver
}

// Frames returns the table of the view `summary`, otherwise series.
func Frames(f *Figures, p *query.Plan, about *frames.About) data.Frames {
	shown := metrics
	if ByEviction(p) {
		if p.View != "summary" && slices.Contains(p.Metrics, "runs") {
			about.Info("only evicted runs have a cause and are taken over, so the metric runs is not available")
		}
		shown = metrics.Without(func(name string) bool { return !slices.Contains(evictionMetrics, name) })
	}
	if slices.ContainsFunc(p.Metrics, func(name string) bool { return slices.Contains(rateMetrics, name) }) {
		var rates rates
		for i := range f.Groups {
			g := &f.Groups[i]
			if p.View == "summary" {
				rates.count(&g.Sums)
				continue
			}
			for b := range g.Points {
				if g.Drawn[b] {
					rates.count(&g.Points[b])
				}
			}
		}
		rates.tell(about)
	}
	return f.Frames(shown, p, about)
}

// rates counts an answer's rates, so that those without a value are not taken for hours without evictions.
type rates struct{ all, leftOut int }

// count counts the rate of a cell. A cell without a run has none.
func (r *rates) count(s *Sums) {
	if s.Outcomes[runs.Evicted] == 0 && s.Over == 0 {
		return
	}
	r.all++
	if aggregate.TooFew(s.Over) {
		r.leftOut++
	}
}

// tell adds how many rates were left out.
func (r *rates) tell(about *frames.About) {
	if r.leftOut > 0 {
		about.Count("Eviction rates without a value", r.leftOut, "%s of %s eviction rates rest on less than %d GPU hour and "+
			"have no value", frames.Thousands(r.leftOut), frames.Thousands(r.all), aggregate.LeastHours)
	}
}

// adding adds up the runs of each group by bucket.
type adding struct {
	*answer
	buckets query.Buckets
	keys    pool.Numbered[aggregate.Key]
	points  [][]Sums                    // by group
	over    map[aggregate.Key][]float64 // GPU-hours of all runs, if groups know evictions only
	total   Sums                        // the window's sums
}

// add counts a run's outcome in the bucket that holds its end, and hours and runs in every bucket that they overlap.
func (s *adding) add(r *linked.Run) error {
	var own []Sums
	var over []float64
	key := r.Key()
	if !s.byEviction || r.Result == runs.Evicted && s.takenOver(r) {
		n := int(s.keys.Number(key.Within(s.by)))
		if n == len(s.points) {
			s.points = append(s.points, make([]Sums, s.buckets.Len()))
		}
		own = s.points[n]
		own[s.buckets.Of(r.Until)].end(r)
		s.total.end(r)
		s.total.add(r, s.Plan.Window.From, s.Plan.Window.To)
	}
	s.total.Over += r.GPUHoursIn(r.Start, s.Plan.Window.From, s.Plan.Window.To)
	if s.byEviction {
		key = key.Within(s.overBy)
		if over = s.over[key]; over == nil {
			over = make([]float64, s.buckets.Len())
			s.over[key] = over
		}
	}
	if err := query.CheckCells(len(s.points)+len(s.over), s.buckets.Len()); err != nil {
		return err
	}
	from, starts := s.Plan.Window.From, s.buckets.Starts
	for b := s.buckets.Of(max(r.Start, from)); b < s.buckets.Len() && starts[b] <= r.Until; b++ {
		if own != nil {
			own[b].add(r, max(from, starts[b]), starts[b+1])
		}
		if over != nil {
			over[b] += r.GPUHoursIn(r.Start, max(from, starts[b]), starts[b+1])
		}
	}
	return nil
}

// sums shows the figures of the window's buckets; a table has one, the window.
func (a *answer) sums(ctx context.Context) (data.Frames, error) {
	buckets, err := a.Plan.Buckets(a.Plan.Window.From)
	if err != nil {
		return nil, err
	}
	s := adding{answer: a, buckets: buckets, over: map[aggregate.Key][]float64{}, total: Sums{Blind: a.blind}}
	for i := range parallel.Until(ctx, len(a.runs)) {
		if err := s.add(a.runs[i]); err != nil {
			return nil, err
		}
	}
	f := &Figures{Times: aggregate.Times(buckets, a.Slices.Begin, a.Plan.Window.To), Total: s.total}
	live, times := a.live(buckets), a.Observed.View.Times
	for n, key := range s.keys.All {
		g := aggregate.Group[Sums]{Texts: key.Texts(a.Plan, a.Plan.GroupBy, a.Names), Points: s.points[n],
			Drawn: make([]bool, buckets.Len())}
		over := s.over[key.Within(a.overBy)]
		for b := range g.Points {
			of := &g.Points[b]
			if of.Blind, of.Over = a.blind, of.GPUHours; a.byEviction {
				of.Over = over[b]
			}
			left := of.Outcomes[runs.Evicted]+of.Outcomes[runs.Yielded] > 0
			g.Drawn[b] = (live[b] || left) && a.Plan.Keep(buckets, b, times[len(times)-1])
		}
		g.Sums = g.Points[0]
		f.Groups = append(f.Groups, g)
	}
	return Frames(f, a.Plan, a.About), ctx.Err()
}

// live reports which buckets have a slice: the others do not exist, unless an ad shows an eviction or a yield in them.
func (a *answer) live(buckets query.Buckets) []bool {
	live := make([]bool, buckets.Len())
	for _, t := range a.Slices.Begin {
		live[buckets.Of(max(t, buckets.Starts[0]))] = true
	}
	return live
}

// hourOfWeek sums over the window by local weekday and hour.
func (a *answer) hourOfWeek(ctx context.Context) (data.Frames, error) {
	buckets, cells, err := a.Plan.Hours()
	if err != nil || len(a.runs) == 0 {
		return a.About.Finish(nil), err
	}
	var sums aggregate.Week[Sums]
	var seen [7][24]bool // with a snapshot, or an eviction
	for b, live := range a.live(buckets) {
		at := cells[b]
		seen[at[0]][at[1]] = seen[at[0]][at[1]] || live
	}
	// Add up evictions and hours, run by run.
	for i := range parallel.Until(ctx, len(a.runs)) {
		r := a.runs[i]
		if r.Result == runs.Evicted && a.takenOver(r) {
			at := cells[buckets.Of(r.End)]
			sums[at[0]][at[1]].Outcomes[runs.Evicted]++
			seen[at[0]][at[1]] = true
		}
		from := max(r.Start, a.Plan.Window.From)
		for b := buckets.Of(from); b < buckets.Len() && buckets.Starts[b] < r.Until; b++ {
			at := cells[b]
			sums[at[0]][at[1]].Over += r.GPUHoursIn(from, buckets.Starts[b], buckets.Starts[b+1])
		}
	}
	// Leave out hours without a snapshot or an eviction.
	var rates rates
	values := sums.Values(metrics, a.Plan.Metrics[0])
	for day := range values {
		for hour := range values[day] {
			if a.Plan.Metrics[0] == "ratePer100GpuHours" {
				rates.count(&sums[day][hour])
			} else if !seen[day][hour] {
				values[day][hour] = math.NaN()
			}
		}
	}
	rates.tell(a.About)
	return frames.HeatMap(a.Plan, a.About, values), ctx.Err()
}
