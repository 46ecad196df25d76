package samplepool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// About the requested number of backfill jobs save, at full intervals since the start of their runs.
func TestCheckpoints(t *testing.T) {
	_, truth := truthOf(t, Hard())
	intervals := map[time.Duration]int{}
	long, saved := 0.0, 0.0
	for _, r := range truth.Runs {
		if r.Backfill && r.End.Sub(r.Start) >= 4*time.Hour {
			if long++; !r.SavedUntil.IsZero() {
				saved++
			}
		}
		if r.SavedUntil.IsZero() {
			continue
		}
		require.True(t, r.Backfill)
		require.Less(t, r.End.Sub(r.SavedUntil), 4*time.Hour)
		after := r.SavedUntil.Sub(r.Start)
		require.Positive(t, after)
		require.Zero(t, after%(30*time.Minute))
		intervals[after]++
	}
	require.InDelta(t, Hard().Checkpoints, saved/long, 0.1)
	require.Greater(t, len(intervals), 4)
}

// While CPUs are used up the primary slot says so, and no owner's job starts.
func TestCrowdedMachines(t *testing.T) {
	o := Hard()
	o.NewColumns, o.Crowded = o.Start, 10
	p, truth := truthOf(t, o)
	since := map[string]time.Time{} // the first snapshot of a machine without CPUs
	var all []Run
	crowded := 0
	for shot, err := range p.Snapshots(t.Context()) {
		require.NoError(t, err)
		now := map[string]bool{}
		for _, row := range shot.Rows {
			if row.SlotType == "Partitionable" && row.Cpus < cpusOfJob {
				now[row.Machine] = true
			}
		}
		for machine := range now {
			if since[machine].IsZero() {
				since[machine] = shot.Time
				crowded++
			}
		}
		for machine, from := range since {
			if !now[machine] && !from.IsZero() {
				all = append(all, Run{Machine: machine, Start: from, End: shot.Time.Add(-o.Cadence)})
				since[machine] = time.Time{}
			}
		}
	}
	require.Greater(t, crowded, 50)
	for _, r := range truth.Runs {
		for _, c := range all {
			require.False(t, !r.Backfill && r.Machine == c.Machine && r.Start.After(c.Start) && r.Start.Before(c.End),
				"%+v started on %+v", r, c)
		}
	}
}
