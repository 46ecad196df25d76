package accuracy

import (
	"cmp"
	"context"
	"time"

	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/survival"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Usage is how close the kind utilization comes to what runs really did (methodology section 13): of runs on both sides
// that began and ended in the window.
type Usage struct {
	Utilization Spread // points between reported and true utilization of runs with one measured GPU-hour or more
	IdleMinutes Spread // minutes between reported and true idle time of runs that have any, reported or true
	LongIdle    int    // runs that were idle for 2 h or more
	LongTold    int    // runs that are reported to be
	LongRight   int    // both
}

// longIdle is the idle time from which a run deserves attention.
const longIdle = 2 * time.Hour

// Precision is the share of the runs reported to be idle for 2 h or more that were.
func (u *Usage) Precision() float64 { return Share{u.LongRight, u.LongTold}.Of() }

// Recall is the share of the runs idle for 2 h or more that are reported to be.
func (u *Usage) Recall() float64 { return Share{u.LongRight, u.LongIdle}.Of() }

func (u *Usage) finish() {
	u.Utilization.finish()
	u.IdleMinutes.finish()
}

// judge fails figures that are not reached: with job ads.
func (u *Usage) judge(cadence time.Duration, fail func(what string, is, must float64, bad bool)) {
	minutes, recall := 20.0, 0.90
	if cadence <= 5*time.Minute {
		minutes, recall = 5, 0.95
	}
	const points, precision = 0.5, 0.98
	fail("median error of utilization in points", u.Utilization.Median, points, !(u.Utilization.Median <= points))
	fail("median error of a run's idle time in minutes", u.IdleMinutes.Median, minutes, !(u.IdleMinutes.Median <= minutes))
	fail("precision of idle for 2 h or more", u.Precision(), precision, !(u.Precision() >= precision))
	fail("recall of idle for 2 h or more", u.Recall(), recall, !(u.Recall() >= recall))
}

// measureUsage queries the usage of runs and compares it with the true one.
func (p *opened) measureUsage(ctx context.Context, source jobs.Source, truth *samplepool.Truth, u *Usage) {
	byPlace := map[string][]*samplepool.Run{} // by job and machine
	for i := range truth.Runs {
		if r := &truth.Runs[i]; !r.Excluded && p.inside(r.Start) && p.inside(r.End) && r.Reason != samplepool.Running {
			byPlace[r.Job+" "+r.Machine] = append(byPlace[r.Job+" "+r.Machine], r)
		}
	}
	for _, row := range p.ask(ctx, source, p.window, `{"queryType": "utilization", "view": "runs", "limit": 50000}`) {
		start, end := row["start"].(time.Time), row["end"].(time.Time)
		if run := nearestRun(byPlace[row["job"].(string)+" "+row["machine"].(string)], start, end); run != nil {
			percent, measured := row["utilizationPercent"].(float64)
			idle, _ := row["idleHours"].(float64)
			u.compare(run, percent, measured, time.Duration(idle*float64(time.Hour)))
		}
	}
}

// nearestRun returns the true run that has most time in common with a reported one, nil without any.
func nearestRun(all []*samplepool.Run, start, end time.Time) (best *samplepool.Run) {
	most := time.Duration(0)
	for _, r := range all {
		from, to := r.Start, r.End
		if start.After(from) {
			from = start
		}
		if end.Before(to) {
			to = end
		}
		if common := to.Sub(from); common > most {
			best, most = r, common
		}
	}
	return best
}

// compare adds the reported usage of one run.
func (u *Usage) compare(run *samplepool.Run, percent float64, measured bool, told time.Duration) {
	if measured {
		whole := run.End.Sub(run.Start).Seconds() * float64(len(run.GPUs))
		u.Utilization.add(percent - 100*run.Busy.Seconds()/whole)
	}
	var idle time.Duration
	for _, s := range run.Idle {
		idle += s[1].Sub(s[0])
	}
	if idle > 0 || told > 0 {
		u.IdleMinutes.add((told - idle).Minutes())
	}
	if idle >= longIdle {
		u.LongIdle++
	}
	if told >= longIdle {
		u.LongTold++
	}
	if idle >= longIdle && told >= longIdle {
		u.LongRight++
	}
}

// Cost compares the reported cost of evictions with the true one (methodology sections 8 and 15).
type Cost struct {
	Lost, Evicted hoursOf // GPU-hours of evicted runs since the last checkpoint, and whole
	Interval      Spread  // percent between the reported interval of checkpoints and the true one of a pool
}

// hoursOf holds reported and true hours.
type hoursOf struct{ told, really float64 }

// Error is reported − true, in percent of the true ones.
func (h hoursOf) Error() float64 { return 100 * (h.told - h.really) / h.really }

// judge fails figures that are not reached: with epoch ads, which say when jobs saved.
func (c *Cost) judge(kind string, fail func(what string, is, must float64, bad bool)) {
	most := 2.0
	if kind == clocksOff {
		most = 3
	}
	for what, is := range map[string]float64{"lost GPU-hours": c.Lost.Error(), "evicted GPU-hours": c.Evicted.Error()} {
		fail("error of "+what+" in percent", is, most, !(is >= -most && is <= most))
	}
	fail("median error of the interval of checkpoints in percent", c.Interval.Median, most, !(c.Interval.Median <= most))
}

// measureCost queries the cost of evictions and compares it with the true one.
func (p *opened) measureCost(ctx context.Context, source jobs.Source, truly []reality, c *Cost) {
	saves, ages := 0, 0.0
	for i := range truly {
		r := &truly[i]
		if !r.evicted() || !p.inside(r.End) {
			continue
		}
		saved := r.Start
		if !r.SavedUntil.IsZero() {
			saved = r.SavedUntil
			saves++
			ages += r.End.Sub(saved).Hours()
		}
		hours := func(since int64) float64 {
			return pool.Hours(r.End.UnixMicro()-max(since, p.window.From)) * float64(len(r.GPUs))
		}
		c.Lost.really += hours(saved.UnixMicro())
		c.Evicted.really += hours(r.Start.UnixMicro())
	}
	for _, row := range p.ask(ctx, source, p.window, `{"queryType": "evictions", "view": "summary", "groupBy": [],
		"metrics": ["lostGpuHours", "evictedGpuHours"], "totals": false}`) {
		lost, _ := row["lostGpuHours"].(float64)
		evicted, _ := row["evictedGpuHours"].(float64)
		c.Lost.told, c.Evicted.told = c.Lost.told+lost, c.Evicted.told+evicted
	}
	for _, row := range p.ask(ctx, source, p.window, `{"queryType": "backfillAvailability", "view": "jobLength",
		"groupBy": [], "jobHours": [1], "metrics": ["usedCheckpointHours"]}`) {
		if told, ok := row["usedCheckpointHours"].(float64); ok && saves > 0 {
			really := 2 * ages / float64(saves)
			c.Interval.add(100 * (told - really) / really)
		}
	}
}

// Demand is how close the kind demand comes to what jobs really waited (methodology section 14), at polled access
// points.
type Demand struct {
	Seen     int    // waits that a poll saw and that ended in the window
	Right    int    // of those, reported with their outcome, starts within one poll distance
	Starts   int    // reported
	NeverWas int    // of those, without a run that began within one poll distance
	Median   Spread // hours between reported and true median wait, one pool each

	really Spread        // the true medians
	Polls  time.Duration // between polls
}

// OutcomesRight is the share of the waits that a poll saw whose outcome is reported.
func (d *Demand) OutcomesRight() float64 { return Share{d.Right, d.Seen}.Of() }

func (d *Demand) finish() {
	d.Median.finish()
	d.really.finish()
}

// measureDemand asks how long jobs waited and compares it with how long they really did.
func (p *opened) measureDemand(ctx context.Context, source jobs.Source, truth *samplepool.Truth, d *Demand) {
	with := *p.stores
	with.Ads = source
	plan := &query.Plan{Window: p.window, Env: p.env}
	waits, polls, err := demand.WaitsOf(ctx, &with, plan)
	if err != nil {
		p.err = cmp.Or(p.err, err)
		return
	}
	d.Polls = p.polls
	items := d.Compare(waits, p.stores.Timeline.Names.JobText, polls.Times, truth, p.window)
	really, known := survival.Cohort(items).KaplanMeier().AtMost(0.5)
	all := make([]*demand.Wait, len(waits))
	for i := range waits {
		all[i] = &waits[i]
	}
	found, drawn := demand.CohortOf(all, p.window).KaplanMeier().AtMost(0.5)
	if known && drawn {
		d.Median.add(pool.Hours(found - really))
		d.really.add(pool.Hours(really))
	}
}

// Compare counts, of the waits of a window, those that a poll saw and those of them whose outcome is right, the starts
// that are reported and those of them that never were. It returns the true waits as a survival curve takes them.
func (d *Demand) Compare(waits []demand.Wait, textOf func(timeline.Job) string, polls []pool.Micros,
	truth *samplepool.Truth, w pool.Window) []survival.Item {
	found := map[string][]*demand.Wait{}
	for i := range waits {
		job := textOf(waits[i].Job)
		found[job] = append(found[job], &waits[i])
	}
	d.compareStarts(found, truth, w)
	return d.compareWaits(found, polls, truth, w)
}

func (d *Demand) compareWaits(found map[string][]*demand.Wait, polls []pool.Micros, truth *samplepool.Truth,
	w pool.Window) (items []survival.Item) {
	for _, i := range truth.Queues {
		begin, end := i.Begin.UnixMicro(), i.End.UnixMicro()
		if !i.Polled || end < w.From || begin > w.To {
			continue
		}
		fate := survival.Censored
		if i.How == samplepool.IdleStarted && end <= w.To {
			fate = survival.Event
		}
		items = append(items, survival.Item{Entry: max(0, w.From-begin), Exit: min(end, w.To) - begin, Fate: fate})
		for _, poll := range polls {
			if begin <= poll && poll < end && w.Contains(end) {
				d.Seen++
				if isRight(found[i.Job], poll, end, i.How == samplepool.IdleStarted, d.Polls.Microseconds()) {
					d.Right++
				}
				break
			}
		}
	}
	return items
}

// isRight reports whether the wait that a poll saw has its outcome, and a start at about its time.
func isRight(list []*demand.Wait, poll, end pool.Micros, started bool, near pool.Micros) bool {
	for _, w := range list {
		if w.First <= poll && poll <= w.Last {
			if started {
				return w.Outcome == demand.Started && max(w.End-end, end-w.End) <= near
			}
			return w.Outcome == demand.Left
		}
	}
	return false
}

func (d *Demand) compareStarts(found map[string][]*demand.Wait, truth *samplepool.Truth, w pool.Window) {
	starts := map[string][]pool.Micros{}
	for i := range truth.Runs {
		starts[truth.Runs[i].Job] = append(starts[truth.Runs[i].Job], truth.Runs[i].Start.UnixMicro())
	}
	for job, list := range found {
		for _, one := range list {
			if one.Outcome != demand.Started || !w.Contains(one.End) {
				continue
			}
			d.Starts++
			was := false
			for _, start := range starts[job] {
				was = was || max(start-one.End, one.End-start) <= d.Polls.Microseconds()
			}
			if !was {
				d.NeverWas++
			}
		}
	}
}

// judge fails figures that are not reached.
func (d *Demand) judge(kind, source string, fail func(what string, is, must float64, bad bool)) {
	outcomes := 0.95
	if kind == hard && source != epochAds {
		outcomes = 0.92 // one run in seven begins and ends between two snapshots there: only its epoch ad shows it
	}
	fail("outcomes of waits that are right", d.OutcomesRight(), outcomes, !(d.OutcomesRight() >= outcomes))
	fail("starts that never were", float64(d.NeverWas), 0, d.NeverWas > 0)
	hours := max(0.1*d.really.Median, d.Polls.Hours())
	fail("median error of the median wait in hours", d.Median.Median, hours, !(d.Median.Median <= hours))
}
