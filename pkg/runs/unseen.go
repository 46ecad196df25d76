package runs

import (
	"cmp"
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// This file finds the runs that ads show and snapshots do not, mostly those between two (methodology section 8).

// dayWith returns the number of the view's last day up to a UTC day, −1 unless that UTC day or the one before fulfills
// a condition: a machine without rows on a day counts as on the day before.
func (o *Observed) dayWith(day int32, fulfills func(k int) bool) int {
	last := sort.Search(len(o.View.Days), func(k int) bool { return o.View.Days[k].Date > day }) - 1
	for k := last; k >= 0 && o.View.Days[k].Date >= day-1; k-- {
		if fulfills(k) {
			return last
		}
	}
	return -1
}

// dayWithRows is dayWith for rows of a machine.
func (o *Observed) dayWithRows(machine *Machine, day int32) int {
	return o.dayWith(day, func(k int) bool { return machine.days[k].index >= 0 })
}

// unseen returns the machine's runs that no snapshot shows, by their start, and apart those on primary slots while the
// machine has no backfill; x are those that snapshots show.
func (l *linker) unseen(x *Explanation) (found, apart []Explained) {
	if l.ads == nil {
		return nil, nil
	}
	l.short = appendRecords(l.short[:0], l.ads.short[l.number])
	short := l.short
	l.ads.clocks.correct(short)
	var missed []record // most ads are of runs that snapshots show, so few are left
	epochs := map[string][]record{}
	for _, r := range short {
		// snapshots may have missed it
		if r.start != 0 && r.end >= r.start && !neverBegan(r.Ad) && !l.disproved(r) && len(l.gpusOf(r)) > 0 {
			missed, epochs[r.GlobalJobID] = append(missed, r), nil
		}
	}
	for _, r := range short {
		if of, ok := epochs[r.GlobalJobID]; ok && r.Kind == jobs.Epoch {
			epochs[r.GlobalJobID] = append(of, r)
		}
	}
	for _, r := range missed {
		e, ok := l.missedRun(r, epochs[r.GlobalJobID])
		hasBackfill := func(k int) bool { return l.machine.days[k].backfill }
		switch inPool := l.observed.dayWith(pool.DayOf(r.start), hasBackfill) >= 0; {
		case !ok || !inPool && e.Side == pool.Backfill || l.alreadySeen(e, x):
		case inPool:
			found = append(found, e)
		default:
			apart = append(apart, e)
		}
	}
	byStart := func(a, b Explained) int { return cmp.Compare(a.Start, b.Start) }
	slices.SortStableFunc(found, byStart)
	slices.SortStableFunc(apart, byStart)
	return found, apart
}

// missedRun makes a run of an ad; epochs are the job's epoch ads on the machine. It returns false if another ad
// describes the run better, or if the machine has no rows then.
func (l *linker) missedRun(r record, epochs []record) (Explained, bool) {
	o := l.observed
	day := o.dayWithRows(l.machine, pool.DayOf(r.start))
	if day < 0 || !l.tellsOfRun(r, epochs) {
		return Explained{}, false
	}
	next := sort.Search(len(o.View.Times), func(i int) bool { return o.View.Times[i] >= r.start })
	run := Run{Job: o.View.Names.Job(r.GlobalJobID), User: o.View.Names.Symbol(r.User), Side: l.sideOf(r),
		First: int32(next), Last: int32(next) - 1, Gone: int32(next), GPUs: l.gpusOf(r)}
	run.Leader = run.GPUs[0]
	e := Explained{Run: &run, Start: r.start, End: r.end, StartByAd: true, EndByAd: true, Link: AdOnly, Number: -1,
		Ad: r.Ad, final: true, Yields: r.yields}
	e.Place = l.machine.GPUs[run.Leader].places[day]
	e.settle(verdictOf(r, l.ads.others[r.GlobalJobID]))
	e.saved(r)
	e.Failure, e.PeakMiB = e.failure(r, l.ads.others[r.GlobalJobID]), peakOf(r, nil)
	return e, true
}

// tellsOfRun reports whether an ad may be of a run that no other ad describes better: the epoch ad of a start that was
// written last; if there are epoch ads, the history ad of a job on backfill that has none of its last run and gives its
// end. (The older form of adstash replaces a job's last epoch ad by its history ad.)
func (l *linker) tellsOfRun(r record, epochs []record) bool {
	if r.Kind == jobs.Epoch {
		return !slices.ContainsFunc(epochs, func(of record) bool {
			return of.start == r.start && of.RecordTime > r.RecordTime
		})
	}
	near := func(of record) bool {
		return of.Kind == jobs.Epoch && of.GlobalJobID == r.GlobalJobID && distance(of.start, r.start) <= Tolerance
	}
	job, known := l.observed.jobs().jobs.Find(l.observed.View.Names.Job(r.GlobalJobID))
	return l.ads.Epochs && l.sideOf(r) == pool.Backfill && r.RunEnd() != 0 && !slices.ContainsFunc(epochs, near) &&
		!(known && slices.ContainsFunc(l.ads.jobs[job], near))
}

// sideOf is the side of the run of an ad on the machine: by the name of its slot or, because a site need not set a
// prefix, by what the rows of its day or the day before say of a slot of that name (methodology section 2).
func (l *linker) sideOf(r record) pool.Side {
	isBackfill := func(k int) bool {
		m := l.machine.days[k].index
		return m >= 0 && l.observed.View.Days[k].IsBackfill(int(m), r.Slot, l.observed.View.Names)
	}
	if pool.SideOf(r.Slot) == pool.Backfill ||
		l.observed.dayWith(pool.DayOf(r.JobCurrentStartDate.Micros()), isBackfill) >= 0 {
		return pool.Backfill
	}
	return pool.Primary
}

// gpusOf returns the machine's GPUs that an ad names.
func (l *linker) gpusOf(r record) (gpus []int32) {
	named := l.gpusNamed(r)
	for g, id := range l.ids {
		if slices.Contains(named, id) {
			gpus = append(gpus, int32(g))
		}
	}
	return gpus
}

// disproved reports whether a snapshot shows that an ad's run was not there. A snapshot near its start or end does not,
// nor one at which an owner has a GPU of a run on backfill already. For example, an ad says that a run lasted from
// 10:03 to 10:12. A snapshot at 10:15 says nothing about it, but one at 10:07 would show the run, so without it in this
// snapshot the ad is of another machine, or of another GPU.
func (l *linker) disproved(r record) bool {
	o := l.observed
	times := o.View.Times
	side := l.sideOf(r)
	taken := func(s int32) bool {
		return side == pool.Backfill && int(s) >= o.First && int(s) < o.End && o.Reports(l.machine, s) &&
			slices.ContainsFunc(l.gpusOf(r), func(g int32) bool {
				gpu := &l.machine.GPUs[g]
				return gpu.Segments[gpu.At(s)].State == Taken
			})
	}
	from := sort.Search(len(times), func(i int) bool { return times[i] > r.start+Tolerance })
	for s := from; s < len(times) && times[s] < r.end-Tolerance; s++ {
		if !taken(int32(s)) {
			return true
		}
	}
	return false
}

// alreadySeen reports whether the ad of a run describes one that snapshots show: one of its job on the machine, on
// either side, or one without a GlobalJobId that began then.
func (l *linker) alreadySeen(e Explained, x *Explanation) bool {
	of := idOf(e.Ad)
	_, known := l.observed.jobs().jobs.Find(e.Job)
	if known && slices.ContainsFunc(x.Runs, func(x Explained) bool { return x.Job == e.Job && idOf(x.Ad) == of }) {
		return true
	}
	for _, n := range l.observed.jobs().without[l.number] {
		run := &l.machine.Runs[n]
		d := run.First - e.First
		if run.Side != e.Side || d < -1 || d > 1 || !slices.Contains(e.GPUs, run.GPUs[0]) {
			continue
		}
		l.pieces = l.piecesOf(int(n), l.pieces[:0])
		if slices.ContainsFunc(l.withoutID(l.pieces, l.records(int(n)), nil), func(x Explained) bool {
			return idOf(x.Ad) == of && x.Ad.GlobalJobID == e.Ad.GlobalJobID
		}) {
			return true
		}
	}
	return false
}
