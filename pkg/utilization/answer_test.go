package utilization_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
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

// notices are the sentences of an answer with a severity. Those of statistics count as information.
func notices(frames data.Frames, severity data.NoticeSeverity) string {
	var texts []string
	for _, s := range frames[0].Meta.Stats {
		if severity == data.NoticeSeverityInfo {
			texts = append(texts, s.Description)
		}
	}
	for _, n := range frames[0].Meta.Notices {
		if n.Severity == severity {
			texts = append(texts, n.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Without job ads, and when their source does not answer, the snapshots answer, and a notice says what that means.
func TestSourceFaults(t *testing.T) {
	s := open(t, golden.Pool(t, poolC), zoneC)
	alone := s.Ask(t, nil, day(t), summary)
	require.Contains(t, notices(alone, data.NoticeSeverityInfo),
		"no job source is set up: runs start and end at snapshots")
	require.Contains(t, notices(alone, data.NoticeSeverityInfo), "8 intervals between two reports of GPUsAverageUsage")
	down := s.Ask(t, &jobstest.Memory{Err: pool.SourceError("Elasticsearch does not answer: start it")}, day(t), summary)
	require.Equal(t, golden.Rows(alone), golden.Rows(down))
	require.Contains(t, notices(down, data.NoticeSeverityWarning), "job ads could not be read")
	require.Contains(t, notices(down, data.NoticeSeverityWarning), "start it")
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
		s := open(t, dir, zoneC)
		frames := s.Ask(t, nil, day(t), summary)
		require.Contains(t, notices(frames, data.NoticeSeverityWarning), "nothing is measured: GPUsAverageUsage")
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
			require.Contains(t, notices(frames, data.NoticeSeverityWarning), "nothing is measured", query)
		}
		for _, r := range golden.Rows(s.Ask(t, nil, day(t), `{"queryType": "utilization", "view": "runs"}`)) {
			require.Nil(t, r["idleHours"])
			require.Nil(t, r["utilizationPercent"])
		}
	}

	dir := golden.Pool(t, poolC)
	// 2025-10-01 UTC
	change(t, dir, "UPDATE gpu_state SET GPUsAverageUsage = NULL WHERE timestamp < '2025-09-30 19:00:00'")
	frames := open(t, dir, zoneC).Ask(t, nil, day(t), summary)
	require.Contains(t, notices(frames, data.NoticeSeverityInfo),
		"1 day of the time range without a value of GPUsAverageUsage, the first 2025-09-30")
	require.NotNil(t, golden.Rows(frames)[0]["idleGpuHours"])
}

// What the views say about the same runs agrees.
func TestViewsAgree(t *testing.T) {
	s := open(t, golden.Pool(t, poolC), zoneC)
	ads := runstest.Ads(t, poolC, "jobs_epochs.jsonl")
	w := golden.Window(t, "2025-09-28T03:17:23Z", "2025-09-30T19:41:09Z")
	row := golden.Rows(s.Ask(t, ads, w, summary))[0]
	all := golden.Rows(s.Ask(t, ads, w, `{"queryType": "utilization", "view": "runs", "limit": 50000}`))
	require.Len(t, all, int(row["runs"].(float64)))
	idle, idleRuns, now := 0.0, 0.0, 0
	for i, r := range all {
		idle += r["idleHours"].(float64) * r["gpus"].(float64)
		if r["idleHours"].(float64) > 0 {
			idleRuns++
		}
		if r["idleSince"] != nil {
			now++
		}
		require.True(t, i == 0 || !r["end"].(time.Time).After(all[i-1]["end"].(time.Time)), "newest first")
	}
	require.InDelta(t, row["idleGpuHours"], idle, 1e-6)
	require.Equal(t, row["idleRuns"], idleRuns)
	require.Len(t, golden.Rows(s.Ask(t, ads, w, `{"queryType": "utilization", "view": "idle"}`)), now)

	for _, grouping := range []string{"category", "device", "memory", "machine", "ownership", "project", "user"} {
		table := golden.Rows(s.Ask(t, ads, w, fmt.Sprintf(`{"queryType": "utilization", "view": "summary", "groupBy": [%q]}`,
			grouping)))
		total := table[len(table)-1]
		require.Equal(t, "All", total[grouping])
		held := 0.0
		for _, r := range table[:len(table)-1] {
			held += r["heldGpuHours"].(float64)
		}
		require.InDelta(t, row["heldGpuHours"], held, 1e-6, grouping)
		require.InDelta(t, row["heldGpuHours"], total["heldGpuHours"], 1e-6, grouping)
	}

	// The window as one bucket is the table; an hour of the week on its own is that hour.
	hours := 64.39611111111
	series := golden.Series(s.Ask(t, ads, w, `{"queryType": "utilization", "view": "timeseries", "metrics": ["utilizationPercent", "busy", "idle"], "bucket": "window"}`), "metric")
	require.InDelta(t, row["utilizationPercent"], series["utilizationPercent"][0].Value, 1e-9)
	require.InDelta(t, row["busyGpuHours"], series["busy"][0].Value*hours, 1e-6)
	require.InDelta(t, row["idleGpuHours"], series["idle"][0].Value*hours, 1e-6)
	hour := golden.Window(t, "2025-09-30T15:00:00Z", "2025-09-30T15:59:59.999999Z") // Tuesday, 10 o'clock in Chicago
	for _, metric := range []string{"utilizationPercent", "idle"} {
		point := golden.Series(s.Ask(t, ads, hour, fmt.Sprintf(`{"queryType": "utilization", "metrics": [%q], "bucket": "1h"}`, metric)))[""][0]
		cells := golden.Rows(s.Ask(t, ads, hour, fmt.Sprintf(`{"queryType": "utilization", "view": "hourOfWeek", "metrics": [%q]}`, metric)))
		require.Len(t, cells, 168)
		values := slices.DeleteFunc(cells, func(c map[string]any) bool { return c["value"] == nil })
		require.Len(t, values, 1)
		require.Equal(t, []any{10.0, 1.0}, []any{values[0]["x"], values[0]["y"]})
		require.InDelta(t, point.Value, values[0]["value"], 1e-6)
	}
}

// A filter leaves the runs that it names as they are.
func TestFilters(t *testing.T) {
	s := open(t, golden.Pool(t, poolC), zoneC)
	ask := func(filter string) []map[string]any {
		return golden.Rows(s.Ask(t, nil, day(t), `{"queryType": "utilization", "view": "runs", "limit": 50000, "filter": `+filter+`}`))
	}
	all := ask(`{}`)
	for filter, passes := range map[string]func(map[string]any) bool{
		`{"categories": ["Priority-CHTCOwned", "Shared"]}`: func(r map[string]any) bool {
			return r["category"] == "Prioritized (CHTC Owned)" || r["category"] == "Open Capacity"
		},
		`{"slots": ["Backfill"]}`:                 func(r map[string]any) bool { return strings.HasPrefix(r["category"].(string), "Backfill") },
		`{"machines": ["/^isye/"]}`:               func(r map[string]any) bool { return strings.HasPrefix(r["machine"].(string), "isye") },
		`{"users": ["user001@chtc.example.org"]}`: func(r map[string]any) bool { return r["user"] == "user001@chtc.example.org" },
		`{"devices": ["/A100/"]}`:                 func(r map[string]any) bool { return strings.Contains(r["device"].(string), "A100") },
	} {
		var want []map[string]any
		for _, r := range all {
			if passes(r) {
				want = append(want, r)
			}
		}
		require.NotEmpty(t, want, filter)
		require.Less(t, len(want), len(all), filter)
		require.Equal(t, want, ask(filter), filter)
	}
}

// Failures that ads cannot tell are no silence: a notice counts the completed runs whose ads lack what tells them.
func TestAdsWithoutExitCodes(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	const failures = `{"queryType": "utilization", "view": "failures"}`
	w := golden.Window(t, "2025-10-30T00:00:00Z", "2025-11-05T00:00:00Z")
	stored := golden.Read(t, "pool-b", "jobs_history_legacy.jsonl")
	for _, lacking := range []bool{false, true} {
		if lacking {
			stored = bytes.ReplaceAll(stored, []byte(`"ExitCode"`), []byte(`"Exit_Code"`))
		}
		ads := jobstest.NewMemory(bytes.Split(bytes.TrimSpace(stored), []byte("\n"))...)
		told := notices(s.Ask(t, ads, w, failures), data.NoticeSeverityWarning)
		require.Equal(t, lacking, strings.Contains(told, "lack ExitCode and ExitBySignal"), told)
	}
}
