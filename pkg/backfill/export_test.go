package backfill

import (
	"context"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// Bounded is a period as snapshots show it, with the runs that bound it (−1 = none).
type Bounded struct {
	Machine          int
	First, Last      int32
	StartRun, EndRun int32
}

// Links are the runs that bound periods which reach a window, counted, and all periods as snapshots show them.
func Links(ctx context.Context, o *runs.Observed, of *runs.Known, w pool.Window, now pool.Micros) (linked.Share,
	[]Bounded, error) {
	bounding := newMarks(o, w)
	var seen []Bounded
	for _, m := range []measure{vacancy, tenure} {
		k, err := periodsOf(ctx, o, of, m)
		if err != nil {
			return linked.Share{}, nil, err
		}
		bounding.boundaries(k.seen)
		for _, b := range k.seen {
			seen = append(seen, Bounded{int(b.machine), b.first, b.last, b.startRun, b.endRun})
		}
	}
	return linked.ShareOf(of.Explanations, now, of.Choose(bounding.has)), seen, nil
}
