package utilization_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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

const poolC, zoneC = "pool-c", "America/Chicago"

type figures map[string]any

type bucket map[string]json.RawMessage // time, coveredHours, and figures by group

type expectedUtilization struct {
	All                                                                       figures
	ByCategory, ByDevice, ByMemory, ByOwnership, ByMachine, ByProject, ByUser map[string]figures
	Hourly, Daily                                                             []bucket
	Idle                                                                      []expectedRun
	Runs                                                                      json.RawMessage // in full, or a digest
}

type expectedRun struct {
	Machine, Device, Category, User, Job, Start, End, IdleSince string

	GPUIDs             []string `json:"gpuIds"`
	GPUs               float64
	Hours, IdleHours   float64
	UtilizationPercent any
}

type expectedWindow struct {
	Common struct {
		Window struct{ Start, End string }
	}
	Jobs map[string]struct{ Utilization expectedUtilization }
}

var summaryMetrics = []string{"heldGpuHours", "measuredPercent", "utilizationPercent", "busyGpuHours", "idleGpuHours",
	"idlePercent", "runs", "idleRuns"}

func TestGolden(t *testing.T) {
	var expected struct{ Windows map[string]expectedWindow }
	golden.Expected(t, poolC, &expected)
	require.Len(t, expected.Windows, 3)
	s := open(t, golden.Pool(t, poolC), zoneC)
	sources := map[string]jobs.Source{"none": nil, "epochs": runstest.Ads(t, poolC, "jobs_epochs.jsonl")}
	for window, e := range expected.Windows {
		w := golden.Window(t, e.Common.Window.Start, e.Common.Window.End)
		require.Len(t, e.Jobs, len(sources))
		for variant, want := range e.Jobs {
			t.Run(window+"/"+variant, func(t *testing.T) {
				c := check{s, sources[variant], w, &want.Utilization}
				c.summaries(t)
				c.series(t, "1h", want.Utilization.Hourly)
				c.series(t, "1d", want.Utilization.Daily)
				c.runs(t)
				c.idle(t)
			})
		}
	}
}

// check compares the answers of one window with the expected ones.
type check struct {
	runstest.Source
	ads    jobs.Source
	window pool.Window
	want   *expectedUtilization
}

func (c check) rows(t *testing.T, text string) []map[string]any {
	return golden.Rows(c.Ask(t, c.ads, c.window, text))
}

func named(group string) string {
	if category, ok := pool.ParseCategory(group); ok {
		return category.String()
	}
	return group
}

func (c check) summaries(t *testing.T) {
	for grouping, groups := range map[string]map[string]figures{
		"": {"": c.want.All}, "category": c.want.ByCategory, "device": c.want.ByDevice, "memory": c.want.ByMemory,
		"ownership": c.want.ByOwnership,
		"machine":   c.want.ByMachine, "project": c.want.ByProject, "user": c.want.ByUser,
	} {
		require.NotEmpty(t, groups, grouping)
		by := "[]"
		if grouping != "" {
			by = fmt.Sprintf("[%q]", grouping)
		}
		rows := c.rows(t, fmt.Sprintf(`{"queryType": "utilization", "view": "summary", "groupBy": %s, "totals": false}`, by))
		require.Len(t, rows, len(groups), grouping)
		for group, want := range groups {
			i := slices.IndexFunc(rows, func(r map[string]any) bool { return grouping == "" || r[grouping] == named(group) })
			require.GreaterOrEqual(t, i, 0, group)
			for _, m := range summaryMetrics {
				require.Contains(t, want, m)
				require.True(t, golden.Same(want[m], rows[i][m]), "%s %s %s: want %v, got %v", grouping, group, m, want[m],
					rows[i][m])
			}
		}
	}
}

