// Package utilization answers what held GPUs do: queries of kind utilization (methodology section 13).
package utilization

import (
	"context"
	"fmt"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
)

// Answer answers a query. Without a job source (nil), and when it does not answer, the snapshots alone give the starts
// and ends of runs, and a notice says so. Errors: pool.BadQuery, pool.SourceError when no snapshot can be read, ctx's.
func Answer(ctx context.Context, s *stores.Stores, p *query.Plan) (data.Frames, error) {
	a, _, err := load(ctx, s, p)
	if err != nil {
		return nil, err
	}
	return a.frames(ctx)
}

// load finds the runs of a plan and what their GPUs did. sharp reports whether job ads were used.
func load(ctx context.Context, s *stores.Stores, p *query.Plan) (a *answer, sharp bool, err error) {
	opened, err := linked.Open(ctx, s, p)
	if err != nil {
		return nil, false, err
	}
	o, about := opened.Observed, opened.About

	x, sharp, err := explained(ctx, s, p, o, about)
	if err != nil {
		return nil, false, err
	}
	all := collect(o, x, p.Window)
	chosen := runs.Choose(linked.Filter(&p.Select), o.View)
	all = slices.DeleteFunc(all, func(r Run) bool {
		return !p.Select.Categories[r.Category] || !chosen.Place(r.Place) || !chosen.User(r.User) ||
			!chosen.Project(r.Project)
	})
	a = &answer{plan: p, about: about, observed: o, names: o.View.Names.Texts(), runs: all, slices: opened.Slices}
	if err := a.prepare(); err != nil {
		return nil, false, err
	}
	if err := a.read(ctx, s); err != nil {
		return nil, false, err
	}
	return a, sharp, nil
}

// explained explains the runs of a window: all of them, as the panels of a dashboard share them, but for the view idle
// those that its newest snapshot shows. sharp reports whether job ads were used.
func explained(ctx context.Context, s *stores.Stores, p *query.Plan, o *runs.Observed, about *frames.About) (
	x *runs.Explanations, sharp bool, err error) {
	const meaning = "starts and ends of runs are those of snapshots, and the time before a run's first snapshot is not " +
		"measured"
	if p.View != "idle" {
		known, err := linked.Known(ctx, o, s.Ads, p.Window, meaning, about)
		if err != nil {
			return nil, false, err
		}
		return known.Explanations, known.Sharp, nil
	}
	wanted := heldAt(o, p.Window)
	asked, err := linked.Ask(ctx, o, s.Ads, runs.Question{Window: p.Window, Wanted: wanted})
	if err != nil {
		return nil, false, err
	}
	asked.Tell(p.Window, meaning, about)
	x, err = o.Explain(ctx, asked.Ads, wanted)
	if err != nil {
		return nil, false, fmt.Errorf("explaining runs: %w", err)
	}
	return x, asked.Ads != nil, nil
}

// heldAt reports whether the newest snapshot of the window shows a run.
func heldAt(o *runs.Observed, w pool.Window) runs.Wanted {
	_, end := o.View.Snapshots(w)
	newest := int32(end - 1)
	return func(m, i int) bool {
		r := o.Machines[m].Runs.At(i)
		return r.First <= newest && newest <= r.Last
	}
}

// read fills in what the runs' GPUs did, and adds notices about what is not known of it.
func (a *answer) read(ctx context.Context, s *stores.Stores) error {
	if len(a.runs) == 0 {
		return nil
	}
	v := a.observed.View
	first, last := a.runs[0].First, a.runs[0].Last
	for i := range a.runs {
		first, last = min(first, a.runs[i].First), max(last, a.runs[i].Last)
	}
	from, to := v.DayAt(int(first)), v.DayAt(int(last))
	blocks, notices, err := s.Timeline.Usage(ctx, v, from, to+1)
	if err != nil {
		return err
	}
	for _, n := range notices {
		a.about.Warn("%s", n.Text)
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
	_, end := a.observed.View.Snapshots(a.plan.Window)
	t := tracing{memo: memo, reported: r, plan: a.plan, gaps: gaps(a.observed), newest: int32(end - 1),
		buckets: cut(a.buckets.Starts, a.plan.Window)}
	var machines [][]Run
	for i := 0; i < len(a.runs); {
		first := i
		for i++; i < len(a.runs) && a.runs[i].Machine == a.runs[first].Machine; i++ {
		}
		machines = append(machines, a.runs[first:i])
	}
	atOnce := machinesAtOnce
	if len(t.buckets) == 0 {
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

// tracing is what the runs of all machines are traced with.
type tracing struct {
	memo     *stores.Memo
	reported *reported
	plan     *query.Plan
	gaps     []Gap
	newest   int32         // the window's last snapshot
	buckets  []pool.Micros // cut to the window
}

// machine fills in what the GPUs of a machine's runs did.
func (t *tracing) machine(d *reader, list []Run) {
	d.begin(list[0].Machine, len(t.reported.blocks))
	known := memory{tracing: t, machine: list[0].Machine, buckets: bucketsOf(t.plan),
		days: make([]memoryDay, len(t.reported.blocks))}
	for i := range list {
		run := &list[i]
		now := t.newest >= run.First && t.newest <= run.Last
		day, key, whole := known.keyOf(run)
		if whole && !now && known.recall(run, day, &key) {
			continue
		}
		reports := Reports{len(run.GPUs), run.Start, run.Until, d.sightings(t.reported, run.Run)}
		d.trace.Read(&reports, t.gaps)
		run.measure(&d.trace, t.plan.Window, t.buckets)
		if now {
			run.idleAt(t.reported.view.Times[t.newest], &d.trace, reports, t.gaps)
		} else if whole {
			known.note(run, day, &key)
		}
	}
	known.keep()
}

// notices adds notices about what is not known.
func (a *answer) notices(r *reported) {
	clamped := 0
	for i := range a.runs {
		clamped += a.runs[i].Clamped
	}
	a.about.Stat("Runs", "locale", float64(len(a.runs)))
	a.about.Stat("Measured", "percent", a.total.metric("measuredPercent"))
	if clamped > 0 {
		a.about.Standing("Intervals of usage cut to 0 to 1", clamped, frames.Count(clamped, "interval")+" between two "+
			"reports of GPUsAverageUsage cut to no or full work, having shown less or more: a start that is off, or a GPU "+
			"that is used from outside")
	}
	if a.total.Measured == 0 && a.total.Held > 0 {
		a.about.Warn("nothing is measured: GPUsAverageUsage has no value in any snapshot of these runs, or its column is " +
			"missing")
		return
	}
	if dates := r.missing(a.plan.Window); len(dates) > 0 {
		a.about.Info("%s of the window without a value of GPUsAverageUsage, the first %s: GPU hours held then are not "+
			"measured", frames.Count(len(dates), "day"), dates[0])
	}
}
