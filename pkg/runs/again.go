package runs

import (
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// A new snapshot changes little of what is known: most runs ended long ago, and so did their ads arrive. What jobs did
// that are the same as before is taken over; only the others are explained again. A run is what it was if it ended
// before everything that changed; a job, if all its runs and ads and the clocks that dated these are.

// basis is what explanations of all runs rest on, beside the observed runs.
type basis struct {
	observed *Observed
	mark     jobs.Mark  // of the source, before it was asked
	until    int64      // nanoseconds since 1970: then it is time to ask again
	standing []standing // of each job's ads, by number
	besides  []standing // of what else was asked
	measured *measured
	machines []onMachine       // without ads
	short    []shortDay        // without ads
	versions map[string]uint64 // see Ads
}

// perBasis is about what a run's share of a basis takes: a standing, and of two ads the dates and constraints.
const perBasis = 120

// standing is a jobs.Standing in few bytes.
type standing struct {
	until   int64 // nanoseconds since 1970
	version uint64
	remark  *jobs.Remark
}

func standingOf(s jobs.Standing) standing {
	until := int64(math.MaxInt64)
	if s.Until.Year() < 2262 { // later moments have no number of nanoseconds
		until = s.Until.UnixNano()
	}
	return standing{until, s.Version, s.Remark}
}

// again says what of an observation is explained again. What is known before of the other jobs is taken over.
type again struct {
	*Same
	before *Known
	basis  *basis  // of before
	was    []int32 // by job number: its number before; −1 where it is fresh

	lost    bool         // jobs have no runs any more
	changes jobs.Changes // of the ads since
}

// again compares an observation with the one that something is known of; nil: they have nothing in common.
func (o *Observed) again(before *Known) *again {
	if before == nil {
		return nil
	}
	b := before.basis.Load()
	if b == nil || !o.sameGPUs(b.observed) {
		return nil
	}
	count := len(o.jobs().jobs)
	a := &again{before: before, basis: b, was: slices.Repeat([]int32{-1}, count),
		lost: !o.jobs().continues(b.observed.jobs()), Same: &Same{
			observed: o, settled: o.settled(b.observed), fresh: make([]bool, count),
			nameless: slices.Repeat([]int32{math.MaxInt32}, len(o.Machines)),
		}}
	if !a.lost {
		for job := range b.observed.jobs().jobs {
			a.was[job] = int32(job)
		}
	}
	gone := make([]bool, len(b.observed.jobs().jobs)) // jobs that a run of theirs changed
	for m := range o.Machines {
		a.compareRuns(m, gone)
	}
	for job, was := range a.was {
		a.fresh[job] = a.fresh[job] || was < 0 || gone[was]
		if a.fresh[job] {
			a.was[job] = -1
		}
	}
	return a
}

// compareRuns finds which runs of a machine are what they were, and marks the jobs of earlier runs that are not.
func (a *again) compareRuns(m int, gone []bool) {
	o, b := a.observed, a.basis
	now, then := &o.Machines[m].Runs, &b.observed.Machines[m].Runs
	nowOf, thenOf := o.jobs().of[m], b.observed.jobs().of[m]
	for r := 0; r < max(now.Len(), then.Len()); r++ {
		if p := r / partLen; !a.lost && now.isPart(then, p) && o.Machines[m].last[p] < a.settled {
			r += partLen - 1
			continue
		}
		same := r < now.Len() && r < then.Len() && now.At(r).Last < a.settled && now.At(r).equal(then.At(r))
		if r < now.Len() {
			switch {
			case nowOf[r] < 0 && !same:
				a.nameless[m] = min(a.nameless[m], now.At(o.firstPiece(m, r)).First)
			case nowOf[r] >= 0 && !same:
				a.fresh[nowOf[r]] = true
			case nowOf[r] >= 0:
				a.was[nowOf[r]] = thenOf[r]
			}
		}
		if r < then.Len() && !same {
			if thenOf[r] >= 0 {
				gone[thenOf[r]] = true
			} else {
				a.nameless[m] = min(a.nameless[m], then.At(b.observed.firstPiece(m, r)).First)
			}
		}
	}
}

// sameGPUs reports whether another observation begins with the same snapshot and has the same machines and GPUs.
func (o *Observed) sameGPUs(b *Observed) bool {
	if o.First >= o.End || b.First >= b.End || o.View.Names != b.View.Names || o.First != b.First ||
		o.View.Days[0] != b.View.Days[0] || o.View.Times[o.First] != b.View.Times[b.First] {
		return false
	}
	return slices.EqualFunc(o.Machines, b.Machines, func(x, y Machine) bool {
		return x.Name == y.Name && slices.EqualFunc(x.GPUs, y.GPUs, func(g, h GPU) bool { return g.GPU == h.GPU })
	})
}

// settled returns the snapshot before which runs must have ended so that nothing that changed since another observation
// concerns them: a run goes on after one silent snapshot, and is gone in the one behind it.
func (o *Observed) settled(b *Observed) int32 {
	if slices.Equal(o.View.Days, b.View.Days) && o.End == b.End {
		return math.MaxInt32
	}
	same := 0
	for same < min(len(o.View.Days), len(b.View.Days)) && o.View.Days[same] == b.View.Days[same] {
		same++
	}
	changed := min(o.End, b.End)
	if same < len(o.View.Days) {
		changed = min(changed, o.View.Base[same])
	}
	return int32(changed - 3)
}

// equal reports whether two runs of the same machine are the same.
func (r *Run) equal(s *Run) bool {
	return r == s || // in a part that both observations share
		r.Job == s.Job && r.User == s.User && r.Project == s.Project && r.Leader == s.Leader && r.First == s.First &&
			r.Last == s.Last && r.Gone == s.Gone && r.Side == s.Side && r.Ending == s.Ending && r.Takeover == s.Takeover &&
			r.TakenBy == s.TakenBy && slices.Equal(r.GPUs, s.GPUs) && slices.Equal(r.Opening, s.Opening)
}

// explained reports whether a job is explained again.
func (a *again) explained(job int32) bool { return a == nil || job < 0 || a.fresh[job] }

// due finds the jobs whose ads must be asked for: those that are explained again, and those whose ads may have changed.
func (a *again) due() (due []int32) {
	o, now := a.observed, a.changes.Now.UnixNano()
	replaced := make(map[timeline.Job]bool, len(a.changes.Jobs))
	for _, id := range a.changes.Jobs {
		replaced[o.View.Names.Job(id)] = true
	}
	for job, was := range a.was {
		if a.fresh[job] || a.basis.standing[was].until <= now || len(replaced) > 0 && replaced[o.jobs().jobs[job]] {
			due = append(due, int32(job))
		}
	}
	return due
}

// whole reports of each part of each machine's runs whether all of them are explained as they were, and it is part of
// the earlier observation as well; nil of nil.
func (a *again) whole() [][]bool {
	if a == nil {
		return nil
	}
	machines := a.observed.Machines
	whole := make([][]bool, len(machines))
	for m := range machines {
		runs := &machines[m].Runs
		whole[m] = make([]bool, len(runs.parts))
		for p, part := range runs.parts {
			whole[m][p] = runs.isPart(&a.basis.observed.Machines[m].Runs, p) && part[len(part)-1].First < a.nameless[m]
		}
	}
	for job, fresh := range a.fresh {
		if fresh {
			for s := range a.observed.jobs().sightings(int32(job)) {
				whole[s.machine][s.run/partLen] = false
			}
		}
	}
	return whole
}

// takeOver takes over what was known of a run that is explained as it was, and of those behind it as long as their
// parts are whole; next is the run behind them. Claims come in the order of their first pieces, as they did.
func (l *linker) takeOver(all *maker[Explained], x *Explanation, run int) (next int) {
	before := &l.again.before.Machines[l.number]
	next = run + 1
	if p := run / partLen; l.whole[p] {
		for ; p < len(l.whole) && l.whole[p]; p++ {
			next = min((p+1)*partLen, len(x.of))
		}
	}
	first, begin, end := int32(all.Len()), l.passed, l.passed
	for r := run; r < next; r++ {
		of := before.of[r]
		if of < l.passed { // its claim began before
			piece := l.observed.firstPiece(l.number, r)
			x.of[r] = x.of[piece] + of - before.of[piece]
			continue
		}
		if end == l.passed {
			begin = of
		}
		end = max(end, of+1)
		x.of[r] = first + of - begin
	}
	if end > l.passed {
		for int(end) < len(before.groups) && before.groups[end] == before.groups[end-1] {
			end++
		}
		l.passed = end
		group := x.nextGroup()
		for _, g := range before.groups[begin:end] {
			x.groups = append(x.groups, g-before.groups[begin]+group)
		}
		all.take(int(begin), int(end))
	}
	// The earlier observation is let go of.
	then, now := l.again.basis.observed.Machines[l.number].Runs.At(run), l.machine.Runs.At(run)
	if e := all.At(int(x.of[run])); e.Run == then && then != now {
		renewed := *e
		renewed.Run = now
		all.set(int(x.of[run]), renewed)
	}
	return next
}

// explainedRuns are a machine's runs with what was known of them; none of nil.
func (a *again) explainedRuns(machine int) *List[Explained] {
	if a == nil {
		return &List[Explained]{}
	}
	return &a.before.Machines[machine].Runs
}

// compareMachines has all runs without a GlobalJobId of a machine explained again if the ads on it are not what they
// were.
func (a *again) compareMachines(now []onMachine) {
	if a == nil {
		return
	}
	before := a.basis.machines
	for m := range a.nameless {
		n, b := daysOn(now, m), daysOn(before, m)
		same := func(x, y onMachine) bool { return x.day == y.day && x.version == y.version }
		if !slices.EqualFunc(now[:n], before[:b], same) {
			a.nameless[m] = 0
		}
		now, before = now[n:], before[b:]
	}
}

// daysOn returns how many of the first ones are of a machine.
func daysOn(list []onMachine, machine int) (n int) {
	for n < len(list) && list[n].machine == machine {
		n++
	}
	return n
}

// explain has a job explained again.
func (a *again) explain(job int32) { a.fresh[job], a.was[job] = true, -1 }

// notices are those of the answer.
func (s *standing) notices() []string {
	if s.remark == nil {
		return nil
	}
	return s.remark.Notices
}

// basisOf is what explanations by some ads rest on; nil ads are none.
func (o *Observed) basisOf(ads *Ads, mark jobs.Mark) *basis {
	b := &basis{observed: o, mark: mark, until: math.MaxInt64}
	if ads == nil {
		return b
	}
	b.standing, b.besides, b.measured = ads.standing, ads.besides, ads.measured
	b.machines, b.short, b.versions = ads.machines, ads.short, ads.versions
	for _, list := range [][]standing{b.standing, b.besides} {
		for i := range list {
			b.until = min(b.until, list[i].until)
		}
	}
	return b
}

// forget lets go of ads.
func (b *basis) forget() {
	for i := range b.machines {
		b.machines[i].ads = nil
	}
	for i := range b.short {
		d := &b.short[i]
		d.ads, d.records = nil, nil
		for n := range d.unseen {
			if d.unseen[n].own != nil { // what is taken over is shared
				d.unseen[n].own = nil
			}
		}
	}
}

// nothing reports whether nothing at all is explained again: what was known of the same observation is known still.
func (a *again) nothing(o *Observed, next *basis) bool {
	return a != nil && a.basis.observed == o && !slices.Contains(a.fresh, true) &&
		slices.EqualFunc(a.basis.besides, next.besides, func(x, y standing) bool { return x.version == y.version })
}
