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
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Answer answers a query. Without a job source (nil), and when it does not answer, snapshots alone tell, and a notice
// says what that means. Errors: pool.BadQuery, pool.SourceError when no snapshot can be read, ctx's.
func Answer(ctx context.Context, s *stores.Stores, p *query.Plan) (data.Frames, error) {
	near, err := s.Timeline.Load(ctx, p.Window.From, p.Window.To)
	if err != nil {
		return nil, err
	}
	o, err := s.Runs.Look(ctx, p.Window, p.Env.Lists)
	if err != nil {
		return nil, err
	}
	times, err := near.Slices(ctx, p.Env.Zone, p.Env.SliceMinutes, p.Window)
	if err != nil {
		return nil, err
	}
	about := frames.NewAbout(p, near, times.Coverage(p.Env.Lists))
	about.Unmatched(near, runs.DaysOf(near, p.Window))

	wanted := inReach(o, p.Window)
	known, blind, err := askAds(ctx, o, s.Ads, runs.Question{Window: p.Window, Wanted: wanted, Unseen: p.Window}, about)
	if err != nil {
		return nil, err
	}
	x, err := o.Explain(ctx, known, wanted)
	if err != nil {
		return nil, fmt.Errorf("explaining runs: %w", err)
	}
	all := collect(o, x, p.Window)
	if !blind {
		blind = tellLinks(all, p.Now, about)
	}
	chosen := runs.Choose(filterOf(&p.Select), o.View)
	all = slices.DeleteFunc(all, func(r Run) bool {
		return !chosen.Place(r.Place) || !chosen.User(r.User) ||
			!chosen.Project(r.Project)
	})
	tellOddities(all, about)
	a := answer{plan: p, about: about, observed: o, names: o.View.Names.Texts(), runs: all, blind: blind,
		slices: times.Begin}
	return a.frames(ctx)
}

// blindness is what it means that completions cannot be seen.
const blindness = "evictedPercent, medianHoursToEviction and survival have no value; ratePer100GpuHours and " +
	"lostGpuHours can be wrong in " +
	"both directions: a completion that an owner's job follows within one cadence counts as an eviction, a run between " +
	"two snapshots not at all " +
	"(measured rates: 0.9 to 1.8 times the true one)"

// inReach reports whether a run on backfill may overlap the window.
func inReach(o *runs.Observed, w pool.Window) runs.Wanted {
	near := o.InReach(w)
	return func(m, i int) bool { return o.Machines[m].Runs[i].Side == pool.Backfill && near(m, i) }
}

// askAds looks up the ads; blind tells that there are none to be had, so that completions cannot be seen.
func askAds(ctx context.Context, o *runs.Observed, source jobs.Source, q runs.Question,
	about *frames.About) (*runs.Ads, bool, error) {
	const meaning = "completions cannot be seen: " + blindness
	if source == nil {
		about.Info("no job source is set up, only snapshots tell: %s", meaning)
		return nil, true, nil
	}
	ads, notices, failure, err := o.Ask(ctx, source, q)
	if err != nil {
		return nil, false, err
	}
	if failure != nil {
		about.Warn("job ads could not be read, only snapshots tell: %s. %v", meaning, failure)
		return nil, true, nil
	}
	for _, n := range append(notices, runs.ClockNotices(ads.ClocksIn(q.Window))...) {
		about.Warn("%s", n)
	}
	return ads, false, nil
}

// tellLinks says how many runs have an ad; blind tells that too few do.
func tellLinks(all []Run, now pool.Micros, about *frames.About) (blind bool) {
	rate, linked, counted := linkRate(all, now)
	about.Stat("Runs without a job ad", "locale", float64(counted-linked))
	switch {
	case math.IsNaN(rate):
		about.Info("job ads: %d of %d runs that ended more than 30 min ago are linked", linked, counted)
	case rate < 50:
		about.Stat("Link rate", "percent", rate)
		about.Warn("job ads: only %d of %d runs that ended more than 30 min ago are linked (%s %%), completions cannot be "+
			"seen: %s. Check the job source's index and period", linked, counted, frames.Decimal(rate), blindness)
		return true
	default:
		about.Stat("Link rate", "percent", rate)
	}
	return false
}

// tellOddities says what was odd about the runs.
func tellOddities(all []Run, about *frames.About) {
	machines := map[timeline.Symbol]bool{}
	clamped, lost, running, unseen := 0, 0, 0, 0
	codes := map[int32]int{}
	for i := range all {
		r := &all[i]
		machines[r.Machine.Name] = true
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
	about.Stat("Runs: machines", "locale", float64(len(machines))) // GPUs of a machine are reclaimed together
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

// filterOf is the query's filter as runs know it.
func filterOf(s *query.Selection) runs.Filter {
	return runs.Filter{
		Machine: s.Machines.Match, Device: s.MatchDevice, Project: s.MatchProjects,
		User:      func(user string) bool { return s.Users.Match(query.Shown("user", user)) },
		Ownership: func(o pool.Ownership) bool { return s.Ownerships[o] && s.Categories[pool.BackfillCategory(o)] },
	}
}
