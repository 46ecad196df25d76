package collect

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/pool"
)

// The slots of a made-up pool come back as the rows that the made-up collector wrote.
func TestSlotsOfASamplePool(t *testing.T) {
	options := samplepool.Default()
	options.Machines, options.GPUs, options.RowNoise = 30, 120, 0
	options.End = options.Start.Add(90 * time.Minute)
	sample, err := samplepool.New(options)
	require.NoError(t, err)
	o := fake(t, "")
	o.Timezone = options.Timezone
	printed := filepath.Join(t.TempDir(), "printed")
	t.Setenv("FAKE_CONDOR_STATUS", "file:"+printed)
	claimedOnBackfill := 0
	for shot, err := range sample.Snapshots(t.Context()) {
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(printed, adsOf(t, shot.Rows), 0o600))
		got, err := run(t.Context(), o, clock(shot.Time.Add(-time.Second).Format(time.RFC3339Nano)))
		require.NoError(t, err)
		require.Equal(t, got.Timestamp, shot.Timestamp)
		rows := storedRows(t, o.SnapshotDir, shot.Timestamp)
		// the reference's partitionable slots name also the GPUs that others hold
		want := slices.DeleteFunc(slices.Clone(shot.Rows), func(r samplepool.Row) bool {
			return r.State != "Claimed" && !slices.Contains(strings.Split(r.AvailableGPUs, ","), r.AssignedGPUs)
		})
		require.Empty(t, cmp.Diff(want, rows), shot.Timestamp)
		for _, row := range rows {
			if pool.SideOf(row.Name) == pool.Backfill && row.State == "Claimed" {
				claimedOnBackfill++
			}
		}
	}
	require.NotZero(t, claimedOnBackfill)
}

// adsOf is what condor_status would print of the slots that have these rows.
func adsOf(t *testing.T, rows []samplepool.Row) []byte {
	var ads []map[string]any
	for len(rows) > 0 {
		r, n := rows[0], 1
		for n < len(rows) && rows[n].Name == r.Name {
			n++
		}
		var available []string
		for _, id := range strings.Split(r.AvailableGPUs, ",") {
			available = append(available, "/Expr(GPUs_"+strings.ReplaceAll(id, "-", "_")+")/")
		}
		ad := map[string]any{"Name": r.Name, "Machine": r.Machine, "State": r.State, "AvailableGPUs": available, "Disk": 1,
			"Cpus": r.Cpus, "Memory": r.Memory, "SlotType": r.SlotType}
		set := func(name string, value any, there bool) {
			if there {
				ad[name] = value
			}
		}
		if pool.SideOf(r.Name) == pool.Primary {
			var assigned []string
			for _, row := range rows[:n] {
				assigned = append(assigned, row.AssignedGPUs)
			}
			ad["AssignedGPUs"] = strings.Join(assigned, ",")
		}
		set("GPUs_DeviceName", r.DeviceName, r.DeviceName != "")
		set("GPUs_GlobalMemoryMb", r.MemoryMB, r.MemoryMB != 0)
		set("PrioritizedProjects", r.PrioritizedProjects, !r.ProjectsNull)
		set("GPUsAverageUsage", r.AverageUsage, r.UsageReported)
		set("PreventJobsReason", r.PreventJobsReason, r.PreventJobsReason != "")
		set("RemoteOwner", r.RemoteOwner, r.RemoteOwner != "")
		set("GlobalJobId", r.GlobalJobID, r.GlobalJobID != "")
		ads = append(ads, ad)
		rows = rows[n:]
	}
	text, err := json.MarshalIndent(ads, "", "  ")
	require.NoError(t, err)
	return text
}

func storedRows(t *testing.T, dir, timestamp string) (rows []samplepool.Row) {
	db := readOnly(t, filepath.Join(dir, formats["sqlite"].monthFile(timestamp)))
	found, err := db.Query(`SELECT Name, ifnull(AssignedGPUs, ''), ifnull(AvailableGPUs, ''), State, ifnull(GPUs_DeviceName, ''), ifnull(GPUs_GlobalMemoryMb, 0), ifnull(PrioritizedProjects, ''),
		PrioritizedProjects IS NULL, ifnull(GPUsAverageUsage, 0.0), GPUsAverageUsage IS NOT NULL, Machine,
		ifnull(PreventJobsReason, ''), ifnull(RemoteOwner, ''), ifnull(GlobalJobId, ''), Cpus, Memory, SlotType
		FROM gpu_state WHERE timestamp = ? ORDER BY rowid`, timestamp)
	require.NoError(t, err)
	defer found.Close()
	for found.Next() {
		var r samplepool.Row
		require.NoError(t, found.Scan(&r.Name, &r.AssignedGPUs, &r.AvailableGPUs, &r.State, &r.DeviceName, &r.MemoryMB,
			&r.PrioritizedProjects, &r.ProjectsNull, &r.AverageUsage, &r.UsageReported, &r.Machine, &r.PreventJobsReason,
			&r.RemoteOwner, &r.GlobalJobID, &r.Cpus, &r.Memory, &r.SlotType))
		rows = append(rows, r)
	}
	require.NoError(t, found.Err())
	return rows
}
