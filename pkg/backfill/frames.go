package backfill

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/survival"
)

// answer builds one answer's frames.
type answer struct {
	plan       *query.Plan
	about      *frames.About
	observed   *runs.Observed
	names      []string
	slices     []pool.Micros // beginnings of the window's slices
	chosen     *runs.Chosen
	first, end int               // the window's snapshots
	periods    [measures]*chosen // by measure; nil: not asked for
	explained  *runs.Explanations
	order      []int32 // of the view periods: the known ones by their end

	// Of the views that show states of GPUs beside periods: the window's buckets, and the states by group and bucket.
	buckets  query.Buckets
	calendar *calendar // nil in other views
	states   map[group]*occupancy

	cells map[group]*cells // of the view summary, with total
	total cells

	residualRuns []residual // of the view jobLength
}

func (a *answer) frames(ctx context.Context) (data.Frames, error) {
	switch a.plan.View {
	case "summary":
		return a.summary(), nil
	case "timeseries":
		return a.timeseries()
	case "periods":
		return a.list(), nil
	case "transitions":
		return a.transitions(ctx)
	case "survival":
		return a.survival(), nil
	case "jobLength":
		return a.jobLength(), nil
	}
	return a.hourOfWeek(ctx)
}

// divide divides the window's snapshots into buckets, for the views that show states of GPUs beside periods: the
// summary has one over all of them.
func (a *answer) divide() (err error) {
	w := a.plan.Window
	switch a.plan.View {
	case "summary":
		a.buckets.Starts = []pool.Micros{w.From, w.To + 1}
	case "timeseries":
		if a.buckets, err = a.plan.Buckets(w.From); err != nil {
			return err
		}
	default:
		return nil
	}
	a.calendar = newCalendar(a.observed.View.Times, a.first, a.end, a.buckets)
	return nil
}

var ofCurves = map[string]measure{"kmMedianHours": vacancy, "restrictedMeanHours": vacancy, "hours90": tenure,
	"hours75": tenure, "hours50": tenure}

// cells are a group's figures of the summary.
type cells struct {
	counts [runs.States]int64
	of     [measures]statistics // by measure
}

// addUp adds up the periods of each group.
func (a *answer) addUp(ctx context.Context) error {
	a.cells = map[group]*cells{}
	tasks, _ := parallel.WithContext(ctx)
	for m, chosen := range a.periods {
		var of []*statistics // by group
		for _, key := range chosen.groups.keys.All {
			of = append(of, &a.cellsOf(key).of[m])
		}
		tasks.Go(func() error {
			chosen.addUp(a.plan.Window, measure(m), of, &a.total.of[m])
			if a.wantsCurves(measure(m)) {
				for _, s := range append(of, &a.total.of[m]) {
					s.curve = s.cohort.Summary(levels)
				}
			}
			return nil
		})
	}
	return tasks.Wait()
}

func (a *answer) cellsOf(k group) *cells {
	if a.cells[k] == nil {
		a.cells[k] = &cells{}
	}
	return a.cells[k]
}

func (a *answer) summary() data.Frames {
	g := grouping{a.plan.GroupBy, a.names, a.plan.Shown}
	for k, o := range a.states {
		a.cellsOf(k).counts = o.counts[0]
		for s, n := range o.counts[0] {
			a.total.counts[s] += n
		}
	}
	var rows []frames.Row
	for k, c := range a.cells {
		rows = append(rows, frames.Row{Group: g.texts(k), Values: a.values(c)})
	}
	return frames.Table(a.plan, a.about, rows, frames.Total{Name: "All", Values: a.values(&a.total)})
}

// wantsCurves reports whether a metric is read off the curve of a measure.
func (a *answer) wantsCurves(m measure) bool {
	return slices.ContainsFunc(a.plan.Metrics, func(name string) bool {
		of, fromCurve := ofCurves[name]
		return fromCurve && of == m
	})
}

func (a *answer) values(c *cells) []float64 {
	values := make([]float64, len(a.plan.Metrics))
	for i, name := range a.plan.Metrics {
		m, fromCurve := ofCurves[name]
		switch {
		case fromCurve:
			values[i] = c.of[m].ofCurve(name)
		case slices.Contains([]string{"available", "used", "taken", "usedPercent"}, name):
			values[i] = ofOccupancy(name, c.counts, a.end-a.first)
		default:
			values[i] = c.of[vacancy].metric(name)
		}
	}
	return values
}

