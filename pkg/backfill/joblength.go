package backfill

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/survival"
)

// This file answers how long a backfill job may be and how often it should save its state (methodology section 15).

// residual is what was left of a tenure when a backfill run began.
type residual struct {
	place runs.Place
	item  survival.Item
}

// gpuTenures are the tenures of each GPU, by machine and GPU, in order, before they are cut to the window.
type gpuTenures map[[2]int32][]Period

// add adds a GPU's next one; nil takes none.
func (t gpuTenures) add(p *Period) {
	if t != nil {
		at := [2]int32{p.machine, p.gpu}
		t[at] = append(t[at], *p)
	}
}

// holding returns the tenure that holds a GPU at a time, nil without.
func (t gpuTenures) holding(machine, gpu int32, at pool.Micros) *Period {
	all := t[[2]int32{machine, gpu}]
	i := sort.Search(len(all), func(i int) bool { return all[i].Start > at }) - 1
	if i < 0 || all[i].End < at {
		return nil
	}
	return &all[i]
}

// follow finds what was left of the tenures in which backfill runs began.
func (a *answer) follow(of *runs.Known, tenures *known, whole gpuTenures) {
	marked := make([][]bool, len(a.observed.Machines))
	a.mark(tenures.seen, marked)
	a.markStarts(tenures.seen, marked)
	x := of.Explanations
	bounding := x.Choose(func(m, r int) bool { return marked[m] != nil && marked[m][r] })
	if of.Sharp {
		a.tellLinks(linked.ShareOf(x, a.plan.Now, bounding))
	}
	a.residualRuns = a.residuals(x, whole, bounding)
	a.about.Stat("Runs", "short", float64(len(a.residualRuns)))
}

// mark marks the runs that bound periods which reach the window, by machine.
func (a *answer) mark(seen []bounds, marked [][]bool) {
	o := a.observed
	since := o.Since(a.plan.Window)
	for i := range seen {
		b := seen[i]
		if b.from(since); !b.reaches(o, a.plan.Window) {
			continue
		}
		for _, r := range [2]int32{b.startRun, b.endRun} {
			if r >= 0 {
				a.markRun(marked, int(b.machine), int(r))
			}
		}
	}
}

func (a *answer) markRun(marked [][]bool, machine, run int) {
	if marked[machine] == nil {
		marked[machine] = make([]bool, a.observed.Machines[machine].Runs.Len())
	}
	marked[machine][run] = true
}

// markStarts marks the backfill runs that begin in a tenure which reaches the window, by machine.
func (a *answer) markStarts(tenures []bounds, marked [][]bool) {
	o := a.observed
	since := o.Since(a.plan.Window)
	of := map[[2]int32][]*bounds{}
	for i := range tenures {
		if b := &tenures[i]; b.reaches(o, a.plan.Window) {
			at := [2]int32{b.machine, b.gpu}
			of[at] = append(of[at], b)
		}
	}
	for m := range o.Machines {
		for r, run := range o.Machines[m].Runs.All() {
			if run.Side != pool.Backfill || run.Last < since {
				continue
			}
			all := of[[2]int32{int32(m), run.Leader}]
			i := sort.Search(len(all), func(i int) bool { return all[i].last >= run.First })
			if i < len(all) && all[i].first <= run.First {
				a.markRun(marked, m, r)
			}
		}
	}
}

// startKnown reports whether it is known when a run began: an ad says it, or the machine was seen without it right
// before, from a snapshot on.
func startKnown(o *runs.Observed, since int32, m int, e *runs.Explained) bool {
	before := e.First - 1
	return e.StartByAd || before >= since && !o.GapAfter(before) && o.Reports(&o.Machines[m], before)
}

// residuals follows the backfill runs from their start to the end of the tenure that they began in.
func (a *answer) residuals(x *runs.Explanations, tenures gpuTenures,
	chosen func(int, *runs.Explained) bool) (found []residual) {
	o, w := a.observed, a.plan.Window
	since := o.Since(w)
	for m := range x.Machines {
		add := func(e *runs.Explained, at pool.Micros) {
			p := tenures.holding(int32(m), e.Leader, at)
			if p == nil || !a.chosen.Place(e.Place) || !a.chosen.Project(e.Project) || e.Start > w.To || p.End < w.From {
				return
			}
			item := survival.Item{Entry: max(0, w.From-e.Start), Exit: p.End - e.Start, Fate: survival.Event}
			if p.Censored() {
				item.Fate = survival.Censored
			}
			if p.End > w.To {
				item.Exit, item.Fate = w.To-e.Start, survival.Censored
			}
			found = append(found, residual{e.Place, item})
		}
		for _, e := range x.Machines[m].Runs.All() {
			e = e.From(o, since)
			switch {
			case e.Side != pool.Backfill || !chosen(m, e) || !startKnown(o, since, m, e):
			case e.Last < e.First: // between two starts, and no snapshot shows it
				add(e, e.Start)
			default:
				add(e, o.View.Times[e.First])
			}
		}
		for i := range x.Machines[m].Unseen {
			if e := &x.Machines[m].Unseen[i]; e.Side == pool.Backfill {
				add(e, e.Start)
			}
		}
	}
	return found
}

