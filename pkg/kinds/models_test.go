package kinds_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
)

// Groups of tiers add up the devices that the lists put into them, and a filter of memories or tiers leaves what the
// groups of these are: in every kind that knows both.
func TestMemoryAndTier(t *testing.T) {
	source := runstest.Open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	for _, source.Env.Lists.Tiers = range [][]pool.Tier{nil, {{Name: "Big", Patterns: []string{"A100"}}}} {
		for kind, metric := range map[string]string{"allocation": "available", "userHours": "gpuHours",
			"utilization": "heldGpuHours", "evictions": "gpuHours"} {
			of := func(groupBy, filter string) map[string]float64 {
				sums := map[string]float64{}
				for _, r := range golden.Rows(source.Ask(t, nil, w, fmt.Sprintf(`{"queryType": %q, "view": "summary", "totals": false,
					"limit": 50000, "groupBy": [%q], "metrics": [%q], "filter": %s}`, kind, groupBy, metric, filter))) {
					if r["user"] == nil || r["rowType"] == "user" { // of user hours, not the groups' totals
						sums[fmt.Sprint(r[groupBy])] += r[metric].(float64)
					}
				}
				return sums
			}
			devices, tiers := of("device", `{}`), map[string]float64{}
			for device, sum := range devices {
				if device == "Unknown" {
					device = ""
				}
				tiers[source.Env.Lists.TierOf(device)] += sum
			}
			found := of("tier", `{}`)
			require.Len(t, found, len(tiers), kind)
			for tier, sum := range tiers {
				require.InDelta(t, sum, found[tier], 1e-6, "%s of %s", kind, tier)
				require.InDelta(t, sum, of("tier", fmt.Sprintf(`{"tiers": [%q]}`, tier))[tier], 1e-6, "%s of %s", kind, tier)
			}
			byMemory := of("memory", `{}`)
			require.Greater(t, len(byMemory), 1, kind)
			for _, class := range pool.MemoryClasses {
				chosen := of("memory", fmt.Sprintf(`{"memories": [%q]}`, class))
				if sum, there := byMemory[class]; there {
					require.Len(t, chosen, 1, "%s of %s", kind, class)
					require.InDelta(t, sum, chosen[class], 1e-6, "%s of %s", kind, class)
				} else {
					require.Empty(t, chosen, "%s of %s", kind, class)
				}
			}
		}
	}
}

// What includeOldDevices: false leaves out is said, in every kind, with the devices and their GPUs.
func TestOldDevicesLeftOut(t *testing.T) {
	dir := t.TempDir()
	row := func(id, device string) snapshotstest.Row {
		return snapshotstest.Row{"Name": "slot1@m1", "AssignedGPUs": id, "State": "Unclaimed", "Machine": "m1",
			"GPUs_DeviceName": device, "timestamp": "2025-06-02 10:00:00.000000"}
	}
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-06.db": {row("GPU-1", "NVIDIA A40"),
		row("GPU-2", "NVIDIA A40"), row("GPU-3", "Tesla P100-PCIE-16GB"), row("GPU-4", "NVIDIA RTX A4000")}})
	source := runstest.Open(t, dir, "UTC")
	w := golden.Window(t, "2025-06-02T09:00:00Z", "2025-06-02T11:00:00Z")
	for _, kind := range []string{"allocation", "userHours", "utilization", "backfillAvailability", "evictions"} {
		for filter, want := range map[string]string{
			`{}`:                          "old devices are left out: 3 GPUs (2 NVIDIA A40, 1 Tesla P100-PCIE-16GB)",
			`{"devices": ["NVIDIA A40"]}`: "old devices are left out: 2 GPUs (2 NVIDIA A40)",
		} {
			frames := source.Ask(t, nil, w, fmt.Sprintf(`{"queryType": %q, "view": "summary", "includeOldDevices": false,
				"filter": %s}`, kind, filter))
			require.Contains(t, golden.Told(frames), want+"\n", kind)
		}
	}
}
