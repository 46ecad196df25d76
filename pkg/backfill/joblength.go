package backfill

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"gonum.org/v1/gonum/stat"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/survival"
	"github.com/chtc/gpureports/pkg/timeline"
)

// This file answers how long a backfill job may be and how often it should save its state (methodology section 15).

// residual is the rest of a tenure from the start of a backfill run onward.
type residual struct {
	place timeline.Place
	item  survival.Item
	peak  float32 // the most GPU memory of the run in MiB; negative: it is not known
}

// holding returns the one of a machine's tenures that holds a GPU at a time, nil without.
func holding(tenures []*Period, gpu int32, at pool.Micros) *Period {
	i := sort.Search(len(tenures), func(i int) bool {
		p := tenures[i]
		return p.gpu > gpu || p.gpu == gpu && p.Start > at
	}) - 1
	if i < 0 || tenures[i].gpu != gpu || tenures[i].End < at {
		return nil
	}
	return tenures[i]
}

// follow follows the chosen backfill runs from their start to the end of the tenure that they began in.
func (a *answer) follow(machines []found, chosen func(int, *runs.Explained) bool) {
	o, w := a.Observed, a.Plan.Window
	since := o.Since(w)
	// Follow the runs that snapshots show, then the others, to the end of their tenure.
	for m := range machines {
		add := func(e *runs.Explained, at pool.Micros) {
			p := holding(machines[m].tenures, e.Leader, at)
			if p == nil { // an unseen run cut it
				p = holding(machines[m].tenures, e.Leader, e.Start)
			}
			if p == nil || !a.passes(e.Place, e.Project) || e.Start > w.To || p.End < w.From {
				return
			}
			item := survival.Item{Entry: max(0, w.From-e.Start), Exit: p.End - e.Start, Fate: survival.Event}
			if p.Censored() {
				item.Fate = survival.Censored
			}
			if p.End > w.To {
				item.Exit, item.Fate = w.To-e.Start, survival.Censored
			}
			a.residualRuns = append(a.residualRuns, residual{e.Place, item, e.PeakMiB})
		}
		of := &a.History.Machines[m]
		for i := range of.Runs {
			e := of.Runs[i].From(o, since)
			switch {
			case e.Side != pool.Backfill || !chosen(m, e) || !o.StartKnown(since, m, e):
			case e.Last < e.First: // between two starts, and no snapshot shows it
				add(e, e.Start)
			default:
				add(e, o.View.Times[e.First])
			}
		}
		for i := range of.Unseen {
			if e := &of.Unseen[i]; e.Side == pool.Backfill {
				add(e, e.Start)
			}
		}
	}
	a.About.Stat("Runs", "short", float64(len(a.residualRuns)))
}

func hoursOf(hours float64) pool.Micros { return pool.Micros(math.Round(hours * float64(pool.Hour))) }

// job is a job of some hours, with the known runs of a group.
type job struct {
	hours    float64
	saves    []float64   // hours between the last checkpoint of evicted runs and their ends
	overhead pool.Micros // what a checkpoint costs
	items    []survival.Item
	curve    survival.Curve
	peaks    []float64 // the most GPU memory in MiB of each run, if it is known
}

// point is the curve's at the job's length; ok is false if there are too few runs to tell.
func (j *job) point() (at survival.Point, ok bool) {
	length := hoursOf(j.hours)
	return j.curve.At(length), survival.AtRisk(j.items, length) >= survival.MinAtRisk
}

// finishes is the share of jobs of this length that finish, or its bound, in percent; NaN if too few runs tell.
func finishes(share func(survival.Point) float64) func(*job) float64 {
	return func(j *job) float64 {
		at, ok := j.point()
		if !ok {
			return math.NaN()
		}
		return 100 * share(at)
	}
}

// gpuHours are the expected hours of a job that begins again when it is evicted; NaN if none finishes.
func (j *job) gpuHours() float64 {
	at, ok := j.point()
	if !ok || at.Survival <= 0 {
		return math.NaN()
	}
	return j.curve.Area(hoursOf(j.hours)) / at.Survival
}

// checkpoints returns the interval of checkpoints with the lowest cost, the smallest, and the cost; NaN: too few runs.
func (j *job) checkpoints() (interval, cost float64) {
	const rounding = 1e-12
	interval, cost = math.NaN(), math.NaN()
	for _, every := range []float64{0.25, 0.5, 1, 2, 3, 4, 6, j.hours} {
		age := hoursOf(every) + j.overhead
		if every > j.hours || survival.AtRisk(j.items, age) < survival.MinAtRisk {
			continue
		}
		s := j.curve.At(age).Survival
		if s <= 0 {
			continue
		}
		next := math.Ceil(j.hours/every-1e-9) * j.curve.Area(age) / s
		if math.IsNaN(cost) || next < cost*(1-rounding) || next <= cost*(1+rounding) && every < interval {
			interval, cost = every, next
		}
	}
	return interval, cost
}

// usedInterval is the interval of checkpoints that jobs use: an eviction strikes a regular schedule at an age that is
// uniform in it. NaN if too few evicted runs have saved.
func (j *job) usedInterval() float64 {
	if len(j.saves) < survival.MinAtRisk {
		return math.NaN()
	}
	return 2 * stat.Mean(j.saves, nil)
}

