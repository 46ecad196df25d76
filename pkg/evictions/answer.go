// Package evictions answers how often jobs on backfill GPUs are evicted, why, and what that costs: queries of kind
// evictions (methodology sections 8 to 10).
package evictions

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/survival"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Answer answers a query. Without a job source (nil), or if it does not answer, only snapshots count, and a notice
// explains the consequences. Errors: pool.BadQuery, pool.SourceError when no snapshot can be read, ctx's.
func Answer(ctx context.Context, s *stores.Stores, p *query.Plan) (data.Frames, error) {
	const meaning = "outcomes are those that snapshots show, completions cannot be seen: " + blindness
	o, err := linked.OpenExplained(ctx, s, p, meaning)
	if err != nil {
		return nil, err
	}
	a := answer{Opening: o, byEviction: ByEviction(p), by: query.GroupingsOf(p.GroupBy)}
	a.overBy = slices.DeleteFunc(slices.Clone(a.by), isOfEviction)
	a.blind = !o.History.Sharp || linked.ShareOf(o.History.Explanations, p.Now, linked.OnBackfill(p.Window)).Tell("",
		"completions cannot be seen: "+blindness, o.About)
	var chosen aggregate.Filter
	a.takers, chosen = aggregate.NewFilter(p, o.Names).Split(isOfEviction)
	for r := range linked.RunsIn(o.Observed, o.History.Explanations, p.Window) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if r.Side != pool.Backfill || !o.Passes(&r, chosen) {
			continue
		}
		kept := r // few of the runs pass: the others take no memory
		a.runs = append(a.runs, &kept)
	}
	o.Hours.Tell(o.About)
	a.tellRuns()
	if a.blind { // only ads say what jobs have saved
		p.Words = map[string]map[string]string{"checkpointedPercent": {"0": "unknown"}}
	}
	return views[p.View](&a, ctx)
}

var views = map[string]func(*answer, context.Context) (data.Frames, error){
	"summary": (*answer).sums, "timeseries": (*answer).sums, "events": (*answer).events, "runs": (*answer).list,
	"jobs": (*answer).jobs, "survival": (*answer).survival, "hourOfWeek": (*answer).hourOfWeek,
	"annotations": (*answer).annotations,
}

type answer struct {
	*linked.Opening
	runs       []*linked.Run    // that overlap the window and pass the filter, by machine
	blind      bool             // completions cannot be seen
	takers     aggregate.Filter // chooses by who took GPUs over
	byEviction bool             // groups know evictions only
	by         []query.Grouping // what groups are made by
	overBy     []query.Grouping // those without cause and evidence, of the GPU-hours that rates are over
}

// takenOver reports whether the filter of those who took GPUs over lets a run pass: with it, only evicted ones.
func (a *answer) takenOver(r *linked.Run) bool {
	return len(a.takers) == 0 || r.Result == runs.Evicted && a.takers.Keeps(r.Key())
}

// survival draws 1 − the share evicted, with completion and yielding competing.
func (a *answer) survival(context.Context) (data.Frames, error) {
	if a.blind {
		return a.About.Finish(nil), nil
	}
	var keys pool.Numbered[aggregate.Key]
	var lives []frames.Lives
	for _, r := range a.runs {
		n := int(keys.Number(r.Key().Within(a.by)))
		if n == len(lives) {
			lives = append(lives, frames.Lives{Group: keys.All[n].Texts(a.Plan, a.Plan.GroupBy, a.Names)})
		}
		// Another end that is seen competes; a run that is still going on or was lost from sight is censored.
		fate := survival.Competing
		switch r.Result {
		case runs.Evicted:
			fate = survival.Event
		case runs.Running, runs.Lost, runs.Ambiguous:
			fate = survival.Censored
		}
		lives[n].Items = append(lives[n].Items,
			survival.Item{Entry: max(0, a.Plan.Window.From-r.Start), Exit: r.Length(), Fate: fate})
	}
	return frames.Curves(a.Plan, a.About, "survival", "runs", lives, survival.Cohort.AalenJohansen), nil
}

// blindness explains the consequences if completions cannot be seen.
const blindness = "evictedPercent, medianHoursToEviction and survival have no value; ratePer100GpuHours and " +
	"lostGpuHours can be wrong in both directions: a completion that an owner's job follows within one cadence counts " +
	"as an eviction, a run between two snapshots not at all (measured rates: 0.9 to 1.8 times the true one)"

// Blind reports whether completions cannot be seen: without job ads (not sharp), or because too few runs have one.
func Blind(sharp bool, withAd, counted int) bool {
	return !sharp || linked.Share{Linked: withAd, Counted: counted}.Rate() < linked.LeastRate
}

