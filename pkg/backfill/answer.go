// Package backfill answers how long GPUs are free for backfill, and how the backfill pool is used: queries of kind
// backfillAvailability (methodology sections 7, 9 and 10).
package backfill

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/parallel"
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
	chosen := func() *runs.Chosen { return runs.Choose(linked.BackfillFilter(&p.Select), o.View) } // for one goroutine
	names := o.View.Names.Texts()
	a := answer{plan: p, about: about, observed: o, names: names, slices: opened.Slices.Begin, chosen: chosen()}
	a.first, a.end = o.View.Snapshots(p.Window)
	if err := a.divide(); err != nil {
		return nil, err
	}
	// What snapshots alone show is counted while ads are asked for, which takes one core most of the time.
	tasks, _ := parallel.WithContext(ctx)
	if a.calendar != nil {
		tasks.Go(func() (err error) {
			a.states, err = occupy(ctx, o, a.calendar, a.buckets.Len(), &grouping{p.GroupBy, names, p.Shown}, chosen())
			return err
		})
	}
	err = a.find(ctx, s.Ads)
	if err := cmp.Or(err, tasks.Wait()); err != nil {
		return nil, err
	}
	return a.frames(ctx)
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

// find finds the periods of the answer, and says how well the ads describe the runs that bound them.
func (a *answer) find(ctx context.Context, source jobs.Source) error {
	wanted := a.measures()
	if wanted == nil {
		return nil
	}
	o, w := a.observed, a.plan.Window
	of, err := linked.Known(ctx, o, source, w, "periods start and end at snapshots, half a cadence off on average",
		a.about)
	if err != nil {
		return err
	}
	a.names = o.View.Names.Texts() // unseen runs can have new ones
	a.explained = of.Explanations
	var all [measures]*known
	listing, _ := parallel.WithContext(ctx)
	for _, m := range wanted {
		listing.Go(func() (err error) {
			all[m], err = periodsOf(ctx, o, of, m)
			return err
		})
	}
	if err := listing.Wait(); err != nil {
		return fmt.Errorf("listing periods: %w", err)
	}
	var share linked.Share
	links := of.Sharp && a.plan.View != "jobLength"
	linking, _ := parallel.WithContext(ctx) // beside choosing and adding up
	if links {
		linking.Go(func() error {
			b, err := boundingOf(ctx, of, wanted, all)
			if err != nil {
				return fmt.Errorf("linking periods: %w", err)
			}
			share = shareOf(b, o, w, a.plan.Now)
			return nil
		})
	}
	if err = a.choose(ctx, of, wanted, &all); err == nil && a.plan.View == "summary" {
		err = a.addUp(ctx)
	}
	if err := cmp.Or(err, linking.Wait()); err != nil {
		return err
	}
	if links {
		a.tellLinks(share)
	}
	a.tellPeriods()
	return nil
}

// choose brings the wanted periods to the window, in the order in which the view shows them.
func (a *answer) choose(ctx context.Context, of *runs.Known, wanted []measure, all *[measures]*known) (err error) {
	o, w := a.observed, a.plan.Window
	choosing := &choosing{observed: o, window: w, since: o.Since(w)}
	if a.plan.View == "jobLength" {
		choosing.whole = gpuTenures{}
	}
	g := &grouping{a.plan.GroupBy, a.names, a.plan.Shown}
	for _, m := range wanted {
		choosing.cutter = cutter{measure: m, observed: o, explained: of.Explanations}
		if a.periods[m], err = all[m].choose(choosing, g.among(all[m].classes, a.chosen, 0)); err != nil {
			return err
		}
	}
	switch a.plan.View {
	case "periods":
		if a.order, err = newestFirst(ctx, of, a.measure(), all[a.measure()]); err != nil {
			return fmt.Errorf("listing periods: %w", err)
		}
	case "jobLength":
		a.follow(of, all[tenure], choosing.whole)
	}
	return nil
}

// tellPeriods counts what is in no statistics (methodology section 10). The GPUs of a machine are reclaimed together:
// the number of machines says how much the number of periods is worth.
func (a *answer) tellPeriods() {
	for m, of := range a.periods {
		if of == nil {
			continue
		}
		name := [...]string{vacancy: "Vacancies", tenure: "Tenures"}[m]
		n := of.total()
		a.about.Stat(name, "locale", float64(n[complete]+n[censored]+n[unknownStart]+n[leftTruncated]))
		a.about.Stat(name+": machines", "locale", float64(count(of.seen)))
		a.about.Stat(name+": censored", "locale", float64(n[censored]))
		a.about.Stat(name+": unknown start", "locale", float64(n[unknownStart]))
		if truncated := n[leftTruncated]; truncated > 0 {
			a.about.Info("%s that began more than 7 days before the window: %d left out of all statistics", name,
				truncated)
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

// tellLinks says how many of the runs that bound periods have an ad.
func (a *answer) tellLinks(share linked.Share) {
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
