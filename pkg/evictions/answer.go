// Package evictions answers how often jobs on backfill GPUs are evicted, why, and what that costs: queries of kind
// evictions (methodology sections 8 to 10).
package evictions

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
)

// Answer answers a query. Without a job source (nil), and when it does not answer, snapshots alone count, and a notice
// says what that means. Errors: pool.BadQuery, pool.SourceError when no snapshot can be read, ctx's.
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
	all, err := tableOf(ctx, known)
	if err != nil {
		return nil, fmt.Errorf("listing backfill runs: %w", err)
	}
	names := o.View.Names.Texts()
	g := grouping{p.GroupBy, names, p.Shown}
	a := answer{plan: p, about: about, observed: o, names: names, known: known,
		runs: all.in(o, p.Window), slices: opened.Slices.Begin,
		groups: g.among(all.classes, runs.Choose(linked.BackfillFilter(&p.Select), o.View))}
	a.blind = !known.Sharp || addLinks(all.share(p.Window, p.Now), about)
	return a.frames(ctx)
}

// blindness is what it means that completions cannot be seen.
const blindness = "evictedPercent, medianHoursToEviction and survival have no value; ratePer100GpuHours and " +
	"lostGpuHours can be wrong in both directions: a completion that an owner's job follows within one cadence counts " +
	"as an eviction, a run between two snapshots not at all (measured rates: 0.9 to 1.8 times the true one)"

// leastLinked is the link rate below which completions cannot be seen, in percent (methodology section 8).
const leastLinked = 50

// Blind reports whether completions cannot be seen: without job ads (not sharp), or because too few runs have one.
func Blind(sharp bool, withAd, counted int) bool {
	return !sharp || linked.Share{Linked: withAd, Counted: counted}.Rate() < leastLinked
}

// addLinks says how many runs have an ad; blind says that too few do.
func addLinks(share linked.Share, about *frames.About) (blind bool) {
	rate := share.Rate()
	about.Stat("Runs without a job ad", "locale", float64(share.Counted-share.Linked))
	switch {
	case math.IsNaN(rate):
		about.Info("job ads: %d of %d runs that ended more than 30 min ago are linked", share.Linked, share.Counted)
	case rate < leastLinked:
		about.Stat("Link rate", "percent", rate)
		about.Warn("job ads: only %d of %d runs that ended more than 30 min ago are linked (%s %%), completions cannot be "+
			"seen: %s. Check the job source's index and period", share.Linked, share.Counted, frames.Decimal(rate), blindness)
		return true
	default:
		about.Stat("Link rate", "percent", rate)
	}
	return false
}

// oddities are what was odd about the runs.
type oddities struct {
	runs, machines                 int
	clamped, lost, running, unseen int
	codes                          map[int32]int
	machine                        int32 // of the run that was added last
}

// each yields the answer's runs, as looking.each does, and then says what was odd about them.
func (a *answer) each(ctx context.Context, yield func(number int32, r *Run) error) error {
	odd := oddities{codes: map[int32]int{}, machine: -1}
	err := a.runs.each(ctx, a.groups, func(number int32, r *Run) error {
		odd.add(r)
		return yield(number, r)
	})
	if err == nil {
		odd.tell(a.about)
	}
	return err
}

func (o *oddities) add(r *Run) {
	o.runs++
	if r.machine != o.machine { // they come by machine
		o.machines++
		o.machine = r.machine
	}
	if r.clamped {
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
	}
	if r.UnknownCode != 0 {
		o.codes[r.UnknownCode]++
	}
}

// tell says what was odd.
func (o *oddities) tell(about *frames.About) {
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
	for _, code := range slices.Sorted(maps.Keys(o.codes)) {
		about.Info("%s with the vacate code %d, whose meaning is not known: counted as evicted, cause unknown",
			frames.Count(o.codes[code], "run"), code)
	}
}
