package report

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/plugin"
)

// A machine that changes hands counts for each project while it gives that project priority.
func TestOwnersOfAMachineThatChangesHands(t *testing.T) {
	dir := t.TempDir()
	from := time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)
	var rows []snapshotstest.Row
	for i := range 16 { // four hours
		project, holder := "Bio_One", "alice"
		if i >= 4 {
			project, holder = "Chem_Two", "bob"
		}
		row := snapshotstest.Row{"Name": "slot1_1@m1", "Machine": "m1", "AssignedGPUs": "GPU-0", "State": "Claimed",
			"GPUs_DeviceName": "NVIDIA A100", "PrioritizedProjects": project, "RemoteOwner": holder,
			"GlobalJobId": "ap#1.0#1759300000",
			"timestamp":   from.Add(time.Duration(i) * 15 * time.Minute).Format("2006-01-02 15:04:05.000000")}
		other := snapshotstest.Row{"Name": "slot1@m1", "Machine": "m1", "AssignedGPUs": "GPU-1", "State": "Drained",
			"GPUs_DeviceName": "NVIDIA A100", "PrioritizedProjects": project, "timestamp": row["timestamp"]}
		rows = append(rows, row, other)
	}
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": rows})
	settings, err := json.Marshal(map[string]any{"snapshotDir": dir})
	require.NoError(t, err)
	to := from.Add(4 * time.Hour)
	d := plugin.Open(backend.DataSourceInstanceSettings{UID: "gpu", JSONData: settings}, func() time.Time { return to })
	t.Cleanup(d.Dispose)
	for project, want := range map[string][4]float64{ // owned, own, given, elsewhere
		"Bio_One":  {2, 1, 0, 0},
		"Chem_Two": {6, 3, 0, 0},
	} {
		made, err := MakeOwner(context.Background(), d, project, Options{From: from, To: to, Zone: time.UTC, Now: to})
		require.NoError(t, err)
		require.Equal(t, []string{"m1"}, made.Machines)
		for i, hours := range []float64{made.Whole.Owned, made.Whole.Own, made.Whole.Given, made.Whole.Elsewhere} {
			require.InDelta(t, want[i], hours, 1e-3, "%s: figure %d", project, i)
		}
	}
}
