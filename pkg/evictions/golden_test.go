package evictions_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// figures are a group's of expected.json.
type figures struct {
	measures
	ByCause, ByEvidence, ByTakenOverBy map[string]measures
	CumulativeIncidence                []struct{ Hours, Evicted float64 }
}

type measures map[string]any

func (f *figures) UnmarshalJSON(text []byte) error {
	type plain figures
	if err := json.Unmarshal(text, (*plain)(f)); err != nil {
		return err
	}
	return json.Unmarshal(text, &f.measures)
}

type expectedRun struct {
	Machine, Device, Category, User, Job, Start, End, Outcome, Evidence, Cause, Link string

	GPUIDs []string `json:"gpuIds"`
	Hours  float64
}

type expectedJobs struct {
	Evictions struct {
		All                                              figures
		ByCategory, ByDevice, ByMachineType, ByOwnership map[string]figures
		Runs                                             json.RawMessage // in full, or a digest
	}
}

type expectedWindow struct {
	Common struct{ Window struct{ Start, End string } }
	Jobs   map[string]expectedJobs
}

var metrics = []string{"runs", "evictions", "yielded", "evictedGpuHours", "checkpointedPercent", "maxEvictionsPerJob",
	"completed", "removed", "held", "running", "lost", "ambiguous", "gpuHours",
	"ratePer100GpuHours", "rateLow", "rateHigh", "evictedPercent", "medianHoursToEviction", "lostGpuHours", "lostPercent"}

var causeMetrics = []string{"evictions", "ratePer100GpuHours", "lostGpuHours", "evictedGpuHours", "checkpointedPercent",
	"medianHoursToEviction"}

func TestGolden(t *testing.T) {
	for _, name := range golden.Pools {
		var expected struct {
			Timezone string
			Windows  map[string]expectedWindow
		}
		golden.Expected(t, name, &expected)
		require.Len(t, expected.Windows, 2)
		s := open(t, golden.Pool(t, name), expected.Timezone)
		sources := runstest.Sources(t, name)
		for window, e := range expected.Windows {
			w := golden.Window(t, e.Common.Window.Start, e.Common.Window.End)
			require.Len(t, e.Jobs, 4)
			for variant, want := range e.Jobs {
				for i, source := range sources[variant] {
					t.Run(fmt.Sprintf("%s/%s/%s/%d", name, window, variant, i), func(t *testing.T) {
						checkSummaries(t, s, source, w, &want)
						checkRuns(t, s, source, w, want.Evictions.Runs)
						checkCurve(t, s, source, w, &want.Evictions.All)
					})
				}
			}
		}
	}
}

func checkSummaries(t *testing.T, s runstest.Source, ads jobs.Source, w pool.Window, want *expectedJobs) {
	e := &want.Evictions
	for grouping, groups := range map[string]map[string]figures{"": {"": e.All}, "category": e.ByCategory,
		"device": e.ByDevice, "machineType": e.ByMachineType, "ownership": e.ByOwnership} {
		require.NotEmpty(t, groups, grouping)
		var by []string
		if grouping != "" {
			by = append(by, grouping)
		}
		key := func(row map[string]any, by []string) string {
			var texts []string
			for _, g := range by {
				texts = append(texts, fmt.Sprint(row[g]))
			}
			return strings.Join(texts, "|")
		}
		ask := func(by []string) map[string]map[string]any {
			list, err := json.Marshal(append([]string{}, by...))
			require.NoError(t, err)
			rows := map[string]map[string]any{}
			for _, r := range golden.Rows(s.Ask(t, ads, w, fmt.Sprintf(`{"queryType": "evictions", "view": "summary", "groupBy": %s, "totals": false}`, list))) {
				require.NotContains(t, rows, key(r, by), "a group twice")
				rows[key(r, by)] = r
			}
			return rows
		}
		named := func(group string) string {
			if c, ok := pool.ParseCategory(group); ok && grouping == "category" {
				return c.String()
			}
			return group
		}
		rows := ask(by)
		require.Len(t, rows, len(groups), grouping)
		for group, f := range groups {
			row := rows[named(group)]
			require.NotNil(t, row, group)
			for _, m := range metrics {
				require.Contains(t, f.measures, m)
				require.True(t, golden.Same(f.measures[m], row[m]), "%s %s: want %v, got %v", group, m, f.measures[m], row[m])
			}
		}
		for further, parts := range map[string]func(figures) map[string]measures{
			"cause":       func(f figures) map[string]measures { return f.ByCause },
			"evidence":    func(f figures) map[string]measures { return f.ByEvidence },
			"takenOverBy": func(f figures) map[string]measures { return f.ByTakenOverBy },
		} {
			rows := ask(append(slices.Clone(by), further))
			n := 0
			for group, f := range groups {
				for part, m := range parts(f) {
					n++
					row := rows[strings.TrimPrefix(named(group)+"|"+part, "|")]
					require.NotNil(t, row, "%s %s", group, part)
					for _, name := range causeMetrics {
						require.True(t, golden.Same(m[name], row[name]), "%s %s %s: want %v, got %v", group, part, name, m[name],
							row[name])
					}
				}
			}
			require.Len(t, rows, n)
		}
	}
}

