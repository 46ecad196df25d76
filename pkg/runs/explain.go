package runs

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/parallel"
)

// Explanations are runs with what ads say about them.
type Explanations struct {
	Machines []Explanation // as Observed.Machines
}

// Explanation holds one machine's explained runs.
type Explanation struct {
	Runs List[Explained]
	// Unseen are runs that no snapshot shows, by their start: on either side, not only backfill.
	Unseen []Explained
	of     []int32 // Machine.Runs → the first of its explained runs, −1: not asked for
	groups []int32 // of each of Runs: its number among the claims, all pieces of which are explained together
}

// Of returns the explained run that holds a run's GPUs at a snapshot, nil when the run was not asked for.
func (x *Explanation) Of(run, snapshot int32) *Explained {
	i := x.of[run]
	if i < 0 {
		return nil
	}
	e := x.Runs.At(int(i))
	for snapshot > e.Last && int(i)+1 < x.Runs.Len() && x.Runs.At(int(i)+1).number == e.number {
		i++
		e = x.Runs.At(int(i))
	}
	return e
}

// Claim returns the number of a run's claim, all pieces of which are explained together; −1 when the run was not
// asked for.
func (x *Explanation) Claim(run int) int32 {
	if i := x.of[run]; i >= 0 {
		return x.groups[i]
	}
	return -1
}

// ClaimOf returns the number of the claim of one of Runs.
func (x *Explanation) ClaimOf(explained int) int32 { return x.groups[explained] }

// Wanted chooses runs by the numbers of their machine and run.
type Wanted func(machine, run int) bool

// Choose chooses the explained runs that would have been explained if only some runs had been asked for.
func (x *Explanations) Choose(wanted Wanted) func(machine int, e *Explained) bool {
	chosen := make([][]bool, len(x.Machines))
	for m := range x.Machines {
		of := &x.Machines[m]
		chosen[m] = make([]bool, of.Runs.Len())
		for r, i := range of.of {
			if i >= 0 && wanted(m, r) {
				chosen[m][of.groups[i]] = true
			}
		}
	}
	return func(machine int, e *Explained) bool {
		of := &x.Machines[machine]
		return chosen[machine][of.groups[of.of[e.number]]]
	}
}

// Explain finds times, outcome and cause of the wanted runs; nil ads are none. All pieces of a job on a machine are
// explained together.
func (o *Observed) Explain(ctx context.Context, ads *Ads, wanted Wanted) (*Explanations, error) {
	return o.explain(ctx, ads, wanted, nil)
}

// explain is Explain that takes over what is not explained again; nil: nothing.
func (o *Observed) explain(ctx context.Context, ads *Ads, wanted Wanted, again *again) (*Explanations, error) {
	x := &Explanations{Machines: make([]Explanation, len(o.Machines))}
	whole := again.whole()
	err := parallel.Each(ctx, len(o.Machines), func(l *linker, m int) {
		l.read(o, m, ads)
		if l.again = again; again != nil {
			l.whole, l.passed = whole[m], 0
		}
		x.Machines[m] = l.machineRuns(wanted)
		x.Machines[m].Unseen = l.unseen(ads, &x.Machines[m])
	})
	if err != nil {
		return nil, err
	}
	return x, o.reappeared(ctx, x, ads, again)
}

// read prepares for a machine.
func (l *linker) read(o *Observed, m int, ads *Ads) {
	names := o.View.Names.Texts()
	l.observed, l.number, l.machine = o, m, &o.Machines[m]
	l.ids, l.near, l.ads = l.ids[:0], l.near[:0], ads
	for g := range l.machine.GPUs {
		l.ids = append(l.ids, names[l.machine.GPUs[g].ID])
	}
}

// records returns the ads of a run's job; of a run without a GlobalJobId those of the machine.
func (l *linker) records(run int) []record {
	job := l.observed.jobs().of[l.number][run]
	if job < 0 {
		return l.nearby()
	}
	return l.ads.of(job)
}

