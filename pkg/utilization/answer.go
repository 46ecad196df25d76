// Package utilization answers what held GPUs do: queries of kind utilization (methodology section 13).
package utilization

import (
	"cmp"
	"context"
	"math"
	"slices"
	"unsafe"
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
	if p.View == failures {
		return answerFailures(ctx, s, p)
	}
	a, err := load(ctx, s, p)
	if err != nil {
		return nil, err
	}
	return views[p.View](a), nil
}

var views = map[string]func(*answer) data.Frames{"summary": (*answer).sums, "timeseries": (*answer).sums,
	"runs": (*answer).list, "idle": (*answer).idle, "hourOfWeek": (*answer).hourOfWeek}

// load finds the runs of a plan and what their GPUs did.
func load(ctx context.Context, s *stores.Stores, p *query.Plan) (a *answer, err error) {
	err = timeline.Retry(ctx, func(ctx context.Context) error {
		o, err := linked.OpenExplained(ctx, s, p, "runs start and end at snapshots, and the time before a run's first "+
			"snapshot is not measured")
		if err != nil {
			return err
		}
		a = &answer{Opening: o, newest: -1}
		if first, end := o.Observed.View.Snapshots(p.Window); first < end {
			a.newest = int32(end - 1)
		}
		chosen := aggregate.NewFilter(p, o.Names)
		for r := range linked.RunsIn(o.Observed, o.History.Explanations, p.Window) {
			if r.Unseen || !o.Passes(&r, chosen) {
				continue
			}
			if run := (&Run{Run: r, IdleSince: frames.NoTime}); p.View != "idle" || run.shownIn(a.newest) {
				a.runs = append(a.runs, run)
			}
		}
		o.Hours.Tell(o.About)
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

type answer struct {
	*linked.Opening
	runs   []*Run // that overlap the window and pass the filter, by machine and first snapshot
	newest int32  // the window's last snapshot; −1: it has none

	buckets query.Buckets // for a series or heat map
	cells   [][2]int      // for a heat map: weekday and hour of each bucket

	keys    pool.Numbered[aggregate.Key]
	figures Figures // groups by the number of their key
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
	if slices.Contains(a.Plan.GroupBy, "usedMemory") || !a.Plan.Select.All(query.ByUsedMemory) {
		a.tellPeaks()
	}
	return nil
}

// machinesAtOnce bounds the machines whose runs hold amounts in buckets before these are summed.
const machinesAtOnce = 64

// trace un-averages the usage of all runs that are not remembered, machine by machine, and sums in their order.
func (a *answer) trace(ctx context.Context, r *reported, memo stores.Memo) error {
	for batch := range slices.Chunk(byMachine(a.runs), machinesAtOnce) {
		err := parallel.EachWith(ctx, len(batch), func(d *reader, m int) { a.machine(d, r, memo, batch[m]) })
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

// machine fills in what the GPUs of a machine's runs did.
func (a *answer) machine(d *reader, r *reported, memo stores.Memo, list []*Run) {
	machine, w := list[0].Machine, a.Plan.Window
	d.machine = &a.Observed.Machines[machine]
	d.values = make([][]float64, len(r.blocks)*2*len(d.machine.GPUs))
	key := memoKey{weak.Make(a.History.Explanations), machine, bucketsOf(a.Plan)}
	kept, _ := memo.GetIfPresent(key)
	before, _ := kept.(remembered)
	var added remembered
	for _, run := range list {
		// Reuse the activity of a run that lies in the window as a whole, or trace it.
		now, version := run.shownIn(a.newest), r.version(run.Explained.Run)
		whole := !now && run.Outcome != runs.Running && run.Start >= w.From && run.End <= w.To && run.Last >= run.First
		if whole && before != nil && before[run.Number] != nil && before[run.Number].version == version {
			run.activity = *before[run.Number]
			continue
		}
		d.trace.Read(&Reports{len(run.GPUs), run.Start, run.Until, d.sightings(r, run.Explained.Run)}, r.gaps)
		run.measure(&d.trace, w, a.buckets.Starts)
		if now { // since when it is idle, by the data up to the newest snapshot
			newest, known := r.view.Times[a.newest], d.trace.Reports
			known.Sightings = slices.DeleteFunc(known.Sightings, func(s Sighting) bool { return s.Time > newest })
			d.trace.Read(&known, r.gaps)
			if since, idle := d.trace.IdleSince(newest); idle {
				run.IdleSince, run.idleUntil = since, d.trace.Last
			}
		}
		// Remember it, if it does not depend on the window.
		if whole {
			if added == nil {
				added = make(remembered, len(a.History.Explanations.Machines[machine].Runs))
				copy(added, before)
			}
			activity := run.activity
			activity.version = version
			added[run.Number] = &activity
		}
	}
	if added != nil {
		memo.Set(key, added)
	}
}

func (a *answer) notices(r *reported) {
	clamped := 0
	for _, r := range a.runs {
		clamped += r.clamped
	}
	a.About.Stat("Runs", "locale", float64(len(a.runs)))
	a.About.Stat("Measured", "percent", aggregate.Percent(a.figures.Total.Measured, a.figures.Total.Held))
	if clamped > 0 {
		a.About.Count("Intervals of usage cut to 0 to 1", clamped, "%s between two reports of GPUsAverageUsage cut to no or "+
			"full work, having shown less or more: a start that is off, or a GPU that is used from outside",
			frames.Count(clamped, "interval"))
	}
	if a.figures.Total.Measured == 0 && a.figures.Total.Held > 0 {
		a.About.Warn("nothing is measured: GPUsAverageUsage has no value in any snapshot of these runs, or its column is " +
			"missing")
		return
	}
	if dates := r.missing(a.Plan.Window); len(dates) > 0 {
		a.About.Count("UTC days without GPUsAverageUsage", len(dates), "%s of the time range without a value of "+
			"GPUsAverageUsage, the first %s: GPU hours held then are not measured", frames.Count(len(dates), "day"), dates[0])
	}
}

// tellPeaks adds how many of the held hours have a peak of the GPU memory.
func (a *answer) tellPeaks() {
	var known, held float64
	for _, r := range a.runs {
		hours := r.GPUHoursIn(r.Start, a.Plan.Window.From, a.Plan.Window.To)
		if held += hours; r.PeakMiB >= 0 {
			known += hours
		}
	}
	if held > 0 {
		share := 100 * known / held
		a.About.Tell("GPU hours whose peak of GPU memory is known", "percent", share, "the GPU memory that jobs used at "+
			"most (GPUsMemoryUsage of job ads) is known for %s %% of the held GPU hours. Frameworks that reserve all memory in "+
			"advance look as if they needed it", frames.Decimal(share))
	}
}

// Run is a run, on primary or backfill slots, as a window shows it.
type Run struct {
	linked.Run
	activity              // that of its part in the window
	IdleSince pool.Micros // frames.NoTime: it is not idle now
	idleUntil pool.Micros // its last sighting, if it is idle now
}

// activity is what the GPUs of a run did.
type activity struct {
	Amounts
	clamped int  // see Trace.Clamped
	isIdle  bool // an idle stretch lies in the window, at least in part
	buckets []bucketAmount
	version uint64 // which version of the blocks of usage they are read from
}

// bucketAmount is what a run's GPUs did in the bucket of a series that begins at start.
type bucketAmount struct {
	start pool.Micros
	Amounts
}

// measure fills in what the run's GPUs did in the window, and in buckets of it if there are any.
func (r *Run) measure(t *Trace, w pool.Window, buckets []pool.Micros) {
	r.activity = activity{Amounts: t.Within(w), clamped: t.Clamped, isIdle: t.IdleIn(w)}
	cut := make([]pool.Micros, len(buckets))
	for i, start := range buckets {
		cut[i] = min(max(start, w.From), w.To)
	}
	t.Spread(cut, func(b int, a Amounts) { r.buckets = append(r.buckets, bucketAmount{buckets[b], a}) })
}

// shownIn reports whether a snapshot shows the run.
func (r *Run) shownIn(snapshot int32) bool { return r.First <= snapshot && snapshot <= r.Last }

func (a *answer) list() data.Frames {
	list := frames.Newest(a.About, a.runs, func(r *Run) pool.Micros { return r.Until })
	return a.columns(list, func(r *Run) float64 {
		if a.figures.Total.Measured == 0 {
			return math.NaN()
		}
		return r.Idle / float64(len(r.GPUs))
	})
}

// idle shows the runs that are idle now, longest first, and how long they are.
func (a *answer) idle() data.Frames {
	list := slices.DeleteFunc(a.runs, func(r *Run) bool { return r.IdleSince == frames.NoTime })
	slices.SortStableFunc(list, func(x, y *Run) int { return cmp.Compare(x.IdleSince, y.IdleSince) })
	list = list[:a.About.Shown(len(list))]
	return a.columns(list, func(r *Run) float64 { return pool.Hours(r.idleUntil - r.IdleSince) })
}

func (a *answer) columns(list frames.Rows[Run], idleHours func(*Run) float64) data.Frames {
	subject := frames.Each(list, func(r *Run) *linked.Run { return &r.Run })
	return frames.Columns(a.Plan, a.About, append(a.Subject(subject),
		list.Time("start", func(r *Run) pool.Micros { return r.Start }),
		list.Time("end", func(r *Run) pool.Micros { return r.Until }),
		list.Number("hours", func(r *Run) float64 { return pool.Hours(r.Length()) }),
		list.Number("utilizationPercent", func(r *Run) float64 { return r.percent(r.Busy) }),
		list.Number("idleHours", idleHours),
		list.Time("idleSince", func(r *Run) pool.Micros { return r.IdleSince }))...)
}

// What a run's GPUs did is remembered as long as the history of the runs is kept, if the run lies in the window as a
// whole: then it does not depend on the window, and only runs at its two ends are traced when it moves.

// memoKey names the runs of a machine, and the buckets of a series.
type memoKey struct {
	history weak.Pointer[runs.Explanations]
	machine int32
	buckets string
}

// remembered is the activity of a machine's runs, by their number; nil if it is not remembered.
type remembered []*activity

// Bytes is about the live memory.
func (r remembered) Bytes() int {
	n := 200 + 8*len(r)
	for _, f := range r {
		if f != nil {
			n += int(unsafe.Sizeof(*f)) + cap(f.buckets)*int(unsafe.Sizeof(bucketAmount{}))
		}
	}
	return n
}

// bucketsOf names the buckets of a plan.
func bucketsOf(p *query.Plan) string {
	switch {
	case p.Frame == query.FrameHeatMap:
		return "hours " + p.Location.String()
	case p.Frame != query.FrameSeries:
		return ""
	case p.Bucket == nil:
		return "window"
	}
	return pool.Key(p.Bucket.Name, p.Bucket.YearStart, p.Location.String())
}
