package runs

import (
	"context"
	"fmt"
	"slices"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// AdsOf looks up the ads of the jobs of wanted runs, by the number of the job ([Observed.JobOf]). If the source does
// not answer, it returns the failure, but no error.
func (o *Observed) AdsOf(ctx context.Context, source jobs.Source, wanted Wanted) (ads [][]jobs.Ad, failure, err error) {
	l := o.newLookup(ctx, source)
	failure, err = l.fault(l.ofJobs(wanted))
	return l.ads.jobs, failure, err
}

// adLookup looks up job ads.
type adLookup struct {
	*Observed
	ctx     context.Context //nolint:containedctx // lives as long as one call
	source  jobs.Source
	ads     *Ads
	notices []string
}

func (o *Observed) newLookup(ctx context.Context, source jobs.Source) *adLookup {
	return &adLookup{Observed: o, ctx: ctx, source: source, ads: &Ads{jobs: make([][]jobs.Ad, len(o.jobs().jobs))}}
}

// fault tells the errors of a lookup apart: a source that does not answer is a failure, and not an error.
func (a *adLookup) fault(of error) (failure, err error) {
	if of != nil && (a.ctx.Err() != nil || pool.FaultOf(of) == 0) {
		return nil, fmt.Errorf("looking up job ads: %w", of)
	}
	return of, nil
}

// lookUp looks up the ads of all jobs, those on machines, and those of short runs, which are looked for in a window.
func (a *adLookup) lookUp(unseen pool.Window) error {
	if err := a.ofJobs(func(int, int) bool { return true }); err != nil {
		return err
	}
	if err := a.onMachines(); err != nil {
		return err
	}
	return a.findShort(unseen)
}

// date reads the ads that were found, measures the clocks that dated them, and corrects the dates. Errors are ctx's.
func (a *adLookup) date() (err error) {
	if err = a.ads.read(a.ctx); err != nil {
		return err
	}
	if a.ads.clocks, err = a.measure(a.ctx, a.ads); err != nil {
		return fmt.Errorf("measuring clocks: %w", err)
	}
	return a.ads.correct(a.ctx)
}

// note records an answer and its notices, each only once.
func (a *adLookup) note(r jobs.Result) {
	a.ads.answers = append(a.ads.answers, adAnswer{r.Version, r.Holds})
	for _, n := range r.Notices {
		if !slices.Contains(a.notices, n) {
			a.notices = append(a.notices, n)
		}
	}
}

// ofJobs looks up the ads of the jobs of wanted runs.
func (a *adLookup) ofJobs(wanted Wanted) error {
	index := a.jobs()
	lastSeen := slices.Repeat([]int32{-1}, len(index.jobs))
	chosen := make([]bool, len(index.jobs))
	for m := range a.Machines {
		for r, job := range index.of[m] {
			if job >= 0 {
				lastSeen[job] = max(lastSeen[job], a.Machines[m].Runs[r].Last)
				chosen[job] = chosen[job] || wanted(m, r)
			}
		}
	}
	var numbers []int32
	for job, wanted := range chosen {
		if wanted {
			numbers = append(numbers, int32(job))
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	requests := make([]jobs.Wanted, len(numbers))
	err := parallel.Chunks(a.ctx, len(requests), together, func(_ *struct{}, from, end int) {
		for i := from; i < end; i++ {
			requests[i] = jobs.Wanted{Job: a.View.Names.JobText(index.jobs[numbers[i]]),
				LastSeen: pool.Time(a.View.Times[lastSeen[numbers[i]]])}
		}
	})
	if err != nil {
		return fmt.Errorf("naming jobs: %w", err)
	}
	result, err := a.source.Ads(a.ctx, requests)
	if err != nil {
		return err
	}
	a.note(result)
	for i, job := range numbers {
		a.ads.jobs[job] = result.Ads[i]
	}
	return nil
}

// onMachines looks up the ads that may be of runs without a GlobalJobId: those that began when such a run did, or when
// it is seen again after a gap.
func (a *adLookup) onMachines() error {
	var days []jobs.MachineDay
	for m := range a.Machines {
		known := len(days)
		for _, n := range a.jobs().without[m] {
			r := int(n)
			all := a.Machines[m].Runs
			begin := all[a.firstPiece(m, r)].First
			first := pool.DayOf(a.View.Times[max(int(begin)-1, a.First)] - nearEnd) // by a clock that may be wrong
			for day := first; day <= pool.DayOf(a.View.Times[all[r].First]+nearEnd); day++ {
				d := jobs.MachineDay{Machine: a.View.Names.Text(a.Machines[m].Name), Day: day}
				if !slices.Contains(days[known:], d) {
					days = append(days, d)
					a.ads.machines = append(a.ads.machines, onMachine{machine: m, day: day})
				}
			}
		}
	}
	if len(days) == 0 {
		return nil
	}
	result, err := a.source.AdsOnMachines(a.ctx, days)
	if err != nil {
		return err
	}
	a.note(result)
	for i := range days {
		a.ads.machines[i].ads = result.Ads[i]
	}
	return nil
}
