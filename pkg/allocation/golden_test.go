package allocation_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/pool"
)

// figures are a group's of expected.json: allocated, available, … by metric.
type figures map[string]any

type table map[string]figures // by group

type sides struct {
	Real     table `json:"real"`
	Backfill table `json:"backfill"`
}

type expectedWindow struct {
	Common struct {
		Window     struct{ Start, End string }
		Coverage   float64
		Allocation struct {
			ByCategory       table
			ByCategoryDevice map[string]table
			ByMemory         sides
			ByDevice         sides
			ByOwnership      sides
			ByMachine        sides
			ByProject        sides
			Totals           struct{ Real, Backfill figures }
		}
		Hourly, Daily []map[string]any
		UserHours     map[string]userTable
	}
	Variants map[string]struct {
		ByCategory       table
		Totals           struct{ Real, Backfill figures }
		BackfillGPUHours float64 `json:"backfillGpuHours"`
		H200GPUHours     float64 `json:"h200GpuHours"`
	}
}

type userTable struct {
	TotalGPUHours float64 `json:"totalGpuHours"`
	Table         []struct {
		Category       string
		UserCount      float64 `json:"userCount"`
		GPUHours       float64 `json:"gpuHours"`
		PercentOfTotal float64
		Users          []struct {
			User           string
			GPUHours       float64 `json:"gpuHours"`
			PercentOfTotal float64
		}
	}
}

var metrics = []string{"allocatedPercent", "allocated", "available", "free", "unclaimed", "drained", "prevented"}

func eachWindow(t *testing.T, run func(t *testing.T, dir, zone string, w pool.Window, expected *expectedWindow)) {
	for _, name := range golden.Pools {
		var expected struct {
			Timezone string
			Windows  map[string]*expectedWindow
		}
		golden.Expected(t, name, &expected)
		require.NotEmpty(t, expected.Windows)
		dir := golden.Pool(t, name)
		for window, e := range expected.Windows {
			t.Run(name+"/"+window, func(t *testing.T) {
				run(t, dir, expected.Timezone, golden.Window(t, e.Common.Window.Start, e.Common.Window.End), e)
			})
		}
	}
}