// list shows the periods, newest first.
func (a *answer) list() data.Frames {
	chosen, shown := a.periods[a.measure()], 0
	for _, n := range chosen.total() {
		shown += n
	}
	periods := chosen.newest(a.order, frames.Shown(a.plan, a.about, shown))
	return frames.Columns(a.plan, a.about,
		frames.Text("machine", frames.Each(periods, func(p *Period) string { return a.names[p.Place.Machine] })),
		frames.Text("gpu", frames.Each(periods, func(p *Period) string { return a.names[p.id(a.observed)] })),
		frames.Text("device", frames.Each(periods, func(p *Period) string {
			return a.plan.Shown("device", a.names[p.Place.Device])
		})),
		frames.Text("category", frames.Each(periods, func(p *Period) string { return p.Place.Category().String() })),
		frames.Time("start", frames.Each(periods, func(p *Period) pool.Micros { return p.Start })),
		frames.Time("end", frames.Each(periods, func(p *Period) pool.Micros { return p.End })),
		frames.Number("hours", frames.Each(periods, func(p *Period) float64 { return pool.Hours(p.Length()) })),
		frames.Text("endReason", frames.Each(periods, func(p *Period) string { return p.Reason.String() })),
		frames.Bool("censored", frames.Each(periods, (*Period).Censored)),
		frames.Bool("leftTruncated", frames.Each(periods, func(p *Period) bool { return p.Beginning == LeftTruncated })),
		frames.Bool("unknownStart", frames.Each(periods, func(p *Period) bool { return p.Beginning == UnknownStart })),
		frames.Text("job", frames.Each(periods, func(p *Period) string {
			job := p.job(a.observed, a.explained)
			if job.IsNone() {
				return ""
			}
			return a.plan.Shown("job", a.observed.View.Names.JobText(job))
		})),
		frames.Text("link", frames.Each(periods, func(p *Period) string { return p.Link.String() })))
}

// transitions counts changes of state, by group, then from and to in the order of states.
func (a *answer) transitions(ctx context.Context) (data.Frames, error) {
	g := grouping{a.plan.GroupBy, a.names, a.plan.Shown}
	type row struct {
		group    []string
		from, to runs.State
		count    int
	}
	counted, err := transitions(ctx, a.observed, a.first, a.end, &g, a.chosen)
	if err != nil {
		return nil, err
	}
	rows := make([]row, 0, len(counted))
	for t, n := range counted {
		rows = append(rows, row{g.texts(t.group), t.from, t.to, n})
	}
	slices.SortFunc(rows, func(x, y row) int {
		return cmp.Or(query.CompareGroups(g.by, x.group, y.group), cmp.Compare(order(x.from), order(y.from)),
			cmp.Compare(order(x.to), order(y.to)))
	})
	var fields []*data.Field
	texts := func(name string, of func(*row) string) {
		values := make([]string, len(rows))
		for i := range rows {
			values[i] = of(&rows[i])
		}
		fields = append(fields, frames.Text(name, values))
	}
	for i, name := range g.by {
		texts(name, func(r *row) string { return r.group[i] })
	}
	texts("from", func(r *row) string { return r.from.String() })
	texts("to", func(r *row) string { return r.to.String() })
	counts := make([]int64, len(rows))
	for i := range rows {
		counts[i] = int64(rows[i].count)
	}
	count := frames.Numbers("count", counts)
	count.Config.DisplayNameFromDS, count.Config.Description = "Changes", "Changes of state from one snapshot to the next"
	return frames.List(a.plan, a.about, append(fields, count)...), nil
}

// order is the order of states in the design: available, used, taken, blocked, absent.
func order(s runs.State) int {
	return slices.Index([]runs.State{runs.Available, runs.Used, runs.Taken, runs.Blocked, runs.Absent}, s)
}

func (a *answer) survival() data.Frames {
	g := grouping{a.plan.GroupBy, a.names, a.plan.Shown}
	chosen := a.periods[a.measure()]
	lives := make([]frames.Lives, len(chosen.groups.keys.All))
	for k, key := range chosen.groups.keys.All {
		lives[k] = frames.Lives{Group: g.texts(key), Items: &survival.Cohort{}}
		lives[k].Items.Grow(chosen.fates[k][complete] + chosen.fates[k][censored])
	}
	chosen.byLength(a.plan.Window, func(group int32, it survival.Item) { lives[group].Items.Add(it) })
	return frames.Curves(a.plan, a.about, a.plan.Duration, "GPUs", lives, (*survival.Cohort).KaplanMeier)
}

