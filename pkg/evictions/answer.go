// Package evictions answers how often jobs on backfill GPUs are evicted, why, and what that costs: queries of kind
// evictions (methodology sections 8 to 10).
package evictions

import (
	"context"
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
	x := known.Explanations
	all := collect(o, x, p.Window)
	blind := !known.Sharp || addLinks(linked.ShareOf(x, p.Now, linked.OnBackfill(p.Window)), about)
	chosen := runs.Choose(linked.BackfillFilter(&p.Select), o.View)
	all = slices.DeleteFunc(all, func(r Run) bool {
		return !chosen.Place(r.Place) || !chosen.User(r.User) ||
			!chosen.Project(r.Project)
	})
	tellOddities(all, about)
	a := answer{plan: p, about: about, observed: o, names: o.View.Names.Texts(), runs: all, blind: blind,
		slices: opened.Slices.Begin}
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

// tellOddities says what was odd about the runs.
func tellOddities(all []Run, about *frames.About) {
	machines := 0
	clamped, lost, running, unseen := 0, 0, 0, 0
	codes := map[int32]int{}
	for i := range all {
		r := &all[i]
		if i == 0 || r.Machine != all[i-1].Machine { // they come by machine
			machines++
		}
		if r.Clamped {
			clamped++
		}
		if r.Link == runs.AdOnly {
			unseen++
		}
		switch r.Result {
		case runs.Lost:
			lost++
		case runs.Running:
			running++
		}
		if r.UnknownCode != 0 {
			codes[r.UnknownCode]++
		}
	}
	about.Stat("Runs", "locale", float64(len(all)))
	about.Stat("Runs: machines", "locale", float64(machines)) // GPUs of a machine are reclaimed together
	about.Stat("Runs: censored", "locale", float64(lost+running))
	if unseen > 0 {
		about.Stat("Runs between snapshots", "short", float64(unseen))
	}
	if clamped > 0 {
		about.Info("%d runs end before they start by their job ads: their end is set to the start", clamped)
	}
	if lost > 0 {
		about.Info("%d runs were lost from sight in a gap or while their machine was silent", lost)
	}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		about.Info("%d runs have the vacate code %d, whose meaning is not known: counted as evicted, cause unknown",
			codes[code], code)
	}
}
