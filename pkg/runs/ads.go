package runs

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sort"
	"time"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// Ads are what a history keeps of the job ads that it is made from.
type Ads struct {
	clocks  clocks
	Epochs  bool          // there are epoch ads among those of jobs and short runs
	answers []jobs.Result // what the lookups found, without their ads
}

// Date returns a date of one of the ads, corrected by the error of its access point's clock; 0 = not stored.
func (a *Ads) Date(ad *jobs.Ad, date jobs.Date) pool.Micros {
	r := []record{recordOf(ad)}
	a.clocks.correct(r)
	return r[0].at(date)
}

// Unchanged reports whether asking the source again would change nothing.
func (a *Ads) Unchanged() bool {
	return !slices.ContainsFunc(a.answers, func(r jobs.Result) bool { return r.Holds == nil || !r.Holds() })
}

// foundAds are the job ads that are known of an observation's jobs.
type foundAds struct {
	*Ads
	jobs     [][]record          // by job number; none if the job has none
	machines [][]record          // for runs without a GlobalJobId, by machine
	short    [][][]jobs.Ad       // ads of short runs of any job, by machine: lists
	others   map[string][]record // by GlobalJobId, of jobs whose epoch ads do not say how a run ended
}

func appendRecords(records []record, lists [][]jobs.Ad) []record {
	n := 0
	for _, list := range lists {
		n += len(list)
	}
	records = slices.Grow(records, n)
	for _, list := range lists {
		for i := range list {
			records = append(records, recordOf(&list[i]))
		}
	}
	return records
}

// haveEpochs reports whether lists of ads have an epoch ad.
func haveEpochs(lists [][]jobs.Ad) bool {
	return slices.ContainsFunc(lists, func(list []jobs.Ad) bool {
		return slices.ContainsFunc(list, func(ad jobs.Ad) bool { return ad.Kind == jobs.Epoch })
	})
}

// AdsOf looks up the ads of the jobs of wanted runs, by the number of the job. failure: the source does not answer.
func (o *Observed) AdsOf(ctx context.Context, source jobs.Source, wanted Wanted) (ads [][]jobs.Ad, failure, err error) {
	l := o.newLookup(ctx, source)
	ads, err = l.ofJobs(wanted)
	failure, err = l.fault(err)
	return ads, failure, err
}

type adLookup struct {
	*Observed
	ctx     context.Context //nolint:containedctx // lives as long as one call
	source  jobs.Source
	ads     *foundAds
	notices []string
}

func (o *Observed) newLookup(ctx context.Context, source jobs.Source) *adLookup {
	n := len(o.Machines)
	return &adLookup{Observed: o, ctx: ctx, source: source, ads: &foundAds{Ads: &Ads{}, machines: make([][]record, n),
		short: make([][][]jobs.Ad, n), others: map[string][]record{}}}
}

// fault tells the errors of a lookup apart: a source that does not answer is a failure, and not an error.
func (a *adLookup) fault(of error) (failure, err error) {
	if of != nil && (a.ctx.Err() != nil || pool.FaultOf(of) == 0) {
		return nil, fmt.Errorf("looking up job ads: %w", of)
	}
	return of, nil
}

// lookUp looks up the ads of all jobs, those on machines, and those of short runs.
func (a *adLookup) lookUp() error {
	found, err := a.ofJobs(func(int, int) bool { return true })
	if err != nil {
		return err
	}
	a.ads.Epochs = haveEpochs(found)
	a.ads.jobs = make([][]record, len(found))
	err = parallel.Chunks(a.ctx, len(found), 1000, func(first, end int) {
		records := appendRecords(nil, found[first:end])
		for i := first; i < end; i++ {
			n := len(found[i])
			a.ads.jobs[i], records = records[:n:n], records[n:]
		}
	})
	if err != nil {
		return err
	}
	if err := a.onMachines(); err != nil {
		return err
	}
	return a.findShort()
}

// date measures the clocks that dated the ads, and corrects the dates. Errors are ctx's.
func (a *adLookup) date() (err error) {
	if a.ads.clocks, err = a.measure(a.ctx, a.ads); err != nil {
		return fmt.Errorf("measuring clocks: %w", err)
	}
	lists := slices.Concat(a.ads.jobs, a.ads.machines, slices.Collect(maps.Values(a.ads.others)))
	return parallel.Each(a.ctx, len(lists), func(i int) { a.ads.clocks.correct(lists[i]) })
}

// note records an answer and its notices, each only once.
func (a *adLookup) note(r jobs.Result) {
	a.ads.answers = append(a.ads.answers, jobs.Result{Version: r.Version, Holds: r.Holds})
	for _, n := range r.Notices {
		if !slices.Contains(a.notices, n) {
			a.notices = append(a.notices, n)
		}
	}
}

