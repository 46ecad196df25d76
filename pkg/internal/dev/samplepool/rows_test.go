package samplepool

import (
	"fmt"
	"slices"
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

func TestSlotsListTheirGPUs(t *testing.T) {
	o := days(Default(), 1)
	o.RowNoise, o.StaleRows, o.MissingMachines = 0, 0, 0
	p, _ := truthOf(t, o)
	gpus := map[string]int{}
	for _, m := range p.Machines() {
		gpus[m.Name] = len(m.GPUs)
	}
	for shot, err := range p.Snapshots(t.Context()) {
		require.NoError(t, err)
		slots := map[string][]Row{}
		for _, row := range shot.Rows {
			slots[row.Name] = append(slots[row.Name], row)
		}
		for name, rows := range slots {
			var assigned []string
			for _, row := range rows {
				assigned = append(assigned, row.AssignedGPUs)
			}
			available := strings.Split(rows[0].AvailableGPUs, ",")
			switch slot, _, _ := strings.Cut(name, "@"); slot {
			case "slot1", "interactive1":
				require.Len(t, assigned, gpus[rows[0].Machine], "a partitionable primary slot lists all GPUs")
				require.NotEmpty(t, available)
				for _, id := range available {
					require.Contains(t, assigned, id)
				}
			default:
				require.Equal(t, assigned, available)
			}
		}
	}
}

func TestStaleRows(t *testing.T) {
	o := Hard()
	o.StaleRows = 0.02
	p, truth := truthOf(t, o)
	stale := 0
	for shot, err := range p.Snapshots(t.Context()) {
		require.NoError(t, err)
		claimed := map[string]bool{}
		for _, row := range shot.Rows {
			if row.State == "Claimed" && pool.SideOf(row.Name) == pool.Primary {
				claimed[row.Machine+row.AssignedGPUs] = true
			}
		}
		for _, row := range shot.Rows {
			if pool.SideOf(row.Name) == pool.Backfill && claimed[row.Machine+row.AssignedGPUs] {
				stale++
			}
		}
	}
	// A GPU that an owner claims was in a backfill slot before, if the machine has them.
	backfill := map[string]bool{}
	for _, m := range p.Machines() {
		backfill[m.Name] = m.Backfill
	}
	var claims int
	for _, r := range truth.Runs {
		if !r.Backfill && backfill[r.Machine] && !r.Start.Before(o.Start) {
			claims += len(r.GPUs)
		}
	}
	require.InDelta(t, 0.02, float64(stale)/float64(claims), 0.002)
}

func TestRowNoise(t *testing.T) {
	o := days(Default(), 2)
	o.RowNoise, o.StaleRows, o.MissingMachines = 0.02, 0, 0
	p, _ := truthOf(t, o)
	var rows, doubled, passing, without, ownerless float64
	for shot, err := range p.Snapshots(t.Context()) {
		require.NoError(t, err)
		seen := map[Row]bool{}
		for _, row := range shot.Rows {
			rows++
			if seen[row] {
				doubled++
			}
			seen[row] = true
			switch {
			case row.AssignedGPUs == "":
				without++
			case row.State == "Matched" || row.State == "Preempting":
				passing++
			case row.State == "Claimed" && row.RemoteOwner == "":
				ownerless++
			}
		}
	}
	require.InDelta(t, 0.02, doubled/rows, 0.004)
	require.InDelta(t, 0.02, passing/rows, 0.004)
	require.InDelta(t, 0.002, without/rows, 0.001)
	require.Positive(t, ownerless)
}

// The collector's own faults: shares of its runs, an outage, and the two months' files around local midnight.
func TestCollectorRuns(t *testing.T) {
	o := days(Default(), 90)
	o.Cadence, o.MissedSnapshots, o.DoubledSnapshots, o.LateSnapshots, o.Outages = 5*time.Minute, 0.02, 0.01, 0.01, 2
	p, err := New(o)
	require.NoError(t, err)
	require.True(t, slices.IsSortedFunc(p.runs, time.Time.Compare))
	var outages, close, late float64
	var lost time.Duration
	for i := 1; i < len(p.runs); i++ {
		switch gap := p.runs[i].Sub(p.runs[i-1]); {
		case gap > 55*time.Minute:
			outages++
			lost += gap
		case gap < 60*time.Second:
			close++
		}
	}
	for _, run := range p.runs {
		if second := run.Sub(run.Truncate(o.Cadence)); second > 60*time.Second && second < 299*time.Second {
			late++
		}
	}
	ticks := float64(o.End.Sub(o.Start) / o.Cadence)
	require.InDelta(t, 6, outages, 1)
	require.InDelta(t, 1-0.02+0.01-lost.Minutes()/5/ticks, float64(len(p.runs))/ticks, 0.003)
	require.InDelta(t, 0.005, close/ticks, 0.002)
	require.InDelta(t, 0.015, late/ticks, 0.003, "late ones, and half of the doubled")
}

func TestARunAtTheMonthsEndStandsInTheNextMonthsFile(t *testing.T) {
	o := Default()
	o.Machines, o.MissedSnapshots, o.Outages = 5, 0, 0
	p, err := New(o)
	require.NoError(t, err)
	early, last := 0, ""
	for shot, err := range p.Snapshots(t.Context()) {
		require.NoError(t, err)
		require.GreaterOrEqual(t, shot.Month, last, "a file is complete when the next one begins")
		last = shot.Month
		if !strings.HasPrefix(shot.Timestamp, shot.Month) {
			early++
			require.Equal(t, "2025-11", shot.Month)
			require.Contains(t, shot.Timestamp, "2025-10-31 23:59:5")
		}
	}
	require.Equal(t, 1, early)
}

// The text is the collector's local time, so it goes back once when summer time ends, while real time does not.
func TestTheRepeatedHour(t *testing.T) {
	o := Default()
	o.Machines, o.MissedSnapshots, o.DoubledSnapshots, o.LateSnapshots, o.Outages = 5, 0, 0, 0, 0
	p, err := New(o)
	require.NoError(t, err)
	var before Snapshot
	var back []string
	hour := 0
	for shot, err := range p.Snapshots(t.Context()) {
		require.NoError(t, err)
		require.True(t, shot.Time.After(before.Time))
		if shot.Timestamp < before.Timestamp {
			back = append(back, before.Timestamp[:16]+" "+shot.Timestamp[:16])
		}
		if strings.HasPrefix(shot.Timestamp, "2025-11-02 01:") {
			hour++
		}
		before = shot
	}
	require.Equal(t, []string{"2025-11-02 01:45 2025-11-02 01:00"}, back)
	require.Equal(t, 8, hour)
}
