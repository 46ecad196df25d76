package runs

import (
	"cmp"
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// This file finds the runs that snapshots do not show, mostly those that begin and end between two of them, as ads show
// (methodology section 8).

// dayWithBackfill returns the number of the view's day on which a machine has backfill rows: a UTC day or the one
// before; −1 when there are none on both.
func (o *Observed) dayWithBackfill(machine *Machine, day int32) int {
	end := sort.Search(len(o.View.Days), func(k int) bool { return o.View.Days[k].Date > day })
	for k := end - 1; k >= 0 && o.View.Days[k].Date >= day-1; k-- {
		if machine.days[k].backfill {
			return end - 1 // a machine without rows on a day counts as on the day before
		}
	}
	return -1
}

// unseen returns the machine's runs that no snapshot shows, by their start; x are those that snapshots show.
func (l *linker) unseen(ads *Ads, x *Explanation) []Explained {
	if ads == nil || len(ads.short) == 0 {
		return nil
	}
	l.withoutJobID = l.observed.jobs().without[l.number]
	missed := l.missed[:0] // most ads are of runs that snapshots show, so few are left
	epochs := map[string][]record{}
	for _, d := range ads.shortOn(l.number) {
		for _, r := range d.records {
			if l.mayBeMissed(r) {
				missed, epochs[r.GlobalJobID] = append(missed, r), nil
			}
		}
	}
	for _, d := range ads.shortOn(l.number) {
		for _, r := range d.records {
			if of, ok := epochs[r.GlobalJobID]; ok && r.Kind == jobs.Epoch {
				epochs[r.GlobalJobID] = append(of, r)
			}
		}
	}
	var found []Explained
	for _, r := range missed {
		if e, ok := l.missedRun(r, ads, epochs[r.GlobalJobID]); ok && !l.alreadySeen(e, r.Ad, x) {
			found = append(found, e)
		}
	}
	l.missed = missed
	slices.SortStableFunc(found, func(a, b Explained) int { return cmp.Compare(a.Start, b.Start) })
	return found
}

// mayBeMissed reports whether snapshots may have missed the run of an ad on the machine.
func (l *linker) mayBeMissed(r record) bool {
	return r.start != 0 && r.end >= r.start && !neverBegan(r.Ad) && !l.disproved(r) &&
		slices.ContainsFunc(l.ids, func(id string) bool { return slices.Contains(r.GPUs, id) })
}

// missedRun makes a run of an ad; epochs are the job's epoch ads on the machine. It returns false if another ad
// describes the run better, or if the machine has no backfill then.
func (l *linker) missedRun(r record, ads *Ads, epochs []record) (Explained, bool) {
	o := l.observed
	day := o.dayWithBackfill(l.machine, pool.DayOf(r.start))
	if day < 0 || !l.tellsOfRun(r, ads, epochs) {
		return Explained{}, false
	}
	next := sort.Search(len(o.View.Times), func(i int) bool { return o.View.Times[i] >= r.start })
	run := Run{Job: o.View.Names.Job(r.GlobalJobID), User: o.View.Names.Symbol(r.User), Side: sideOf(r),
		First: int32(next), Last: int32(next) - 1, Gone: int32(next), GPUs: l.gpusOf(r)}
	run.Leader = run.GPUs[0]
	e := Explained{Run: &run, Start: r.start, End: r.end, StartByAd: true, EndByAd: true, Link: AdOnly, number: -1,
		own: r.Ad, final: true, Yields: yields(r.Ad)}
	e.Place = l.machine.GPUs[run.Leader].places[day]
	var known []record
	for i := range ads.others[r.GlobalJobID] {
		other := recordOf(&ads.others[r.GlobalJobID][i])
		other.correct(ads.clocks[other.AccessPoint])
		known = append(known, other)
	}
	v := verdictOf(r, known)
	e.Outcome, e.Evidence, e.Cause, e.UnknownCode = v.outcome, v.evidence, v.cause, v.unknown
	e.saved(r)
	return e, true
}

// tellsOfRun reports whether an ad may be of a run that no other ad describes better: the epoch ad of a start that was
// written last; if there are epoch ads, the history ad of a job on backfill that has none of its last run and gives its
// end. (The older form of adstash replaces a job's last epoch ad by its history ad.)
func (l *linker) tellsOfRun(r record, ads *Ads, epochs []record) bool {
	last := r.Kind == jobs.Epoch || ads.epochs && r.OnBackfill() && r.RunEnd() != 0
	ofRun := func(of record) {
		if of.Kind != jobs.Epoch || of.GlobalJobID != r.GlobalJobID {
			return
		}
		if r.Kind == jobs.Epoch {
			last = last && (of.start != r.start || of.RecordTime <= r.RecordTime)
		} else {
			last = last && distance(of.start, r.start) > Tolerance
		}
	}
	for _, of := range epochs {
		ofRun(of)
	}
	if job, known := l.observed.jobs().numbers[l.observed.View.Names.Job(r.GlobalJobID)]; known && r.Kind == jobs.History {
		for _, of := range ads.of(job) {
			ofRun(of)
		}
	}
	return last
}

// sideOf is the side that an ad's run was on.
func sideOf(r record) pool.Side {
	if r.OnBackfill() {
		return pool.Backfill
	}
	return pool.Primary
}

// gpusOf returns the machine's GPUs that an ad names.
func (l *linker) gpusOf(r record) (gpus []int32) {
	for g, id := range l.ids {
		if slices.Contains(r.GPUs, id) {
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
	var gpus []int32
	taken := func(s int32) bool {
		if sideOf(r) != pool.Backfill || int(s) < o.First || int(s) >= o.End || !o.Reports(l.machine, s) {
			return false
		}
		if gpus == nil {
			gpus = l.gpusOf(r)
		}
		return slices.ContainsFunc(gpus, func(g int32) bool {
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

// alreadySeen reports whether an ad describes a run that snapshots show: one of its job on the machine, on either side,
// or one without a GlobalJobId that began then.
func (l *linker) alreadySeen(e Explained, ad *jobs.Ad, x *Explanation) bool {
	of := idOf(ad)
	is := func(x Explained) bool { return idOf(x.own) == of }
	if number, known := l.observed.jobs().numbers[e.Job]; known {
		if slices.ContainsFunc(l.explained(l.runsOf(number), x), is) {
			return true
		}
	}
	for _, r := range l.withoutJobID {
		run := &l.machine.Runs[r]
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

// explained returns the explained runs of a job's pieces.
func (l *linker) explained(pieces []int32, x *Explanation) []Explained {
	l.joined = l.joined[:0]
	for _, p := range pieces {
		i := x.of[p]
		for n := int(i); n < len(x.Runs) && x.groups[n] == x.groups[i]; n++ {
			l.joined = append(l.joined, x.Runs[n])
		}
	}
	return l.joined
}

// runsOf returns a job's runs on the machine, side by side in their order.
func (l *linker) runsOf(job int32) []int32 {
	l.pieces = l.pieces[:0]
	for s := range l.observed.jobs().sightings(job) {
		if int(s.machine) == l.number {
			l.pieces = append(l.pieces, s.run)
		}
	}
	slices.Reverse(l.pieces)
	return l.pieces
}
