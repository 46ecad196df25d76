package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/timeline/keep"
	"github.com/chtc/gpureports/pkg/timeline/usage"
)

// usageEntry is what is kept of the usage of one UTC day. It is never changed.
type usageEntry struct {
	block *usage.Block
	gpus  []GPU // by their numbers in the block
	known snapshots.Known
}

func (e *usageEntry) bytes() int { return e.block.Bytes() + sizeOf(e.gpus) }

// usageVersion is that of the form that usage.Block.Encode writes.
const usageVersion = 1

func usageOf(date int32) keep.Blob {
	return keep.Blob{Kind: "usage", Version: usageVersion, Date: date}
}

// Usage returns the usage of the days [first, end) of a view, in their order. It is read from the source when it is
// asked for the first time, and then kept beside the segments, for finished days on disk too.
//
// The usage of a day that cannot be read is empty, and a notice names it. Errors: ctx's; pool.SourceError if the
// snapshots have changed since the view was made.
func (t *Timeline) Usage(ctx context.Context, v *View, first, end int) ([]*usage.Block, []snapshots.Notice, error) {
	ctx, span := otel.Tracer("gpureports").Start(ctx, "gpureports load usage")
	defer span.End()
	t.busy.Add(1)
	defer t.busy.Add(-1)
	days := v.Days[first:end]
	blocks := make([]*usage.Block, len(days))
	failed := make([]error, len(days))
	var unshared remarks
	group, inner := parallel.WithContext(ctx)
	group.SetLimit(t.atOnce())
	for i, d := range slices.Backward(days) {
		group.Go(func() (err error) {
			blocks[i], err = t.usage(inner, v.state, d, &unshared)
			if err != nil && inner.Err() == nil && !errors.Is(err, snapshots.ErrStale) {
				blocks[i], failed[i] = noUsage(d), err
				return nil
			}
			return err
		})
	}
	if err := cmp.Or(group.Wait(), ctx.Err()); err != nil {
		if errors.Is(err, snapshots.ErrStale) {
			err = pool.SourceError("%w: ask again", err)
		}
		return nil, nil, err
	}
	notices := unshared.notices()
	for i, err := range failed {
		if err != nil {
			text := fmt.Sprintf("GPUsAverageUsage of %s cannot be read, and is missing from the answer: %v",
				dateText(days[i].Date), err)
			notices = append(notices, snapshots.Notice{Warning: true, Text: text})
		}
	}
	return blocks, notices, nil
}

// noUsage is a block without any value.
func noUsage(d *Day) *usage.Block {
	b := usage.NewBuilder(d.GPUs())
	for range d.Times {
		b.Snapshot()
	}
	return b.Block()
}

// usage returns the usage of a day of a view that was made in a state of the source.
func (t *Timeline) usage(ctx context.Context, state snapshots.State, d *Day, said *remarks) (*usage.Block, error) {
	held, _, done, err := t.memory.Acquire(ctx, usageOf(d.Date))
	if err != nil {
		return nil, err
	}
	defer done()
	earlier, _ := held.(*usageEntry)
	e, err := t.usageIn(ctx, state, d, earlier, said)
	if errors.Is(err, snapshots.ErrStale) { // the day itself may be what it was
		if state, err = t.look(ctx); err != nil {
			return nil, err
		}
		holds, err := state.Holds(ctx, d.Date, snapshots.Known{Key: d.key})
		if err != nil {
			return nil, err
		}
		if !holds {
			return nil, errOtherRows
		}
		e, err = t.usageIn(ctx, state, d, nil, said)
		if err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	t.memory.Keep(usageOf(d.Date), e)
	return e.block, nil
}

// usageIn makes the entry of a day as it is in a state of the source: from an earlier entry if there is one, from disk,
// from the bucket, or from the source.
func (t *Timeline) usageIn(ctx context.Context, state snapshots.State, d *Day, earlier *usageEntry, said *remarks) (
	*usageEntry, error) {
	if earlier != nil {
		holds := earlier.known.State == state
		if !holds {
			var err error
			if holds, err = state.Holds(ctx, d.Date, earlier.known); err != nil {
				return nil, err
			}
		}
		if holds {
			earlier.known.State = state
			return earlier, nil
		}
	}
	if earlier == nil {
		if e, err := t.usageFromDisk(ctx, state, d); e != nil || err != nil {
			return e, err
		}
	}
	if e, err := t.usageFromBucket(ctx, state, d, said); e != nil || err != nil {
		return e, err
	}
	e, err := t.readUsage(ctx, state, d, earlier)
	if err != nil {
		return nil, err
	}
	return e, t.shareUsage(ctx, state, d, e.block)
}

// readUsage reads the usage of a day from the source: what it has had since an earlier entry, if there is one.
func (t *Timeline) readUsage(ctx context.Context, state snapshots.State, d *Day, earlier *usageEntry) (*usageEntry,
	error) {
	release, err := t.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	in := newUsageIngest(d, t.names, earlier)
	var from snapshots.Known
	if earlier != nil {
		from = earlier.known
	}
	reading, err := state.Rows(ctx, d.Date, from, true, in)
	if err != nil {
		return nil, err
	}
	block, err := in.block()
	if err != nil {
		return nil, err
	}
	if t.disk != nil && state.Finished(d.Date) {
		t.disk.Write(usageOf(d.Date), about{reading.Key, d.identity}, block.Encode())
	}
	return &usageEntry{block: block, gpus: d.gpuNumbers(), known: snapshots.Known{Key: reading.Key, State: state}}, nil
}

// usageFromDisk takes the usage of a day from the cache directory; nil if there is none that can be used.
func (t *Timeline) usageFromDisk(ctx context.Context, state snapshots.State, d *Day) (e *usageEntry, err error) {
	if t.disk == nil {
		return nil, nil
	}
	release, err := t.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var of about
	body, ok := t.disk.Read(usageOf(d.Date), &of)
	if !ok {
		return nil, nil
	}
	if holds, err := state.Holds(ctx, d.Date, snapshots.Known{Key: of.Key}); err != nil || !holds {
		return nil, err
	}
	err = body(func(encoded []byte) error {
		block, err := usage.Decode(encoded, d.GPUs(), len(d.Times))
		if err == nil {
			t.renew(state, usageOf(d.Date), &of, encoded)
			e = &usageEntry{block: block, gpus: d.gpuNumbers(), known: snapshots.Known{Key: of.Key, State: state}}
		}
		return err
	})
	if err != nil {
		return nil, nil // dropped, and read anew
	}
	return e, nil
}

// gpuNumbers returns the timeline's numbers of the day's GPUs.
func (d *Day) gpuNumbers() []GPU {
	numbers := make([]GPU, len(d.gpus))
	for i := range d.gpus {
		numbers[i] = d.gpus[i].gpu
	}
	return numbers
}
