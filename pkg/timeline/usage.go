package timeline

import (
	"context"

	"go.opentelemetry.io/otel"

	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/timeline/usage"
)

// usageDay is the usage of one UTC day.
type usageDay struct {
	*usage.Block
	gpus []GPU // by their numbers in the block
}

// Bytes implements value.
func (u usageDay) Bytes() int { return u.Block.Bytes() + trim(&u.gpus) }

// usageOf requests the usage of a day of a view that was loaded in a state of the source.
func (t *Timeline) usageOf(state snapshots.State, d *Day, stats *loadStats) request[usageDay] {
	gpus := make([]GPU, len(d.gpus))
	for i := range d.gpus {
		gpus[i] = d.gpus[i].GPU
	}
	r := request[usageDay]{
		state: state, date: d.Date, stats: stats,
		decode: func(encoded []byte) (usageDay, error) {
			block, err := usage.Decode(encoded, d.GPUs(), len(d.Times))
			return usageDay{block, gpus}, err
		},
		derive: func(ctx context.Context, earlier usageDay, from snapshots.Known) (usageDay, snapshots.Reading, error) {
			in := newUsageIngest(d, t.names, earlier)
			reading, err := state.Rows(ctx, d.Date, from, true, in)
			if err != nil {
				return usageDay{}, reading, err
			}
			block, err := in.block()
			return usageDay{block, gpus}, reading, err
		},
	}
	if segment := t.segments.inMemory(d.Date); segment != nil && segment.value == d {
		r.identity = segment.identity
	}
	return r
}

// Usage returns the usage of the days [first, end) of a view, in their order. It is read from the source when it is
// requested for the first time, and then kept like the segments.
//
// The usage of a day that cannot be read is empty, and a notice names it. Errors: snapshots.ErrStale if the snapshots
// have changed since the view was loaded, see Retry; ctx's.
func (t *Timeline) Usage(ctx context.Context, v *View, first, end int) ([]*usage.Block, []snapshots.Notice, error) {
	ctx, span := otel.Tracer("gpureports").Start(ctx, "gpureports load usage")
	defer span.End()
	t.busy.Add(1)
	defer t.busy.Add(-1)
	days := v.Days[first:end]
	var stats loadStats
	entries, err := t.usages.all(ctx, len(days), &stats, func(i int) request[usageDay] {
		return t.usageOf(v.state, days[i], &stats)
	})
	if err != nil {
		return nil, nil, err
	}
	blocks := make([]*usage.Block, len(days))
	for i, e := range entries {
		if e == nil {
			blocks[i] = noUsage(days[i])
		} else {
			blocks[i] = e.value.Block
		}
	}
	return blocks, stats.usageNotices(), nil
}

// noUsage is a block without any value.
func noUsage(d *Day) *usage.Block {
	b := usage.NewBuilder(d.GPUs())
	for range d.Times {
		b.Snapshot()
	}
	return b.Block()
}
