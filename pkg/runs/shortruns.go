package runs

import (
	"context"
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// This file looks up the epoch ads of short runs, which snapshots may have missed. What is found on a day (see unseen)
// is taken over while the ads, the clocks that dated them, and all that is known of their jobs are what they were.

// shortDay are the epoch ads of the short runs that began on a machine on a UTC day.
type shortDay struct {
	machine int // number
	day     int32
	version uint64 // of the ads
	ads     []jobs.Ad
	others  []jobs.Wanted // of each ad that does not say how its run ended: the job
	records []record
	same    bool // the runs that no snapshot shows are what they were; the ads are not read

	unseen []Explained    // the runs that no snapshot shows
	jobs   []timeline.Job // of the ads
	until  pool.Micros    // the latest of their dates
}

// ofShortRuns looks up the epoch ads of runs that are no longer than the distance of two snapshots of their day.
func (a *asking) ofShortRuns(w pool.Window) error {
	if w.To <= w.From || a.First == a.End {
		return nil
	}
	before := max(a.First, sort.Search(len(a.View.Times), func(i int) bool { return a.View.Times[i] >= w.From })-1)
	first, last := pool.DayOf(min(w.From, a.View.Times[before])-nearEnd), pool.DayOf(w.To+nearEnd)
	longest := make([]time.Duration, last+1-first)
	for i := range longest {
		longest[i] = a.longest(first + int32(i))
	}
	most := len(a.Machines) * len(longest)
	asked := make([]jobs.EpochDay, 0, most)
	a.ads.short = make([]shortDay, 0, most)
	for m := range a.Machines {
		for day := first; day <= last; day++ {
			// clocks may be wrong
			if a.dayWithBackfill(&a.Machines[m], day) < 0 && a.dayWithBackfill(&a.Machines[m], day+1) < 0 {
				continue
			}
			name := a.View.Names.Text(a.Machines[m].Name)
			asked = append(asked, jobs.EpochDay{MachineDay: jobs.MachineDay{Machine: name, Day: day},
				Longest: longest[day-first]})
			a.ads.short = append(a.ads.short, shortDay{machine: m, day: day})
		}
	}
	if len(asked) == 0 {
		return nil
	}
	result, err := a.source.Epochs(a.ctx, asked)
	if err != nil {
		return err
	}
	a.beside(result)
	a.takeShort(result)
	if err := a.ofOtherJobs(); err != nil {
		return err
	}
	a.compareShort()
	return nil
}

// takeShort takes the epoch ads of short runs, and over what is known of days with the ads that they had.
func (a *asking) takeShort(result jobs.Result) {
	known := a.knownShort()
	for i := range a.ads.short {
		d := &a.ads.short[i]
		d.ads = result.Ads[i]
		for len(known) > 0 && (known[0].machine < d.machine || known[0].machine == d.machine && known[0].day < d.day) {
			known = known[1:]
		}
		if result.Standing != nil {
			d.version = result.Standing[i].Version
		}
		if len(known) > 0 && known[0].machine == d.machine && known[0].day == d.day && known[0].version == d.version {
			d.same, d.others, d.unseen, d.jobs, d.until = true, known[0].others, known[0].unseen, known[0].jobs, known[0].until
			continue
		}
		for i := range d.ads {
			if ad := &d.ads[i]; !byEpoch(ad).decided {
				d.others = append(d.others, jobs.Wanted{Job: ad.GlobalJobID, LastSeen: ad.EpochWriteDate.Time()})
			}
		}
	}
}

// knownShort are the days of short runs of which something is known from before.
func (a *asking) knownShort() []shortDay {
	if a.ads.again == nil {
		return nil
	}
	return a.ads.again.basis.short
}

// longest is what a run that begins on a UTC day may last without a snapshot showing it, as a power of two minutes so
// that what is known of a day stays known while it grows; 0 = any time, before the first snapshot and after the last
// one.
func (o *Observed) longest(day int32) time.Duration {
	times := o.View.Times
	from, to := pool.Micros(day)*pool.Day-nearEnd, pool.Micros(day+1)*pool.Day+nearEnd
	first := sort.Search(len(times), func(i int) bool { return times[i] > from }) - 1
	if first < 0 {
		return 0
	}
	most := pool.Micros(0)
	for i := first; times[i] < to; i++ {
		if i+1 == len(times) {
			return 0
		}
		most = max(most, times[i+1]-times[i])
	}
	return time.Minute << bits.Len64(uint64(most/pool.Minute))
}

// ofOtherJobs looks up the history ads that have the outcome where an epoch ad does not.
func (a *asking) ofOtherJobs() error {
	var asked []jobs.Wanted
	a.ads.others, a.ads.versions = map[string][]jobs.Ad{}, map[string]uint64{}
	for i := range a.ads.short {
		for _, w := range a.ads.short[i].others {
			if _, known := a.ads.others[w.Job]; !known {
				a.ads.others[w.Job] = nil
				asked = append(asked, w)
			}
		}
	}
	if len(asked) == 0 {
		return nil
	}
	result, err := a.source.Ads(a.ctx, asked)
	if err != nil {
		return err
	}
	a.beside(result)
	for i, w := range asked {
		a.ads.others[w.Job] = result.Ads[i]
		if result.Standing != nil {
			a.ads.versions[w.Job] = result.Standing[i].Version
		}
	}
	return nil
}

// compareShort finds the days on which not all is what it was: those that did not end before anything changed, and
// those with a job, or near a run without a GlobalJobId, that is explained again.
func (a *asking) compareShort() {
	again := a.ads.again
	if again == nil {
		return
	}
	until := pool.Micros(math.MaxInt64)
	if s := int(again.settled); s < len(a.View.Times) {
		until = pool.Micros(a.View.Days[a.dayOf[max(s, 0)]].Date) * pool.Day
	}
	index := a.jobs()
	fresh := map[timeline.Job]bool{}
	for job, is := range again.fresh {
		if is {
			fresh[index.jobs[job]] = true
		}
	}
	for m := range a.Machines {
		until := until
		if n := int(again.nameless[m]); n-2 < len(a.View.Times) { // a run may be near those of the snapshot before
			until = min(until, a.View.Times[max(n-2, 0)])
		}
		days := a.ads.shortOn(m)
		for i := range days {
			d := &days[i]
			d.same = d.same && !again.lost && d.until < until &&
				!slices.ContainsFunc(d.jobs, func(j timeline.Job) bool { return fresh[j] }) &&
				!slices.ContainsFunc(d.others, func(w jobs.Wanted) bool {
					return a.ads.versions[w.Job] != again.basis.versions[w.Job]
				})
		}
	}
}

// readShort reads the epoch ads of short runs where something is not as it was. Errors are ctx's.
func (a *Ads) readShort(ctx context.Context) error {
	var lists [][]jobs.Ad
	var days []*shortDay
	for i := range a.short {
		if d := &a.short[i]; !d.same {
			lists, days = append(lists, d.ads), append(days, d)
		}
	}
	asRead := func(*record) {} // their machine is known, and they are compared with it by id
	read, err := recordsOf(ctx, lists, asRead)
	for i := range read {
		days[i].records = read[i]
	}
	return err
}

// shortOn are the days of short runs on a machine.
func (a *Ads) shortOn(machine int) []shortDay {
	first := sort.Search(len(a.short), func(i int) bool { return a.short[i].machine >= machine })
	end := sort.Search(len(a.short), func(i int) bool { return a.short[i].machine > machine })
	return a.short[first:end]
}
