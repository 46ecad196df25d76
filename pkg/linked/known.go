package linked

import (
	"context"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// Known explains all runs by their job ads; the panels of a dashboard share the result. source may be nil; one that
// does not answer is not an error. Notices tell about the ads, and about clocks that are off in a window; without ads,
// one says so, with meaning, the consequence for the answer. Errors are ctx's and those of the snapshots.
func Known(ctx context.Context, o *runs.Observed, source jobs.Source, w pool.Window, meaning string,
	about *frames.About) (*runs.Known, error) {
	known, err := o.Known(ctx, source)
	if err != nil {
		return nil, err
	}
	switch {
	case source == nil:
		about.Info("no job source is set up: %s", meaning)
		return known, nil
	case known.Failure != nil:
		Unread(meaning, known.Failure, about)
	}
	for _, n := range known.Notices {
		about.Warn("%s", n)
	}
	if corrected := runs.ClockNotices(known.Clocks.ClocksIn(w)); len(corrected) > 0 {
		about.Standing("Access points whose clocks are corrected", len(corrected), corrected...)
	}
	return known, nil
}

// Unread warns that job ads could not be read, with the consequence for the answer.
func Unread(meaning string, failure error, about *frames.About) {
	about.Warn("job ads could not be read: %s. %v", meaning, failure)
}
