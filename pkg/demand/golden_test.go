package demand_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

const poolC = "pool-c"

var (
	summaryMetrics = []string{
		"waits", "started", "left", "medianWaitHours", "p90WaitHours", "meanWaitHours", "expansionFactor", "waitingJobs",
		"waitingGpus", "waitingUsers", "oldestHours",
		"freeWhileWaiting",
	}
	seriesMetrics = []string{"waitingGpus", "waitingJobs", "waitingUsers", "started", "freeWhileWaiting"}
)

// expectedDemand is an answer of expected.json.
type expectedDemand struct {
	All                                              map[string]any
	ByUser, ByProject, BySchedd, ByGpus, ByGpuMemory map[string]map[string]any
	Daily                                            []map[string]any
	Waiting                                          []map[string]any
	Survival                                         struct {
		FromHours, UntilHours float64
		At                    [][5]float64 // hours, share, low, high, at risk
	}
}

// The answers of an oracle that implements only the methodology (testdata/golden/README.md).
func TestGolden(t *testing.T) {
	var expected struct {
		Timezone string
		Windows  map[string]struct {
			Common struct{ Window struct{ Start, End string } }
			Jobs   map[string]struct{ Demand expectedDemand }
		}
	}
	golden.Expected(t, poolC, &expected)
	require.Len(t, expected.Windows, 3)
	s := open(t, golden.Pool(t, poolC), expected.Timezone)
	sources := map[string]jobs.Source{"none": nil, "epochs": runstest.Ads(t, poolC, "jobs_epochs.jsonl")}
	for window, e := range expected.Windows {
		w := golden.Window(t, e.Common.Window.Start, e.Common.Window.End)
		require.Len(t, e.Jobs, 2)
		for variant, want := range e.Jobs {
			t.Run(window+"/"+variant, func(t *testing.T) {
				q := asked{t, s, sources[variant], w}
				q.checkSummaries(&want.Demand)
				q.checkDaily(want.Demand.Daily, expected.Timezone)
				q.checkWaiting(want.Demand.Waiting)
				q.checkSurvival(&want.Demand)
			})
		}
	}
}

// asked is a requested window with job documents.
type asked struct {
	*testing.T
	s   runstest.Source
	ads jobs.Source
	w   pool.Window
}

func (q *asked) rows(format string, values ...any) []map[string]any {
	return golden.Rows(q.s.Ask(q, q.ads, q.w, fmt.Sprintf(format, values...)))
}

func (q *asked) same(want, got any, format string, values ...any) {
	q.Helper()
	require.True(q, golden.Same(want, got), "%s: expected %v, got %v", fmt.Sprintf(format, values...), want, got)
}

func (q *asked) checkSummaries(e *expectedDemand) {
	for grouping, groups := range map[string]map[string]map[string]any{
		"": {"": e.All}, "user": e.ByUser, "project": e.ByProject, "schedd": e.BySchedd, "gpus": e.ByGpus,
		"gpuMemory": e.ByGpuMemory,
	} {
		by := "[]"
		if grouping != "" {
			by = fmt.Sprintf("[%q]", grouping)
		}
		rows := q.rows(`{"queryType": "demand", "view": "summary", "groupBy": %s, "totals": false}`, by)
		require.Len(q, rows, len(groups), grouping)
		for _, row := range rows {
			group, _ := row[grouping].(string)
			require.Contains(q, groups, group)
			for _, metric := range summaryMetrics {
				q.same(groups[group][metric], row[metric], "%s %s %s", grouping, group, metric)
			}
		}
		rows = q.rows(`{"queryType": "demand", "view": "summary", "groupBy": %s}`, by)
		require.Len(q, rows, len(groups)+1, "%s: with the total", grouping)
		total := rows[len(groups)]
		require.Equal(q, "total", total["rowType"])
		for _, metric := range summaryMetrics {
			q.same(e.All[metric], total[metric], "%s: the total's %s", grouping, metric)
		}
	}
}

func (q *asked) checkDaily(days []map[string]any, zone string) {
	metrics, err := json.Marshal(seriesMetrics)
	require.NoError(q, err)
	frames := q.s.Ask(q, q.ads, q.w, fmt.Sprintf(`{"queryType": "demand", "view": "timeseries", "groupBy": [], "metrics": %s, "bucket": "1d", "timezone": %q}`, metrics, zone))
	got := map[string]map[string]float64{}
	for _, f := range frames {
		metric := f.Fields[1].Labels["metric"]
		got[metric] = map[string]float64{}
		for i := range f.Fields[0].Len() {
			got[metric][f.Fields[0].At(i).(time.Time).Format("2006-01-02T15:04:05.000000Z")] = f.Fields[1].At(i).(float64)
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

func (q *asked) checkSurvival(e *expectedDemand) {
	rows := q.rows(`{"queryType": "demand", "view": "survival", "groupBy": [], "metrics": ["survival", "low", "high", "atRisk"]}`)
	require.NotEmpty(q, rows)
	q.same(e.Survival.FromHours, rows[0]["hours"], "the curve's beginning")
	q.same(e.Survival.UntilHours, rows[len(rows)-1]["hours"], "the curve's end")
	for _, point := range e.Survival.At {
		at := rows[0]
		for _, row := range rows {
			if row["hours"].(float64) <= point[0] {
				at = row
			}
		}
		for i, name := range []string{"survival", "low", "high"} {
			q.same(point[1+i], at[name], "%s at %g h", name, point[0])
		}
	}
}

// disagreeing are cases with which answers do not agree yet.
var disagreeing = map[string]string{}

// Hand-worked cases, one rule each.
func TestCases(t *testing.T) {
	for _, c := range golden.Cases(t, "demand") {
		t.Run(c.Name, func(t *testing.T) {
			if reason, waits := disagreeing[c.Name]; waits {
				t.Skip(reason)
			}
			s := open(t, c.Write(t), c.Settings.Timezone)
			s.Env.SliceMinutes = c.Settings.SliceMinutes
			for i := range c.Queries {
				q := &c.Queries[i]
				q.Expect.Check(t, s.Ask(t, runstest.AdsOf(t, &c, q), golden.Window(t, q.Window[0], q.Window[1]), string(q.Query)))
			}
		})
	}
}

// A filter chooses among the same waits: what groups count adds up to the whole.
func TestFilters(t *testing.T) {
	var expected struct{ Timezone string }
	golden.Expected(t, poolC, &expected)
	s := open(t, golden.Pool(t, poolC), expected.Timezone)
	q := asked{t, s, nil, golden.Window(t, "2025-09-29T05:00:00Z", "2025-10-01T05:00:00Z")}
	for grouping, field := range map[string]string{"user": "users", "project": "projects", "schedd": "schedds",
		"gpus": "gpus", "gpuMemory": "gpuMemory"} {
		groups := map[string]map[string]any{}
		for _, row := range q.rows(`{"queryType": "demand", "view": "summary", "groupBy": [%q], "totals": false}`, grouping) {
			if row[grouping] != "" {
				groups[row[grouping].(string)] = row
			}
		}
		require.NotEmpty(t, groups)
		for _, group := range slices.Sorted(maps.Keys(groups)) {
			rows := q.rows(`{"queryType": "demand", "view": "summary", "groupBy": [%q], "totals": false, "filter": {%q: [%q]}}`,
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
