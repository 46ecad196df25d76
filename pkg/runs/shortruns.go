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
	machine  int // number
	day      int32
	longest  time.Duration // see longest
	standing standing      // of the ads; its version is 0 as long as nothing is known of them
	asked    bool
	ads      []jobs.Ad     // once they were asked for
	others   []jobs.Wanted // of each ad that does not say how its run ended: the job
	records  []record
	same     bool // the runs that no snapshot shows are what they were; the ads are not read

	unseen []Explained    // the runs that no snapshot shows
	jobs   []timeline.Job // of the ads
	until  pool.Micros    // the latest of their dates
}

// findShort looks up the epoch ads of runs that are no longer than the distance of two snapshots of their day.
func (a *asking) findShort(w pool.Window) error {
	if w.To <= w.From || a.First == a.End {
		return nil
	}
	before := max(a.First, sort.Search(len(a.View.Times), func(i int) bool { return a.View.Times[i] >= w.From })-1)
	first, last := pool.DayOf(min(w.From, a.View.Times[before])-nearEnd), pool.DayOf(w.To+nearEnd)
	longest := make([]time.Duration, last+1-first)
	for i := range longest {
		longest[i] = a.longest(first + int32(i))
	}
	a.ads.short = make([]shortDay, 0, len(a.Machines)*len(longest))
	for m := range a.Machines {
		for day := first; day <= last; day++ {
			// clocks may be wrong
			if a.dayWithBackfill(&a.Machines[m], day) < 0 && a.dayWithBackfill(&a.Machines[m], day+1) < 0 {
				continue
			}
			a.ads.short = append(a.ads.short, shortDay{machine: m, day: day, longest: longest[day-first]})
		}
	}
	due := a.takeShort()
	_, err := a.askShort(func(d *shortDay) bool {
		if !d.same || due(d) {
			return true
		}
		a.tell(d.standing.notices())
		return false
	})
	if err != nil {
		return err
	}
	return a.ofOtherJobs()
}

// compareShort finds out on which days not all is what it was, and looks up the ads of those.
func (a *asking) compareShort() error {
	a.findChangedShort()
	if err := a.ofChangedShort(); err != nil {
		return err
	}
	for i := range a.ads.short {
		a.ads.besides = append(a.ads.besides, a.ads.short[i].standing)
	}
	return nil
}

// takeShort takes over what is known of days of short runs. due reports whether the ads of such a day may have changed.
func (a *asking) takeShort() (due func(*shortDay) bool) {
	again := a.ads.again
	if again == nil {
		return func(*shortDay) bool { return true }
	}
	replaced := make(map[string]bool, len(again.changes.Days))
	for _, key := range again.changes.Days {
		replaced[key] = true
	}
	now := again.changes.Now.UnixNano()
	due = func(d *shortDay) bool {
		return d.standing.until <= now || len(replaced) > 0 && replaced[a.epochDay(d).Key()]
	}
	known := again.basis.short
	for i := range a.ads.short {
		d := &a.ads.short[i]
		for len(known) > 0 && (known[0].machine < d.machine || known[0].machine == d.machine && known[0].day < d.day) {
			known = known[1:]
		}
		if len(known) > 0 && known[0].machine == d.machine && known[0].day == d.day && known[0].longest == d.longest {
			*d = known[0]
			d.asked, d.same = false, true
		}
	}
	return due
}

func (a *asking) epochDay(d *shortDay) jobs.EpochDay {
	return jobs.EpochDay{Longest: d.longest,
		MachineDay: jobs.MachineDay{Machine: a.View.Names.Text(a.Machines[d.machine].Name), Day: d.day}}
}

// askShort looks up the epoch ads of wanted days that were not asked for yet; changed reports whether others came than
// were known. One more day that is known is asked for with them: the source's cache then knows of one, as it does where
// all days are asked for, and what is known is used if the source does not answer.
func (a *asking) askShort(wanted func(*shortDay) bool) (changed bool, err error) {
	var days []*shortDay
	var asked []jobs.EpochDay
	var known *shortDay
	for i := range a.ads.short {
		switch d := &a.ads.short[i]; {
		case d.asked:
		case wanted(d):
			days, asked = append(days, d), append(asked, a.epochDay(d))
		case d.standing.version != 0:
			known = d
		}
	}
	if len(days) == 0 {
		return false, nil
	}
	if known != nil {
		asked = append(asked, a.epochDay(known))
	}
	result, err := a.source.Epochs(a.ctx, asked)
	if err != nil {
		return false, err
	}
	a.note(result)
	for i, d := range days {
		before := d.standing.version
		d.asked, d.ads = true, result.Ads[i]
		if result.Standing != nil {
			d.standing = standingOf(result.Standing[i])
		}
		if before != 0 && d.standing.version == before {
			continue
		}
		changed, d.same, d.others = true, false, nil
		for n := range d.ads {
			if ad := &d.ads[n]; !byEpoch(ad).decided {
				d.others = append(d.others, jobs.Wanted{Job: ad.GlobalJobID, LastSeen: ad.EpochWriteDate.Time()})
			}
		}
	}
	return changed, nil
}

// ofChangedShort looks up the ads of days on which not all is what it was.
func (a *asking) ofChangedShort() error {
	changed, err := a.askShort(func(d *shortDay) bool { return !d.same })
	if changed && err == nil { // by somebody else, since the changes were asked for
		err = a.ofOtherJobs()
	}
	return err
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

// findChangedShort finds the days on which not all is what it was: those that did not end before anything changed, and
// those with a job, or near a run without a GlobalJobId, that is explained again.
func (a *asking) findChangedShort() {
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
