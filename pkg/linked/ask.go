package linked

import (
	"context"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// Ask looks up the job ads of runs, and adds notices about clocks that are off. Without a job source (nil), and when
// it does not answer, there are no ads (nil), and a notice says so with what that means for the answer. Errors are
// ctx's and those of the snapshots.
func Ask(ctx context.Context, o *runs.Observed, source jobs.Source, q runs.Question, meaning string,
	about *frames.About) (*runs.Ads, error) {
	if source == nil {
		about.Info("no job source is set up: %s", meaning)
		return nil, nil
	}
	ads, notices, failure, err := o.Ask(ctx, source, q)
	if err != nil {
		return nil, err
	}
	if failure != nil {
		tellFailure(failure, meaning, about)
		return nil, nil
	}
	tellNotices(notices, ads.ClocksIn(q.Window), about)
	return ads, nil
}

// Known is Ask for answers about all runs, explained: what the panels of a dashboard share.
func Known(ctx context.Context, o *runs.Observed, source jobs.Source, w pool.Window, meaning string,
	about *frames.About) (*runs.Known, error) {
	if source == nil {
		about.Info("no job source is set up: %s", meaning)
	}
	known, err := o.Known(ctx, source)
	if err != nil {
		return nil, err
	}
	if known.Failure != nil {
		tellFailure(known.Failure, meaning, about)
	}
	tellNotices(known.Notices, known.ClocksIn(w), about)
	return known, nil
}

func tellFailure(failure error, meaning string, about *frames.About) {
	about.Warn("job ads could not be read: %s. %v", meaning, failure)
}

func tellNotices(notices []string, clocks []runs.Clock, about *frames.About) {
	for _, n := range notices {
		about.Warn("%s", n)
	}
	if corrected := runs.ClockNotices(clocks); len(corrected) > 0 {
		about.Standing("Access points whose clocks are corrected", len(corrected), corrected...)
	}
}