// ofJobs looks up the ads of the jobs of wanted runs.
func (a *adLookup) ofJobs(wanted Wanted) ([][]jobs.Ad, error) {
	index := a.jobs()
	// Choose the jobs of wanted runs, and find when each was last seen.
	lastSeen, chosen := make([]int32, len(index.seen)), make([]bool, len(index.seen))
	for m := range a.Machines {
		for r, job := range index.of[m] {
			if job >= 0 {
				lastSeen[job] = max(lastSeen[job], a.Machines[m].Runs[r].Last)
				chosen[job] = chosen[job] || wanted(m, r)
			}
		}
	}
	numbers, requests := make([]int, 0, len(chosen)), make([]jobs.Wanted, 0, len(chosen))
	for job, wanted := range chosen {
		if wanted {
			numbers = append(numbers, job)
			requests = append(requests, jobs.Wanted{Job: a.View.Names.JobText(index.jobs.All[job]),
				LastSeen: pool.Time(a.View.Times[lastSeen[job]])})
		}
	}
	ads := make([][]jobs.Ad, len(index.seen))
	if len(numbers) == 0 {
		return ads, nil
	}
	// Ask for all of them at once.
	result, err := a.source.Ads(a.ctx, requests)
	if err != nil {
		return nil, err
	}
	a.note(result)
	for i, job := range numbers {
		ads[job] = result.Ads[i]
	}
	return ads, nil
}

// onMachines looks up the ads that may be of runs without a GlobalJobId, by when they began or are seen after a gap.
func (a *adLookup) onMachines() error {
	return a.ofDays(func(m int) (days []jobs.MachineDay) {
		for _, n := range a.jobs().without[m] {
			r := int(n)
			all := a.Machines[m].Runs
			begin := all[a.firstPiece(m, r)].First
			first := pool.DayOf(a.View.Times[max(int(begin)-1, a.First)] - nearEnd) // by a clock that may be wrong
			for day := first; day <= pool.DayOf(a.View.Times[all[r].First]+nearEnd); day++ {
				d := jobs.MachineDay{Machine: a.View.Names.Text(a.Machines[m].Name), Day: day}
				if !slices.Contains(days, d) {
					days = append(days, d)
				}
			}
		}
		return days
	}, func(m int, lists [][]jobs.Ad) { a.ads.machines[m] = appendRecords(nil, lists) })
}

// ofDays looks up the ads of days of each machine, and calls do with the lists of these days.
func (a *adLookup) ofDays(daysOf func(m int) []jobs.MachineDay, do func(m int, lists [][]jobs.Ad)) error {
	var days []jobs.MachineDay
	ends := make([]int, len(a.Machines))
	for m := range ends {
		days = append(days, daysOf(m)...)
		ends[m] = len(days)
	}
	if len(days) == 0 {
		return nil
	}
	result, err := a.source.AdsOnMachines(a.ctx, days)
	if err != nil {
		return err
	}
	a.note(result)
	first := 0
	for m, end := range ends {
		do(m, result.Ads[first:end])
		first = end
	}
	return nil
}

// findShort looks up the ads of runs so short that snapshots of their day may have missed them (see unseen). Runs that
// began after the last snapshot belong to a window that ends later; no ads are requested for days without snapshots.
func (a *adLookup) findShort() error {
	times := a.View.Times
	first, last := pool.DayOf(times[a.First]-nearEnd), pool.DayOf(times[a.End-1]+pool.Day+nearEnd)
	err := a.ofDays(func(m int) (days []jobs.MachineDay) {
		machine := &a.Machines[m]
		for day := first; day <= last; day++ {
			// clocks may be wrong
			if a.dayWithRows(machine, day) >= 0 || a.dayWithRows(machine, day+1) >= 0 {
				days = append(days, jobs.MachineDay{Machine: a.View.Names.Text(machine.Name), Day: day,
					Longest: a.longest(day)})
			}
		}
		return days
	}, func(m int, lists [][]jobs.Ad) {
		a.ads.short[m], a.ads.Epochs = lists, a.ads.Epochs || haveEpochs(lists)
	})
	if err != nil {
		return err
	}
	return a.ofShort()
}

// ofShort looks up the history ads of the jobs of short runs, which give the outcome if an epoch ad does not.
func (a *adLookup) ofShort() error {
	var others []jobs.Wanted
	for _, list := range slices.Concat(a.ads.short...) {
		for i := range list {
			ad := &list[i]
			if ad.Kind != jobs.Epoch || byEpoch(ad).decided { // most are decided
				continue
			}
			if _, known := a.ads.others[ad.GlobalJobID]; !known {
				a.ads.others[ad.GlobalJobID] = nil
				others = append(others, jobs.Wanted{Job: ad.GlobalJobID, LastSeen: ad.EpochWriteDate.Time()})
			}
		}
	}
	if len(others) == 0 {
		return nil
	}
	result, err := a.source.Ads(a.ctx, others)
	if err != nil {
		return err
	}
	a.note(result)
	for i, w := range others {
		a.ads.others[w.Job] = appendRecords(nil, result.Ads[i:i+1])
	}
	return nil
}

// longest is how long a run that begins on a UTC day may last without a snapshot that shows it: the distance of two
// snapshots, and as much again while its owner has the GPU already; as a power of two minutes, because then the request
// about a day stays the same while it grows; any time before the first snapshot and after the last one. For
// example, with a snapshot every 15 minutes: 2 × 15 min and 2 × 2 min of tolerance make 34 min, rounded up to 64.
func (o *Observed) longest(day int32) time.Duration {
	times := o.View.Times
	from, to := pool.Micros(day)*pool.Day-nearEnd, pool.Micros(day+1)*pool.Day+nearEnd
	first := sort.Search(len(times), func(i int) bool { return times[i] > from }) - 1
	if first < 0 {
		return jobs.AnyLength
	}
	most := pool.Micros(0)
	for i := first; times[i] < to; i++ {
		if i+1 == len(times) {
			return jobs.AnyLength
		}
		most = max(most, times[i+1]-times[i])
	}
	return time.Minute << bits.Len64(uint64((2*most+2*Tolerance)/pool.Minute))
}