// hoursOf turns hours into an age.
func hoursOf(hours float64) pool.Micros { return pool.Micros(math.Round(hours * float64(pool.Hour))) }

// firstBelow returns the first hours with a survival below p; NaN when there are none.
func firstBelow(c survival.Curve, p float64) float64 {
	age, ok := c.FirstBelow(p)
	if !ok {
		return math.NaN()
	}
	return pool.Hours(age)
}

// lengthMetric returns a metric of jobs of some hours; NaN where it has no value.
func lengthMetric(name string, hours float64, overhead pool.Micros, items []survival.Item, c survival.Curve) float64 {
	length := hoursOf(hours)
	switch name {
	case "longestHours90":
		return firstBelow(c, 0.9)
	case "longestHours75":
		return firstBelow(c, 0.75)
	case "longestHours50":
		return firstBelow(c, 0.5)
	case "bestCheckpointHours":
		interval, _ := bestCheckpoint(hours, overhead, items, c)
		return interval
	case "gpuHoursWithCheckpoints":
		_, cost := bestCheckpoint(hours, overhead, items, c)
		return cost
	}
	if survival.AtRisk(items, length) < survival.MinAtRisk {
		return math.NaN()
	}
	at := c.At(length)
	low, high := at.Interval()
	switch name {
	case "finishPercent":
		return 100 * at.Survival
	case "finishLow":
		return 100 * low
	case "finishHigh":
		return 100 * high
	case "gpuHoursPerJob":
		if at.Survival > 0 {
			return c.Area(length) / at.Survival
		}
	}
	return math.NaN()
}

// bestCheckpoint returns the interval with the lowest cost, of equal ones the smaller, and the cost; NaN where too few
// runs tell.
func bestCheckpoint(hours float64, overhead pool.Micros, items []survival.Item, c survival.Curve) (interval,
	cost float64) {
	const rounding = 1e-12
	interval, cost = math.NaN(), math.NaN()
	for _, every := range []float64{0.25, 0.5, 1, 2, 3, 4, 6, hours} {
		age := hoursOf(every) + overhead
		if every > hours || survival.AtRisk(items, age) < survival.MinAtRisk {
			continue
		}
		s := c.At(age).Survival
		if s <= 0 {
			continue
		}
		next := math.Ceil(hours/every-1e-9) * c.Area(age) / s
		if math.IsNaN(cost) || next < cost*(1-rounding) || next <= cost*(1+rounding) && every < interval {
			interval, cost = every, next
		}
	}
	return interval, cost
}

// jobLength tables the groups by job length.
func (a *answer) jobLength() data.Frames {
	g := grouping{a.plan.GroupBy, a.names, a.plan.Shown}
	groups := map[group][]survival.Item{}
	for _, r := range a.residualRuns {
		k := group{place: r.place.Within(g.by)}
		groups[k] = append(groups[k], r.item)
	}
	type row struct {
		group  []string
		hours  float64
		values []float64
	}
	overhead := pool.Micros(a.plan.Overhead * float64(pool.Minute))
	var rows []row
	for k, items := range groups {
		curve := survival.CohortOf(items).KaplanMeier()
		for _, hours := range a.plan.JobHours {
			values := make([]float64, len(a.plan.Metrics))
			for i, name := range a.plan.Metrics {
				values[i] = lengthMetric(name, hours, overhead, items, curve)
			}
			rows = append(rows, row{g.texts(k), hours, values})
		}
	}
	slices.SortFunc(rows, func(x, y row) int {
		return cmp.Or(query.CompareGroups(g.by, x.group, y.group), cmp.Compare(x.hours, y.hours))
	})
	column := func(of func(*row) float64) []float64 {
		values := make([]float64, len(rows))
		for i := range rows {
			values[i] = of(&rows[i])
		}
		return values
	}
	var fields []*data.Field
	for i, name := range g.by {
		texts := make([]string, len(rows))
		for n := range rows {
			texts[n] = rows[n].group[i]
		}
		fields = append(fields, frames.Text(name, texts))
	}
	fields = append(fields, frames.Number("jobHours", column(func(r *row) float64 { return r.hours })))
	for i, name := range a.plan.Metrics {
		fields = append(fields, frames.Number(name, column(func(r *row) float64 { return r.values[i] })))
	}
	return frames.List(a.plan, a.about, fields...)
}
