package timeline

import (
	"context"

	"go.opentelemetry.io/otel"

	"github.com/chtc/gpureports/pkg/snapshots"
)

// usageOf requests the usage of a day of a view that was loaded in a state of the source.
func (t *Timeline) usageOf(state snapshots.State, d *Day, stats *loadStats) request[*Usage] {
	gpus := make([]GPU, len(d.gpus))
	for i := range d.gpus {
		gpus[i] = d.gpus[i].GPU
	}
	return request[*Usage]{
		state: state, date: d.Date, left: d.incomplete, stats: stats,
		decode: func(encoded []byte) (*Usage, error) { return decodeUsage(encoded, gpus, len(d.Times)) },
		derive: func(ctx context.Context, earlier *Usage, from snapshots.Known) (*Usage, snapshots.Reading, error) {
			in := newUsageIngest(d, gpus, t.names, earlier)
			reading, err := state.Rows(ctx, d.Date, from, true, in)
			d.forgetMark(&reading)
			if err == nil && in.builder.snapshots != len(d.Times) { // snapshots of the day are missing
				err = errOtherRows
			}
			return in.builder.usage(), reading, err
		},
	}
}

// Usage returns the usage of the days [first, end) of a view, in their order. It is read from the source when it is
// requested for the first time, and then kept like the segments.
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
