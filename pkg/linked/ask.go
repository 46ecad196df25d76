package linked

import (
	"context"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// Asked is the answer of a job source to a question about runs.
type Asked struct {
	Ads *runs.Ads // nil without a source, and when it did not answer

	source  jobs.Source
	notices []string
	failure error
}

// Ask looks up the job ads of runs. source may be nil; one that does not answer is not an error. Errors are ctx's and
// those of the snapshots.
func Ask(ctx context.Context, o *runs.Observed, source jobs.Source, q runs.Question) (*Asked, error) {
	a := &Asked{source: source}
	if source == nil {
		return a, nil
	}
	var err error
	if a.Ads, a.notices, a.failure, err = o.Ask(ctx, source, q); err != nil {
		return nil, err
	}
	return a, nil
}

// Tell adds notices about the ads of a window, and about clocks that are off. Without ads, a notice says so, with
// meaning, the consequence for the answer.
func (a *Asked) Tell(w pool.Window, meaning string, about *frames.About) {
	switch {
	case a.source == nil:
		about.Info("no job source is set up: %s", meaning)
		return
	case a.failure != nil:
		about.Warn("job ads could not be read: %s. %v", meaning, a.failure)
	}
	for _, n := range a.notices {
		about.Warn("%s", n)
	}
	if corrected := runs.ClockNotices(a.Ads.ClocksIn(w)); len(corrected) > 0 {
		about.Standing("Access points whose clocks are corrected", len(corrected), corrected...)
	}
}

// Holds reports whether asking again would change nothing.
func (a *Asked) Holds() bool { return a.source == nil || a.failure == nil && a.Ads.Holds() }

// WithoutAds returns a copy for caching, without the ads, except their evidence about clocks.
func (a *Asked) WithoutAds() *Asked {
	kept := *a
	kept.Ads = a.Ads.OnlyClocks()
	return &kept
}

// Known explains all runs by their job ads; the panels of a dashboard share the result. Notices are those
// of [Asked.Tell].
func Known(ctx context.Context, o *runs.Observed, source jobs.Source, w pool.Window, meaning string,
	about *frames.About) (*runs.Known, error) {
	known, err := o.Known(ctx, source)
	if err != nil {
		return nil, err
	}
	asked := Asked{Ads: known.Clocks, source: source, notices: known.Notices, failure: known.Failure}
	asked.Tell(w, meaning, about)
	return known, nil
}
