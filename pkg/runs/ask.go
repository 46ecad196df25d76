package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// Question says what job ads are asked for.
type Question struct {
	// Window of the answer. On its days, and as many around them as a correction may need, clocks are measured.
	Window pool.Window
	// Wanted are the runs that are to be explained.
	Wanted Wanted
	// Unseen is the time in which runs that no snapshot shows are looked for; the zero window: never.
	Unseen pool.Window
}

// Ask looks up the ads of the wanted runs' jobs and of those that show the access points' clocks, all at once, and
// the epoch ads of short runs. A source that does not answer is no error: the result is nil, and failure says why.
func (o *Observed) Ask(ctx context.Context, source jobs.Source, q Question) (ads *Ads, notices []string, failure,
	err error) {
	a := o.asking(ctx, source)
	nameless := func(m, r int) bool {
		return q.Wanted(m, r) || q.Unseen.Contains(o.View.Times[o.Machines[m].Runs.At(r).First])
	}
	var telling Wanted
	failure, err = a.follow(
		func() error { _, err := a.ofJobs(q.Wanted); return err },
		func() error { return a.onMachines(nameless) },
		func() error { return a.findShort(q.Unseen) },
		func() error { return a.compareShort() },
		func() error { return a.ads.read(ctx, o) },
		func() error {
			telling = o.tellsOfClocks(a.ads.span(q.Window))
			more, err := a.ofJobs(telling)
			if more && err == nil {
				err = a.ads.read(ctx, o)
			}
			return err
		},
		func() error { return a.measure(telling) },
		func() error { return a.ads.correct(ctx) },
	)
	if failure != nil || err != nil {
		return nil, nil, failure, err
	}
	return a.ads, a.notices, nil, nil
}

// asking begins a question.
func (o *Observed) asking(ctx context.Context, source jobs.Source) *asking {
	count := len(o.jobs().jobs)
	return &asking{Observed: o, ctx: ctx, source: source, known: make([]bool, count), ads: &Ads{
		numbers: make([]int32, count), standing: make([]standing, count),
	}}
}

// follow takes steps. A source that does not answer is a failure, no error.
func (a *asking) follow(steps ...func() error) (failure, err error) {
	for _, step := range steps {
		if err := step(); err != nil {
			if a.ctx.Err() != nil || pool.FaultOf(err) == 0 {
				return nil, fmt.Errorf("looking up job ads: %w", err)
			}
			return err, nil
		}
	}
	a.ads.holds = a.holds
	return nil, nil
}

// measure measures the clocks by the ads that were read.
func (a *asking) measure(telling Wanted) (err error) {
	if a.ads.measured, err = a.Observed.measure(a.ctx, a.ads, telling); err != nil {
		return fmt.Errorf("measuring clocks: %w", err)
	}
	a.ads.clocks = a.ads.measured.clocks
	return nil
}

// askAll looks up the ads of all runs' jobs and those of runs that no snapshot shows. Jobs that are what they were,
// with the ads that they had, are left out. Errors as those of Ask.
func (o *Observed) askAll(ctx context.Context, source jobs.Source, before *Known) (ads *Ads, notices []string, failure,
	err error) {
	all := func(int, int) bool { return true }
	// Runs that began after the last snapshot belong to a window that ends later; no ads are asked for on days without
	// snapshots.
	seen := pool.Window{From: o.View.Times[o.First], To: o.View.Times[o.End-1] + pool.Day}
	a := o.asking(ctx, source)
	a.ads.again = o.again(before)
	failure, err = a.follow(
		func() error { return a.lookUp(all, seen) },
		func() error { return a.compareShort() },
		func() error { return a.ads.read(ctx, o) },
		func() error { return a.measure(all) },
		func() error { return a.ofCorrectedJobs() },
		func() error { return a.ads.correct(ctx) },
	)
	if failure != nil || err != nil {
		return nil, nil, failure, err
	}
	return a.ads, a.notices, nil, nil
}

