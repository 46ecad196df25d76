package runs

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/maypok86/otter/v2"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// Explanations are runs as explained by ads.
type Explanations struct {
	Machines []Explanation // as Observed.Machines
	Derived  sync.Map      // what kinds derive from these runs, by keys of their own types
}

// Explanation holds one machine's explained runs.
type Explanation struct {
	Runs []Explained
	// Unseen are runs that no snapshot shows, by their start: on either side, not only backfill.
	Unseen []Explained
	// Apart are runs on primary slots that no snapshot shows, while the machine has no backfill. Only failures count them.
	Apart  []Explained
	of     []int32 // for each of Machine.Runs, the first of its explained runs
	groups []int32 // for each of Runs, the first one of its claim, all pieces of which are explained together
}

// Of returns the explained run that holds a run's GPUs at a snapshot.
func (x *Explanation) Of(run, snapshot int32) *Explained {
	i := x.of[run]
	e := &x.Runs[i]
	for snapshot > e.Last && int(i)+1 < len(x.Runs) && x.Runs[i+1].Number == e.Number {
		i++
		e = &x.Runs[i]
	}
	return e
}

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
		return chosen[machine][of.groups[of.of[e.Number]]]
	}
}

// explain finds the times, outcome and cause of all runs for a history; nil: no ads. All pieces of a job on a machine
// are explained together. The history keeps no ads, which take more memory than all the rest.
func (o *Observed) explain(ctx context.Context, k *History, ads *foundAds) (*History, error) {
	k.Explanations = &Explanations{Machines: make([]Explanation, len(o.Machines))}
	err := parallel.EachWith(ctx, len(o.Machines), func(l *linker, m int) {
		l.turnTo(o, m, ads)
		x := &k.Machines[m]
		*x = l.machineRuns()
		x.Unseen, x.Apart = l.unseen(x)
		for i := range x.Runs {
			x.Runs[i].Ad = nil
		}
		for i := range x.Unseen {
			ad := *x.Unseen[i].Ad // a copy, because those of its machine share their memory
			x.Unseen[i].Ad = &ad
		}
		for i := range x.Apart {
			x.Apart[i].Ad = nil
		}
	})
	if err == nil {
		err = o.reappeared(ctx, k.Explanations, ads)
	}
	if err != nil {
		return nil, fmt.Errorf("explaining runs: %w", err)
	}
	return k, nil
}

// turnTo prepares for the runs of a machine.
func (l *linker) turnTo(o *Observed, m int, ads *foundAds) {
	names := o.View.Names.Texts()
	l.observed, l.number, l.machine, l.ads = o, m, &o.Machines[m], ads
	l.name = names[l.machine.Name]
	l.ids = l.ids[:0]
	for g := range l.machine.GPUs {
		l.ids = append(l.ids, names[l.machine.GPUs[g].ID])
	}
}

// records returns the ads of a run's job or, for a run without a GlobalJobId, of the machine.
func (l *linker) records(run int) []record {
	if l.ads == nil {
		return nil
	}
	if job := l.observed.JobOf(l.number, run); job >= 0 {
		return l.ads.jobs[job]
	}
	return l.ads.machines[l.number]
}

func (l *linker) machineRuns() Explanation {
	all := l.machine.Runs
	x := Explanation{of: slices.Repeat([]int32{-1}, len(all)), Runs: make([]Explained, 0, len(all)),
		groups: make([]int32, 0, len(all))}
	l.claims, l.found, l.ofClaims = slices.Grow(l.claims[:0], len(all))[:len(all)], l.found[:0], l.ofClaims[:0]
	clear(l.claims)
	for i := range all {
		if x.of[i] >= 0 {
			continue // it belongs to an earlier piece's claim
		}
		first := int32(len(x.Runs))
		var pieces []int32
		if all[i].Job.IsNone() {
			l.pieces = l.piecesOf(i, l.pieces[:0])
			pieces = l.pieces
			x.Runs = l.withoutID(pieces, l.records(i), x.Runs)
		} else {
			if l.claims[i].pieces == nil {
				l.ofJob(l.observed.JobOf(l.number, i), l.records(i))
			}
			claim := l.claims[i]
			pieces, x.Runs = claim.pieces, append(x.Runs, l.found[claim.first:claim.end]...)
		}
		x.groups = append(x.groups, slices.Repeat([]int32{first}, len(x.Runs)-int(first))...)
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
		if before < 0 || o.Machines[machine].Runs[before].Ending != Interrupted {
			return run
		}
		run = before
	}
}

