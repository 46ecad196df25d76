package runs

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"
	"time"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// This file finds the runs that no snapshot shows: those that begin and end between two snapshots, as epoch ads show
// (methodology section 8).

// ofShortRuns looks up the epoch ads of runs that are no longer than the distance of two snapshots of their day.
func (a *asking) ofShortRuns(w pool.Window) error {
	if w.To <= w.From || a.First == a.End {
		return nil
	}
	before := max(a.First, sort.Search(len(a.View.Times), func(i int) bool { return a.View.Times[i] >= w.From })-1)
	first := pool.DayOf(min(w.From, a.View.Times[before]) - nearEnd)
	var machines []int
	var asked []jobs.EpochDay
	for m := range a.Machines {
		for day := first; day <= pool.DayOf(w.To+nearEnd); day++ {
			// clocks may be wrong
			if a.dayWithBackfill(&a.Machines[m], day) < 0 && a.dayWithBackfill(&a.Machines[m], day+1) < 0 {
				continue
			}
			name := a.View.Names.Text(a.Machines[m].Name)
			asked = append(asked, jobs.EpochDay{MachineDay: jobs.MachineDay{Machine: name, Day: day}, Longest: a.longest(day)})
			machines = append(machines, m)
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
	for i, m := range machines {
		a.ads.epochs = append(a.ads.epochs, onMachine{m, result.Ads[i]})
	}
	return a.ofOtherJobs()
}

// ofOtherJobs looks up the history ads that have the outcome where an epoch ad does not.
func (a *asking) ofOtherJobs() error {
	var asked []jobs.Wanted
	a.ads.others = map[string][]jobs.Ad{}
	for _, on := range a.ads.epochs {
		for i := range on.ads {
			if ad := &on.ads[i]; !byEpoch(ad).decided && a.ads.others[ad.GlobalJobID] == nil {
				a.ads.others[ad.GlobalJobID] = []jobs.Ad{}
				asked = append(asked, jobs.Wanted{Job: ad.GlobalJobID, LastSeen: ad.EpochWriteDate.Time()})
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
	}
	return nil
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

// dayWithBackfill returns the number of the view's day on which a machine has backfill rows: a UTC day or the one
// before; −1 when there are none on both.
func (o *Observed) dayWithBackfill(machine *Machine, day int32) int {
	end := sort.Search(len(o.View.Days), func(k int) bool { return o.View.Days[k].Date > day })
	for k := end - 1; k >= 0 && o.View.Days[k].Date >= day-1; k-- {
		if machine.days[k].backfill {
			return end - 1 // what is counted on it follows the day before, where it has no rows
		}
	}
	return -1
}

// neverBegan reports whether a vacate code says that the run never began (htcondor.md).
func neverBegan(ad *jobs.Ad) bool {
	code := ad.VacateReasonCode
	return ad.HasVacateReasonCode && (code == 1003 || code == 1006 || code >= 1026 && code <= 1036)
}

// unseen returns the machine's runs that no snapshot shows, by their start; x are those that snapshots show.
func (l *linker) unseen(ads *Ads, x *Explanation) []Explained {
	if ads == nil || len(ads.records.epochs[l.number]) == 0 {
		return nil
	}
	l.nameless = l.nameless[:0]
	for r, run := range l.machine.Runs.All() {
		if run.Job.IsNone() {
			l.nameless = append(l.nameless, int32(r))
		}
	}
	var found []Explained
	for _, r := range ads.records.epochs[l.number] {
		if e, ok := l.hidden(r, ads); ok && !l.taken(e, r.Ad, x) {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b Explained) int { return cmp.Compare(a.Start, b.Start) })
	return found
}

// hidden makes a run of an epoch ad that lies between two snapshots.
func (l *linker) hidden(r record, ads *Ads) (Explained, bool) {
	o := l.observed
	if r.start == 0 || r.end < r.start || neverBegan(r.Ad) || len(r.GPUs) == 0 {
		return Explained{}, false
	}
	next := sort.Search(len(o.View.Times), func(i int) bool { return o.View.Times[i] >= r.start })
	if next < len(o.View.Times) && o.View.Times[next] <= r.end {
		return Explained{}, false // a snapshot shows it
	}
	day := o.dayWithBackfill(l.machine, pool.DayOf(r.start))
	if day < 0 {
		return Explained{}, false
	}
	run := Run{Job: o.View.Names.Job(r.GlobalJobID), User: o.View.Names.Symbol(r.User), Side: pool.Primary,
		First: int32(next), Last: int32(next) - 1, Gone: int32(next)}
	if r.OnBackfill() {
		run.Side = pool.Backfill
	}
	for g, id := range l.ids {
		if slices.Contains(r.GPUs, id) {
			run.GPUs = append(run.GPUs, int32(g))
		}
	}
	if run.GPUs == nil {
		return Explained{}, false
	}
	run.Leader, run.Opening = run.GPUs[0], run.GPUs
	e := Explained{Run: &run, Start: r.start, End: r.end, StartByAd: true, EndByAd: true, Link: AdOnly, number: -1,
		own: r.Ad, final: true}
	e.Place = l.machine.GPUs[run.Leader].places[day]
	var known []record
	for i := range ads.others[r.GlobalJobID] {
		other := recordOf(&ads.others[r.GlobalJobID][i])
		other.correct(ads.clocks[other.AccessPoint])
		known = append(known, other)
	}
	v := verdictOf(r, known)
	e.Outcome, e.Evidence, e.Cause, e.UnknownCode = v.outcome, v.evidence, v.cause, v.unknown
	return e, true
}

// taken reports whether an ad describes a run that snapshots show: one of its job on the machine, on either side, or
// one without a GlobalJobId that began then.
func (l *linker) taken(e Explained, ad *jobs.Ad, x *Explanation) bool {
	of := epochOf(ad)
	is := func(x Explained) bool { return x.epoch == of }
	for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
		pieces := l.runsOf(e.Job, side)
		if len(pieces) > 0 && slices.ContainsFunc(l.explained(pieces, x), is) {
			return true
		}
	}
	for _, r := range l.nameless {
		run := l.machine.Runs.At(int(r))
		d := run.First - e.First
		if run.Side != e.Side || d < -1 || d > 1 || !slices.Contains(e.GPUs, run.GPUs[0]) {
			continue
		}
		l.pieces = l.piecesOf(int(r), l.pieces[:0])
		l.joined = l.withoutID(l.pieces, l.nearby, l.joined[:0])
		if slices.ContainsFunc(l.joined, func(x Explained) bool {
			return is(x) && x.own.GlobalJobID == ad.GlobalJobID
		}) {
			return true
		}
	}
	return false
}

// explained returns the explained runs of a job's pieces, as they are known or as its ads explain them.
func (l *linker) explained(pieces []int32, x *Explanation) []Explained {
	l.joined = l.joined[:0]
	for _, p := range pieces {
		i := x.of[p]
		if i < 0 { // it was not asked for
			return l.explain(pieces, l.records(int(pieces[0])), l.joined[:0])
		}
		for n := int(i); n < x.Runs.Len() && x.groups[n] == x.groups[i]; n++ {
			l.joined = append(l.joined, *x.Runs.At(n))
		}
	}
	return l.joined
}

// runsOf returns a job's runs on the machine and one side, in their order.
func (l *linker) runsOf(job timeline.Job, side pool.Side) []int32 {
	index := l.observed.jobs()
	number, known := index.number(job)
	if !known {
		return nil
	}
	l.pieces = l.pieces[:0]
	for s := index.newest[side][number]; s.machine >= 0; s = index.before[s.machine][s.run] {
		if int(s.machine) == l.number {
			l.pieces = append(l.pieces, s.run)
		}
	}
	slices.Reverse(l.pieces)
	return l.pieces
}