const stamp = "2006-01-02T15:04:05.000000Z"

// checkRuns compares the lines of golden/README.md: machine|gpuIds|job|start|end|outcome|evidence, and more where the
// runs are listed in full.
func checkRuns(t *testing.T, s runstest.Source, ads jobs.Source, w pool.Window, want json.RawMessage) {
	var got, gotMore []string
	for _, r := range golden.Rows(s.Ask(t, ads, w, `{"queryType": "evictions", "view": "runs", "limit": 50000}`)) {
		ids := strings.Split(r["gpuIds"].(string), ", ")
		require.Len(t, ids, int(r["gpus"].(float64)))
		slices.Sort(ids)
		line := strings.Join([]string{r["machine"].(string), strings.Join(ids, ","), r["job"].(string),
			r["start"].(time.Time).Format(stamp), r["end"].(time.Time).Format(stamp), r["outcome"].(string),
			r["evidence"].(string)}, "|")
		got = append(got, line)
		gotMore = append(gotMore, fmt.Sprintf("%s|%v|%v|%v|%v|%v|%.9g", line, r["device"], r["category"], r["user"],
			r["cause"], r["link"], r["hours"]))
	}
	slices.Sort(got)
	var digest struct {
		Count  int
		SHA256 string `json:"sha256"`
		First  []string
	}
	if json.Unmarshal(want, &digest) == nil {
		require.Equal(t, digest.First, got[:len(digest.First)])
		require.Len(t, got, digest.Count)
		sum := sha256.Sum256([]byte(strings.Join(got, "\n")))
		require.Equal(t, digest.SHA256, hex.EncodeToString(sum[:]))
		return
	}
	var runs []expectedRun
	require.NoError(t, json.Unmarshal(want, &runs))
	require.NotEmpty(t, runs)
	var wanted []string
	for _, r := range runs {
		slices.Sort(r.GPUIDs)
		c, ok := pool.ParseCategory(r.Category)
		require.True(t, ok)
		line := strings.Join([]string{r.Machine, strings.Join(r.GPUIDs, ","), r.Job, r.Start, r.End, r.Outcome, r.Evidence},
			"|")
		wanted = append(wanted, fmt.Sprintf("%s|%v|%v|%v|%v|%v|%.9g", line, r.Device, c, r.User, r.Cause, r.Link, r.Hours))
	}
	slices.Sort(wanted)
	slices.Sort(gotMore)
	require.Equal(t, wanted, gotMore)
}

// checkCurve compares the share evicted where the curve is drawn from the beginning.
func checkCurve(t *testing.T, s runstest.Source, ads jobs.Source, w pool.Window, want *figures) {
	rows := golden.Rows(s.Ask(t, ads, w, `{"queryType": "evictions", "view": "survival", "groupBy": []}`))
	if want.CumulativeIncidence == nil {
		require.Empty(t, rows)
		return
	}
	require.Zero(t, rows[0]["hours"])
	compared := 0
	for _, c := range want.CumulativeIncidence {
		if c.Hours > rows[len(rows)-1]["hours"].(float64) {
			continue
		}
		compared++
		i := slices.IndexFunc(rows, func(r map[string]any) bool { return r["hours"].(float64) > c.Hours })
		if i < 0 {
			i = len(rows)
		}
		row := rows[i-1]
		require.InDelta(t, 1-c.Evicted, row["survival"], 1e-9)
		require.Less(t, row["low"].(float64), row["survival"])
		require.Greater(t, row["high"].(float64), row["survival"])
	}
	require.GreaterOrEqual(t, compared, 2)
}

