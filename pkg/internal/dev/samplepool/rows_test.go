package samplepool

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// Every snapshot shows what truly is, read back by plain loops over rows and truth.
func TestRowsShowTheTruth(t *testing.T) {
	for seed := range uint64(3) {
		o := days(Default(), 4)
		o.Seed, o.MissingMachines, o.RowNoise, o.StaleRows, o.Drains, o.MachineDown = seed, 0, 0, 0, 2, 2
		p, truth := truthOf(t, o)
		machines := map[string]Machine{}
		for _, m := range p.Machines() {
			machines[m.Name] = m
		}
		shots := 0
		for shot, err := range p.Snapshots(t.Context()) {
			require.NoError(t, err)
			require.Equal(t, truth.Snapshots[shots], shot.Time)
			shots++
			now := shot.Time.Truncate(time.Millisecond)

			want, leaving, free := map[string]string{}, map[string]bool{}, map[string]bool{}
			for _, r := range truth.Runs {
				if r.Start.After(now) || !now.Before(r.End) {
					continue
				}
				for _, g := range r.GPUs {
					if r.Backfill && (r.Reason == EvictedByPrimary || r.Reason == DrainedReason) && r.End.Sub(now) <= time.Minute {
						leaving[r.Machine+g] = true // its slot goes some seconds before its run ends
						continue
					}
					want[r.Slot+" "+g] = r.User + " " + map[bool]string{false: r.Job}[r.HiddenJobID]
				}
			}
			for _, a := range truth.Available {
				if !a.Start.After(now) && now.Before(a.End) {
					free[a.Machine+a.GPU] = true
				}
			}
			got, side := map[string]string{}, map[string]int{}
			for _, row := range shot.Rows {
				m := machines[row.Machine]
				require.Contains(t, m.GPUs, row.AssignedGPUs)
				require.True(t, strings.HasSuffix(row.Name, "@"+row.Machine))
				if row.State == "Claimed" {
					if !leaving[row.Machine+row.AssignedGPUs] || pool.SideOf(row.Name) == pool.Primary {
						got[row.Name+" "+row.AssignedGPUs] = row.RemoteOwner + " " + row.GlobalJobID
					}
					key := fmt.Sprint(pool.SideOf(row.Name), row.Machine, row.AssignedGPUs)
					require.Zero(t, side[key], "%s is claimed twice", key)
					side[key]++
				} else if row.State == "Unclaimed" && pool.SideOf(row.Name) == pool.Backfill && !m.Excluded &&
					!leaving[row.Machine+row.AssignedGPUs] {
					require.True(t, free[row.Machine+row.AssignedGPUs], "%s of %s is not free", row.AssignedGPUs, row.Name)
					delete(free, row.Machine+row.AssignedGPUs)
				}
			}
			require.Empty(t, free, "free GPUs without a row at %v", now)
			for key, who := range got { // a run that leaves within a minute may still be shown
				if w, ok := want[key]; ok {
					require.Equal(t, w, who, key)
				} else {
					require.Contains(t, key, "backfill")
				}
			}
			for key := range want {
				require.Contains(t, got, key)
			}
			if t.Failed() {
				return
			}
		}
		require.Equal(t, len(truth.Snapshots), shots)
	}
}
