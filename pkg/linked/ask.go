package linked

import (
	"context"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/jobs"
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
		about.Warn("job ads could not be read: %s. %v", meaning, failure)
		return nil, nil
	}
	for _, n := range append(notices, runs.ClockNotices(ads.ClocksIn(q.Window))...) {
		about.Warn("%s", n)
	}
	return ads, nil
}
