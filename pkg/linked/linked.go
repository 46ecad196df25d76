// Package linked begins answers about runs linked with job ads, for the kinds backfillAvailability, evictions,
// utilization and demand (methodology sections 8 and 9).
package linked

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Opening is the common beginning of an answer about runs.
type Opening struct {
	Plan     *query.Plan
	Observed *runs.Observed
	Slices   *timeline.Slices
	About    *frames.About
	History  *runs.History    // nil if they are not explained
	Names    []string         // the texts of symbols
	Projects *queues.Projects // the projects of jobs; nil if the plan does not depend on them
	Hours    Attributed       // hours of the runs that pass, if it does
}

// Open observes the runs around the plan's window. Errors: pool.SourceError when no snapshot can be read, ctx's.
func Open(ctx context.Context, s *stores.Stores, p *query.Plan) (*Opening, error) {
	reach, err := s.Runs.Load(ctx, p.Window)
	if err != nil {
		return nil, err
	}
	near, err := reach.Near(p.Window.From, p.Window.To)
	if err != nil {
		return nil, err
	}
	observed, err := s.Runs.Observe(ctx, reach, p.Window, p.Env.Lists)
	if err != nil {
		return nil, err
	}
	slices, err := near.Slices(ctx, p.Env.Zone, p.Env.SliceMinutes, p.Window)
	if err != nil {
		return nil, err
	}
	return &Opening{Plan: p, Observed: observed, Slices: slices,
		About: frames.NewAbout(p, near, slices.Coverage(p.Env.Lists)), Names: observed.View.Names.Texts()}, nil
}

// OpenExplained is [Open], and notices filters that nothing matches. It explains the runs by their job ads if it is
// given the consequence of their absence for the answer (see [History]).
func OpenExplained(ctx context.Context, s *stores.Stores, p *query.Plan, meaning string) (*Opening, error) {
	o, err := Open(ctx, s, p)
	if err != nil {
		return nil, err
	}
	o.About.Unmatched(o.Slices)
	if o.Projects, err = JobProjects(ctx, s, p, o.About); err != nil {
		return nil, err
	}
	if n := o.Slices.View.SharedGPUs(p.Window); n > 0 && (p.Kind == "evictions" || p.Kind == "utilization") {
		o.About.Info("several jobs at once hold %d shared GPUs (GPU_DISCOVERY_EXTRA -divide or -repeat): each of their runs "+
			"holds such a GPU once here, while allocation and userHours count it once", n)
	}
	if meaning != "" {
		o.History, err = History(ctx, o.Observed, s.Ads, p.Window, meaning, o.About)
	}
	o.Names = o.Observed.View.Names.Texts() // runs that only ads show can have new ones
	return o, err
}

// History explains all runs by their job ads; the panels of a dashboard share the result. source may be nil; one that
// does not answer is not an error. Notices tell about the ads, and about clocks that are off in a window; without ads,
// one says so, with meaning, the consequence for the answer. Errors are ctx's and those of the snapshots.
func History(ctx context.Context, o *runs.Observed, source jobs.Source, w pool.Window, meaning string,
	about *frames.About) (*runs.History, error) {
	known, err := o.History(ctx, source)
	if err != nil {
		return nil, err
	}
	switch {
	case source == nil:
		about.Info("no job source is set up: %s. Set jobs to elasticsearch or sqlite", meaning)
		return known, nil
	case known.Failure != nil:
		Unread(meaning, known.Failure, about)
	}
	for _, n := range known.Notices {
		about.Warn("%s", n)
	}
	for _, s := range runs.Skews(known.Clocks.ClocksIn(w)) {
		if s.Days > 0 {
			about.Tell("Corrected clock of "+s.AccessPoint, "s", float64(s.Median)/float64(pool.Second), "%s", s.String())
		}
	}
	return known, nil
}

// Unread warns that job ads could not be read, with the consequence for the answer.
func Unread(meaning string, failure error, about *frames.About) {
	about.Warn("job ads could not be read: %s. %v", meaning, failure)
}

// HourlyBy are the groupings of hourly sums over GPUs; those over runs know the user, too.
var HourlyBy = []query.Grouping{query.ByCategory, query.ByDevice, query.ByMemory, query.ByOwnership, query.ByProject}

// HourOf is the hour, by its number, of a group of [HourlyBy].
type HourOf struct {
	aggregate.Key
	Hour int
}

// Fewest is how many runs a link rate needs.
const Fewest = 20

// Share is how many runs have an ad of their own.
type Share struct {
	Linked, Counted int // runs that an ad says something about, of all that were counted
}

// Due reports whether a run that ended counts: 30 minutes before now, for ads come late (methodology section 9).
func Due(end, now pool.Micros) bool { return end < now-30*pool.Minute }

