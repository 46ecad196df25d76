package backfill

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
)

// 40,000 GPUs over 70,000 snapshots are more than 32 bits hold.
func TestManyGPUSnapshots(t *testing.T) {
	const gpus, snapshots = 40_000, 70_000
	times := make([]pool.Micros, snapshots)
	for i := range times {
		times[i] = pool.Micros(i) * pool.Minute
	}
	buckets := query.Buckets{Starts: []pool.Micros{0, times[10], times[snapshots-10], times[snapshots-1] + 1}}
	c := newCalendar(times, 0, buckets)
	counts := make([]Occupancy, buckets.Len())
	for range gpus {
		c.spread(0, snapshots-1, func(b int, n float64) { counts[b].add(runs.Available, n) })
	}
	require.EqualValues(t, gpus*10, counts[0].Available)
	require.EqualValues(t, gpus*(snapshots-20), counts[1].Available)
	counts[1].Snapshots = snapshots - 20
	require.InDelta(t, gpus, counts[1].average(counts[1].Available), 1e-9)
}