// ended counts the complete periods that end in a bucket.
type ended struct {
	count int
	hours float64
}

func (a *answer) timeseries() (data.Frames, error) {
	p, buckets, times, states := a.plan, a.buckets, a.observed.View.Times, a.states
	g := grouping{p.GroupBy, a.names, p.Shown}
	ends, err := a.endsBy(buckets, len(states))
	if err != nil {
		return nil, err
	}
	for k := range ends {
		if states[k] == nil {
			states[k] = newOccupancy(buckets.Len())
		}
	}
	var series []frames.Series
	for k, o := range states {
		for _, metric := range p.Metrics {
			s := frames.Series{Group: g.texts(k), Metric: metric}
			for b := range buckets.Len() {
				var e ended
				if ends[k] != nil {
					e = ends[k][b]
				}
				n := a.calendar.snapshots(b)
				if n == 0 && e.count == 0 || !p.Keep(buckets, b, times[len(times)-1]) {
					continue
				}
				s.Times = append(s.Times, a.point(buckets, b))
				s.Values = append(s.Values, e.metric(metric, o.counts[b], n))
			}
			series = append(series, s)
		}
	}
	return frames.TimeSeries(p, a.about, series), nil
}

// endsBy counts the complete vacancies of each group by the bucket in which they end; others are the groups that the
// answer holds besides.
func (a *answer) endsBy(buckets query.Buckets, others int) (map[group][]ended, error) {
	chosen := a.periods[vacancy]
	if err := query.Hold(others+len(chosen.groups.keys.All), buckets.Len()); err != nil {
		return nil, err
	}
	of := make([][]ended, len(chosen.groups.keys.All))
	ends := make(map[group][]ended, len(of))
	for k, key := range chosen.groups.keys.All {
		of[k] = make([]ended, buckets.Len())
		ends[key] = of[k]
	}
	at := 0 // the bucket of the period before: those of a GPU come in order
	chosen.each(func(group int32, r *row) {
		if r.fate != complete {
			return
		}
		if r.end < buckets.Starts[at] || r.end >= buckets.Starts[at+1] {
			at = buckets.Of(r.end)
		}
		of[group][at].count++
		of[group][at].hours += pool.Hours(r.end - r.start)
	})
	return ends, nil
}

// metric is a bucket's figure, of the vacancies that end in it or of the states in its snapshots.
func (e ended) metric(name string, counts [runs.States]int64, snapshots int) float64 {
	switch name {
	case "ended":
		return float64(e.count)
	case "meanHours":
		return e.hours / float64(e.count) // NaN without one: no point
	}
	return ofOccupancy(name, counts, snapshots)
}

// point is the time of a bucket's point: its beginning; of the whole window its newest slice's beginning.
func (a *answer) point(buckets query.Buckets, b int) pool.Micros {
	if buckets.Whole && len(a.slices) > 0 {
		return a.slices[len(a.slices)-1]
	}
	return buckets.Starts[b]
}

// hourOfWeek averages over the window by local weekday and hour.
func (a *answer) hourOfWeek(ctx context.Context) (data.Frames, error) {
	hours, cells, err := a.plan.Hours()
	if err != nil {
		return nil, err
	}
	calendar := newCalendar(a.observed.View.Times, a.first, a.end, hours)
	var counts [7][24][runs.States]int64
	var snapshots [7][24]int
	for b, at := range cells {
		snapshots[at[0]][at[1]] += calendar.snapshots(b)
	}
	states, err := occupy(ctx, a.observed, calendar, hours.Len(), &grouping{}, a.chosen)
	if err != nil || len(states) == 0 {
		return a.about.Finish(nil), err
	}
	for _, o := range states {
		for b, at := range cells {
			for s, n := range o.counts[b] {
				counts[at[0]][at[1]][s] += n
			}
		}
	}
	var week frames.Week
	for day := range week {
		for hour := range week[day] {
			week[day][hour] = math.NaN()
			if snapshots[day][hour] > 0 {
				week[day][hour] = ofOccupancy(a.plan.Metrics[0], counts[day][hour], snapshots[day][hour])
			}
		}
	}
	return frames.HeatMap(a.plan, a.about, &week), nil
}
