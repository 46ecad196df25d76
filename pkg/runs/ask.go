package runs

import (
	"context"
	"fmt"
	"slices"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// Question describes which job ads are needed.
type Question struct {
	// Window of the answer. On its days, and as many around them as a correction may need, clocks are measured.
	Window pool.Window
	// Wanted are the runs that are to be explained.
	Wanted Wanted
	// Unseen is the time in which runs that no snapshot shows are looked for; the zero window: never.
	Unseen pool.Window
}

// Ask looks up the ads of the wanted runs' jobs and of those that show the access points' clocks, and the epoch ads of
// short runs. If the source does not answer, it returns nil ads and the failure, but no error.
func (o *Observed) Ask(ctx context.Context, source jobs.Source, q Question) (ads *Ads, notices []string, failure,
	err error) {
	l := o.newLookup(ctx, source)
	failure, err = l.steps(func() error { return l.lookUp(q) }, func() error { return l.date(q) })
	if failure != nil || err != nil {
		return nil, nil, failure, err
	}
	return l.ads, l.notices, nil, nil
}

// adLookup looks up the ads of a question.
type adLookup struct {
	*Observed
	ctx       context.Context //nolint:containedctx // lives as long as one call
	source    jobs.Source
	ads       *Ads
	requested []bool // jobs, by number
	notices   []string
}

func (o *Observed) newLookup(ctx context.Context, source jobs.Source) *adLookup {
	count := len(o.jobs().jobs)
	return &adLookup{Observed: o, ctx: ctx, source: source, requested: make([]bool, count),
		ads: &Ads{jobs: make([][]jobs.Ad, count)}}
}

// steps takes steps. A source that does not answer is a failure, and not an error.
func (a *adLookup) steps(steps ...func() error) (failure, err error) {
	for _, step := range steps {
		if err := step(); err != nil {
			if a.ctx.Err() != nil || pool.FaultOf(err) == 0 {
				return nil, fmt.Errorf("looking up job ads: %w", err)
			}
			return err, nil
		}
	}
	return nil, nil
}

// lookUp looks up the ads of jobs, those on machines, and those of short runs.
func (a *adLookup) lookUp(q Question) error {
	if _, err := a.ofJobs(q.Wanted); err != nil {
		return err
	}
	if err := a.onMachines(func(m, r int) bool {
		return q.Wanted(m, r) || q.Unseen.Contains(a.View.Times[a.Machines[m].Runs[r].First])
	}); err != nil {
		return err
	}
	return a.findShort(q.Unseen)
}

// date reads the ads that were found, measures the clocks that dated them, and corrects the dates. Ads of other runs
// are looked up where clocks need them.
func (a *adLookup) date(q Question) error {
	if err := a.ads.read(a.ctx, a.Observed); err != nil {
		return err
	}
	telling := a.tellsOfClocks(a.ads.span(q.Window))
	more, err := a.ofJobs(telling)
	if more && err == nil {
		err = a.ads.read(a.ctx, a.Observed)
	}
	if err != nil {
		return err
	}
	if a.ads.clocks, err = a.measure(a.ctx, a.ads, telling); err != nil {
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

// span is a window and the days that the ads belong to.
func (a *Ads) span(w pool.Window) pool.Window {
	include := func(r *record) {
		if r.start != 0 || r.end != 0 {
			at := pool.Micros(r.day()) * pool.Day
			w.From, w.To = min(w.From, at), max(w.To, at)
		}
	}
	for _, lists := range a.lists() {
		for _, list := range lists {
			for i := range list {
				include(&list[i])
			}
		}
	}
	for _, on := range a.machines {
		for i := range on.ads {
			r := recordOf(&on.ads[i])
			include(&r)
		}
	}
	return w
}

// tellsOfClocks chooses the runs whose ads belong to a window's days and to those around them.
func (o *Observed) tellsOfClocks(w pool.Window) Wanted {
	from := pool.Micros(pool.DayOf(w.From)-clockDays)*pool.Day - nearEnd
	to := pool.Micros(pool.DayOf(w.To)+clockDays+1)*pool.Day + nearEnd
	return func(m, r int) bool {
		run := &o.Machines[m].Runs[r]
		last := o.View.Times[run.Last]
		return !run.Job.IsNone() && from <= last && last <= to
	}
}

// ofJobs looks up the ads of the jobs of runs; more reports whether there were any that had not been requested yet.
func (a *adLookup) ofJobs(wanted Wanted) (more bool, err error) {
	index := a.jobs()
	lastSeen := slices.Repeat([]int32{-1}, len(index.jobs))
	for m := range a.Machines {
		for r, job := range index.of[m] {
			if job >= 0 && !a.requested[job] && wanted(m, r) {
				lastSeen[job] = max(lastSeen[job], a.Machines[m].Runs[r].Last)
			}
		}
	}
	var numbers []int32
	for job, last := range lastSeen {
		if last >= 0 {
			numbers = append(numbers, int32(job))
		}
	}
	if len(numbers) == 0 {
		return false, nil
	}
	requests := make([]jobs.Wanted, len(numbers))
	err = parallel.Chunks(a.ctx, len(requests), together, func(_ *struct{}, from, end int) {
		for i := from; i < end; i++ {
			requests[i] = jobs.Wanted{Job: a.View.Names.JobText(index.jobs[numbers[i]]),
				LastSeen: pool.Time(a.View.Times[lastSeen[numbers[i]]])}
		}
	})
	if err != nil {
		return true, fmt.Errorf("naming jobs: %w", err)
	}
	result, err := a.source.Ads(a.ctx, requests)
	if err != nil {
		return true, err
	}
	a.note(result)
	for i, job := range numbers {
		a.ads.jobs[job], a.requested[job] = result.Ads[i], true
	}
	return true, nil
}

// onMachines looks up the ads that may be of runs without a GlobalJobId: those that began when such a run did, or when
// it is seen again after a gap.
func (a *adLookup) onMachines(wanted Wanted) error {
	var days []jobs.MachineDay
	for m := range a.Machines {
		known := len(days)
		for _, n := range a.jobs().without[m] {
			r := int(n)
			if !wanted(m, r) {
				continue
			}
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
