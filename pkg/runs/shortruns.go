package runs

import (
	"context"
	"math/bits"
	"sort"
	"time"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// This file looks up the ads of short runs, which snapshots may have missed (see unseen).

// shortDay are the ads of the short runs that began on a machine on a UTC day.
type shortDay struct {
	machine int // number
	day     int32
	longest time.Duration // see longest
	ads     []jobs.Ad
	records []record
}

// findShort looks up the ads of runs so short that snapshots of their day may have missed them.
func (a *adLookup) findShort(w pool.Window) error {
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
	return a.ofShort()
}

// ofShort looks up the ads of short runs, and the history ads of their jobs, which give the outcome if an epoch ad does
// not.
func (a *adLookup) ofShort() error {
	if len(a.ads.short) == 0 {
		return nil
	}
	days := make([]jobs.EpochDay, len(a.ads.short))
	for i := range a.ads.short {
		d := &a.ads.short[i]
		days[i] = jobs.EpochDay{Longest: d.longest,
			MachineDay: jobs.MachineDay{Machine: a.View.Names.Text(a.Machines[d.machine].Name), Day: d.day}}
	}
	result, err := a.source.Epochs(a.ctx, days)
	if err != nil {
		return err
	}
	a.note(result)
	var others []jobs.Wanted
	a.ads.others = map[string][]jobs.Ad{}
	for i := range days {
		a.ads.short[i].ads = result.Ads[i]
		for n := range result.Ads[i] {
			ad := &result.Ads[i][n]
			if _, known := a.ads.others[ad.GlobalJobID]; !known && ad.Kind == jobs.Epoch && !byEpoch(ad).decided {
				a.ads.others[ad.GlobalJobID] = nil
				others = append(others, jobs.Wanted{Job: ad.GlobalJobID, LastSeen: ad.EpochWriteDate.Time()})
			}
		}
	}
	if len(others) == 0 {
		return nil
	}
	if result, err = a.source.Ads(a.ctx, others); err != nil {
		return err
	}
	a.note(result)
	for i, w := range others {
		a.ads.others[w.Job] = result.Ads[i]
	}
	return nil
}

// longest is how long a run that begins on a UTC day may last without a snapshot that shows it: the distance of two
// snapshots, and as much again while its owner has the GPU already; as a power of two minutes, because then the request
// about a day stays the same while it grows; 0 = any time, before the first snapshot and after the last one. For
// example, with a snapshot every 15 minutes: 2 × 15 min and 2 × 2 min of tolerance make 34 min, rounded up to 64.
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
	return time.Minute << bits.Len64(uint64((2*most+2*Tolerance)/pool.Minute))
}

// readShort reads the ads of short runs. Errors are ctx's.
func (a *Ads) readShort(ctx context.Context) error {
	lists := make([][]jobs.Ad, len(a.short))
	for i := range a.short {
		lists[i] = a.short[i].ads
	}
	read, err := recordsOf(ctx, lists)
	for i := range read {
		a.short[i].records = read[i]
	}
	return err
}

// shortOn are the days of short runs on a machine.
func (a *Ads) shortOn(machine int) []shortDay {
	first := sort.Search(len(a.short), func(i int) bool { return a.short[i].machine >= machine })
	end := sort.Search(len(a.short), func(i int) bool { return a.short[i].machine > machine })
	return a.short[first:end]
}