// Every figure of expected.json on allocation.
func TestGoldenAllocation(t *testing.T) {
	eachWindow(t, func(t *testing.T, dir, zone string, w pool.Window, expected *expectedWindow) {
		common := &expected.Common
		s := open(t, dir, zone, 15)
		same(t, byKey(common.Allocation.ByCategory), tableOf(t, s, w, `"totals": false`, "category"))
		devices := table{}
		for category, byDevice := range common.Allocation.ByCategoryDevice {
			for device, f := range byDevice {
				devices[category+"|"+device] = f
			}
		}
		same(t, byKey(devices), tableOf(t, s, w, `"totals": false, "groupBy": ["category", "device"]`, "category", "device"))
		for grouping, want := range map[string]sides{"memory": common.Allocation.ByMemory,
			"device": common.Allocation.ByDevice, "ownership": common.Allocation.ByOwnership,
			"machine": common.Allocation.ByMachine, "project": common.Allocation.ByProject} {
			require.NotEmpty(t, want.Real, grouping)
			joined := table{}
			for g, f := range want.Real {
				joined[g+"|Real"] = f
			}
			for g, f := range want.Backfill {
				joined[g+"|Backfill"] = f
			}
			same(t, joined, tableOf(t, s, w, fmt.Sprintf(`"totals": false, "groupBy": [%q]`, grouping), grouping, "slots"))
		}
		totals(t, s, w, `"groupBy": ["category"]`, common.Allocation.Totals.Real, common.Allocation.Totals.Backfill)
		health := golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "health"}`))
		require.True(t, golden.Same(100*common.Coverage, health[0]["coveragePercent"]), "coverage: %v", health)
	})
}

func TestGoldenSeries(t *testing.T) {
	eachWindow(t, func(t *testing.T, dir, zone string, w pool.Window, expected *expectedWindow) {
		s := open(t, dir, zone, 15)
		for bucket, points := range map[string][]map[string]any{"1h": expected.Common.Hourly, "1d": expected.Common.Daily} {
			require.NotEmpty(t, points)
			list := `"` + strings.Join(metrics, `", "`) + `"`
			got := golden.Series(s.Ask(t, nil, w, fmt.Sprintf(`{"queryType": "allocation", "metrics": [%s], "bucket": %q, "limit": 1000}`, list, bucket)), "category", "metric")
			maps.Copy(got, golden.Series(s.Ask(t, nil, w, fmt.Sprintf(`{"queryType": "userHours", "view": "timeseries", "bucket": %q}`, bucket)), "category", "none"))
			compared := 0
			for c := range pool.Category(pool.Categories) {
				for _, m := range append(slices.Clone(metrics), "gpuHours") {
					key := c.String() + "|" + m
					if m == "gpuHours" {
						key = c.String() + "|"
					}
					var want []golden.Point
					listed := false
					for _, p := range points {
						f, ok := p[c.Key()].(map[string]any)
						_, here := f[m]
						listed = listed || here
						if value, has := f[m].(float64); ok && has {
							at, err := time.Parse(time.RFC3339Nano, p["time"].(string))
							require.NoError(t, err)
							want = append(want, golden.Point{Time: at, Value: value})
						}
					}
					have := got[key]
					if have == nil {
						require.False(t, slices.ContainsFunc(want, func(p golden.Point) bool { return p.Value != 0 }), "%s is missing",
							key)
						continue
					}
					if !listed {
						continue // hourly has fewer metrics
					}
					require.Len(t, have, len(want), key)
					for i := range want {
						require.True(t, want[i].Time.Equal(have[i].Time) && golden.Same(want[i].Value, have[i].Value),
							"%s: want %v, got %v", key, want[i], have[i])
						compared++
					}
				}
			}
			require.Greater(t, compared, 20)
		}
	})
}

func TestGoldenVariants(t *testing.T) {
	eachWindow(t, func(t *testing.T, dir, zone string, w pool.Window, expected *expectedWindow) {
		require.Len(t, expected.Variants, 4)
		for name, v := range expected.Variants {
			minutes, old := 15, `"includeOldDevices": true`
			if text, ok := strings.CutPrefix(name, "sliceMinutes"); ok {
				var err error
				minutes, err = strconv.Atoi(text)
				require.NoError(t, err)
			} else {
				old = `"includeOldDevices": false`
			}
			s := open(t, dir, zone, minutes)
			same(t, byKey(v.ByCategory), tableOf(t, s, w, `"totals": false, `+old, "category"))
			totals(t, s, w, old, v.Totals.Real, v.Totals.Backfill)
			for filter, want := range map[string]float64{`{"slots": ["Backfill"]}`: v.BackfillGPUHours,
				`{"devices": ["/\\bH200\\b/"]}`: v.H200GPUHours} {
				rows := golden.Rows(s.Ask(t, nil, w, fmt.Sprintf(`{"queryType": "userHours", "filter": %s, %s}`, filter, old)))
				require.True(t, golden.Same(want, rows[len(rows)-1]["gpuHours"]), "%s %s: want %v, got %v", name, filter, want,
					rows[len(rows)-1])
			}
		}
	})
}

func TestGoldenUserHours(t *testing.T) {
	eachWindow(t, func(t *testing.T, dir, zone string, w pool.Window, expected *expectedWindow) {
		s := open(t, dir, zone, 15)
		for name, filter := range map[string]string{"backfill": `{"slots": ["Backfill"]}`,
			"h200": `{"devices": ["/\\bH200\\b/"]}`, "all": `{}`} {
			want := expected.Common.UserHours[name]
			require.NotEmpty(t, want.Table)
			rows := golden.Rows(s.Ask(t, nil, w, `{"queryType": "userHours", "filter": `+filter+`}`))
			equal := func(row map[string]any, column string, want any) {
				require.True(t, golden.Same(want, row[column]), "%s: %s: want %v in %v", name, column, want, row)
			}
			for _, g := range want.Table {
				category, ok := pool.ParseCategory(g.Category)
				require.True(t, ok)
				equal(rows[0], "rowType", "group")
				equal(rows[0], "category", category.String())
				equal(rows[0], "userCount", g.UserCount)
				equal(rows[0], "gpuHours", g.GPUHours)
				equal(rows[0], "percentOfTotal", g.PercentOfTotal)
				users := rows[1 : 1+len(g.Users)]
				for _, u := range g.Users { // equal hours may differ in the last bit, and then in order
					i := slices.IndexFunc(users, func(r map[string]any) bool { return r["user"] == u.User })
					require.GreaterOrEqual(t, i, 0, "%s of %s", u.User, category)
					equal(users[i], "rowType", "user")
					equal(users[i], "userCount", nil)
					equal(users[i], "gpuHours", u.GPUHours)
					equal(users[i], "percentOfTotal", u.PercentOfTotal)
				}
				require.True(t, slices.IsSortedFunc(users, func(a, b map[string]any) int {
					return int(b["gpuHours"].(float64)*1e9) - int(a["gpuHours"].(float64)*1e9)
				}))
				rows = rows[1+len(g.Users):]
			}
			require.Len(t, rows, 1)
			equal(rows[0], "rowType", "total")
			equal(rows[0], "category", "All")
			equal(rows[0], "gpuHours", want.TotalGPUHours)
		}
	})
}

// table asks for all metrics; the result is by the groups' texts.
func tableOf(t *testing.T, s runstest.Source, w pool.Window, rest string, groups ...string) table {
	t.Helper()
	got := table{}
	for _, r := range golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "summary", "limit": 50000, `+rest+`}`)) {
		var key []string
		for _, g := range groups {
			key = append(key, r[g].(string))
		}
		k := strings.Join(key, "|")
		require.NotContains(t, got, k, "a group twice")
		got[k] = r
	}
	return got
}

// byKey turns category keys into names.
func byKey(t table) table {
	named := table{}
	for k, f := range t {
		key, rest, _ := strings.Cut(k, "|")
		c, _ := pool.ParseCategory(key)
		named[strings.TrimSuffix(c.String()+"|"+rest, "|")] = f
	}
	return named
}

// same compares tables; a group without figures may be missing in one of them.
func same(t *testing.T, want, got table) {
	t.Helper()
	require.NotEmpty(t, want)
	for _, groups := range []table{want, got} {
		for g := range groups {
			for _, m := range metrics {
				a, b := want[g][m], got[g][m]
				if want[g] == nil && b == 0.0 || got[g] == nil && a == 0.0 {
					a, b = nil, nil
				}
				require.True(t, golden.Same(a, b), "%s %s: want %v, got %v", g, m, a, b)
			}
		}
	}
}

func totals(t *testing.T, s runstest.Source, w pool.Window, rest string, real, backfill figures) {
	t.Helper()
	got := table{}
	for _, r := range golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "summary", `+rest+`}`)) {
		if r["rowType"] == "total" {
			got[r["category"].(string)] = r
		}
	}
	require.Len(t, got, 2)
	same(t, table{"Real Slots (total)": real, "Backfill Slots (total)": backfill}, got)
}
