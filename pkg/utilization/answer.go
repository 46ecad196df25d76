// Package utilization answers what held GPUs do: queries of kind utilization (methodology section 13).
package utilization

import (
	"context"
	"math"
	"slices"
	"weak"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Answer answers a query. Without a job source (nil), or if it does not answer, only the snapshots give the starts and
// ends of runs, and a notice says so. Errors: pool.BadQuery, pool.SourceError when no snapshot can be read, ctx's.
func Answer(ctx context.Context, s *stores.Stores, p *query.Plan) (data.Frames, error) {
	a, err := load(ctx, s, p)
	if err != nil {
		return nil, err
	}
	return a.frames(), nil
}

// load finds the runs of a plan and what their GPUs did.
func load(ctx context.Context, s *stores.Stores, p *query.Plan) (a *answer, err error) {
	err = timeline.Retry(ctx, func(ctx context.Context) error {
		o, err := linked.Open(ctx, s, p, "runs start and end at snapshots, and the time before a run's first snapshot is "+
			"not measured")
		if err != nil {
			return err
		}
		a = &answer{Opening: o}
		newest, chosen := newest(o.Observed.View, p.Window), runs.Choose(linked.Filter(&p.Select), o.Observed.View)
		for r := range linked.RunsIn(o.Observed, o.Known.Explanations, p.Window) {
			if r.Unseen || !p.Select.Categories[r.Category] || !chosen.Place(r.Place) || !chosen.User(r.User) ||
				!chosen.Project(r.Project) {
				continue
			}
			if run := (&Run{Run: r, IdleSince: frames.NoTime}); p.View != "idle" || run.shownIn(newest) {
				a.runs = append(a.runs, run)
			}
		}
		switch p.Frame {
		case query.FrameSeries:
			a.buckets, err = p.Buckets(p.Window.From)
		case query.FrameHeatMap:
			a.buckets, a.cells, err = p.Hours()
		}
		if err != nil {
			return err
		}
		return a.read(ctx, s)
	})
	return a, err
}

// answer builds one answer's frames.
type answer struct {
	*linked.Opening
	runs []*Run // that overlap the window and pass the filter, by machine and first snapshot

	buckets query.Buckets // of a series or heat map
	cells   [][2]int      // of a heat map: weekday and hour of each bucket

	keys    pool.Numbered[aggregate.Key]
	figures Figures // groups by the number of their key
}

func (a *answer) frames() data.Frames {
	switch a.Plan.View {
	case "timeseries", "summary":
		return Frames(a.finish(), a.Plan, a.About)
	case "runs":
		return a.list()
	case "idle":
		return a.idle()
	}
	return a.hourOfWeek()
}

// newest is the window's last snapshot; −1: it has none.
func newest(v *timeline.View, w pool.Window) int32 {
	first, end := v.Snapshots(w)
	if first == end {
		return -1
	}
	return int32(end - 1)
}

// read fills in the usage of the runs' GPUs, and adds notices about missing values.
func (a *answer) read(ctx context.Context, s *stores.Stores) error {
	if len(a.runs) == 0 {
		return nil
	}
	v := a.Observed.View
	first, last := a.runs[0].First, a.runs[0].Last
	for _, r := range a.runs {
		first, last = min(first, r.First), max(last, r.Last)
	}
	from, to := v.DayAt(int(first)), v.DayAt(int(last))
	blocks, notices, err := s.Timeline.Usage(ctx, v, from, to+1)
	if err != nil {
		return err
	}
	for _, n := range notices {
		a.About.Warn("%s", n.Text)
	}
	reports := newReported(v, from, blocks)
	if err := a.trace(ctx, reports, s.Memo); err != nil {
		return err
	}
	a.notices(reports)
	return nil
}

// machinesAtOnce bounds the machines whose runs hold amounts in buckets before these are summed.
const machinesAtOnce = 64

// trace un-averages the usage of all runs that are not remembered, machine by machine, and sums in their order.
func (a *answer) trace(ctx context.Context, r *reported, memo *stores.Memo) error {
	v := a.Observed.View
	gaps := v.Gaps(pool.Window{From: math.MinInt64, To: math.MaxInt64})
	t := tracing{a, memo, r, gaps, newest(v, a.Plan.Window), bucketsOf(a.Plan)}
	machines := byMachine(a.runs)
	atOnce := machinesAtOnce
	if a.buckets.Starts == nil {
		atOnce = max(1, len(machines))
	}
	for batch := range slices.Chunk(machines, atOnce) {
		err := parallel.Each(ctx, len(batch), func(d *reader, m int) { t.machine(d, batch[m]) })
		if err != nil {
			return err
		}
		for _, list := range batch {
			if err := a.sum(list); err != nil {
				return err
			}
		}
	}
	return nil
}

// byMachine returns the runs of each machine.
func byMachine(all []*Run) (machines [][]*Run) {
	for i, r := range all {
		if i == 0 || r.Machine != all[i-1].Machine {
			machines = append(machines, nil)
		}
		of := &machines[len(machines)-1]
		*of = append(*of, r)
	}
	return machines
}

// tracing is the data with which the runs of all machines are traced.
type tracing struct {
	*answer
	memo        *stores.Memo
	reported    *reported
	gaps        []timeline.Gap
	newest      int32  // the window's last snapshot; −1: it has none
	bucketsName string // names the buckets among those that are remembered
}

// machine fills in what the GPUs of a machine's runs did.
func (t *tracing) machine(d *reader, list []*Run) {
	d.begin(&t.Observed.Machines[list[0].Machine], len(t.reported.blocks))
	key := memoKey{weak.Make(t.Known.Explanations), list[0].Machine, t.bucketsName}
	kept, _ := t.memo.GetIfPresent(key)
	before, _ := kept.(remembered)
	var added remembered
	w := t.Plan.Window
	for _, run := range list {
		now, version := run.shownIn(t.newest), t.reported.version(run.Explained.Run)
		whole := !now && run.Outcome != runs.Running && run.Start >= w.From && run.End <= w.To && run.Last >= run.First
		if whole && before != nil && before[run.Number] != nil && before[run.Number].version == version {
			run.figures = *before[run.Number]
			continue
		}
		reports := Reports{len(run.GPUs), run.Start, run.Until, d.sightings(t.reported, run.Explained.Run)}
		d.trace.Read(&reports, t.gaps)
		run.measure(&d.trace, w, t.buckets.Starts)
		if now {
			run.idleAt(t.reported.view.Times[t.newest], &d.trace, reports, t.gaps)
		}
		if whole {
			if added == nil {
				added = append(make(remembered, 0, len(t.Known.Explanations.Machines[run.Machine].Runs)), before...)
				added = added[:cap(added)]
			}
			figures := run.figures
			figures.version = version
			added[run.Number] = &figures
		}
	}
	if added != nil {
		t.memo.Set(key, added)
	}
}

// notices adds notices about missing values.
func (a *answer) notices(r *reported) {
	clamped := 0
	for _, r := range a.runs {
		clamped += r.clamped
	}
	a.About.Stat("Runs", "locale", float64(len(a.runs)))
	a.About.Stat("Measured", "percent", aggregate.Percent(a.figures.Total.Measured, a.figures.Total.Held))
	if clamped > 0 {
		a.About.Standing("Intervals of usage cut to 0 to 1", clamped, frames.Count(clamped, "interval")+" between two "+
			"reports of GPUsAverageUsage cut to no or full work, having shown less or more: a start that is off, or a GPU "+
			"that is used from outside")
	}
	if a.figures.Total.Measured == 0 && a.figures.Total.Held > 0 {
		a.About.Warn("nothing is measured: GPUsAverageUsage has no value in any snapshot of these runs, or its column is " +
			"missing")
		return
	}
	if dates := r.missing(a.Plan.Window); len(dates) > 0 {
		a.About.Info("%s of the time range without a value of GPUsAverageUsage, the first %s: GPU hours held then are not "+
			"measured", frames.Count(len(dates), "day"), dates[0])
	}
}
