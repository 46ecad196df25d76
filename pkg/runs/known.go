package runs

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// Known is what snapshots and job ads together say about all runs of an observation. It is shared: read only.
type Known struct {
	*Explanations // whose ads are not kept: Explained.Ad is nil
	// Sharp: job ads are used. Else there is no source, or it did not answer, and snapshots alone count.
	Sharp   bool
	Notices []string // of the source
	Failure error    // why the source did not answer
	Clocks  *Ads     // that the ads reveal

	source  jobs.Source
	derived derived
	basis   atomic.Pointer[basis] // nil: nothing can be taken over
}

// derived is what kinds have made of all GPUs or runs, by a key of theirs. The zero derived is nothing.
type derived struct {
	kept    sync.Map // by key
	turns   sync.Map // of each key a *semaphore.Weighted
	earlier *earlier // nil: nothing was known before
}

// Origin is what kinds derive something from: what snapshots show, or what is known of runs.
type Origin interface{ keeps() *derived }

func (o *Observed) keeps() *derived { return &o.derived }

func (k *Known) keeps() *derived { return &k.derived }

// Derived returns what a kind makes of all GPUs or runs, once for as long as the same is known of them. It is shared:
// read only. Errors are those of make, and ctx's.
func Derived[T any](ctx context.Context, from Origin, key any, make func() (T, error)) (made T, err error) {
	d := from.keeps()
	if known, ok := d.kept.Load(key); ok {
		return known.(T), nil
	}
	waiting, _ := d.turns.LoadOrStore(key, semaphore.NewWeighted(1))
	turn := waiting.(*semaphore.Weighted)
	if err := turn.Acquire(ctx, 1); err != nil {
		return made, fmt.Errorf("waiting for what is made of runs: %w", err)
	}
	defer turn.Release(1)
	if known, ok := d.kept.Load(key); ok { // made meanwhile
		return known.(T), nil
	}
	if made, err = make(); err == nil {
		d.kept.Store(key, made)
	}
	return made, err
}

// bytes is about what is known of runs takes; nil takes nothing.
func (k *Known) bytes() (n int) {
	if k == nil {
		return 0
	}
	perRun := perExplained + perRow
	if k.Sharp {
		perRun += perBasis
	}
	for m := range k.Machines {
		n += (k.Machines[m].Runs.Len() + len(k.Machines[m].Unseen)) * perRun
	}
	return n
}

// perExplained is about what a run takes that was explained, and perRow what kinds keep of it.
const perExplained, perRow = 112, 76

// knowing keeps what is known of an observation: the panels of a dashboard ask for it one after the other.
type knowing struct {
	turn   *semaphore.Weighted // one explains at a time: it takes all cores
	kept   [2]*Known           // without and with a source
	before [2]*Known           // of an earlier observation, until this one is known
	size   atomic.Int64        // of kept, about, in bytes
}

// after has what is known of an earlier observation taken over where nothing changed since. Nothing is if that is being
// explained just now.
func (o *Observed) after(earlier *Observed) {
	if !earlier.known.turn.TryAcquire(1) {
		return
	}
	defer earlier.known.turn.Release(1)
	o.known.before = earlier.known.before
	for i, k := range earlier.known.kept {
		if k != nil {
			o.known.before[i] = k
		}
	}
	earlier.known.before = [2]*Known{} // no chain of observations
}

// Known explains all runs, once for as long as the source would give the same ads. A nil source is none. Errors are
// those of [Observed.Ask] and [Observed.Explain].
func (o *Observed) Known(ctx context.Context, source jobs.Source) (*Known, error) {
	patience, cancel := ctx, context.CancelFunc(func() {})
	if source != nil {
		patience, cancel = jobs.Limited(ctx)
	}
	defer cancel()
	if err := o.known.turn.Acquire(patience, 1); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("explaining runs: %w", ctx.Err())
		}
		return o.withoutAds(ctx, source)
	}
	defer o.known.turn.Release(1)
	n := 0
	if source != nil {
		n = 1
	}
	place, before := &o.known.kept[n], &o.known.before[n]
	if k := *place; k != nil && k.source == source {
		if k.holds() {
			return k, nil
		}
		*before = k
	}
	if *before != nil && (*before).source != source {
		*before = nil
	}
	k, err := o.explainAll(ctx, source, *before)
	if err != nil {
		return nil, err
	}
	*place = nil
	if k.Failure == nil {
		*place, *before = k, nil
	}
	o.known.size.Store(int64(o.known.kept[0].bytes() + o.known.kept[1].bytes()))
	return k, nil
}

// holds reports whether asking the source again would change nothing.
func (k *Known) holds() bool {
	b, source := k.basis.Load(), k.source
	if source == nil {
		return true
	}
	if b == nil {
		return k.Clocks.Holds()
	}
	changes := source.(jobs.Remembering).Since(b.mark)
	return !changes.Lost && len(changes.Jobs)+len(changes.Days) == 0 && changes.Now.UnixNano() < b.until
}

// withoutAds explains all runs by snapshots alone while the source keeps another question waiting.
func (o *Observed) withoutAds(ctx context.Context, source jobs.Source) (*Known, error) {
	k, err := o.explainAll(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	k.source, k.Failure = source, pool.SourceError("the source of the job ads has not answered another query yet: try "+
		"again later")
	return k, nil
}

// explainAll asks for the ads of all runs, and explains them. What was known before of jobs that are the same since is
// taken over.
func (o *Observed) explainAll(ctx context.Context, source jobs.Source, before *Known) (k *Known, err error) {
	k = &Known{source: source, Clocks: &Ads{}}
	remembering, remembers := source.(jobs.Remembering)
	var mark jobs.Mark
	if remembers {
		mark = remembering.Since(mark).Mark
	}
	var ads *Ads
	var again *again
	if source == nil {
		again = o.again(before)
	} else if o.First < o.End {
		if ads, k.Notices, k.Failure, err = o.askAll(ctx, source, before); err != nil {
			return nil, err
		}
	}
	if ads != nil {
		again, k.Clocks = ads.again, ads.OnlyClocks()
	}
	next := o.basisOf(ads, mark)
	if again.nothing(o, next) && slices.Equal(k.Notices, before.Notices) {
		next.forget()
		before.basis.Store(next)
		return before, nil
	}
	if k.Explanations, err = o.explain(ctx, ads, func(int, int) bool { return true }, again); err != nil {
		return nil, fmt.Errorf("explaining runs: %w", err)
	}
	k.Sharp = source != nil && k.Failure == nil
	if source == nil || ads != nil && remembers {
		k.basis.Store(next)
	}
	k.forget(again)
	next.forget()
	k.derived.earlier = again.earlier(k.Explanations)
	return k, nil
}

// forget lets go of ads. Runs that were taken over have none: they are shared, and not written to.
func (k *Known) forget(again *again) {
	for m := range k.Machines {
		for _, e := range k.Machines[m].Runs.others(again.explainedRuns(m)) {
			if e.own != nil {
				e.own = nil
			}
		}
		for i := range k.Machines[m].Unseen {
			k.Machines[m].Unseen[i].own = nil
		}
	}
}
