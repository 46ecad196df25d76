package evictions

import (
	"context"
	"fmt"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// LinkRate is the share in percent of the backfill runs overlapping a window that a job ad says something about, of those
// that ended more than 30 minutes before now; NaN below 20 runs (methodology section 9). Errors are those of the snapshots,
// pool.SourceError when the job source does not answer, and ctx's.
func LinkRate(ctx context.Context, tl *timeline.Timeline, ads jobs.Source, lists pool.Lists, window pool.Window, now pool.Micros) (float64, error) {
	o, err := runs.Look(ctx, tl, window, lists, runs.BackfillPool)
	if err != nil {
		return 0, err
	}
	wanted := inReach(o, window)
	known, _, failure, err := o.Ask(ctx, ads, wanted)
	if err != nil {
		return 0, err
	}
	if failure != nil {
		return 0, failure
	}
	x, err := o.Explain(ctx, known, wanted)
	if err != nil {
		return 0, fmt.Errorf("explaining runs: %w", err)
	}
	rate, _, _ := linkRate(collect(o, x, window), now)
	return rate, nil
}