// lookUp looks up the ads of all jobs, of those on machines, and of short runs, but for those that are what they were.
func (a *asking) lookUp(all Wanted, seen pool.Window) error {
	if again := a.ads.again; again != nil {
		if again.changes = a.source.(jobs.Remembering).Since(again.basis.mark); again.changes.Lost {
			a.ads.again = nil
		}
	}
	if a.ads.again == nil { // the source finds the others by what it read for jobs
		if _, err := a.ofJobs(all); err != nil {
			return err
		}
		return a.ofOthers(all, seen)
	}
	beside := &asking{Observed: a.Observed, ctx: a.ctx, source: a.source, ads: a.ads}
	tasks, _ := parallel.WithContext(a.ctx)
	tasks.Go(func() error { return beside.ofOthers(all, seen) })
	if err := cmp.Or(a.ofAgain(), tasks.Wait()); err != nil {
		return err
	}
	a.holds = append(a.holds, beside.holds...)
	a.tell(beside.notices)
	return nil
}

// ofOthers looks up the ads that are not found by jobs: those on machines, and of short runs.
func (a *asking) ofOthers(all Wanted, seen pool.Window) error {
	if err := a.onMachines(all); err != nil {
		return err
	}
	return a.findShort(seen)
}

// ofAgain looks up the ads that may have changed.
func (a *asking) ofAgain() error {
	again := a.ads.again
	if err := a.ofThese(again.due()); err != nil {
		return err
	}
	asked := a.notices
	a.notices = nil
	for job, was := range again.was {
		standing := &a.ads.standing[job]
		if was >= 0 {
			switch before := &again.basis.standing[was]; {
			case !a.known[job]:
				*standing = *before
			case standing.version != before.version:
				again.explain(int32(job))
			default:
				a.ads.add(job, nil) // taken over
			}
		}
		a.tell(standing.notices())
	}
	a.tell(asked)
	return nil
}

// ofCorrectedJobs looks up the ads that other errors of clocks date than before.
func (a *asking) ofCorrectedJobs() error {
	again := a.ads.again
	if again == nil {
		return nil
	}
	moved := a.ads.measured.moved(again)
	if len(moved) == 0 {
		return nil
	}
	for i := range a.ads.short {
		a.ads.short[i].same = false
	}
	clear(again.nameless)
	if err := a.ofChangedShort(); err != nil {
		return err
	}
	if err := a.ads.readShort(a.ctx); err != nil {
		return fmt.Errorf("reading job ads: %w", err)
	}
	corrected := a.ads.measured.corrected(again, moved)
	if len(corrected) == 0 {
		return nil
	}
	known := slices.Clone(a.ads.standing)
	for _, job := range corrected {
		a.known[job] = false
		again.explain(job)
	}
	if err := a.ofThese(corrected); err != nil {
		return err
	}
	lists := make([][]jobs.Ad, len(corrected))
	for i, job := range corrected {
		lists[i] = a.ads.jobs[a.ads.numbers[job]-1]
		a.ads.standing[job].version = known[job].version // what the constraints rest on
	}
	read, err := recordsOf(a.ctx, lists, a.ads.place)
	if err != nil {
		return fmt.Errorf("reading job ads: %w", err)
	}
	a.ads.records = append(a.ads.records, make([][]record, len(a.ads.jobs)-len(a.ads.records))...)
	for i, job := range corrected {
		a.ads.records[a.ads.numbers[job]-1] = read[i]
	}
	return nil
}

// asking is a question on its way.
type asking struct {
	*Observed
	ctx     context.Context //nolint:containedctx // lives as long as one call
	source  jobs.Source
	ads     *Ads
	known   []bool // jobs that were asked for, by number
	notices []string
	holds   []func() bool // of the lookups; one is nil if it must be made again
}

func (a *asking) note(r jobs.Result) {
	a.holds = append(a.holds, r.Holds)
	a.tell(r.Notices)
}

// tell adds notices, each once.
func (a *asking) tell(notices []string) {
	for _, n := range notices {
		if !slices.Contains(a.notices, n) {
			a.notices = append(a.notices, n)
		}
	}
}

