package linked

import (
	"context"
	"fmt"
	"math"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// Fewest is how many runs a link rate needs.
const Fewest = 20

// Share is how many runs have an ad of their own.
type Share struct {
	Linked, Counted int // runs that an ad says something about, of all that were counted
}

// ShareOf counts the explained runs that pass, of those that ended more than 30 minutes before now: job ads come late
// (methodology section 9). Runs that only ads tell of are not among them.
func ShareOf(x *runs.Explanations, now pool.Micros, pass func(*runs.Explained) bool) (s Share) {
	for m := range x.Machines {
		for i := range x.Machines[m].Runs {
			e := &x.Machines[m].Runs[i]
			if e.Outcome == runs.Running || e.End >= now-30*pool.Minute || !pass(e) {
				continue
			}
			s.Counted++
			if e.Link.Linked() {
				s.Linked++
			}
		}
	}
	return s
}

// Rate is the share in percent; NaN below 20 runs.
func (s Share) Rate() float64 {
	if s.Counted < Fewest {
		return math.NaN()
	}
	return 100 * float64(s.Linked) / float64(s.Counted)
}

// Links is how well job ads describe the backfill runs of a window (methodology section 9).
type Links struct {
	Rate   float64      // in percent; NaN below 20 runs
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
	wanted := OnBackfill(o, window)
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
	share := ShareOf(x, now, Overlapping(window))
	return Links{Rate: share.Rate(), Clocks: known.ClocksIn(window), ClockError: known.ClockError(window)}, nil
}

// OnBackfill reports whether a run on backfill may overlap the window.
func OnBackfill(o *runs.Observed, w pool.Window) runs.Wanted {
	near := o.InReach(w)
	return func(m, i int) bool { return o.Machines[m].Runs[i].Side == pool.Backfill && near(m, i) }
}

// Overlapping reports whether an ended run overlaps the window.
func Overlapping(w pool.Window) func(*runs.Explained) bool {
	return func(e *runs.Explained) bool { return e.Start <= w.To && e.End >= w.From }
}
