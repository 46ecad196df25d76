package runs

import (
	"context"
	"fmt"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Look loads the snapshots of a window and of its reach, and observes the pool.
func Look(ctx context.Context, tl *timeline.Timeline, w pool.Window, lists pool.Lists) (*Observed, error) {
	reach := pool.Window{From: w.From - Reach, To: w.To + Reach}
	v, err := tl.Load(ctx, reach.From, reach.To)
	if err != nil {
		return nil, err
	}
	return Observe(ctx, v, reach, lists)
}

// Ask looks up the ads of the wanted runs' jobs, all at once. A source that does not answer is no error: the result is
// nil, and failure says why.
func (o *Observed) Ask(ctx context.Context, source jobs.Source, wanted Wanted) (ads *Ads, notices []string, failure, err error) {
	lastSeen := map[timeline.Job]int32{}
	var order []timeline.Job
	var machines []timeline.Symbol
	first, last := int32(o.End), int32(o.First)
	for m := range o.Machines {
		nameless := false
		for r := range o.Machines[m].Runs {
			run := &o.Machines[m].Runs[r]
			if !wanted(m, r) {
				continue
			}
			if run.Job.IsNone() {
				nameless = true
				first, last = min(first, run.First), max(last, run.First)
				continue
			}
			seen, known := lastSeen[run.Job]
			if !known {
				order = append(order, run.Job)
			}
			if !known || run.Last > seen {
				lastSeen[run.Job] = run.Last
			}
		}
		if nameless {
			machines = append(machines, o.Machines[m].Name)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, nil, err
	}
	ads = &Ads{Jobs: make(map[timeline.Job][]jobs.Ad, len(order)), Machines: map[timeline.Symbol][]jobs.Ad{}}
	asked := make([]jobs.Wanted, len(order))
	for i, job := range order {
		asked[i] = jobs.Wanted{Job: o.View.Names.JobText(job), LastSeen: pool.Time(o.View.Times[lastSeen[job]])}
	}
	result, err := source.Ads(ctx, asked)
	if err != nil {
		return sourceFailure(ctx, err)
	}
	for i, job := range order {
		if i < len(result.Ads) && len(result.Ads[i]) > 0 {
			ads.Jobs[job] = result.Ads[i]
		}
	}
	notices = result.Notices
	if len(machines) > 0 {
		names := make([]string, len(machines))
		for i, m := range machines {
			names[i] = o.View.Names.Text(m)
		}
		from := o.View.Times[max(int(first)-1, o.First)] - Tolerance
		result, err := source.AdsOnMachines(ctx, names, pool.Time(from), pool.Time(o.View.Times[last]+Tolerance))
		if err != nil {
			return sourceFailure(ctx, err)
		}
		for i, m := range machines {
			if i < len(result.Ads) {
				ads.Machines[m] = result.Ads[i]
			}
		}
		notices = append(notices, result.Notices...)
	}
	return ads, notices, nil, nil
}

func sourceFailure(ctx context.Context, err error) (*Ads, []string, error, error) {
	if ctx.Err() != nil || pool.FaultOf(err) == 0 {
		return nil, nil, nil, fmt.Errorf("looking up job ads: %w", err)
	}
	return nil, nil, err, nil
}