// ShareOf counts the explained runs that pass and are due. Runs that only ads show are not among them.
func ShareOf(x *runs.Explanations, now pool.Micros, pass func(machine int, e *runs.Explained) bool) (s Share) {
	for m := range x.Machines {
		for i := range x.Machines[m].Runs {
			e := &x.Machines[m].Runs[i]
			if e.Outcome == runs.Running || !Due(e.End, now) || !pass(m, e) {
				continue
			}
			if s.Counted++; e.Link.Linked() {
				s.Linked++
			}
		}
	}
	return s
}

// Rate is the share in percent; NaN below 20 runs.
func (s Share) Rate() float64 {
	if s.Counted < Fewest {
		return math.NaN()
	}
	return 100 * float64(s.Linked) / float64(s.Counted)
}

// LeastRate is the link rate, in percent, below which too few runs have an ad (methodology section 8).
const LeastRate = 50

// Tell says how many runs have an ad: those that ended, and that which describes further. few reports whether too few
// have one, which has a consequence for the answer.
func (s Share) Tell(which, consequence string, about *frames.About) (few bool) {
	text, rate := "", s.Rate() // stays "" for few runs
	if few = rate < LeastRate; few {
		about.Warn("job ads: only %d of %d runs that %sended more than 30 min ago are linked (%s %%), so %s. Check the "+
			"job source's index and period", s.Linked, s.Counted, which, frames.Decimal(rate), consequence)
	} else {
		text = fmt.Sprintf("job ads: %d of %d runs that %sended more than 30 min ago are linked", s.Linked, s.Counted, which)
	}
	about.Count("Runs without a job ad", s.Counted-s.Linked, "%s", text)
	about.Stat("Link rate", "percent", rate)
	return few
}

// HistoryOf returns the history of a window's runs. Errors: of snapshots; the job source does not answer; ctx's.
func HistoryOf(ctx context.Context, observer *runs.Observer, ads jobs.Source, lists pool.Lists,
	window pool.Window) (*runs.History, error) {
	o, err := observer.ObserveWindow(ctx, window, lists)
	if err != nil {
		return nil, err
	}
	known, err := o.History(ctx, ads)
	if err != nil {
		return nil, err
	}
	return known, known.Failure
}

// OnBackfill reports whether an ended run was on backfill and overlaps the window.
func OnBackfill(w pool.Window) func(machine int, e *runs.Explained) bool {
	return func(_ int, e *runs.Explained) bool {
		return e.Side == pool.Backfill && e.Start <= w.To && e.End >= w.From
	}
}

// AttributedPercent is the metric of how many GPU hours have the project of their own job.
const AttributedPercent = "attributedPercent"

// JobProjects returns the projects of jobs if groupings, filter or metrics of a plan need them; otherwise nil. A notice
// says how to collect them if there are none. Errors: pool.SourceError if no queue file can be read, and ctx's.
func JobProjects(ctx context.Context, s *stores.Stores, p *query.Plan, about *frames.About) (*queues.Projects, error) {
	if !slices.Contains(p.GroupBy, "jobProject") && p.Select.All(query.ByJobProject) &&
		!slices.Contains(p.Metrics, AttributedPercent) {
		return nil, nil
	}
	if s.Queues == nil {
		return &queues.Projects{}, nil
	}
	rows, err := s.Queues.Load(ctx, p.Window)
	if err != nil {
		return nil, err
	}
	about.Notices(rows.Notices)
	projects, err := s.Projects(ctx, rows, p.Window)
	switch {
	case err != nil:
		return nil, err
	case rows.Files == 0:
		about.Warn("no file job_pressure_YYYY-MM.db or .parquet in the snapshot directory, so the projects of jobs are " +
			"not known. Collect it with `gpureports collect --jobs`")
	case projects.Rows == 0:
		about.Warn("the queue files have no row within 7 days of the time range, so the projects of jobs are not known. " +
			"Collect them with `gpureports collect --jobs`")
	}
	return projects, nil
}

// Attributed are GPU hours by how the project of their job is known.
type Attributed [queues.Attributions]float64

// Percent is the share of the hours, in percent, that have the project of their own job; NaN without hours.
func (a *Attributed) Percent() float64 { return a.share(queues.ByJob) }

func (a *Attributed) share(how queues.Attribution) float64 {
	total := 0.0
	for _, hours := range a {
		total += hours
	}
	if total == 0 {
		return math.NaN()
	}
	return 100 * a[how] / total
}

// Tell adds how the projects of the jobs are known.
func (a *Attributed) Tell(about *frames.About) {
	about.Tell("GPU hours with the project of their job", "percent", a.Percent(), "projects of the GPU hours: %s %% by "+
		"their job, %s %% by their user, whose jobs in the queue files all have the same projects, %s %% not known",
		frames.Decimal(a.share(queues.ByJob)), frames.Decimal(a.share(queues.ByUser)), frames.Decimal(a.share(queues.ByNone)))
}

// Run is a run as a window shows it.
type Run struct {
	*runs.Explained              // its start is looked for no further before the window than evidence goes
	Until           pool.Micros  // its end, cut to the window
	Machine, Number int32        // where it is among those that are explained
	Unseen          bool         // and whether among those that no snapshot shows
	Result          runs.Outcome // Running if it ends after the window
	Category        pool.Category

	JobProject uint32 // symbol + 1 of the projects of its job; 0: they are not known, or do not matter
}

