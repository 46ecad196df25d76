package timeline

import (
	"context"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel"

	"github.com/chtc/gpureports/pkg/snapshots"
)

// errOtherRows says that the rows of a day are not those that its segment was made from.
var errOtherRows = fmt.Errorf("the rows are not those of the segment: %w", snapshots.ErrStale)

// usageOf requests the usage of a day of a view that was loaded in a state of the source. Usually it was kept when the
// segment was derived; otherwise both are derived once more.
func (t *Timeline) usageOf(state snapshots.State, d *Day, stats *loadStats) request[*Usage] {
	return request[*Usage]{
		state: state, date: d.Date, left: d.incomplete, stats: stats,
		decode: func(encoded []byte) (*Usage, error) { return decodeUsage(encoded, d.GPUs(), len(d.Times)) },
		derive: func(ctx context.Context, _ *Usage, _ snapshots.Known) (*Usage, snapshots.Reading, error) {
			again, usage, reading, err := t.read(ctx, state, d.Date, d.incomplete, snapshots.Known{}, nil, nil)
			if err == nil && !again.claimsAs(d) {
				err = errOtherRows
			}
			return usage, reading, err
		},
	}
}

// claimsAs reports whether two segments have the same claims in the same snapshots.
func (d *Day) claimsAs(other *Day) bool {
	return slices.Equal(d.Times, other.Times) && slices.Equal(d.gpus, other.gpus) && slices.Equal(d.first, other.first) &&
		slices.Equal(d.status, other.status) && slices.Equal(d.jobs, other.jobs) && slices.Equal(d.extras, other.extras)
}

// Usage returns the usage of the days [first, end) of a view, in their order.
//
// The usage of a day that cannot be read is empty, and a notice names it. Errors: snapshots.ErrStale if the snapshots
// have changed since the view was loaded, see Retry; ctx's.
func (t *Timeline) Usage(ctx context.Context, v *View, first, end int) ([]*Usage, []snapshots.Notice, error) {
	ctx, span := otel.Tracer("gpureports").Start(ctx, "gpureports load usage")
	defer span.End()
	t.busy.Add(1)
	defer t.busy.Add(-1)
	days := v.Days[first:end]
	var stats loadStats
	entries, err := t.usages.all(ctx, len(days), &stats, func(i int) request[*Usage] {
		return t.usageOf(v.state, days[i], &stats)
	})
	if err != nil {
		return nil, nil, err
	}
	all := make([]*Usage, len(days))
	for i, e := range entries {
		if e != nil {
			all[i] = e.value
			continue
		}
		all[i] = &Usage{number: usages.Add(1), snapshots: len(days[i].Times), offsets: make([]uint32, 2*days[i].GPUs()+1)}
	}
	return all, stats.usageNotices(), nil
}
