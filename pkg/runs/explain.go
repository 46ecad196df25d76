package runs

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/parallel"
)

// Explanations are runs as explained by ads.
type Explanations struct {
	Machines []Explanation // as Observed.Machines
}

// Explanation holds one machine's explained runs.
type Explanation struct {
	Runs []Explained
	// Unseen are runs that no snapshot shows, by their start: on either side, not only backfill.
	Unseen []Explained
	of     []int32 // for each of Machine.Runs, the first of its explained runs
	groups []int32 // for each of Runs, the number of its claim, all pieces of which are explained together
}

// Of returns the explained run that holds a run's GPUs at a snapshot.
func (x *Explanation) Of(run, snapshot int32) *Explained {
	i := x.of[run]
	e := &x.Runs[i]
	for snapshot > e.Last && int(i)+1 < len(x.Runs) && x.Runs[i+1].number == e.number {
		i++
		e = &x.Runs[i]
	}
	return e
}

// Claim returns the number of a run's claim, all pieces of which are explained together.
func (x *Explanation) Claim(run int) int32 { return x.groups[x.of[run]] }

// Wanted selects runs by the numbers of their machine and run.
type Wanted func(machine, run int) bool

// Choose selects the explained runs of the claims of wanted runs.
func (x *Explanations) Choose(wanted Wanted) func(machine int, e *Explained) bool {
	chosen := make([][]bool, len(x.Machines))
	for m := range x.Machines {
		of := &x.Machines[m]
		chosen[m] = make([]bool, len(of.Runs))
		for r, i := range of.of {
			if wanted(m, r) {
				chosen[m][of.groups[i]] = true
			}
		}
	}
	return func(machine int, e *Explained) bool {
		of := &x.Machines[machine]
		return chosen[machine][of.groups[of.of[e.number]]]
	}
}

// explain finds the times, outcome and cause of all runs; nil ads mean that there are none. All pieces of a job on a
// machine are explained together.
func (o *Observed) explain(ctx context.Context, ads *Ads) (*Explanations, error) {
	x := &Explanations{Machines: make([]Explanation, len(o.Machines))}
	err := parallel.Each(ctx, len(o.Machines), func(l *linker, m int) {
		l.read(o, m, ads)
		x.Machines[m] = l.machineRuns()
		x.Machines[m].Unseen = l.unseen(ads, &x.Machines[m])
	})
	if err != nil {
		return nil, err
	}
	return x, o.reappeared(ctx, x, ads)
}

// read prepares for the runs of a machine.
func (l *linker) read(o *Observed, m int, ads *Ads) {
	names := o.View.Names.Texts()
	l.observed, l.number, l.machine = o, m, &o.Machines[m]
	l.name = names[l.machine.Name]
	l.ids, l.near, l.ads, l.known = l.ids[:0], l.near[:0], ads, nil
	for g := range l.machine.GPUs {
		l.ids = append(l.ids, names[l.machine.GPUs[g].ID])
	}
}

// records returns the ads of a run's job or, for a run without a GlobalJobId, of the machine.
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

// alone reports whether a run is not a piece of another one, and nothing is known about its job.
func (l *linker) alone(run int) bool {
	if l.machine.Runs[run].Ending == Interrupted || l.observed.firstPiece(l.number, run) != run {
		return false
	}
	return len(l.records(run)) == 0
}

// machineRuns explains the machine's runs.
func (l *linker) machineRuns() Explanation {
	all := l.machine.Runs
	x := Explanation{of: slices.Repeat([]int32{-1}, len(all)), Runs: make([]Explained, 0, len(all)),
		groups: make([]int32, 0, len(all))}
	group := int32(-1)
	for i := range all {
		if x.of[i] >= 0 {
			continue // of an earlier piece's claim
		}
		run, first := &all[i], int32(len(x.Runs))
		group++
		if l.alone(i) {
			x.of[i] = first
			x.Runs = append(x.Runs, l.part(part{run: run, number: int32(i), first: run.First, last: run.Last}, nil))
			x.groups = append(x.groups, group)
			continue
		}
		var pieces []int32
		if run.Job.IsNone() {
			l.pieces = l.piecesOf(i, l.pieces[:0])
			pieces = l.pieces
			x.Runs = l.withoutID(pieces, l.records(i), x.Runs)
		} else {
			claims := l.ofJob(l.observed.jobs().of[l.number][i], l.records(i))
			of := claims[slices.IndexFunc(claims, func(c claimed) bool { return slices.Contains(c.pieces, int32(i)) })]
			pieces, x.Runs = of.pieces, append(x.Runs, of.runs...)
		}
		x.groups = append(x.groups, slices.Repeat([]int32{group}, len(x.Runs)-int(first))...)
		for _, p := range pieces {
			for x.of[p] = first; x.Runs[x.of[p]].Last < all[p].First; x.of[p]++ {
			}
		}
	}
	return x
}

// piecesOf returns the runs of a claim that may be a single one: a run, the interrupted ones before it, and the next
// ones as long as each was interrupted.
func (l *linker) piecesOf(run int, pieces []int32) []int32 {
	runs := l.machine.Runs
	run = l.observed.firstPiece(l.number, run)
	pieces = append(pieces, int32(run))
	interrupted := runs[run].Ending == Interrupted
	for i := run + 1; interrupted && i < len(runs); i++ {
		if claimOf(&runs[run]) == claimOf(&runs[i]) {
			pieces = append(pieces, int32(i))
			interrupted = runs[i].Ending == Interrupted
		}
	}
	return pieces
}

// firstPiece returns the first of the pieces to which a run may belong.
func (o *Observed) firstPiece(machine, run int) int {
	for {
		before := o.jobs().before[machine][run]
		if int(before.machine) != machine || o.Machines[machine].Runs[before.run].Ending != Interrupted {
			return run
		}
		run = int(before.run)
	}
}