// History is the history of all runs of an observation, by snapshots and job ads together. Callers must not modify it.
// It is built as a whole, because a new snapshot or a late ad can change older runs.
type History struct {
	*Explanations // whose ads are not kept, except those of unseen runs
	// Sharp is set if job ads are used. Otherwise there is no source, or it did not answer, and only snapshots count.
	Sharp   bool
	Notices []string // what the source says about its ads
	Failure error    // why the source did not answer
	Clocks  *Ads     // that the ads reveal

	source jobs.Source
}

// History returns the history of all runs. It is the same pointer as long as the source gives the same ads. Without a
// source (nil) only snapshots count. Errors are ctx's, and those of the source except that it does not answer.
func (o *Observed) History(ctx context.Context, source jobs.Source) (*History, error) {
	if source == nil {
		return o.bySnapshots(ctx)
	}
	limited, cancel := jobs.Limited(ctx, math.MaxInt64)
	defer cancel()
	if err := parallel.Acquire(limited, o.turn); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("explaining runs: %w", ctx.Err())
		}
		return o.withoutAds(ctx, source, pool.SourceError("the source of the job ads has not answered another query yet: "+
			"try again later"))
	}
	defer o.turn.Release(1)
	before := o.kept
	if before != nil && before.source != source {
		before = nil
	}
	if before != nil && before.Clocks.Unchanged() {
		return before, nil
	}
	k, err := o.newHistory(ctx, source, before)
	if err == nil && k.Failure == nil {
		o.kept = k
	}
	return k, err
}

func (o *Observed) bySnapshots(ctx context.Context) (*History, error) {
	load := func(ctx context.Context, _ string) (*History, error) {
		return o.explain(ctx, &History{Clocks: &Ads{}}, nil)
	}
	return o.plain.Get(ctx, "", otter.LoaderFunc[string, *History](load))
}

// withoutAds returns the history from snapshots only, because the source failed.
func (o *Observed) withoutAds(ctx context.Context, source jobs.Source, failure error) (*History, error) {
	k, err := o.bySnapshots(ctx)
	if err != nil {
		return nil, err
	}
	without := *k
	without.source, without.Failure = source, failure
	return &without, nil
}

// newHistory looks up the ads of all runs, and explains these unless the ads are the same as before.
func (o *Observed) newHistory(ctx context.Context, source jobs.Source, before *History) (*History, error) {
	if o.First == o.End {
		return o.explain(ctx, &History{Sharp: true, Clocks: &Ads{}, source: source}, nil)
	}
	l := o.newLookup(ctx, source)
	failure, err := l.fault(l.lookUp())
	switch {
	case err != nil:
		return nil, err
	case failure != nil:
		return o.withoutAds(ctx, source, failure)
	case before != nil && l.ads.same(before.Clocks):
		again := *before
		l.ads.clocks, l.ads.Epochs = before.Clocks.clocks, before.Clocks.Epochs
		again.Notices, again.Clocks = l.notices, l.ads.Ads
		return &again, nil
	}
	if err := l.date(); err != nil {
		return nil, fmt.Errorf("looking up job ads: %w", err)
	}
	return o.explain(ctx, &History{Sharp: true, Notices: l.notices, Clocks: l.ads.Ads, source: source}, l.ads)
}

// same reports whether the same ads were found as by another lookup about the same observation.
func (a *Ads) same(b *Ads) bool {
	return len(a.answers) > 0 && slices.EqualFunc(a.answers, b.answers, func(x, y jobs.Result) bool {
		return x.Version == y.Version && x.Version != 0
	})
}
