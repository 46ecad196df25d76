// Package backfill answers how long GPUs are free for backfill, and how the backfill pool is used: queries of kind
// backfillAvailability (methodology sections 7, 9 and 10).
package backfill

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
)

// Answer answers a query. Without a job source (nil), and when it does not answer, times are those of the snapshots,
// and a notice says so. Errors: pool.BadQuery, pool.SourceError when no snapshot can be read, ctx's.
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
	a := answer{plan: p, about: about, observed: o, names: o.View.Names.Texts(), slices: times.Begin,
		chosen: runs.Choose(filterOf(&p.Select), o.View)}
	a.first, a.end = o.View.Snapshots(p.Window)
	for _, m := range a.measures() {
		if a.periods[m], err = listed(ctx, o, m, p.Window); err != nil {
			return nil, fmt.Errorf("listing periods: %w", err)
		}
	}
	if err := a.sharpen(ctx, s.Ads); err != nil {
		return nil, err
	}
	return a.frames()
}

// measures are the kinds of periods that the answer is made of.
func (a *answer) measures() []measure {
	switch a.plan.View {
	case "summary":
		return []measure{vacancy, tenure}
	case "timeseries":
		return []measure{vacancy}
	case "periods", "survival":
		return []measure{a.measure()}
	case "jobLength":
		return []measure{tenure}
	}
	return nil
}

func (a *answer) measure() measure {
	if a.plan.Duration == "tenure" {
		return tenure
	}
	return vacancy
}

// listed returns the periods of all machines that may overlap the window.
func listed(ctx context.Context, o *runs.Observed, m measure, w pool.Window) ([]Period, error) {
	byMachine := make([][]Period, len(o.Machines))
	if err := parallel.Each(ctx, len(o.Machines), func(_ *struct{},
		n int) {
		byMachine[n] = find(o, n, m, w)
	}); err != nil {
		return nil, err
	}
	return slices.Concat(byMachine...), nil
}

// sharpen looks up the ads of the runs that bound the periods, moves their ends, and cuts them to the window.
func (a *answer) sharpen(ctx context.Context, source jobs.Source) error {
	if a.periods[vacancy] == nil && a.periods[tenure] == nil {
		return nil
	}
	o, w := a.observed, a.plan.Window
	bounds := a.bounds()
	wanted := func(m, r int) bool { return bounds[m] != nil && bounds[m][r] }
	if a.plan.View == "jobLength" {
		starts := startsIn(o, a.periods[tenure])
		wanted = func(m, r int) bool { return bounds[m] != nil && bounds[m][r] || starts(m, r) }
	}
	ads, err := a.ask(ctx, source, wanted)
	if err != nil {
		return err
	}
	var x *runs.Explanations
	if ads != nil || a.plan.View == "jobLength" {
		if x, err = o.Explain(ctx, ads, wanted); err != nil {
			return fmt.Errorf("explaining runs: %w", err)
		}
		a.names = o.View.Names.Texts() // unseen runs can have new ones
	}
	if ads != nil {
		a.tellLinks(x)
	}
	whole := gpuTenures{}
	for m := range a.periods {
		kept := make([]Period, 0, len(a.periods[m]))
		cutter := cutter{measure: measure(m), explained: x}
		for _, p := range a.periods[m] {
			if ads != nil {
				p.sharpen(o, &x.Machines[p.machine])
			}
			p.close(o, w)
			for _, part := range cutter.parts(p) {
				if a.plan.View == "jobLength" {
					whole[part.GPU] = append(whole[part.GPU], part)
				}
				if part.cut(w) && a.chosen.Place(part.Place) && a.chosen.Project(part.Project) {
					kept = append(kept, part)
				}
			}
		}
		a.periods[m] = kept
	}
	if a.plan.View == "jobLength" {
		a.residualRuns = a.residuals(x, whole)
		a.about.Stat("Runs", "short", float64(len(a.residualRuns)))
	}
	a.tellPeriods()
	return nil
}

