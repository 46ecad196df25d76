package collect

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// seen is what a person would say of a GPU.
type seen struct {
	Machine, GPU, State, User, Device string
	Memory                            float64
}

// storedRow is a row of a month file as far as a GPU's state depends on it.
type storedRow struct {
	side                       pool.Side
	state                      pool.State
	prevented, broken          bool
	machine, gpu, user, device string
	memory                     float64
}

// testdata/realpool.json is the output of condor_status on a real pool with broken slots next to running backfill, GPUs
// that were taken offline under running jobs, MIG devices, static slots, and two models in one machine.
func TestStatesOfARealPool(t *testing.T) {
	for _, format := range []string{"sqlite", "parquet"} {
		o := fake(t, "file:testdata/realpool.json")
		o.Format = format
		result, err := Run(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, "GPUs left out because they are offline (OfflineGPUs) and no job holds them: 2", result.Notes)
		if format == "parquet" {
			continue // convert and the stores are tested for equal contents
		}
		file, err := filepath.Glob(filepath.Join(o.SnapshotDir, "gpu_state_*.db"))
		require.NoError(t, err)
		db, err := sql.Open("sqlite", file[0])
		require.NoError(t, err)
		defer db.Close()
		requireStates(t, readRows(t, db))
		var cpus, memory, slotType, backfill sql.NullString
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT Cpus, Memory, SlotType, BackfillSlot FROM gpu_state
			WHERE Name = 'backfill2@gpu3001.example.org'`).Scan(&cpus, &memory, &slotType, &backfill))
		require.Equal(t, []string{"14", "65280", "Partitionable", "1"},
			[]string{cpus.String, memory.String, slotType.String, backfill.String})
	}
}

func readRows(t *testing.T, db *sql.DB) (all []storedRow) {
	rows, err := db.QueryContext(t.Context(), `SELECT Name, coalesce(BackfillSlot, 0), State, PreventJobsReason > '',
		SlotBrokenReason > '', Machine, coalesce(AssignedGPUs, ''), coalesce(RemoteOwner, ''),
		coalesce(GPUs_DeviceName, ''), coalesce(GPUs_GlobalMemoryMb, 0) FROM gpu_state`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var r storedRow
		var name, state string
		var flag int
		var prevented, broken sql.NullBool
		require.NoError(t, rows.Scan(&name, &flag, &state, &prevented, &broken, &r.machine, &r.gpu, &r.user, &r.device,
			&r.memory))
		r.side, r.state, r.prevented, r.broken = pool.SideOf(name), pool.ParseState(state), prevented.Bool, broken.Bool
		if flag == 1 {
			r.side = pool.Backfill
		}
		if r.broken {
			r.state = pool.Other
		}
		all = append(all, r)
	}
	require.NoError(t, rows.Err())
	return all
}

func requireStates(t *testing.T, rows []storedRow) {
	text, err := os.ReadFile("testdata/realpool_expected.json")
	require.NoError(t, err)
	var expected []seen
	require.NoError(t, json.Unmarshal(text, &expected))
	require.Len(t, expected, 22)
	known := map[[2]string]bool{}
	for _, want := range expected {
		known[[2]string{want.Machine, want.GPU}] = true
		got := seen{Machine: want.Machine, GPU: want.GPU, State: "Offline"}
		var sides [2]*storedRow
		for i := range rows {
			if r := &rows[i]; r.machine == want.Machine && r.gpu == want.GPU {
				if s := sides[r.side]; s == nil || r.state >= s.state {
					sides[r.side] = r
				}
			}
		}
		primary, backfill := sides[pool.Primary], sides[pool.Backfill]
		held := primary
		switch {
		case primary != nil && primary.state == pool.Claimed:
			got.State, got.User = "Claimed", primary.user
		case backfill != nil && backfill.state == pool.Claimed:
			held, got.State, got.User = backfill, "Backfill", backfill.user
		case primary == nil:
			held = backfill
		}
		if held != nil {
			got.Device, got.Memory = held.device, held.memory
			if got.State == "Offline" {
				got.State = map[pool.State]string{pool.Unclaimed: "Free", pool.Drained: "Drained", pool.Other: "Other"}[held.state]
				if held.prevented {
					got.State = "Prevented"
				}
			}
		} else {
			got.Device, got.Memory = want.Device, want.Memory
		}
		require.Equal(t, want, got)
	}
	for _, r := range rows {
		require.True(t, r.gpu == "" || known[[2]string{r.machine, r.gpu}], "%s %s", r.machine, r.gpu)
	}
}
