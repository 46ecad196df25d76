package main

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
)

// ownersPool writes two machines, of Bio_One and Chem_Two, over two hours: alice holds a GPU of Bio_One's all the time
// and one of Chem_Two's for an hour; bob has Bio_One's other GPU on backfill.
func ownersPool(t *testing.T) (settings string) {
	t.Helper()
	dir := t.TempDir()
	var rows []snapshotstest.Row
	at := time.Date(2025, 9, 30, 23, 0, 0, 0, time.UTC)
	for i := range 8 {
		add := func(slot, machine, gpu, state, owner string) {
			row := snapshotstest.Row{"Name": slot + "@" + machine, "Machine": machine, "AssignedGPUs": gpu, "State": state,
				"GPUs_DeviceName": "NVIDIA A100", "PrioritizedProjects": map[string]string{"m1": "Bio_One",
					"m2": "Chem_Two"}[machine],
				"timestamp": at.Add(time.Duration(i) * 15 * time.Minute).Format("2006-01-02 15:04:05.000000")}
			if owner != "" {
				row["RemoteOwner"], row["GlobalJobId"] = owner, fmt.Sprintf("ap#%d.0#1756000000", len(owner))
			}
			rows = append(rows, row)
		}
		add("slot1_1", "m1", "GPU-0", "Claimed", "alice")
		add("slot1", "m1", "GPU-1", "Unclaimed", "")
		add("backfill2_1", "m1", "GPU-1", "Claimed", "bob")
		if i < 4 {
			add("slot1_1", "m2", "GPU-2", "Claimed", "alice")
		} else {
			add("slot1", "m2", "GPU-2", "Unclaimed", "")
		}
	}
	files := map[string][]snapshotstest.Row{"gpu_state_2025-09.db": rows[:4*4], "gpu_state_2025-10.db": rows[4*4:]}
	snapshotstest.Write(t, dir, files)
	return writeSettings(t, map[string]any{"jsonData": map[string]any{"snapshotDir": dir}})
}

var digits = regexp.MustCompile(`\d+\.\d+`)

func TestReportOfAnOwner(t *testing.T) {
	settings := ownersPool(t)
	report := func(project, format string) (int, string, string) {
		return command(t, "", "report", "--settings", settings, "--project", project, "--from", "2025-09-30T23:00:00Z",
			"--to",
			"2025-10-01T01:00:00Z", "--format", format)
	}
	code, out, errors := report("Bio_One", "csv")
	require.Equal(t, 0, code, errors)
	require.Equal(t, strings.Join([]string{
		"by,name,ownedGpuHours,ownGpuHours,givenGpuHours,elsewhereGpuHours,evictions,yielded,lostGpuHours,evictedGpuHours," +
			"checkpointedPercent",
		"all,All,4,2,2,1,0,0,0,0,", "device,NVIDIA A100,4,2,2,1,0,0,0,0,", "month,2025-09,2,1,1,1,0,0,0,0,",
		"month,2025-10,2,1,1,0,0,0,0,0,", "user,alice,0,2,0,1,0,0,0,0,", "user,bob,0,0,2,0,0,0,0,0,", "",
	}, "\n"), digits.ReplaceAllStringFunc(out, func(number string) string { // a month ends a microsecond before the next
		hours, err := strconv.ParseFloat(number, 64)
		require.NoError(t, err)
		return strconv.FormatFloat(math.Round(hours*1e6)/1e6, 'g', -1, 64)
	}))
	for _, format := range []string{"text", "html"} {
		code, out, errors = report("Bio_One", format)
		require.Equal(t, 0, code, errors)
		for _, words := range []string{"GPUs of Bio_One", "By month", "Given to others by user", "bob", "50.0"} {
			require.Contains(t, out, words)
		}
	}
	code, _, errors = report("bioone", "text")
	require.NotEqual(t, 0, code)
	require.Contains(t, errors, "similar: Bio_One, Chem_Two")
}