func (a *answer) tellRuns() {
	about := a.About
	// Count the runs by how they ended.
	var results [runs.Outcomes]int
	var machines, unseen, clamped, saved, yields int
	codes := map[int32]int{}
	count := func(n *int, counts bool) {
		if counts {
			*n++
		}
	}
	for i, r := range a.runs {
		results[r.Result]++
		count(&machines, i == 0 || r.Machine != a.runs[i-1].Machine)
		count(&unseen, r.Link == runs.AdOnly)
		count(&clamped, r.Clamped)
		count(&saved, r.Result == runs.Evicted && r.Saved())
		count(&yields, r.Yields)
		if r.UnknownCode != 0 {
			codes[r.UnknownCode]++
		}
	}
	// Tell how many there are, and what is estimated.
	lost, evicted := results[runs.Lost], results[runs.Evicted]
	about.Stat("Runs", "locale", float64(len(a.runs)))
	about.Stat("Runs: machines", "locale", float64(machines)) // GPUs of a machine are reclaimed together
	about.Stat("Runs: censored", "locale", float64(lost+results[runs.Running]))
	if unseen > 0 {
		about.Stat("Runs between snapshots", "short", float64(unseen))
	}
	if clamped > 0 {
		about.Count("Runs whose end is set to the start", clamped, "%s ended before the start by the job ads: the end is "+
			"set to the start", frames.Count(clamped, "run"))
	}
	if lost > 0 {
		about.Count("Runs lost from sight", lost, "%s lost from sight in a gap or while the machine was silent",
			frames.Count(lost, "run"))
	}
	switch {
	case evicted == 0 || !a.History.Sharp:
	case saved == 0 && !a.History.Clocks.Epochs:
		about.Info("no evicted run is known to have saved a checkpoint: lost GPU hours count from the start of the runs, " +
			"which is an upper bound if jobs save checkpoints. HTCondor writes JobLastCheckpointTime into epoch ads only: " +
			jobs.WriteEpochs)
	default:
		about.Tell("Evicted runs that saved a checkpoint", "percent", 100*float64(saved)/float64(evicted), "%d of %d "+
			"evicted runs are known to have saved a checkpoint: of the others all GPU hours count as lost", saved, evicted)
	}
	if yields > 0 && !a.History.Clocks.Epochs {
		about.Warn("%s of jobs that yield their slot after a checkpoint: without epoch ads nearly every yield counts as an "+
			"eviction (measured: evicted hours 1.4 times, lost hours twice the true ones). %s", frames.Count(yields, "run"),
			jobs.WriteEpochs)
	}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		about.Count(fmt.Sprintf("Runs with the unknown vacate code %d", code), codes[code], "%s with the vacate code %d, "+
			"whose meaning is not known: counted as evicted, cause unknown", frames.Count(codes[code], "run"), code)
	}
}

// until orders lists of runs: those that end together come by machine and first snapshot.
func until(r *linked.Run) pool.Micros { return r.Until }

// evicted returns the runs that were evicted in the window, newest first.
func (a *answer) evicted() frames.Rows[linked.Run] {
	return frames.Newest(a.About, slices.DeleteFunc(a.runs, func(r *linked.Run) bool {
		return r.Result != runs.Evicted || !a.takenOver(r)
	}), until)
}

func (a *answer) events(context.Context) (data.Frames, error) {
	list := a.evicted()
	return frames.Columns(a.Plan, a.About, slices.Concat(
		[]*data.Field{list.Time("time", func(r *linked.Run) pool.Micros { return r.End })},
		a.Subject(list),
		[]*data.Field{
			list.Number("ranHours", func(r *linked.Run) float64 { return pool.Hours(r.Length()) }),
			list.Number("gpuHours", func(r *linked.Run) float64 { return r.GPUHours(r.Length()) }),
			list.Text("cause", func(r *linked.Run) string { return r.Cause.String() }),
			list.Text("evidence", func(r *linked.Run) string { return r.Evidence.String() }),
			list.Text("takenOverBy", a.takenOverBy),
			list.Time("savedUntil", savedUntil),
			list.Number("lostGpuHours", lost),
		})...), nil
}

func (a *answer) list(context.Context) (data.Frames, error) {
	list := frames.Newest(a.About, a.runs, until)
	ended := func(r *linked.Run, by, open fmt.Stringer) string {
		if r.Result == runs.Running {
			return open.String()
		}
		return by.String()
	}
	return frames.Columns(a.Plan, a.About, append(a.Subject(list),
		list.Time("start", func(r *linked.Run) pool.Micros { return r.Start }),
		list.Time("end", func(r *linked.Run) pool.Micros { return r.Until }),
		list.Number("hours", func(r *linked.Run) float64 { return pool.Hours(r.Length()) }),
		list.Text("outcome", func(r *linked.Run) string { return r.Result.String() }),
		list.Text("evidence", func(r *linked.Run) string { return ended(r, r.Evidence, runs.None) }),
		list.Text("cause", func(r *linked.Run) string { return ended(r, r.Cause, runs.NoCause) }),
		list.Text("link", func(r *linked.Run) string { return r.Link.String() }),
		list.Time("savedUntil", savedUntil),
		list.Number("lostGpuHours", lost),
		list.Number("evictedGpuHours", evictedHours))...), nil
}

// savedUntil is when the job of an evicted run last saved its work; other runs have none.
func savedUntil(r *linked.Run) pool.Micros {
	if r.Result != runs.Evicted {
		return frames.NoTime
	}
	return r.LastSave()
}