// beside notes a result that is not about the jobs of runs.
func (a *asking) beside(r jobs.Result) {
	a.note(r)
	for _, s := range r.Standing {
		a.ads.besides = append(a.ads.besides, standingOf(s))
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
		run := o.Machines[m].Runs.At(r)
		last := o.View.Times[run.Last]
		return !run.Job.IsNone() && from <= last && last <= to
	}
}

// ofJobs looks up the ads of the jobs of runs; more reports whether there were any that had not been asked for.
func (a *asking) ofJobs(wanted Wanted) (more bool, err error) {
	index := a.jobs()
	lastSeen := slices.Repeat([]int32{-1}, len(index.jobs))
	for m := range a.Machines {
		for r, job := range index.of[m] {
			if job >= 0 && !a.known[job] && wanted(m, r) {
				lastSeen[job] = max(lastSeen[job], a.Machines[m].Runs.At(r).Last)
			}
		}
	}
	var numbers []int32
	for job, last := range lastSeen {
		if last >= 0 {
			numbers = append(numbers, int32(job))
		}
	}
	return len(numbers) > 0, a.ofSeen(numbers, func(job int32) int32 { return lastSeen[job] })
}

// ofThese looks up the ads of jobs, by number, of all their runs.
func (a *asking) ofThese(these []int32) error {
	return a.ofSeen(these, func(job int32) (last int32) {
		for s := range a.jobs().sightings(job) {
			last = max(last, a.Machines[s.machine].Runs.At(int(s.run)).Last)
		}
		return last
	})
}

// ofSeen looks up the ads of jobs, by number; lastSeen gives the last snapshot that shows one.
func (a *asking) ofSeen(numbers []int32, lastSeen func(job int32) int32) error {
	if len(numbers) == 0 {
		return nil
	}
	asked := make([]jobs.Wanted, len(numbers))
	err := parallel.Chunks(a.ctx, len(asked), together, func(_ *struct{}, from, end int) {
		for i := from; i < end; i++ {
			asked[i] = jobs.Wanted{Job: a.View.Names.JobText(a.jobs().jobs[numbers[i]]),
				LastSeen: pool.Time(a.View.Times[lastSeen(numbers[i])])}
		}
	})
	if err != nil {
		return fmt.Errorf("naming jobs: %w", err)
	}
	result, err := a.source.Ads(a.ctx, asked)
	if err != nil {
		return err
	}
	a.note(result)
	a.ads.asked, a.ads.jobs = slices.Grow(a.ads.asked, len(numbers)), slices.Grow(a.ads.jobs, len(numbers))
	for i, job := range numbers {
		a.ads.add(int(job), result.Ads[i])
		a.known[job] = true
		if result.Standing != nil {
			a.ads.standing[job] = standingOf(result.Standing[i])
		}
	}
	return nil
}

// onMachines looks up the ads that may be of runs without a GlobalJobId: those that began when such a run did, or when
// it is seen again after a gap.
func (a *asking) onMachines(wanted Wanted) error {
	var days []jobs.MachineDay
	for m := range a.Machines {
		known := len(days)
		for _, n := range a.jobs().without[m] {
			r := int(n)
			if !wanted(m, r) {
				continue
			}
			run := a.Machines[m].Runs.At(r)
			begin := a.Machines[m].Runs.At(a.firstPiece(m, r)).First
			first := pool.DayOf(a.View.Times[max(int(begin)-1, a.First)] - nearEnd) // by a clock that may be wrong
			for day := first; day <= pool.DayOf(a.View.Times[run.First]+nearEnd); day++ {
				d := jobs.MachineDay{Machine: a.View.Names.Text(a.Machines[m].Name), Day: day}
				if !slices.Contains(days[known:], d) {
					days = append(days, d)
					a.ads.machines = append(a.ads.machines, onMachine{machine: m, day: day})
				}
			}
		}
	}
	if len(days) > 0 {
		result, err := a.source.AdsOnMachines(a.ctx, days)
		if err != nil {
			return err
		}
		a.beside(result)
		for i := range days {
			on := &a.ads.machines[i]
			on.ads = result.Ads[i]
			if result.Standing != nil {
				on.version = result.Standing[i].Version
			}
		}
	}
	a.ads.again.compareMachines(a.ads.machines)
	return nil
}
