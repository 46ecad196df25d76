package demand_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
)

func TestMain(m *testing.M) {
	golden.FixSeed()
	os.Exit(m.Run())
}

// Without files of the queues, every view names the missing files and how to collect them, and other kinds answer
// as before.
func TestWithoutFiles(t *testing.T) {
	dir := golden.Pool(t, "pool-c")
	files, err := filepath.Glob(filepath.Join(dir, "job_pressure_*.db"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	w := golden.Window(t, "2025-09-30T12:00:00Z", "2025-10-01T12:00:00Z")
	const others = `{"queryType": "allocation", "view": "summary"}`
	with := runstest.Open(t, dir, "America/Chicago").Ask(t, nil, w, others)
	for _, f := range files {
		require.NoError(t, os.Remove(f))
	}
	s := runstest.Open(t, dir, "America/Chicago")
	for _, view := range []string{"timeseries", "summary", "waiting", "survival", "hourOfWeek"} {
		frames := s.Ask(t, nil, w, `{"queryType": "demand", "view": "`+view+`"}`)
		require.Len(t, frames, 1)
		require.Empty(t, frames[0].Fields, view)
		require.Contains(t, frames[0].Meta.Notices, data.Notice{Severity: data.NoticeSeverityWarning,
			Text: "no file job_pressure_YYYY-MM.db or .parquet in the snapshot directory, so it is not known who is waiting. " +
				"Collect it with `gpureports collect --jobs`"})
	}
	require.Equal(t, golden.Rows(with), golden.Rows(s.Ask(t, nil, w, others)))
}

const poolC = "pool-c"

var (
	summaryMetrics = []string{
		"waits", "started", "left", "medianWaitHours", "p90WaitHours", "meanWaitHours", "expansionFactor", "waitingJobs",
		"waitingGpus", "waitingUsers", "oldestHours",
		"freeWhileWaiting",
	}
	seriesMetrics = []string{"waitingGpus", "waitingJobs", "waitingUsers", "started", "freeWhileWaiting"}
)

// expectedJobs has splits, days, the jobs that wait at the newest poll, and a curve.
type expectedJobs struct{ Demand map[string]json.RawMessage }

// read reads one of them.
func (e *expectedJobs) read(t *testing.T, key string, to any) {
	require.NoError(t, json.Unmarshal(e.Demand[key], to), key)
}

// The answers of an oracle that implements only the methodology (testdata/golden/README.md).
func TestGolden(t *testing.T) {
	runstest.EachWindow(t, poolC, func(t *testing.T, question *runstest.Question, want *expectedJobs) {
		q := asked{t, question}
		splits := runstest.Splits(t, want.Demand)
		for grouping, groups := range splits {
			runstest.CheckGroups(t, grouping, groups, q.Summary(t, "demand", grouping), summaryMetrics)
			by := "[]"
			if grouping != "" {
				by = fmt.Sprintf("[%q]", grouping)
			}
			rows := q.rows(`{"queryType": "demand", "view": "summary", "groupBy": %s}`, by)
			require.Len(t, rows, len(groups)+1, "%s: with the total", grouping)
			total := rows[len(groups)]
			require.Equal(t, "total", total["rowType"])
			runstest.CheckGroups(t, grouping, splits[""], runstest.Groups{"": total}, summaryMetrics)
		}
		var days, waiting []map[string]any
		want.read(t, "daily", &days)
		q.checkDaily(days)
		want.read(t, "waiting", &waiting)
		q.checkWaiting(waiting)
		var curve struct {
			FromHours, UntilHours float64
			At                    [][]any // hours, share, low, high, at risk
		}
		want.read(t, "survival", &curve)
		rows := q.rows(`{"queryType": "demand", "view": "survival", "groupBy": [],
			"metrics": ["survival", "low", "high", "atRisk"]}`)
		runstest.CheckCurve(t, rows, curve.FromHours, curve.UntilHours, curve.At)
	})
}

// asked is a requested window with job documents.
type asked struct {
	*testing.T
	*runstest.Question
}

func (q *asked) rows(format string, values ...any) []map[string]any {
	return q.Rows(q, format, values...)
}

func (q *asked) same(want, got any, format string, values ...any) {
	q.Helper()
	require.True(q, golden.Same(want, got), "%s: expected %v, got %v", fmt.Sprintf(format, values...), want, got)
}

func (q *asked) checkDaily(days []map[string]any) {
	metrics, err := json.Marshal(seriesMetrics)
	require.NoError(q, err)
	frames := q.Ask(q, q.Ads, q.Window, fmt.Sprintf(`{"queryType": "demand", "view": "timeseries", "groupBy": [], "metrics": %s, "bucket": "1d", "timezone": %q}`, metrics, q.Zone))
	got := map[string]map[string]float64{}
	for _, f := range frames {
		metric := f.Fields[1].Labels["metric"]
		got[metric] = map[string]float64{}
		for i := range f.Fields[0].Len() {
			got[metric][f.Fields[0].At(i).(time.Time).Format(runstest.Stamp)] = f.Fields[1].At(i).(float64)
		}
	}
	for _, metric := range seriesMetrics {
		require.Len(q, got[metric], len(days), metric)
		for _, day := range days {
			q.same(day[metric], got[metric][day["time"].(string)], "%s at %s", metric, day["time"])
		}
	}
}

func (q *asked) checkWaiting(want []map[string]any) {
	rows := q.rows(`{"queryType": "demand", "view": "waiting"}`)
	require.Len(q, rows, len(want))
	byJob := map[string]map[string]any{}
	for i, row := range rows {
		byJob[row["job"].(string)] = row
		if i > 0 {
			require.GreaterOrEqual(q, rows[i-1]["hours"], row["hours"], "the longest wait first")
		}
	}
	for _, w := range want {
		row := byJob[w["job"].(string)]
		require.NotNil(q, row, w["job"])
		for _, column := range []string{"user", "project", "gpus", "cpus", "memoryGb", "gpuMemoryGb", "hours", "attempts"} {
			q.same(w[column], row[column], "%s %s", w["job"], column)
		}
	}
}

// A filter chooses among the same waits: what groups count adds up to the whole.
func TestFilters(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, poolC), "America/Chicago")
	q := runstest.Question{Source: s, Window: golden.Window(t, "2025-09-29T05:00:00Z", "2025-10-01T05:00:00Z")}
	for grouping, field := range map[string]string{"user": "users", "project": "projects", "schedd": "schedds",
		"gpus": "gpus", "gpuMemory": "gpuMemory"} {
		groups := map[string]map[string]any{}
		for _, row := range q.Summary(t, "demand", grouping) {
			if row[grouping] != "" {
				groups[row[grouping].(string)] = row
			}
		}
		require.NotEmpty(t, groups)
		for _, group := range slices.Sorted(maps.Keys(groups)) {
			rows := q.Rows(t, `{"queryType": "demand", "view": "summary", "groupBy": [%q], "totals": false, "filter": {%q: [%q]}}`,
				grouping, field, group)
			found := 0
			for _, row := range rows {
				if row[grouping] == group {
					require.Equal(t, groups[group], row)
					found++
				}
			}
			require.Equal(t, 1, found, "%s %s", grouping, group)
			require.True(t, len(rows) == 1 || grouping == "project", "only lists of projects that hold it beside: %v", rows)
		}
	}
}