// nearby returns the ads on the machine, for runs without a GlobalJobId.
func (l *linker) nearby() []record {
	if l.ads != nil && len(l.near) == 0 {
		l.near = l.ads.on(l.number, l.near)
	}
	return l.near
}

// alone reports whether a run is no piece of another one, and nothing is known about its job.
func (l *linker) alone(run int) bool {
	if l.machine.Runs.At(run).Ending == Interrupted || l.observed.firstPiece(l.number, run) != run {
		return false
	}
	return len(l.records(run)) == 0
}

// machineRuns explains the machine's wanted runs. It shares what it takes over.
func (l *linker) machineRuns(wanted Wanted) Explanation {
	m := &l.machine.Runs
	x := Explanation{of: slices.Repeat([]int32{-1}, m.Len())}
	l.chosen = l.chosen[:0]
	n := 0
	for i := range m.Len() {
		want := wanted(l.number, i)
		l.chosen = append(l.chosen, want)
		if want {
			n++
		}
	}
	all := newMaker(*l.again.explainedRuns(l.number), n)
	x.groups = make([]int32, 0, n)
	for i := 0; i < m.Len(); i++ {
		if !l.chosen[i] || x.of[i] >= 0 {
			continue
		}
		if l.again != nil && l.again.Run(l.number, int32(l.observed.firstPiece(l.number, i))) {
			i = l.takeOver(&all, &x, i) - 1
			continue
		}
		run, first := m.At(i), int32(all.Len())
		if l.alone(i) {
			x.of[i] = first
			all.append(l.part(part{run: run, number: int32(i), first: run.First, last: run.Last}, nil))
			x.groups = append(x.groups, x.nextGroup())
			continue
		}
		l.pieces = l.piecesOf(i, l.pieces[:0])
		if run.Job.IsNone() {
			l.joined = l.withoutID(l.pieces, l.records(i), l.joined[:0])
		} else {
			l.joined = l.explain(l.pieces, l.records(i), l.joined[:0])
		}
		all.append(l.joined...)
		x.groups = append(x.groups, slices.Repeat([]int32{x.nextGroup()}, len(l.joined))...)
		for _, p := range l.pieces {
			for x.of[p] = first; all.At(int(x.of[p])).Last < m.At(int(p)).First; x.of[p]++ {
			}
		}
	}
	x.Runs = all.List
	return x
}

// nextGroup is the number of a further claim.
func (x *Explanation) nextGroup() int32 {
	if n := len(x.groups); n > 0 {
		return x.groups[n-1] + 1
	}
	return 0
}

// piecesOf returns the runs of a claim that may be one: a run, those before it that were interrupted, and as long as
// one was, the next.
func (l *linker) piecesOf(run int, pieces []int32) []int32 {
	runs := &l.machine.Runs
	run = l.observed.firstPiece(l.number, run)
	pieces = append(pieces, int32(run))
	interrupted := runs.At(run).Ending == Interrupted
	for i := run + 1; interrupted && i < runs.Len(); i++ {
		if claimOf(runs.At(run)) == claimOf(runs.At(i)) {
			pieces = append(pieces, int32(i))
			interrupted = runs.At(i).Ending == Interrupted
		}
	}
	return pieces
}

// firstPiece returns the first of the pieces that a run may be one of.
func (o *Observed) firstPiece(machine, run int) int {
	for {
		before := o.sameClaimBefore(machine, run)
		if before < 0 || o.Machines[machine].Runs.At(before).Ending != Interrupted {
			return run
		}
		run = before
	}
}

// sameClaimBefore returns the run before of the same claim on the machine, −1 without one.
func (o *Observed) sameClaimBefore(machine, run int) int {
	if s := o.jobs().before[machine][run]; int(s.machine) == machine {
		return int(s.run)
	}
	return -1
}
