package runs

import (
	"cmp"
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
)

// Ads are the job ads that are known of an observation's jobs.
type Ads struct {
	jobs     [][]jobs.Ad // of each job of the observation, by number
	machines [][]jobs.Ad // of each machine, for runs without a GlobalJobId
}

// Explanations are runs with what ads say about them.
type Explanations struct {
	Machines []Explanation // as Observed.Machines
}

// Explanation holds one machine's explained runs.
type Explanation struct {
	Runs []Explained
	of   []int32 // Machine.Runs → the first of its explained runs, −1: not asked for
}

// Of returns the explained run that holds a run's GPUs at a snapshot, nil when the run was not asked for.
func (x *Explanation) Of(run, snapshot int32) *Explained {
	i := x.of[run]
	if i < 0 {
		return nil
	}
	for snapshot > x.Runs[i].Last && int(i)+1 < len(x.Runs) && x.Runs[i+1].number == x.Runs[i].number {
		i++
	}
	return &x.Runs[i]
}

// Wanted chooses runs by the numbers of their machine and run.
type Wanted func(machine, run int) bool

// Explain tells times, outcome and cause of the wanted runs; nil ads are none. All pieces of a job on a machine are
// explained together.
func (o *Observed) Explain(ctx context.Context, ads *Ads, wanted Wanted) (*Explanations, error) {
	x := &Explanations{Machines: make([]Explanation, len(o.Machines))}
	err := parallel.Each(ctx, len(o.Machines), func(l *linker, m int) {
		l.read(o, m, ads)
		x.Machines[m] = l.machineRuns(wanted)
	})
	if err != nil {
		return nil, err
	}
	return x, o.reappeared(ctx, x, ads)
}

// read prepares for a machine.
func (l *linker) read(o *Observed, m int, ads *Ads) {
	names := o.View.Names.Texts()
	l.observed, l.number, l.machine, l.name = o, m, &o.Machines[m], names[o.Machines[m].Name]
	l.ids, l.nearby, l.ads = l.ids[:0], l.nearby[:0], nil
	for g := range l.machine.GPUs {
		l.ids = append(l.ids, names[l.machine.GPUs[g].ID])
	}
	if ads != nil {
		l.ads = ads.jobs
		for i := range ads.machines[m] {
			l.nearby = append(l.nearby, recordOf(&ads.machines[m][i]))
		}
	}
}

// records returns the ads of a run's job; of a run without a GlobalJobId those of the machine.
func (l *linker) records(run int) []record {
	if l.machine.Runs[run].Job.IsNone() {
		return l.nearby
	}
	l.known = l.known[:0]
	ads := l.ads[l.observed.jobs().of[l.number][run]]
	for i := range ads {
		l.known = append(l.known, recordOf(&ads[i]))
	}
	return l.known
}

// hasAds tells whether anything is known about a run's job.
func (l *linker) hasAds(run int) bool {
	if l.ads == nil {
		return false
	}
	if l.machine.Runs[run].Job.IsNone() {
		return len(l.nearby) > 0
	}
	return len(l.ads[l.observed.jobs().of[l.number][run]]) > 0
}

func (l *linker) machineRuns(wanted Wanted) Explanation {
	m := l.machine
	x := Explanation{of: slices.Repeat([]int32{-1}, len(m.Runs))}
	l.chosen = l.chosen[:0]
	n := 0
	for i := range m.Runs {
		want := wanted(l.number, i)
		l.chosen = append(l.chosen, want)
		if want {
			n++
		}
	}
	x.Runs = make([]Explained, 0, n)
	for i := range m.Runs {
		if !l.chosen[i] || x.of[i] >= 0 {
			continue
		}
		first := int32(len(x.Runs))
		if !l.hasAds(i) {
			x.of[i] = first
			x.Runs = append(x.Runs, l.part(part{run: &m.Runs[i], number: int32(i), first: m.Runs[i].First, last: m.Runs[i].Last}, nil))
			continue
		}
		l.pieces = l.piecesOf(i, l.pieces[:0])
		if m.Runs[i].Job.IsNone() {
			x.Runs = l.withoutID(l.pieces, l.records(i), x.Runs)
		} else {
			x.Runs = l.explain(l.pieces, l.records(i), x.Runs)
		}
		for _, p := range l.pieces {
			for x.of[p] = first; x.Runs[x.of[p]].Last < m.Runs[p].First; x.of[p]++ {
			}
		}
	}
	return x
}

// piecesOf returns the runs of a claim that one ad may cover as one: a run, those before it that were interrupted, and as
// long as one was, the next.
func (l *linker) piecesOf(run int, pieces []int32) []int32 {
	runs := l.machine.Runs
	run = l.observed.firstPiece(l.number, run)
	pieces = append(pieces, int32(run))
	interrupted := runs[run].Ending == Interrupted
	for i := run + 1; interrupted && i < len(runs); i++ {
		if compareClaims(&runs[run], &runs[i]) == 0 {
			pieces = append(pieces, int32(i))
			interrupted = runs[i].Ending == Interrupted
		}
	}
	return pieces
}

// firstPiece returns the first of the pieces that a run may be one of.
func (o *Observed) firstPiece(machine, run int) int {
	for {
		before := o.sameClaimBefore(machine, run)
		if before < 0 || o.Machines[machine].Runs[before].Ending != Interrupted {
			return run
		}
		run = before
	}
}

// sameClaimBefore returns the run before of the same claim on the machine, −1 without one.
func (o *Observed) sameClaimBefore(machine, run int) int {
	runs := o.Machines[machine].Runs
	if !runs[run].Job.IsNone() {
		if s := o.jobs().before[machine][run]; int(s.machine) == machine {
			return int(s.run)
		}
		return -1
	}
	for i := run - 1; i >= 0; i-- {
		if compareClaims(&runs[i], &runs[run]) == 0 {
			return i
		}
	}
	return -1
}

// compareClaims compares runs by what makes them pieces of one: side and job; without a GlobalJobId user and GPU.
func compareClaims(a, b *Run) int {
	if a.Side != b.Side || a.Job != b.Job {
		return -1
	}
	if a.Job.IsNone() {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.GPUs[0], b.GPUs[0]))
	}
	return 0
}
