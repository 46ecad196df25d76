package runs

import (
	"context"
	"fmt"
	"slices"

	"github.com/maypok86/otter/v2"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// History is the history of all runs of an observation, by snapshots and job ads together. Callers must not modify it. It
// is built as a whole, because a new snapshot or a late ad can change older runs.
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
	limited, cancel := jobs.Limited(ctx)
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
	load := func(ctx context.Context, _ struct{}) (*History, error) {
		return o.explain(ctx, &History{Clocks: &Ads{}}, nil)
	}
	return o.plain.Get(ctx, struct{}{}, otter.LoaderFunc[struct{}, *History](load))
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
		l.ads.clocks, l.ads.epochs = before.Clocks.clocks, before.Clocks.epochs
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
