package allocation_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/pool"
)

// GPU-hours of a category's users add up to its allocated (avg.) times D; categories add up to the totals; a series
// over the whole window has the table's figures; moving the window's ends inside a slice without snapshots changes
// nothing.
func TestFiguresAddUp(t *testing.T) {
	eachWindow(t, func(t *testing.T, dir, zone string, whole pool.Window, _ *expectedWindow) {
		rnd := rand.New(rand.NewPCG(1, 2))
		s := open(t, dir, zone, 0)
		for _, minutes := range sliceLengths {
			s.env.SliceMinutes = minutes
			for range 3 {
				w := pool.Window{From: whole.From + rnd.Int64N((whole.To-whole.From)/2),
					To: whole.To - rnd.Int64N((whole.To-whole.From)/2)}
				covered := golden.Rows(s.ask(t, w, `{"queryType": "allocation", "view": "health", "metrics": ["coveragePercent"]}`))[0]["coveragePercent"].(float64) / 100 * w.Hours()
				rows := golden.Rows(s.ask(t, w, `{"queryType": "allocation", "view": "summary"}`))
				sums := map[string]map[string]float64{"Real": {}, "Backfill": {}}
				allocated := map[string]float64{}
				for _, r := range rows {
					category, _ := pool.ParseCategory(r["category"].(string))
					if r["rowType"] == "row" {
						allocated[r["category"].(string)] = r["allocated"].(float64)
						for _, m := range metrics[1:] {
							sums[category.Side().String()][m] += r[m].(float64)
						}
						continue
					}
					side := map[string]string{pool.Primary.Total(): "Real", pool.Backfill.Total(): "Backfill"}[r["category"].(string)]
					for _, m := range metrics[1:] {
						require.True(t, golden.Same(sums[side][m], r[m]), "%s: sum %v, total %v", m, sums[side][m], r)
					}
					require.True(t, golden.Same(100*sums[side]["allocated"]/sums[side]["available"], r["allocatedPercent"]), "%v", r)
				}
				require.Len(t, sums, 2)
				total := 0.0
				for _, r := range golden.Rows(s.ask(t, w, `{"queryType": "userHours"}`)) {
					switch r["rowType"] {
					case "group":
						require.True(t, golden.Same(allocated[r["category"].(string)]*covered, r["gpuHours"]), "%v: %v · %v", r,
							allocated[r["category"].(string)], covered)
						total += r["gpuHours"].(float64)
					case "total":
						require.True(t, golden.Same(total, r["gpuHours"]))
						require.True(t, golden.Same(100.0, r["percentOfTotal"]))
					}
				}
				for _, m := range metrics {
					table := golden.Rows(s.ask(t, w, fmt.Sprintf(`{"queryType": "allocation", "view": "summary", "metrics": [%q]}`,
						m)))
					series := golden.Series(s.ask(t, w, fmt.Sprintf(`{"queryType": "allocation", "metrics": [%q], "bucket": "window"}`, m)), "category")
					require.Len(t, series, len(table))
					for _, r := range table {
						require.Equal(t, r[m], series[r["category"].(string)][0].Value)
					}
				}
			}
		}
	})
}

// Slices that lie wholly inside two windows give the same figures in both, after any other questions.
func TestWindowsAgree(t *testing.T) {
	eachWindow(t, func(t *testing.T, dir, zone string, whole pool.Window, _ *expectedWindow) {
		rnd := rand.New(rand.NewPCG(3, 4))
		s := open(t, dir, zone, 0)
		for _, minutes := range []int{0, 15, 60} {
			s.env.SliceMinutes = minutes
			for _, bucket := range []string{"1h", "6h", "1d"} {
				text := fmt.Sprintf(`{"queryType": "allocation", "groupBy": ["category", "device"], "bucket": %q, "completeBucketsOnly": true, "metrics": ["allocated", "free"]}`, bucket)
				full := golden.Series(s.ask(t, whole, text), "category", "device", "metric")
				if bucket == "1d" && whole.Hours() < 48 {
					require.Empty(t, full, "no complete day")
					continue
				}
				require.NotEmpty(t, full)
				compared := 0
				for range 5 {
					w := pool.Window{From: whole.From + rnd.Int64N((whole.To-whole.From)/2),
						To: whole.To - rnd.Int64N((whole.To-whole.From)/2)}
					for key, points := range golden.Series(s.ask(t, w, text), "category", "device", "metric") {
						at := map[int64]float64{}
						for _, p := range full[key] {
							at[p.Time.UnixMicro()] = p.Value
						}
						for _, p := range points {
							if value, there := at[p.Time.UnixMicro()]; there { // the whole window's first bucket may be incomplete
								require.True(t, golden.Same(value, p.Value), "%s at %v: %v, %v", key, p.Time, value, p.Value)
								compared++
							}
						}
					}
				}
				if bucket == "1h" {
					require.Greater(t, compared, 50)
				}
			}
		}
	})
}

// A repeated question, after others and over another window, has the same answer as one on an empty cache.
func TestRememberedCounts(t *testing.T) {
	dir := golden.Pool(t, "pool-b")
	whole := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, zone := range []string{"America/Chicago", "Asia/Kolkata"} {
		old := open(t, dir, zone, 60)
		for i := range 16 {
			w := pool.Window{From: whole.From + []int64{0, 6, 30}[rnd.IntN(3)]*pool.Hour,
				To: whole.To - rnd.Int64N(3)*11*pool.Hour}
			text := []string{
				`{"queryType": "allocation", "bucket": "3h", "metrics": ["allocatedPercent", "free", "prevented"], "limit": 1000%s}`,
				`{"queryType": "allocation", "view": "summary"%s}`,
				`{"queryType": "userHours", "view": "timeseries", "groupBy": ["user"], "bucket": "1d"%s}`,
				`{"queryType": "userHours", "groupBy": ["device"]%s}`,
			}[i%4]
			filter := []string{"", `, "filter": {"machines": ["/gpu/"]}`, `, "filter": {"slots": ["Real"]}`}[rnd.IntN(3)]
			fresh := open(t, dir, zone, 60)
			require.Equal(t, plain(t, fresh, w, fmt.Sprintf(text, filter)), plain(t, old, w, fmt.Sprintf(text, filter)), text)
		}
	}
}

// plain is an answer without its statistics.
func plain(t testing.TB, s source, w pool.Window, text string) string {
	t.Helper()
	var all []string
	for _, f := range s.ask(t, w, text) {
		f.Meta.Stats = nil
		document, err := json.Marshal(f)
		require.NoError(t, err)
		all = append(all, string(document))
	}
	return strings.Join(all, "\n")
}
