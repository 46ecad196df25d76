// Package backfill answers how long GPUs are free for backfill, and how the backfill pool is used: queries of kind
// backfillAvailability (methodology sections 7, 9 and 10).
package backfill

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
)

// Answer answers a query. Without a job source (nil), and when it does not answer, times are those of the snapshots,
// and a notice says so. Errors: pool.BadQuery, pool.SourceError when no snapshot can be read, ctx's.
func Answer(ctx context.Context, s *stores.Stores, p *query.Plan) (data.Frames, error) {
	opened, err := linked.Open(ctx, s, p)
	if err != nil {
		return nil, err
	}
	o, about := opened.Observed, opened.About
	a := answer{plan: p, about: about, observed: o, names: o.View.Names.Texts(), slices: opened.Slices.Begin,
		chosen: runs.Choose(linked.BackfillFilter(&p.Select), o.View)}
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
	byMachine, room := make([][]Period, len(o.Machines)), 0
	for n := range o.Machines {
		room += most(&o.Machines[n], m)
	}
	all := make([]Period, room) // in one place, a part for each machine: they are many
	for n, from := 0, 0; n < len(byMachine); n++ {
		until := from + most(&o.Machines[n], m)
		byMachine[n], from = all[from:from:until], until
	}
	if err := parallel.Each(ctx, len(o.Machines), func(_ *struct{}, n int) {
		byMachine[n] = find(o, n, m, w, byMachine[n])
	}); err != nil {
		return nil, err
	}
	n := 0
	for _, list := range byMachine {
		n += copy(all[n:], list)
	}
	return all[:n], nil
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
	known, err := linked.Known(ctx, o, source, w, "periods start and end at snapshots, half a cadence off on average",
		a.about)
	if err != nil {
		return err
	}
	x := known.Explanations
	a.names = o.View.Names.Texts() // unseen runs can have new ones
	chosen := x.Choose(wanted)
	if known.Sharp {
		a.tellLinks(x, chosen)
	}
	whole := a.cutToRuns(x, known.Sharp)
	if a.plan.View == "jobLength" {
		a.residualRuns = a.residuals(x, whole, chosen)
		a.about.Stat("Runs", "short", float64(len(a.residualRuns)))
	}
	a.tellPeriods()
	return nil
}

// cutToRuns moves the periods' ends to those of the runs that bound them (if there are ads), parts them by what the
// runs say, and keeps what of them is in the window and passes the filter. It returns all parts, before that, by GPU:
// the view jobLength follows them beyond the window.
func (a *answer) cutToRuns(x *runs.Explanations, sharp bool) gpuTenures {
	o, w := a.observed, a.plan.Window
	whole := gpuTenures{}
	for m := range a.periods {
		kept, inPlace := a.periods[m][:0], true
		cutter := cutter{measure: measure(m), explained: x}
		for i, p := range a.periods[m] {
			if sharp {
				p.sharpen(o, &x.Machines[p.machine])
			}
			p.close(o, w)
			parts := cutter.parts(p)
			if inPlace && len(kept)+len(parts) > i+1 { // they would cover what is still to be read
				kept, inPlace = append(make([]Period, 0, len(a.periods[m])+len(parts)), kept...), false
			}
			for _, part := range parts {
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
	return whole
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
func (a *answer) tellLinks(x *runs.Explanations, chosen func(int, *runs.Explained) bool) {
	share := linked.ShareOf(x, a.plan.Now, chosen)
	a.about.Stat("Runs without a job ad", "locale", float64(share.Counted-share.Linked))
	rate := share.Rate()
	if math.IsNaN(rate) {
		a.about.Info("job ads: %d of %d runs that bound periods are linked", share.Linked, share.Counted)
		return
	}
	a.about.Stat("Link rate", "percent", rate)
	if rate < 50 {
		a.about.Warn("job ads: only %d of %d runs that bound periods and ended more than 30 min ago are linked: most "+
			"periods start and end at snapshots, half a cadence off on average. Check the job source's index and period",
			share.Linked, share.Counted)
	}
}
