package runs

import (
	"cmp"
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// This file finds the runs that no snapshot shows: those that begin and end between two snapshots, as epoch ads show
// (methodology section 8).

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
	if ads == nil || len(ads.short) == 0 {
		return nil
	}
	l.nameless = l.nameless[:0]
	for r, job := range l.observed.jobs().of[l.number] {
		if job < 0 {
			l.nameless = append(l.nameless, int32(r))
		}
	}
	var found []Explained
	days := ads.shortOn(l.number)
	for i := range days {
		if d := &days[i]; !d.same {
			l.unseenOn(d, ads, x)
		}
		found = append(found, days[i].unseen...)
	}
	slices.SortStableFunc(found, func(a, b Explained) int { return cmp.Compare(a.Start, b.Start) })
	return found
}

// unseenOn finds the runs of a day.
func (l *linker) unseenOn(d *shortDay, ads *Ads, x *Explanation) {
	d.unseen, d.jobs, d.until = nil, make([]timeline.Job, 0, len(d.records)), 0
	for _, r := range d.records {
		d.jobs, d.until = append(d.jobs, l.observed.View.Names.Job(r.GlobalJobID)), max(d.until, r.start, r.end)
		if e, ok := l.hidden(r, ads); ok && !l.taken(e, r.Ad, x) {
			d.unseen = append(d.unseen, e)
		}
	}
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
		l.joined = l.withoutID(l.pieces, l.nearby(), l.joined[:0])
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