// RunsIn yields the runs that overlap a window, by machine and first snapshot, unseen ones last.
func RunsIn(o *runs.Observed, x *runs.Explanations, w pool.Window) iter.Seq[Run] {
	since, until := o.Since(w), w.To // the end of runs that are open at the end of the data
	if n := len(o.View.Times); o.End == n && n > 0 && w.To-o.View.Times[n-1] > o.View.GapLimit(n-1) {
		until = o.View.Times[n-1]
	}
	return func(yield func(Run) bool) {
		for m := range x.Machines {
			for list, of := range [][]runs.Explained{x.Machines[m].Runs, x.Machines[m].Unseen} {
				for i := range of {
					// The history of a short window has mostly runs outside it.
					if of[i].Start > w.To || of[i].End < w.From && of[i].Outcome != runs.Running {
						continue
					}
					e := of[i].From(o, since)
					r := Run{e, e.End, int32(m), int32(i), list == 1, e.Outcome,
						pool.CategoryOf(e.Side, e.Place.Ownership, e.Project != 0), 0}
					if r.Result == runs.Running {
						r.Until = max(until, e.Start)
					}
					if r.Until > w.To {
						r.Until, r.Result = w.To, runs.Running
					}
					if e.Start <= w.To && r.Until >= w.From && !yield(r) {
						return
					}
				}
			}
		}
	}
}

// Length is the run's length until the window's end; 0 if clocks differ by more than that.
func (r *Run) Length() pool.Micros { return max(0, r.Until-r.Start) }

// IDs are the ids of a run's GPUs.
func (o *Opening) IDs(r *Run) string {
	ids := make([]string, len(r.GPUs))
	for i, g := range r.GPUs {
		ids[i] = o.Names[o.Observed.Machines[r.Machine].GPUs[g].ID]
	}
	return strings.Join(ids, ", ")
}

// GPUHours is a length of the run times its GPUs.
func (r *Run) GPUHours(d pool.Micros) float64 { return pool.Hours(d) * float64(len(r.GPUs)) }

// GPUHoursIn are the GPU-hours of the run from a time onward, as far as they lie in [from, to].
func (r *Run) GPUHoursIn(since, from, to pool.Micros) float64 {
	return r.GPUHours(max(0, min(r.Until, to)-max(since, from)))
}

// Saved reports whether its job saved something in this run.
func (r *Run) Saved() bool { return r.LastSave() > r.Start }

// LastSave is when the job of an evicted run last saved its work; the run's start if it never did in this run.
func (r *Run) LastSave() pool.Micros { return max(r.Start, r.SavedUntil) }

// Key is the key under which the run is counted.
func (r *Run) Key() aggregate.Key {
	k := aggregate.KeyOf(r.Place)
	k.SetRow(r.Place.Ownership, r.Side, r.Project, r.User)
	k[query.ByCause], k[query.ByEvidence] = uint32(r.Cause), uint32(r.Evidence)
	k[query.ByJobProject], k[query.ByUsedMemory] = r.JobProject, uint32(query.UsedMemory(float64(r.PeakMiB)))
	if r.Takeover {
		k[query.ByTakenOver] = uint32(r.TakenBy) + 1
	}
	return k
}

// Passes reports whether a run passes a filter. If the projects of jobs matter, it finds those of the run, and counts
// its GPU hours in the window by how they are known.
func (o *Opening) Passes(r *Run, f aggregate.Filter) bool {
	how := queues.ByNone
	if o.Projects != nil {
		var list timeline.Symbol
		if list, how = o.Projects.Of(r.Job, o.Names[r.User]); how != queues.ByNone {
			r.JobProject = uint32(list) + 1
		}
	}
	passes := len(f) == 0 || f.Keeps(r.Key()) // a history has many runs
	if passes && o.Projects != nil {
		o.Hours[how] += r.GPUHoursIn(r.Start, o.Plan.Window.From, o.Plan.Window.To)
	}
	return passes
}

// Subject are the columns of a list that say which job ran where.
func (o *Opening) Subject(list frames.Rows[Run]) []*data.Field {
	return []*data.Field{
		list.Text("machine", func(r *Run) string { return o.Names[r.Place.Machine] }),
		list.Whole("gpus", func(r *Run) int64 { return int64(len(r.GPUs)) }),
		list.Text("gpuIds", o.IDs),
		list.Text("device", func(r *Run) string { return o.Plan.Shown("device", o.Names[r.Place.Device]) }),
		list.Text("category", func(r *Run) string { return r.Category.String() }),
		list.Text("user", func(r *Run) string { return o.Plan.Shown("user", o.Names[r.User]) }),
		list.Text("job", func(r *Run) string { return o.Plan.Shown("job", o.Observed.View.Names.JobText(r.Job)) }),
	}
}