// lost are the GPU-hours that an eviction cost; other runs have none.
var lost = onlyEvicted(func(r *linked.Run) float64 { return r.GPUHours(max(0, r.Until-r.LastSave())) })

var evictedHours = onlyEvicted(func(r *linked.Run) float64 { return r.GPUHours(r.Length()) })

// onlyEvicted is a figure that only evicted runs have.
func onlyEvicted(figure func(*linked.Run) float64) func(*linked.Run) float64 {
	return func(r *linked.Run) float64 {
		if r.Result != runs.Evicted {
			return math.NaN()
		}
		return figure(r)
	}
}

func (a *answer) takenOverBy(r *linked.Run) string {
	if !r.Takeover {
		return ""
	}
	return a.Plan.Shown("takenOverBy", a.Names[r.TakenBy])
}

func (a *answer) annotations(context.Context) (data.Frames, error) {
	list := a.evicted()
	text := func(r *linked.Run) string {
		text := fmt.Sprintf("%s ran %s h on %s (%s); %s, by %s", a.Plan.Shown("user", a.Names[r.User]),
			frames.Decimal(pool.Hours(r.Length())), a.IDs(r), a.Plan.Shown("device", a.Names[r.Place.Device]),
			r.Cause, r.Evidence)
		if by := a.takenOverBy(r); by != "" {
			text += "; taken over by " + by
		}
		return text
	}
	end := func(r *linked.Run) pool.Micros { return r.End }
	return frames.Columns(a.Plan, a.About, list.Time("time", end), list.Time("timeEnd", end),
		list.Text("title", func(r *linked.Run) string { return "Evicted: " + a.Names[r.Place.Machine] }),
		list.Text("text", text),
		list.Text("tags", func(r *linked.Run) string { return "eviction," + r.Cause.String() })), nil
}

// jobRuns counts a job's runs in a window (methodology section 8, view jobs).
type jobRuns struct {
	job                     string
	first, last             *linked.Run // by when they begin
	runs, evictions, yields int64
	gpuHours, lost          float64
	user                    timeline.Symbol // from the last run that names one
	named                   pool.Micros     // when that run began
}

func (j *jobRuns) add(r *linked.Run, w pool.Window) {
	if j.runs == 0 || r.Start < j.first.Start {
		j.first = r
	}
	if j.runs == 0 || r.Start >= j.last.Start {
		j.last = r
	}
	if r.User != 0 && r.Start >= j.named {
		j.user, j.named = r.User, r.Start
	}
	j.runs++
	j.gpuHours += r.GPUHoursIn(r.Start, w.From, w.To)
	switch r.Result {
	case runs.Evicted:
		j.evictions++
		j.lost += r.GPUHoursIn(r.LastSave(), w.From, w.To)
	case runs.Yielded:
		j.yields++
	}
}

// jobs lists the jobs with runs in the window by evictions, then by hours lost, most first: those that never finish.
func (a *answer) jobs(context.Context) (data.Frames, error) {
	// Add the runs of each job up.
	var keys pool.Numbered[timeline.Job]
	var list frames.Rows[jobRuns]
	nameless := 0
	for _, r := range a.runs {
		if r.Job.IsNone() {
			nameless++
			continue
		}
		n := int(keys.Number(r.Job))
		if n == len(list) {
			list = append(list, &jobRuns{job: a.Observed.View.Names.JobText(r.Job)})
		}
		list[n].add(r, a.Plan.Window)
	}
	if nameless > 0 {
		a.About.Count("Runs without a GlobalJobId, left out", nameless, "%s without a GlobalJobId left out",
			frames.Count(nameless, "run"))
	}
	// Sums of hours differ in their last digits: nearly equal ones are equal.
	mostFirst := func(x, y *jobRuns) int {
		byLost := cmp.Compare(y.lost, x.lost)
		if math.Abs(x.lost-y.lost) <= 1e-9 {
			byLost = 0
		}
		return cmp.Or(cmp.Compare(y.evictions, x.evictions), byLost)
	}
	frames.Sort(a.Plan, list, mostFirst, "job", func(j *jobRuns) string { return j.job })
	list = list[:a.About.Shown(len(list))]
	return frames.Columns(a.Plan, a.About,
		list.Text("job", func(j *jobRuns) string { return a.Plan.Shown("job", j.job) }),
		list.Text("user", func(j *jobRuns) string { return a.Plan.Shown("user", a.Names[j.user]) }),
		list.Whole("runs", func(j *jobRuns) int64 { return j.runs }),
		list.Whole("evictions", func(j *jobRuns) int64 { return j.evictions }),
		list.Whole("yielded", func(j *jobRuns) int64 { return j.yields }),
		list.Number("gpuHours", func(j *jobRuns) float64 { return j.gpuHours }),
		list.Number("lostGpuHours", func(j *jobRuns) float64 { return j.lost }),
		list.Time("start", func(j *jobRuns) pool.Micros { return j.first.Start }),
		list.Time("end", func(j *jobRuns) pool.Micros {
			if j.last.Result == runs.Running {
				return frames.NoTime
			}
			return j.last.Until
		}),
		list.Text("outcome", func(j *jobRuns) string { return j.last.Result.String() })), nil
}
