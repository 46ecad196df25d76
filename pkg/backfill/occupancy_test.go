package backfill

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/survival"
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

// Where 90% of jobs of exactly the asked length finish, nothing is said about checkpoints.
func TestAdviceForTheWholeLength(t *testing.T) {
	const advisedHours = 12
	advice := func(ends float64) string {
		j := &job{hours: advisedHours}
		for i := range 40 {
			item := survival.Item{Exit: 20 * pool.Hour}
			if i < 10 {
				item.Exit, item.Fate = pool.Micros(ends*float64(pool.Hour)), survival.Event
			}
			j.items = append(j.items, item)
		}
		var cohort survival.Cohort
		for _, item := range j.items {
			cohort = append(cohort, item)
		}
		j.curve = cohort.KaplanMeier()
		return j.advice()
	}
	require.Equal(t, "90% of jobs up to 12 h finish", advice(advisedHours))
	require.Equal(t, "90% of jobs up to 13 h finish", advice(advisedHours+1))
	require.Contains(t, advice(advisedHours-0.5), "90% of jobs up to 11.5 h finish; ")
}
