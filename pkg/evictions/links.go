package evictions

import (
	"context"
	"fmt"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// Links is how well job ads describe the runs of a window (methodology section 9).
type Links struct {
	// Rate is the share in percent of the backfill runs overlapping the window that a job ad says something about, of
	// those that ended more than 30 minutes before now; NaN below 20 runs.
	Rate   float64
	Clocks []runs.Clock // on the UTC days of the window, by access point and day
	// ClockError is the largest absolute error of them.
	ClockError pool.Micros
}

// LinksOf judges the links of a window. Errors are those of the snapshots, pool.SourceError when the job source does
// not answer, and ctx's.
func LinksOf(ctx context.Context, observer *runs.Observer, ads jobs.Source, lists pool.Lists, window pool.Window,
	now pool.Micros) (Links, error) {
	o, err := observer.Look(ctx, window, lists)
	if err != nil {
		return Links{}, err
	}
	wanted := inReach(o, window)
	known, _, failure, err := o.Ask(ctx, ads, runs.Question{Window: window, Wanted: wanted})
	if err != nil {
		return Links{}, err
	}
	if failure != nil {
		return Links{}, failure
	}
	x, err := o.Explain(ctx, known, wanted)
	if err != nil {
		return Links{}, fmt.Errorf("explaining runs: %w", err)
	}
	rate, _, _ := linkRate(collect(o, x, window), now)
	return Links{Rate: rate, Clocks: known.ClocksIn(window), ClockError: known.ClockError(window)}, nil
}
