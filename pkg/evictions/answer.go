// Package evictions answers how often jobs on backfill GPUs are evicted, why, and what that costs: queries of kind
// evictions (methodology sections 8 to 10).
package evictions

import (
	"context"
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
	opened, err := linked.Open(ctx, s, p)
	if err != nil {
		return nil, err
	}
	o, about := opened.Observed, opened.About

	known, err := linked.Known(ctx, o, s.Ads, p.Window, "outcomes are those that snapshots show, "+
		"completions cannot be seen: "+blindness,
		about)
	if err != nil {
		return nil, err
	}
	names := o.View.Names.Texts()
	a := answer{plan: p, about: about, observed: o, names: names, known: known, slices: opened.Slices.Begin,
		chosen:     runs.Choose(linked.BackfillFilter(&p.Select), o.View),
		byEviction: ByEviction(p.GroupBy) || !p.Select.TakenOverBy.All()}
	a.overBy = slices.DeleteFunc(slices.Clone(p.GroupBy), func(g string) bool { return ByEviction([]string{g}) })
	a.blind = !known.Sharp || linked.ShareOf(known.Explanations, p.Now, linked.OnBackfill(p.Window)).Tell("",
		"completions cannot be seen: "+blindness, about)
	return a.frames(ctx)
}

// answer builds one answer's frames.
type answer struct {
	plan       *query.Plan
	about      *frames.About
	observed   *runs.Observed
	names      []string
	known      *runs.Known
	chosen     *runs.Chosen
	blind      bool          // completions cannot be seen
	byEviction bool          // groups know evictions only
	overBy     []string      // the groupings without cause and evidence: those of the GPU-hours that rates are over
	slices     []pool.Micros // beginnings of the window's slices
}

func (a *answer) frames(ctx context.Context) (data.Frames, error) {
	switch a.plan.View {
	case "events":
		return a.events(ctx)
	case "runs":
		return a.list(ctx)
	case "jobs":
		return a.jobs(ctx)
	case "survival":
		return a.survival(ctx)
	case "hourOfWeek":
		return a.hourOfWeek(ctx)
	case "annotations":
		return a.annotations(ctx)
	}
	f, err := a.figures(ctx)
	if err != nil {
		return nil, err
	}
	return Frames(f, a.plan, a.about), nil
}

// takenOver reports whether the filter of those who took GPUs over lets a run pass; one that was not evicted passes
// only without such a filter.
func (a *answer) takenOver(r *Run) bool {
	chosen := &a.plan.Select
	return chosen.MatchTakenOver(a.names[r.TakenBy], r.Takeover && r.Result == runs.Evicted)
}

// survival draws 1 − the share evicted, with completion and yielding competing.
func (a *answer) survival(ctx context.Context) (data.Frames, error) {
	var keys pool.Numbered[aggregate.Key]
	var lives []frames.Lives
	err := a.each(ctx, func(r *Run) error {
		key := r.key()
		n := int(keys.Number(key.Within(a.plan.GroupBy)))
		if n == len(lives) {
			lives = append(lives, frames.Lives{Group: keys.All[n].Texts(a.plan, a.plan.GroupBy, a.names),
				Items: &survival.Cohort{}})
		}
		lives[n].Items.Add(r.item(a.plan.Window))
		return nil
	})
	if err != nil || a.blind {
		return a.about.Finish(nil), err
	}
	return frames.Curves(a.plan, a.about, "survival", "runs", lives, (*survival.Cohort).AalenJohansen), nil
}

// blindness explains the consequences if completions cannot be seen.
const blindness = "evictedPercent, medianHoursToEviction and survival have no value; ratePer100GpuHours and " +
	"lostGpuHours can be wrong in both directions: a completion that an owner's job follows within one cadence counts " +
	"as an eviction, a run between two snapshots not at all (measured rates: 0.9 to 1.8 times the true one)"

// Blind reports whether completions cannot be seen: without job ads (not sharp), or because too few runs have one.
func Blind(sharp bool, withAd, counted int) bool {
	return !sharp || linked.Share{Linked: withAd, Counted: counted}.Rate() < linked.LeastRate
}

// oddities count irregularities of the runs.
type oddities struct {
	runs, machines                 int
	clamped, lost, running, unseen int
	evicted, saved, yields         int
	codes                          map[int32]int
	machine                        int // of the run that was added last
}

// each yields the runs that overlap the window and pass the filter, as the function each does, and then adds notices
// about irregular ones.
func (a *answer) each(ctx context.Context, yield func(*Run) error) error {
	odd := oddities{codes: map[int32]int{}, machine: -1}
	err := each(ctx, a.observed, a.known.Explanations, a.plan.Window, func(r *Run) error {
		if !a.chosen.Place(r.Place) || !a.chosen.Project(r.Project) || !a.chosen.User(r.User) {
			return nil
		}
		odd.add(r)
		return yield(r)
	})
	if err == nil {
		odd.tell(a.about, a.known)
	}
	return err
}

func (o *oddities) add(r *Run) {
	o.runs++
	if r.Machine != o.machine { // they come by machine
		o.machines++
		o.machine = r.Machine
	}
	if r.Clamped {
		o.clamped++
	}
	if r.Link == runs.AdOnly {
		o.unseen++
	}
	switch r.Result {
	case runs.Lost:
		o.lost++
	case runs.Running:
		o.running++
	case runs.Evicted:
		if o.evicted++; r.saved() {
			o.saved++
		}
	}
	if r.Yields {
		o.yields++
	}
	if r.UnknownCode != 0 {
		o.codes[r.UnknownCode]++
	}
}

// tell adds notices about the irregularities.
func (o *oddities) tell(about *frames.About, known *runs.Known) {
	about.Stat("Runs", "locale", float64(o.runs))
	about.Stat("Runs: machines", "locale", float64(o.machines)) // GPUs of a machine are reclaimed together
	about.Stat("Runs: censored", "locale", float64(o.lost+o.running))
	if o.unseen > 0 {
		about.Stat("Runs between snapshots", "short", float64(o.unseen))
	}
	if o.clamped > 0 {
		about.Info("%s ended before the start by the job ads: the end is set to the start", frames.Count(o.clamped, "run"))
	}
	if o.lost > 0 {
		about.Info("%s lost from sight in a gap or while the machine was silent", frames.Count(o.lost, "run"))
	}
	switch {
	case o.evicted == 0 || !known.Sharp:
	case o.saved == 0:
		about.Info("no evicted run is known to have saved a checkpoint: lost GPU hours count from the start of the runs, " +
			"which is an upper bound if jobs save checkpoints. HTCondor writes JobLastCheckpointTime into epoch ads only: " +
			jobs.WriteEpochs)
	default:
		about.Stat("Evicted runs that saved a checkpoint", "percent", 100*float64(o.saved)/float64(o.evicted))
		about.Info("%d of %d evicted runs are known to have saved a checkpoint: of the others all GPU hours count as lost",
			o.saved, o.evicted)
	}
	if o.yields > 0 && !known.Clocks.Epochs() {
		about.Warn("%s of jobs that yield their slot after a checkpoint: without epoch ads nearly every yield counts as an "+
			"eviction (measured: evicted hours 1.4 times, lost hours twice the true ones). %s", frames.Count(o.yields, "run"),
			jobs.WriteEpochs)
	}
	for _, code := range slices.Sorted(maps.Keys(o.codes)) {
		about.Info("%s with the vacate code %d, whose meaning is not known: counted as evicted, cause unknown",
			frames.Count(o.codes[code], "run"), code)
	}
}
