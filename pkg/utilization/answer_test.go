package utilization_test

import (
	"bytes"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/pool"
)

const summary = `{"queryType": "utilization", "view": "summary", "totals": false}`

func day(t *testing.T) pool.Window {
	return golden.Window(t, "2025-09-30T12:00:00Z", "2025-10-01T12:00:00Z")
}

// change rewrites the month files of a pool.
func change(t *testing.T, dir, statement string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "gpu_state_????-??.db"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, f := range files {
		db, err := sql.Open("sqlite", f)
		require.NoError(t, err)
		_, err = db.Exec(statement)
		require.NoError(t, err)
		require.NoError(t, db.Close())
	}
}

// Months without the column, or with all NULL: measured 0 %, a notice, no number; a part without it is named by
// its days.
func TestNothingMeasured(t *testing.T) {
	for _, statement := range []string{"ALTER TABLE gpu_state DROP COLUMN GPUsAverageUsage",
		"UPDATE gpu_state SET GPUsAverageUsage = NULL"} {
		dir := golden.Pool(t, poolC)
		change(t, dir, statement)
		s := runstest.Open(t, dir, zoneC)
		frames := s.Ask(t, nil, day(t), summary)
		require.Contains(t, golden.Warned(frames), "nothing is measured: GPUsAverageUsage")
		row := golden.Rows(frames)[0]
		require.Equal(t, 0.0, row["measuredPercent"])
		require.Positive(t, row["heldGpuHours"])
		require.Positive(t, row["runs"])
		for _, m := range []string{"utilizationPercent", "busyGpuHours", "idleGpuHours", "idlePercent", "idleRuns"} {
			require.Nil(t, row[m], m)
		}
		for _, query := range []string{
			`{"queryType": "utilization", "view": "timeseries", "metrics": ["utilizationPercent", "busy", "idle"]}`,
			`{"queryType": "utilization", "view": "idle"}`, `{"queryType": "utilization", "view": "hourOfWeek", "metrics": ["idle"]}`,
		} {
			frames := s.Ask(t, nil, day(t), query)
			require.Empty(t, frames[0].Fields, query)
			require.Contains(t, golden.Warned(frames), "nothing is measured", query)
		}
		for _, r := range golden.Rows(s.Ask(t, nil, day(t), `{"queryType": "utilization", "view": "runs"}`)) {
			require.Nil(t, r["idleHours"])
			require.Nil(t, r["utilizationPercent"])
		}
	}

	dir := golden.Pool(t, poolC)
	// 2025-10-01 UTC
	change(t, dir, "UPDATE gpu_state SET GPUsAverageUsage = NULL WHERE timestamp < '2025-09-30 19:00:00'")
	frames := runstest.Open(t, dir, zoneC).Ask(t, nil, day(t), summary)
	require.Contains(t, golden.Told(frames),
		"1 day of the time range without a value of GPUsAverageUsage, the first 2025-09-30")
	require.NotNil(t, golden.Rows(frames)[0]["idleGpuHours"])
}

// Failures that ads cannot tell are no silence: a notice counts the completed runs whose ads lack what tells them.
func TestAdsWithoutExitCodes(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	const failures = `{"queryType": "utilization", "view": "failures"}`
	w := golden.Window(t, "2025-10-30T00:00:00Z", "2025-11-05T00:00:00Z")
	stored := golden.Read(t, "pool-b", "jobs_history_legacy.jsonl")
	for _, lacking := range []bool{false, true} {
		if lacking {
			stored = bytes.ReplaceAll(stored, []byte(`"ExitCode"`), []byte(`"Exit_Code"`))
		}
		ads := jobstest.NewMemory(bytes.Split(bytes.TrimSpace(stored), []byte("\n"))...)
		told := golden.Warned(s.Ask(t, ads, w, failures))
		require.Equal(t, lacking, strings.Contains(told, "lack ExitCode and ExitBySignal"), told)
	}
}