// ask looks up the ads that the wanted runs need; nil without a source that answers.
func (a *answer) ask(ctx context.Context, source jobs.Source, wanted runs.Wanted) (*runs.Ads, error) {
	w := a.plan.Window
	if source == nil {
		a.about.Info("no job source is set up: periods start and end at snapshots, half a cadence off on average")
		return nil, nil
	}
	q := runs.Question{Window: w, Wanted: wanted, Unseen: pool.Window{From: w.From - runs.Reach, To: w.To}}
	ads, notices, failure, err := a.observed.Ask(ctx, source, q)
	if err != nil {
		return nil, err
	}
	if failure != nil {
		a.about.Warn("job ads could not be read: periods start and end at snapshots, half a cadence off on average. %v",
			failure)
		return nil, nil
	}
	for _, n := range append(notices, runs.ClockNotices(ads.ClocksIn(w))...) {
		a.about.Warn("%s", n)
	}
	return ads, nil
}

// tellPeriods counts what is in no statistics (methodology section 10). The GPUs of a machine are reclaimed together:
// the number of machines says how much the number of periods is worth.
func (a *answer) tellPeriods() {
	for m, list := range a.periods {
		if list == nil {
			continue
		}
		name := [...]string{vacancy: "Vacancies", tenure: "Tenures"}[m]
		machines := make([]bool, len(a.observed.Machines))
		censored, unknown, truncated := 0, 0, 0
		for i := range list {
			p := &list[i]
			machines[p.machine] = true
			switch {
			case p.UnknownStart:
				unknown++
			case p.LeftTruncated:
				truncated++
			case p.Censored():
				censored++
			}
		}
		a.about.Stat(name, "locale", float64(len(list)))
		a.about.Stat(name+": machines", "locale", float64(count(machines)))
		a.about.Stat(name+": censored", "locale", float64(censored))
		a.about.Stat(name+": unknown start", "locale", float64(unknown))
		if truncated > 0 {
			a.about.Info("%d %s began more than 7 days before the window: left out of all statistics", truncated,
				strings.ToLower(name))
		}
	}
}

func count(marks []bool) (n int) {
	for _, m := range marks {
		if m {
			n++
		}
	}
	return n
}

// bounds marks the runs that bound a period, by machine.
func (a *answer) bounds() [][]bool {
	marks := make([][]bool, len(a.observed.Machines))
	for _, list := range a.periods {
		for i := range list {
			p := &list[i]
			for _, r := range [2]int32{p.startRun, p.endRun} {
				if r < 0 {
					continue
				}
				if marks[p.machine] == nil {
					marks[p.machine] = make([]bool, len(p.Machine.Runs))
				}
				marks[p.machine][r] = true
			}
		}
	}
	return marks
}

// tellLinks says how many of the runs that bound periods have an ad.
func (a *answer) tellLinks(x *runs.Explanations) {
	linked, counted := 0, 0
	for m := range x.Machines {
		for i := range x.Machines[m].Runs {
			e := &x.Machines[m].Runs[i]
			if e.Outcome == runs.Running || e.End >= a.plan.Now-30*pool.Minute {
				continue
			}
			counted++
			if e.Link.Linked() {
				linked++
			}
		}
	}
	a.about.Stat("Runs without a job ad", "locale", float64(counted-linked))
	switch {
	case counted < 20:
		a.about.Info("job ads: %d of %d runs that bound periods are linked", linked, counted)
	case 2*linked < counted:
		a.about.Warn("job ads: only %d of %d runs that bound periods and ended more than 30 min ago are linked: most "+
			"periods start and end at snapshots, half a cadence off on average. Check the job source's index and period",
			linked, counted)
		fallthrough
	default:
		a.about.Stat("Link rate", "percent", 100*float64(linked)/float64(counted))
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
