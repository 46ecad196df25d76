// Package evictions answers how often jobs on backfill GPUs are evicted, why, and what that costs: queries of kind
// evictions (methodology sections 8 to 10).
package evictions

import (
	"context"
	"fmt"
	"maps"
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
	machine := int32(-1)
	for r := range linked.RunsIn(o.Observed, o.History.Explanations, p.Window) {
		if r.Machine != machine {
			if machine = r.Machine; ctx.Err() != nil {
				return nil, ctx.Err()
			}
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
	return len(a.takers) == 0 || r.Result == runs.Evicted && r.Passes(a.takers)
}

// survival draws 1 − the share evicted, with completion and yielding competing.
func (a *answer) survival(context.Context) (data.Frames, error) {
	if a.blind {
		return a.About.Finish(nil), nil
	}
	var keys pool.Numbered[aggregate.Key]
	var lives []frames.Lives
	for _, r := range a.runs {
		key := r.Key()
		n := int(keys.Number(key.Within(a.by)))
		if n == len(lives) {
			lives = append(lives, frames.Lives{Group: keys.All[n].Texts(a.Plan, a.Plan.GroupBy, a.Names),
				Items: &survival.Cohort{}})
		}
		lives[n].Items.Add(itemOf(r, a.Plan.Window))
	}
	return frames.Curves(a.Plan, a.About, "survival", "runs", lives, (*survival.Cohort).AalenJohansen), nil
}

// itemOf is a run as a survival curve takes it: eviction is the event, another end that is seen competes, and a run
// that is still going on or was lost from sight is censored.
func itemOf(r *linked.Run, w pool.Window) survival.Item {
	fate := survival.Competing
	switch r.Result {
	case runs.Evicted:
		fate = survival.Event
	case runs.Running, runs.Lost, runs.Ambiguous:
		fate = survival.Censored
	}
	return survival.Item{Entry: max(0, w.From-r.Start), Exit: r.Length(), Fate: fate}
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
	case saved == 0 && !a.History.Clocks.Epochs():
		about.Info("no evicted run is known to have saved a checkpoint: lost GPU hours count from the start of the runs, " +
			"which is an upper bound if jobs save checkpoints. HTCondor writes JobLastCheckpointTime into epoch ads only: " +
			jobs.WriteEpochs)
	default:
		about.Tell("Evicted runs that saved a checkpoint", "percent", 100*float64(saved)/float64(evicted), "%d of %d "+
			"evicted runs are known to have saved a checkpoint: of the others all GPU hours count as lost", saved, evicted)
	}
	if yields > 0 && !a.History.Clocks.Epochs() {
		about.Warn("%s of jobs that yield their slot after a checkpoint: without epoch ads nearly every yield counts as an "+
			"eviction (measured: evicted hours 1.4 times, lost hours twice the true ones). %s", frames.Count(yields, "run"),
			jobs.WriteEpochs)
	}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		about.Count(fmt.Sprintf("Runs with the unknown vacate code %d", code), codes[code], "%s with the vacate code %d, "+
			"whose meaning is not known: counted as evicted, cause unknown", frames.Count(codes[code], "run"), code)
	}
}