func (c check) series(t *testing.T, name string, buckets []bucket) {
	metrics := []string{"utilizationPercent", "busy", "idle"}
	for _, by := range []string{"", "category"} {
		groupBy := "[]"
		if by != "" {
			groupBy = `["category"]`
		}
		want := map[string]int{} // points of each series
		query := fmt.Sprintf(`{"queryType": "utilization", "view": "timeseries", "groupBy": %s, "metrics": ["utilizationPercent", "busy", "idle"], "bucket": %q}`, groupBy, name)
		got := golden.Series(c.Ask(t, c.ads, c.window, query), append([]string{"metric"}, strings.Fields(by)...)...)
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
						key += "|" + named(group)
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

const stamp = "2006-01-02T15:04:05.000000Z"

// line is what the digests of golden/README.md are made of.
func line(r map[string]any) string {
	ids := strings.Split(r["gpuIds"].(string), ", ")
	slices.Sort(ids)
	since := ""
	if at, ok := r["idleSince"].(time.Time); ok {
		since = at.Format(stamp)
	}
	return strings.Join([]string{r["machine"].(string), strings.Join(ids, ","), r["job"].(string),
		r["start"].(time.Time).Format(stamp), r["end"].(time.Time).Format(stamp), since}, "|")
}

func (r *expectedRun) line() string {
	slices.Sort(r.GPUIDs)
	return strings.Join([]string{r.Machine, strings.Join(r.GPUIDs, ","), r.Job, r.Start, r.End, r.IdleSince}, "|")
}

func (c check) runs(t *testing.T) {
	byLine := map[string]map[string]any{}
	var lines []string
	hours := 0.0
	for _, r := range c.rows(t, `{"queryType": "utilization", "view": "runs", "limit": 50000}`) {
		lines = append(lines, line(r))
		byLine[line(r)] = r
		hours += r["hours"].(float64)
	}
	slices.Sort(lines)
	var digest struct {
		Count  int
		Sum    float64
		SHA256 string `json:"sha256"`
		First  []string
	}
	if json.Unmarshal(c.want.Runs, &digest) == nil {
		require.Equal(t, digest.First, lines[:len(digest.First)])
		require.Len(t, lines, digest.Count)
		require.True(t, golden.Same(digest.Sum, hours))
		sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
		require.Equal(t, digest.SHA256, hex.EncodeToString(sum[:]))
		return
	}
	var want []expectedRun
	require.NoError(t, json.Unmarshal(c.want.Runs, &want))
	require.Len(t, lines, len(want))
	for _, w := range want {
		got := byLine[w.line()]
		require.NotNil(t, got, w.line())
		for column, value := range map[string]any{"gpus": w.GPUs, "device": w.Device, "category": named(w.Category),
			"user": w.User, "hours": w.Hours, "utilizationPercent": w.UtilizationPercent, "idleHours": w.IdleHours} {
			require.True(t, golden.Same(value, got[column]), "%s %s: want %v, got %v", w.line(), column, value, got[column])
		}
	}
}

func (c check) idle(t *testing.T) {
	rows := c.rows(t, `{"queryType": "utilization", "view": "idle"}`)
	require.Len(t, rows, len(c.want.Idle))
	for i, w := range c.want.Idle { // longest first
		require.Equal(t, w.Job, rows[i]["job"])
		for column, value := range map[string]any{"machine": w.Machine, "gpus": w.GPUs, "device": w.Device,
			"category": named(w.Category), "user": w.User, "idleSince": w.IdleSince, "idleHours": w.IdleHours} {
			require.True(t, golden.Same(value, rows[i][column]), "%s %s: want %v, got %v", w.Job, column, value, rows[i][column])
		}
	}
}

func TestCases(t *testing.T) {
	cases := golden.Cases(t, "utilization")
	require.Len(t, cases, 14)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			s := open(t, c.Write(t), c.Settings.Timezone)
			for _, q := range c.Queries {
				t.Log(q.Window, q.Jobs, string(q.Query))
				q.Expect.Check(t, s.Ask(t, runstest.AdsOf(t, &c, &q), golden.Window(t, q.Window[0], q.Window[1]), string(q.Query)))
			}
		})
	}
}