func TestCases(t *testing.T) {
	for _, c := range golden.Cases(t, "evictions") {
		t.Run(c.Name, func(t *testing.T) {
			s := open(t, c.Write(t), c.Settings.Timezone)
			s.Env.SliceMinutes = cmp.Or(c.Settings.SliceMinutes, s.Env.SliceMinutes)
			for _, q := range c.Queries {
				t.Log(q.Window, q.Jobs, string(q.Query))
				q.Expect.Check(t, s.Ask(t, runstest.AdsOf(t, &c, &q), golden.Window(t, q.Window[0], q.Window[1]), string(q.Query)))
			}
		})
	}
}

// What the views say about the same runs agrees.
func TestViewsAgree(t *testing.T) {
	const name = "pool-b"
	s := open(t, golden.Pool(t, name), "America/Chicago")
	source := runstest.Sources(t, name)["both"][0]
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	row := golden.Rows(s.Ask(t, source, w, `{"queryType": "evictions", "view": "summary", "totals": false}`))[0]
	events := golden.Rows(s.Ask(t, source, w, `{"queryType": "evictions", "view": "events"}`))
	require.Len(t, events, int(row["evictions"].(float64)))
	require.Len(t, golden.Rows(s.Ask(t, source, w, `{"queryType": "evictions", "view": "annotations"}`)), len(events))
	lost := 0.0
	for _, e := range events {
		lost += e["gpuHours"].(float64)
		require.LessOrEqual(t, e["lostGpuHours"], e["gpuHours"])
	}
	require.GreaterOrEqual(t, lost, row["lostGpuHours"].(float64), "of whole runs, against the part in the window")

	// two hours without a snapshot hold an eviction by its ad
	for bucket, points := range map[string]int{"window": 1, "1h": 60, "1d": 3} {
		series := golden.Series(s.Ask(t, source, w, fmt.Sprintf(`{"queryType": "evictions", "view": "timeseries", "metrics": ["evictions", "lostGpuHours", "runs", "ratePer100GpuHours"], "bucket": %q}`, bucket)), "metric")
		for metric, column := range map[string]string{"evictions": "evictions", "lostGpuHours": "lostGpuHours"} {
			require.Len(t, series[metric], points, bucket)
			sum := 0.0
			for _, p := range series[metric] {
				sum += p.Value
			}
			require.InDelta(t, row[column], sum, 1e-6, "%s of %s", metric, bucket)
		}
		if bucket == "window" {
			require.Equal(t, row["runs"], series["runs"][0].Value)
			require.InDelta(t, row["ratePer100GpuHours"], series["ratePer100GpuHours"][0].Value, 1e-9)
		}
	}
	cells := golden.Rows(s.Ask(t, source, w, `{"queryType": "evictions", "view": "hourOfWeek", "metrics": ["evictions"]}`))
	require.Len(t, cells, 168)
	sum, empty := 0.0, 0
	for _, c := range cells {
		if v, ok := c["value"].(float64); ok {
			sum += v
		} else {
			empty++
		}
	}
	require.Equal(t, row["evictions"], sum)
	require.Equal(t, 168-59, empty, "60 hours, one of them twice")

	all := golden.Rows(s.Ask(t, source, w, `{"queryType": "evictions", "groupBy": ["user", "cause"]}`))
	require.Equal(t, "All", all[len(all)-1]["user"])
	require.Equal(t, "total", all[len(all)-1]["rowType"])
	n := 0.0
	for _, r := range all[:len(all)-1] {
		n += r["evictions"].(float64)
		require.Nil(t, r["runs"])
		if rate, is := r["ratePer100GpuHours"].(float64); is { // not over less than 1 GPU-hour
			require.False(t, math.IsNaN(rate))
		}
	}
	require.Equal(t, row["evictions"], n)
}
