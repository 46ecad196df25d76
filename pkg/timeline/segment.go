package timeline

import (
	"context"

	"github.com/chtc/gpureports/pkg/snapshots"
)

// newSegments returns the artifact of segments.
func (t *Timeline) newSegments() *artifact[*Day] {
	return &artifact[*Day]{
		dayCache: t.cache, kind: "segment", version: 10, resumable: true,
		encode: func(d *Day) []byte { return encode(d, t.names) },
	}
}

// segmentOf requests the segment of a UTC day in a state of the source.
func (t *Timeline) segmentOf(state snapshots.State, date int32, stats *loadStats) request[*Day] {
	return request[*Day]{
		state: state, date: date, stats: stats,
		decode: func(encoded []byte) (*Day, error) { return decode(date, encoded, t.names) },
		derive: func(ctx context.Context, earlier *entry[*Day]) (*Day, snapshots.Reading, error) {
			b := newBuilder(date, t.names)
			var from snapshots.Known
			if earlier != nil {
				b.earlier, from = earlier.value, earlier.known
			}
			reading, err := state.Rows(ctx, date, from, false, b)
			if err != nil {
				return nil, reading, err
			}
			return b.finish(reading.Oddities), reading, nil
		},
	}
}

// day returns the segment of a UTC day in a state of the source.
func (t *Timeline) day(ctx context.Context, state snapshots.State, date int32, stats *loadStats) (*Day, error) {
	e, err := t.segments.get(ctx, t.segmentOf(state, date, stats))
	if err != nil {
		return nil, err
	}
	return e.value, nil
}
