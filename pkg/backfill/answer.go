// Package backfill answers how long GPUs are free for backfill, and how the backfill pool is used: queries of kind
// backfillAvailability (methodology sections 7, 9 and 10).
package backfill

import (
	"cmp"
	"context"
	"fmt"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
)

// Answer answers a query. Without a job source (nil), and when it does not answer, times come from the snapshots,
// and a notice says so. Errors: pool.BadQuery, pool.SourceError when no snapshot can be read, ctx's.
func Answer(ctx context.Context, s *stores.Stores, p *query.Plan) (data.Frames, error) {
	opened, err := linked.Open(ctx, s, p)
	if err != nil {
		return nil, err
	}
	o := opened.Observed
	a := answer{plan: p, about: opened.About, observed: o, names: o.View.Names.Texts(), slices: opened.Slices.Begin,
		sliceOf: opened.Slices.Snapshots()}
	a.first, a.end = o.View.Snapshots(p.Window)
	// GPU-snapshots are counted while ads are requested, which takes one core most of the time.
	tasks, _ := parallel.WithContext(ctx)
	if p.View == "summary" || p.View == "timeseries" {
		if a.buckets, err = p.Buckets(p.Window.From); err != nil {
			return nil, err
		}
		c := newCalendar(a.sliceOf, a.first, a.buckets)
		tasks.Go(func() (err error) {
			a.states, err = occupy(ctx, o, c, p.GroupBy, a.newFilter())
			return err
		})
	}
	err = a.find(ctx, s.Ads)
	if err := cmp.Or(err, tasks.Wait()); err != nil {
		return nil, err
	}
	return a.frames(ctx)
}

// answer builds one answer's frames.
type answer struct {
	plan       *query.Plan
	about      *frames.About
	observed   *runs.Observed
	names      []string
	slices     []pool.Micros      // beginnings of the window's slices
	sliceOf    []pool.Micros      // beginning of the slice of each of the window's snapshots
	first, end int                // the window's snapshots
	periods    [measures][]Period // by measure: those that overlap the window and pass the filter
	explained  *runs.Explanations

	buckets    query.Buckets // of the views summary, which has one, and timeseries
	states     *states       // of the same
	statistics [measures]struct {
		keys  pool.Numbered[aggregate.Key]
		of    []*statistics // by the number of their key
		total *statistics
	}

	residualRuns []residual // of the views jobLength and advice
}

// newFilter returns the query's filter of GPUs, for one goroutine.
func (a *answer) newFilter() *runs.Chosen {
	return runs.Choose(linked.BackfillFilter(&a.plan.Select), a.observed.View)
}

func (a *answer) frames(ctx context.Context) (data.Frames, error) {
	switch a.plan.View {
	case "summary", "timeseries":
		f, err := a.figures()
		if err != nil {
			return nil, err
		}
		return Frames(f, a.plan, a.about), nil
	case "periods":
		return a.list(), nil
	case "transitions":
		return a.transitions(ctx)
	case "survival":
		return a.survival(), nil
	case "jobLength":
		return a.jobLength(), nil
	case "advice":
		return a.advice(), nil
	}
	return a.hourOfWeek(ctx)
}

// wanted are the measures of periods that the answer is made of.
func (a *answer) wanted() []measure {
	switch a.plan.View {
	case "summary":
		return []measure{vacancy, tenure}
	case "timeseries":
		return []measure{vacancy}
	case "periods", "survival":
		return []measure{a.measure()}
	case "jobLength", "advice":
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
	wanted := a.wanted()
	if wanted == nil {
		return nil
	}
	o := a.observed
	of, err := linked.Known(ctx, o, source, a.plan.Window,
		"periods start and end at snapshots, half a cadence off on average", a.about)
	if err != nil {
		return err
	}
	a.names = o.View.Names.Texts() // unseen runs can have new ones
	a.explained = of.Explanations
	var all [measures]*known
	var whole gpuTenures
	ofJobs := a.plan.View == "jobLength" || a.plan.View == "advice"
	if ofJobs {
		whole = gpuTenures{}
	}
	tasks, _ := parallel.WithContext(ctx)
	for _, m := range wanted {
		tasks.Go(func() (err error) {
			if all[m], err = periodsOf(ctx, o, of, m); err != nil {
				return fmt.Errorf("listing periods: %w", err)
			}
			a.periods[m] = all[m].in(a, m, whole)
			a.addUp(m)
			return nil
		})
	}
	if err := tasks.Wait(); err != nil {
		return err
	}
	switch {
	case ofJobs:
		a.follow(of, all[tenure], whole)
	case of.Sharp:
		bounding := newMarks(o, a.plan.Window)
		for _, m := range wanted {
			bounding.boundaries(all[m].seen)
		}
		a.tellLinks(linked.ShareOf(of.Explanations, a.plan.Now, of.Choose(bounding.has)))
	}
	a.tellPeriods()
	return nil
}

// tellPeriods counts the periods that are in no statistics (methodology section 10). The number of machines shows how
// many periods are independent, because the GPUs of a machine are reclaimed together.
func (a *answer) tellPeriods() {
	for _, m := range a.wanted() {
		name := [...]string{vacancy: "Vacancies", tenure: "Tenures"}[m]
		machines, n := map[int32]bool{}, a.statistics[m].total.fates
		for i := range a.periods[m] {
			machines[a.periods[m][i].machine] = true
		}
		a.about.Stat(name, "locale", float64(len(a.periods[m])))
		a.about.Stat(name+": machines", "locale", float64(len(machines)))
		a.about.Stat(name+": censored", "locale", float64(n[censored]))
		a.about.Stat(name+": unknown start", "locale", float64(n[unknownStart]))
		if truncated := n[leftTruncated]; truncated > 0 {
			a.about.Info("%s that began more than 7 days before the time range: %d left out of all statistics", name,
				truncated)
		}
	}
}

// tellLinks says how many of the runs that bound periods have an ad.
func (a *answer) tellLinks(share linked.Share) {
	share.Tell("bound periods and ", "most periods start and end at snapshots, half a cadence off on average", a.about)
}