// addSaves adds the hours between last checkpoint and end of the window's evicted runs whose jobs had saved, by group.
func (a *answer) addSaves(keys *pool.Numbered[aggregate.Key], groups []job) {
	w := a.Plan.Window
	for m := range a.History.Machines {
		of := &a.History.Machines[m]
		for _, list := range [][]runs.Explained{of.Runs, of.Unseen} {
			for i := range list {
				e := &list[i]
				if e.Side == pool.Backfill && e.Outcome == runs.Evicted && e.SavedUntil > e.Start &&
					w.Contains(e.End) && a.passes(e.Place, e.Project) {
					if n, known := keys.Find(aggregate.KeyOf(e.Place).Within(a.by)); known {
						groups[n].saves = append(groups[n].saves, pool.Hours(e.End-e.SavedUntil))
					}
				}
			}
		}
	}
}

// jobRow is a job of some hours in a group.
type jobRow struct {
	group []string
	job
}

// jobsOf returns the jobs of these hours in each group, by group, the shortest first.
func (a *answer) jobsOf(hours []float64) (rows frames.Rows[jobRow]) {
	var keys pool.Numbered[aggregate.Key]
	var groups []job
	for _, r := range a.residualRuns {
		n := int(keys.Number(aggregate.KeyOf(r.place).Within(a.by)))
		if n == len(groups) {
			groups = append(groups, job{})
		}
		of := &groups[n]
		if of.items = append(of.items, r.item); r.peak >= 0 {
			of.peaks = append(of.peaks, float64(r.peak))
		}
	}
	a.addSaves(&keys, groups)
	overhead := pool.Micros(a.Plan.Overhead * float64(pool.Minute))
	for n, of := range groups {
		of.overhead, of.curve = overhead, survival.Cohort(of.items).KaplanMeier()
		for _, h := range hours {
			of.hours = h
			rows = append(rows, &jobRow{keys.All[n].Texts(a.Plan, a.Plan.GroupBy, a.Names), of})
		}
	}
	slices.SortFunc(rows, func(x, y *jobRow) int {
		return cmp.Or(query.CompareGroups(a.Plan.GroupBy, x.group, y.group), cmp.Compare(x.hours, y.hours))
	})
	return rows
}

// jobTable lists jobs: their groups, and these columns.
func (a *answer) jobTable(rows []*jobRow, columns ...*data.Field) data.Frames {
	groups := frames.GroupColumns(a.Plan, frames.Each(rows, func(r *jobRow) []string { return r.group }))
	return frames.List(a.Plan, a.About, append(groups, columns...)...)
}

func (a *answer) jobLength(context.Context) (data.Frames, error) {
	rows := a.jobsOf(a.Plan.JobHours)
	columns := []*data.Field{rows.Number("jobHours", func(r *jobRow) float64 { return r.hours })}
	figures := lengthMetrics.Functions(a.Plan.Metrics)
	for i, name := range a.Plan.Metrics {
		columns = append(columns, rows.Number(name, func(r *jobRow) float64 { return figures[i](&r.job) }))
	}
	return a.jobTable(rows, columns...), nil
}

// advice says in a sentence for each group and job length how long a job can be (methodology section 15, advice).
func (a *answer) advice(context.Context) (data.Frames, error) {
	rows := a.jobsOf(a.Plan.JobHours)
	return a.jobTable(rows,
		rows.Number("jobHours", func(r *jobRow) float64 { return r.hours }),
		rows.Text("advice", func(r *jobRow) string { return r.advice() + r.memoryAdvice() }),
		rows.Number("runs", func(r *jobRow) float64 { return float64(len(r.items)) })), nil
}

func (j *job) advice() string {
	age, falls := j.curve.FirstBelow(0.9)
	if !falls {
		age = j.longestAge()
	}
	if age == 0 || survival.AtRisk(j.items, age) < survival.MinAtRisk {
		return fmt.Sprintf("Too few runs to tell: %d", len(j.items))
	}
	longest := pool.Hours(age)
	text := "90% of jobs up to " + frames.Duration(longest) + " finish"
	if !falls {
		text = "At least " + text
	}
	switch every, _ := j.checkpoints(); {
	case math.IsNaN(every) || longest >= j.hours:
		return text
	case every < j.hours:
		text += fmt.Sprintf("; jobs of %s should checkpoint every %s", frames.Duration(j.hours), frames.Duration(every))
	default:
		text += "; checkpoints do not pay for jobs of " + frames.Duration(j.hours)
	}
	if used := j.usedInterval(); !math.IsNaN(used) {
		text += " (those that do: every " + frames.Duration(used) + ")"
	}
	return text
}

// memoryAdvice says the smallest class of GPU memory that most of the runs with a known peak would have fitted, "" if
// they are too few or need more than the largest one (methodology section 20).
func (j *job) memoryAdvice() string {
	if len(j.peaks) < survival.MinAtRisk {
		return ""
	}
	median := slices.Sorted(slices.Values(j.peaks))[len(j.peaks)/2] // more than half need no more
	class, bounded := strings.CutPrefix(query.UsedMemories[query.UsedMemory(median)], "≤ ")
	if !bounded {
		return ""
	}
	return "; most would have fitted " + class + " of GPU memory"
}

// longestAge is the longest age at which enough items are at risk; 0 without.
func (j *job) longestAge() pool.Micros {
	byExit := slices.SortedFunc(slices.Values(j.items), func(a, b survival.Item) int {
		return cmp.Compare(b.Exit, a.Exit)
	})
	for i := survival.MinAtRisk - 1; i < len(byExit); i++ {
		if age := byExit[i].Exit; survival.AtRisk(j.items, age) >= survival.MinAtRisk {
			return age
		}
	}
	return 0
}
