package runs

import (
	"context"
	"fmt"
	"slices"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// Ask looks up the ads of the wanted runs' jobs, all at once. A source that does not answer is no error: the result is
// nil, and failure says why.
func (o *Observed) Ask(ctx context.Context, source jobs.Source, wanted Wanted) (ads *Ads, notices []string, failure, err error) {
	index := o.jobs()
	lastSeen := slices.Repeat([]int32{-1}, len(index.jobs))
	var machines []int // of days
	var days []jobs.MachineDay
	for m := range o.Machines {
		known := len(days)
		for r := range o.Machines[m].Runs {
			if !wanted(m, r) {
				continue
			}
			run := &o.Machines[m].Runs[r]
			if job := index.of[m][r]; job >= 0 {
				lastSeen[job] = max(lastSeen[job], run.Last)
				continue
			}
			// A run without a GlobalJobId: the ads that began when it did.
			begin := o.Machines[m].Runs[o.firstPiece(m, r)].First
			first := pool.DayOf(o.View.Times[max(int(begin)-1, o.First)] - Tolerance)
			for day := first; day <= pool.DayOf(o.View.Times[run.First]+Tolerance); day++ {
				d := jobs.MachineDay{Machine: o.View.Names.Text(o.Machines[m].Name), Day: day}
				if !slices.Contains(days[known:], d) {
					machines, days = append(machines, m), append(days, d)
				}
			}
		}
	}
	var asked []jobs.Wanted
	var numbers []int
	for job, seen := range lastSeen {
		if seen >= 0 {
			asked = append(asked, jobs.Wanted{Job: o.View.Names.JobText(index.jobs[job]), LastSeen: pool.Time(o.View.Times[seen])})
			numbers = append(numbers, job)
		}
	}
	result, err := source.Ads(ctx, asked)
	if err != nil {
		return sourceFailure(ctx, err)
	}
	ads = &Ads{jobs: make([][]jobs.Ad, len(index.jobs)), machines: make([][]jobs.Ad, len(o.Machines))}
	for i, job := range numbers {
		ads.jobs[job] = result.Ads[i]
	}
	notices = result.Notices
	if len(days) > 0 {
		result, err := source.AdsOnMachines(ctx, days)
		if err != nil {
			return sourceFailure(ctx, err)
		}
		for i, m := range machines {
			ads.machines[m] = append(ads.machines[m], result.Ads[i]...)
		}
		notices = append(slices.Clip(notices), result.Notices...)
	}
	return ads, notices, nil, nil
}

func sourceFailure(ctx context.Context, err error) (*Ads, []string, error, error) {
	if ctx.Err() != nil || pool.FaultOf(err) == 0 {
		return nil, nil, nil, fmt.Errorf("looking up job ads: %w", err)
	}
	return nil, nil, err, nil
}
