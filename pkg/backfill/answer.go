// Package backfill answers how long GPUs are free for backfill, and how the backfill pool is used: queries of kind
// backfillAvailability (methodology sections 7, 9 and 10).
package backfill

import (
	"context"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
)

// Answer answers a query. Without a job source (nil), and when it does not answer, times come from the snapshots,
// and a notice says so. Errors: pool.BadQuery, pool.SourceError when no snapshot can be read, ctx's.
func Answer(ctx context.Context, s *stores.Stores, p *query.Plan) (data.Frames, error) {
	meaning := ""
	if len(wanted(p)) > 0 {
		meaning = "periods start and end at snapshots, half a cadence off on average"
	}
	o, err := linked.OpenExplained(ctx, s, p, meaning)
	if err != nil {
		return nil, err
	}
	a := answer{Opening: o, memo: s.Memo, wanted: wanted(p), sliceOf: o.Slices.Snapshots(),
		chosen: aggregate.NewFilter(p, o.Names), by: query.GroupingsOf(p.GroupBy)}
	a.first, a.end = o.Observed.View.Snapshots(p.Window)
	if len(a.wanted) > 0 {
		if err := a.find(ctx); err != nil {
			return nil, err
		}
	}
	return views[p.View](&a, ctx)
}

var views = map[string]func(*answer, context.Context) (data.Frames, error){
	"summary": (*answer).sums, "timeseries": (*answer).sums, "periods": (*answer).list,
	"transitions": (*answer).transitions, "survival": (*answer).survival, "hourOfWeek": (*answer).hourOfWeek,
	"jobLength": (*answer).jobLength, "advice": (*answer).advice,
}

type answer struct {
	*linked.Opening
	memo       stores.Memo
	chosen     aggregate.Filter    // the filter of the query
	by         []query.Grouping    // what groups are made by
	sliceOf    []pool.Micros       // beginning of the slice of each of the window's snapshots
	first, end int                 // the window's snapshots
	wanted     []measure           // which periods the answer is made of
	periods    [measures][]*Period // by measure: those that overlap the window and pass the filter
	statistics [measures]struct {
		keys  pool.Numbered[aggregate.Key]
		of    []*statistics // by the number of their key
		total *statistics
	}

	residualRuns []residual // for the views jobLength and advice
}

// wanted are the measures of periods that an answer is made of.
func wanted(p *query.Plan) []measure {
	switch p.View {
	case "summary":
		return []measure{vacancy, tenure}
	case "timeseries":
		return []measure{vacancy}
	case "periods", "survival":
		if p.Duration == "tenure" {
			return []measure{tenure}
		}
		return []measure{vacancy}
	case "jobLength", "advice":
		return []measure{tenure}
	}
	return nil
}

// isOnJobs reports whether the answer has statistics on jobs.
func (a *answer) isOnJobs() bool { return a.Plan.View == "jobLength" || a.Plan.View == "advice" }

// tellPeriods counts the periods that are in no statistics (methodology section 10). The number of machines shows how
// many periods are independent, because the GPUs of a machine are reclaimed together.
func (a *answer) tellPeriods() {
	for _, m := range a.wanted {
		name := [...]string{vacancy: "Vacancies", tenure: "Tenures"}[m]
		machines, n := 0, a.statistics[m].total.fates
		for i, p := range a.periods[m] { // by machine
			if i == 0 || p.Place.Machine != a.periods[m][i-1].Place.Machine {
				machines++
			}
		}
		a.About.Stat(name, "locale", float64(len(a.periods[m])))
		a.About.Stat(name+": machines", "locale", float64(machines))
		a.About.Stat(name+": censored", "locale", float64(n[censored]))
		a.About.Stat(name+": unknown start", "locale", float64(n[unknownStart]))
		if truncated := n[leftTruncated]; truncated > 0 {
			a.About.Count(name+": began too early", truncated, "%s that began more than 7 days before the time range: %d left "+
				"out of all statistics", name, truncated)
		}
	}
}

// list shows the periods, newest first; those that end together by machine, GPU and time.
func (a *answer) list(context.Context) (data.Frames, error) {
	periods := frames.Newest(a.About, a.periods[a.wanted[0]], func(p *Period) pool.Micros { return p.End })
	return frames.Columns(a.Plan, a.About,
		periods.Text("machine", func(p *Period) string { return a.Names[p.Place.Machine] }),
		periods.Text("gpu", func(p *Period) string { return a.Names[p.GPU] }),
		periods.Text("device", func(p *Period) string { return a.Plan.Shown("device", a.Names[p.Place.Device]) }),
		periods.Text("category", func(p *Period) string { return p.Place.Category().String() }),
		periods.Time("start", func(p *Period) pool.Micros { return p.Start }),
		periods.Time("end", func(p *Period) pool.Micros { return p.End }),
		periods.Number("hours", func(p *Period) float64 { return pool.Hours(p.Length()) }),
		periods.Text("endReason", func(p *Period) string { return p.Reason.String() }),
		periods.Bool("censored", (*Period).Censored),
		periods.Bool("leftTruncated", func(p *Period) bool { return p.Beginning == LeftTruncated }),
		periods.Bool("unknownStart", func(p *Period) bool { return p.Beginning == UnknownStart }),
		periods.Text("job", func(p *Period) string {
			if p.Job.IsNone() {
				return ""
			}
			return a.Plan.Shown("job", a.Observed.View.Names.JobText(p.Job))
		}),
		periods.Text("link", func(p *Period) string {
			if p.Reason != Claimed && p.Reason != Reclaimed { // no run ended it
				return ""
			}
			return p.Link.String()
		})), nil
}
