package utilization_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

const poolC, zoneC = "pool-c", "America/Chicago"

type bucket map[string]json.RawMessage // time, coveredHours, and figures by group

type expectedRun struct {
	Machine, Device, Category, User, Job, Start, End, IdleSince string

	GPUIDs             []string `json:"gpuIds"`
	GPUs               float64
	Hours, IdleHours   float64
	UtilizationPercent any
}

// expectedJobs has splits, the buckets `hourly` and `daily`, runs that are idle, and all runs in full or as a digest.
type expectedJobs struct{ Utilization map[string]json.RawMessage }

var summaryMetrics = []string{"heldGpuHours", "measuredPercent", "utilizationPercent", "busyGpuHours", "idleGpuHours",
	"idlePercent", "runs", "idleRuns"}

func TestGolden(t *testing.T) {
	runstest.EachWindow(t, poolC, func(t *testing.T, q *runstest.Question, want *expectedJobs) {
		for grouping, groups := range runstest.Splits(t, want.Utilization) {
			runstest.CheckGroups(t, grouping, groups, q.Summary(t, "utilization", grouping), summaryMetrics)
		}
		for bucketName, key := range map[string]string{"1h": "hourly", "1d": "daily"} {
			var buckets []bucket
			require.NoError(t, json.Unmarshal(want.Utilization[key], &buckets))
			require.NotEmpty(t, buckets)
			checkSeries(t, q, bucketName, buckets)
		}
		checkRuns(t, q, want.Utilization["runs"])
		checkIdle(t, q, want.Utilization["idle"])
	})
}

func checkSeries(t *testing.T, q *runstest.Question, name string, buckets []bucket) {
	metrics := []string{"utilizationPercent", "busy", "idle"}
	for _, by := range []string{"", "category"} {
		groupBy := "[]"
		if by != "" {
			groupBy = `["category"]`
		}
		want := map[string]int{} // points of each series
		query := fmt.Sprintf(`{"queryType": "utilization", "view": "timeseries", "groupBy": %s, "metrics": ["utilizationPercent", "busy", "idle"], "bucket": %q}`, groupBy, name)
		got := golden.Series(q.Ask(t, q.Ads, q.Window, query), append([]string{"metric"}, strings.Fields(by)...)...)
		for _, b := range buckets {
			var at string
			require.NoError(t, json.Unmarshal(b["time"], &at))
			for group, content := range b {
				if group == "time" || group == "coveredHours" || (group == "all") != (by == "") {
					continue
				}
				var figures map[string]any
				require.NoError(t, json.Unmarshal(content, &figures))
				for _, m := range metrics {
					key := m
					if by != "" {
						key += "|" + runstest.Named(group)
					}
					if figures[m] == nil {
						continue
					}
					want[key]++
					i := slices.IndexFunc(got[key], func(p golden.Point) bool { return golden.Same(at, p.Time) })
					require.GreaterOrEqual(t, i, 0, "%s at %s", key, at)
					require.True(t, golden.Same(figures[m], got[key][i].Value), "%s at %s: want %v, got %v", key, at, figures[m],
						got[key][i].Value)
				}
			}
		}
		if len(want) == 0 {
			continue // hours come for all together only
		}
		for key, points := range got {
			require.Len(t, points, want[key], key)
		}
	}
}

// line is what the digests of golden/README.md are made of.
func line(r map[string]any) string {
	ids := strings.Split(r["gpuIds"].(string), ", ")
	slices.Sort(ids)
	since := ""
	if at, ok := r["idleSince"].(time.Time); ok {
		since = at.Format(runstest.Stamp)
	}
	return strings.Join([]string{r["machine"].(string), strings.Join(ids, ","), r["job"].(string),
		r["start"].(time.Time).Format(runstest.Stamp), r["end"].(time.Time).Format(runstest.Stamp), since}, "|")
}

func (r *expectedRun) line() string {
	slices.Sort(r.GPUIDs)
	return strings.Join([]string{r.Machine, strings.Join(r.GPUIDs, ","), r.Job, r.Start, r.End, r.IdleSince}, "|")
}

func checkRuns(t *testing.T, q *runstest.Question, want json.RawMessage) {
	byLine := map[string]map[string]any{}
	var lines []string
	hours := 0.0
	for _, r := range q.Rows(t, `{"queryType": "utilization", "view": "runs", "limit": 50000}`) {
		lines = append(lines, line(r))
		byLine[line(r)] = r
		hours += r["hours"].(float64)
	}
	if runstest.IsDigest(t, want, lines) {
		var digest struct{ Sum float64 }
		require.NoError(t, json.Unmarshal(want, &digest))
		require.True(t, golden.Same(digest.Sum, hours))
		return
	}
	var runs []expectedRun
	require.NoError(t, json.Unmarshal(want, &runs))
	require.Len(t, lines, len(runs))
	for _, w := range runs {
		got := byLine[w.line()]
		require.NotNil(t, got, w.line())
		for column, value := range map[string]any{"gpus": w.GPUs, "device": w.Device, "category": runstest.Named(w.Category),
			"user": w.User, "hours": w.Hours, "utilizationPercent": w.UtilizationPercent, "idleHours": w.IdleHours} {
			require.True(t, golden.Same(value, got[column]), "%s %s: want %v, got %v", w.line(), column, value, got[column])
		}
	}
}

func checkIdle(t *testing.T, q *runstest.Question, raw json.RawMessage) {
	var want []expectedRun
	require.NoError(t, json.Unmarshal(raw, &want))
	rows := q.Rows(t, `{"queryType": "utilization", "view": "idle"}`)
	require.Len(t, rows, len(want))
	for i, w := range want { // longest first
		require.Equal(t, w.Job, rows[i]["job"])
		for column, value := range map[string]any{"machine": w.Machine, "gpus": w.GPUs, "device": w.Device,
			"category": runstest.Named(w.Category), "user": w.User, "idleSince": w.IdleSince, "idleHours": w.IdleHours} {
			require.True(t, golden.Same(value, rows[i][column]), "%s %s: want %v, got %v", w.Job, column, value, rows[i][column])
		}
	}
}
