package runs

import (
	"context"
	"fmt"
	"sync"

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
}

// derived is what kinds have made of all GPUs or runs, by a key of theirs.
type derived struct {
	turn *semaphore.Weighted
	kept sync.Map
}

func newDerived() derived { return derived{turn: semaphore.NewWeighted(1)} }

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
	if err := d.turn.Acquire(ctx, 1); err != nil {
		return made, fmt.Errorf("waiting for what is made of runs: %w", err)
	}
	defer d.turn.Release(1)
	if known, ok := d.kept.Load(key); ok { // made meanwhile
		return known.(T), nil
	}
	if made, err = make(); err == nil {
		d.kept.Store(key, made)
	}
	return made, err
}

// perExplained is about what a run takes that was explained.
const perExplained = 96

// knowing keeps what is known of an observation: the panels of a dashboard ask for it one after the other.
type knowing struct {
	turn *semaphore.Weighted // one explains at a time: it takes all cores
	kept [2]*Known           // without and with a source
}

func newKnowing() knowing { return knowing{turn: semaphore.NewWeighted(1)} }

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
	place := &o.known.kept[0]
	if source != nil {
		place = &o.known.kept[1]
	}
	if k := *place; k != nil && k.source == source && k.Clocks.Holds() {
		return k, nil
	}
	k, err := o.explainAll(ctx, source)
	if err != nil {
		return nil, err
	}
	*place = nil
	if k.Failure == nil {
		*place = k
	}
	return k, nil
}

// withoutAds explains all runs by snapshots alone while the source keeps another question waiting.
func (o *Observed) withoutAds(ctx context.Context, source jobs.Source) (*Known, error) {
	k, err := o.explainAll(ctx, nil)
	if err != nil {
		return nil, err
	}
	k.source, k.Failure = source, pool.SourceError("the source of the job ads has not answered another query yet: try "+
		"again later")
	return k, nil
}

// explainAll asks for the ads of all runs, and explains them.
func (o *Observed) explainAll(ctx context.Context, source jobs.Source) (k *Known, err error) {
	k = &Known{source: source, Clocks: &Ads{}, derived: newDerived()}
	all := func(int, int) bool { return true }
	var ads *Ads
	if source != nil && o.First < o.End {
		times := o.View.Times
		// Runs that began after the last snapshot belong to a window that ends later; no ads are asked for on days without
		// snapshots.
		seen := pool.Window{From: times[o.First], To: times[o.End-1]}
		ads, k.Notices, k.Failure, err = o.Ask(ctx, source, Question{Window: seen, Wanted: all,
			Unseen: pool.Window{From: seen.From, To: seen.To + pool.Day}})
		if err != nil {
			return nil, err
		}
	}
	if k.Explanations, err = o.Explain(ctx, ads, all); err != nil {
		return nil, fmt.Errorf("explaining runs: %w", err)
	}
	if k.Sharp = source != nil && k.Failure == nil; ads == nil {
		return k, nil
	}
	k.Clocks = ads.OnlyClocks()
	for m := range k.Machines {
		for _, list := range [][]Explained{k.Machines[m].Runs, k.Machines[m].Unseen} {
			for i := range list {
				list[i].own = nil
			}
		}
	}
	return k, nil
}
