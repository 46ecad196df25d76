package runs

import (
	"context"
	"fmt"
	"slices"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// Known is the history of all runs of an observation, by snapshots and job ads together. Callers must not modify it. It
// is built as a whole, because a new snapshot or a late ad can change older runs.
type Known struct {
	*Explanations // whose ads are not kept, except those of unseen runs
	// Sharp is set if job ads are used. Otherwise there is no source, or it did not answer, and only snapshots count.
	Sharp   bool
	Notices []string // of the source
	Failure error    // why the source did not answer
	Clocks  *Ads     // that the ads reveal

	source jobs.Source
}

// historyCache keeps the history of an observation by job ads: the panels of a dashboard request it one after another.
type historyCache struct {
	turn *semaphore.Weighted // one lookup at a time; a waiting caller leaves at its own deadline
	kept *Known              // nil if there is none
}

func newHistoryCache() historyCache { return historyCache{turn: semaphore.NewWeighted(1)} }

// Known returns the history of all runs. It is kept as long as the source gives the same ads: only then is it the same
// pointer. A nil source means that only snapshots count. Errors are ctx's, and those of the source except
// that it does not answer.
func (o *Observed) Known(ctx context.Context, source jobs.Source) (*Known, error) {
	if source == nil {
		return o.bySnapshots(ctx)
	}
	limited, cancel := jobs.Limited(ctx)
	defer cancel()
	cache := &o.histories
	if err := parallel.Acquire(limited, cache.turn); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("explaining runs: %w", ctx.Err())
		}
		return o.withoutAds(ctx, source, pool.SourceError("the source of the job ads has not answered another query yet: "+
			"try again later"))
	}
	defer cache.turn.Release(1)
	before := cache.kept
	if before != nil && before.source != source {
		before = nil
	}
	if before != nil && before.Clocks.Holds() {
		return before, nil
	}
	k, err := o.history(ctx, source, before)
	if err == nil && k.Failure == nil {
		cache.kept = k
	}
	return k, err
}

// bySnapshots returns the history from snapshots only.
func (o *Observed) bySnapshots(ctx context.Context) (*Known, error) {
	load := func(ctx context.Context, _ struct{}) (*Known, error) {
		return o.explainAll(ctx, &Known{Clocks: &Ads{}}, nil)
	}
	return o.plain.Get(ctx, struct{}{}, otter.LoaderFunc[struct{}, *Known](load))
}

// withoutAds returns the history from snapshots only, because the source failed.
func (o *Observed) withoutAds(ctx context.Context, source jobs.Source, failure error) (*Known, error) {
	k, err := o.bySnapshots(ctx)
	if err != nil {
		return nil, err
	}
	without := *k
	without.source, without.Failure = source, failure
	return &without, nil
}

// history looks up the ads of all runs, and explains these unless the ads are the same as before.
func (o *Observed) history(ctx context.Context, source jobs.Source, before *Known) (*Known, error) {
	k := &Known{Sharp: true, Clocks: &Ads{}, source: source}
	if o.First == o.End {
		return o.explainAll(ctx, k, nil)
	}
	// Runs that began after the last snapshot belong to a window that ends later; no ads are requested for days without
	// snapshots.
	first, last := o.View.Times[o.First], o.View.Times[o.End-1]
	unseen := pool.Window{From: first, To: last + pool.Day}
	l := o.newLookup(ctx, source)
	failure, err := l.fault(l.lookUp(unseen))
	switch {
	case err != nil:
		return nil, err
	case failure != nil:
		return o.withoutAds(ctx, source, failure)
	case before != nil && l.ads.same(before.Clocks):
		again := *before
		again.Notices, again.Clocks = l.notices, &Ads{clocks: before.Clocks.clocks, answers: l.ads.answers,
			epochs: before.Clocks.epochs}
		return &again, nil
	}
	if err := l.date(); err != nil {
		return nil, fmt.Errorf("looking up job ads: %w", err)
	}
	k.Notices, k.Clocks = l.notices, l.ads.onlyClocks()
	return o.explainAll(ctx, k, l.ads)
}

// explainAll explains all runs by ads; nil if there are none. The history does not keep the ads, because they take more
// memory than all the rest.
func (o *Observed) explainAll(ctx context.Context, k *Known, ads *Ads) (*Known, error) {
	x, err := o.explain(ctx, ads)
	if err != nil {
		return nil, fmt.Errorf("explaining runs: %w", err)
	}
	for m := range x.Machines {
		for i := range x.Machines[m].Runs {
			x.Machines[m].Runs[i].own = nil
		}
		for i := range x.Machines[m].Unseen {
			e := &x.Machines[m].Unseen[i]
			ad := *e.own // a copy, because those of its machine share their memory
			e.own = &ad
		}
	}
	k.Explanations = x
	return k, nil
}

// same reports whether the same ads were found as by another lookup about the same observation.
func (a *Ads) same(b *Ads) bool {
	return len(a.answers) > 0 && slices.EqualFunc(a.answers, b.answers, func(x, y adAnswer) bool {
		return x.version == y.version && x.version != 0
	})
}
