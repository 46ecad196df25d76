package kinds_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
)

// The period before is answered as if it were asked for, without notices about it; one that snapshots cover less has no
// rows, and the notice says how much less.
func TestPeriodBefore(t *testing.T) {
	var rows []snapshotstest.Row
	for at := time.Date(2025, 6, 2, 10, 0, 0, 0, time.UTC); at.Hour() < 14; at = at.Add(15 * time.Minute) {
		row := snapshotstest.Row{"Name": "slot1@m1", "AssignedGPUs": "GPU-1", "State": "Unclaimed", "Machine": "m1",
			"GPUs_DeviceName": "NVIDIA A40", "timestamp": at.Format("2006-01-02 15:04:05.000000")}
		if at.Hour() == 11 {
			row["State"], row["RemoteOwner"] = "Claimed", "ann@x"
		}
		rows = append(rows, row)
	}
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-06.db": rows})
	source := runstest.Open(t, dir, "UTC")
	const asked = `{"queryType": "userHours", "groupBy": [], "metrics": ["gpuHours"], "previous": %v,
		"filter": {"users": ["ann@x", "nobody"]}}`
	after := golden.Window(t, "2025-06-02T12:00:00Z", "2025-06-02T14:00:00Z")
	before := source.Ask(t, nil, after, fmt.Sprintf(asked, true))
	require.InDelta(t, 1, golden.Rows(before)[0]["gpuHours"], 1e-6)
	require.Empty(t, before[0].Meta.Notices)

	longer := source.Ask(t, nil, golden.Window(t, "2025-06-02T11:00:00Z", "2025-06-02T14:00:00Z"), fmt.Sprintf(asked, true))
	require.Empty(t, golden.Rows(longer))
	require.NotEmpty(t, longer[0].Fields, "panels say in them that there is not enough data")
	require.Contains(t, longer[0].Meta.Notices[0].Text, "1 of 3 h of the period before are covered, and 3 h")
}
