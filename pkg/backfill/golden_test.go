package backfill_test

import (
	"cmp"
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

// figures are a group's of expected.json.
type figures map[string]any

type split struct {
	All                                              figures
	ByCategory, ByDevice, ByMachineType, ByOwnership map[string]figures
}

func (s *split) groupings() map[string]map[string]figures {
	return map[string]map[string]figures{"": {"": s.All}, "category": s.ByCategory, "device": s.ByDevice,
		"machineType": s.ByMachineType, "ownership": s.ByOwnership}
}

type expectedPeriod struct {
	Machine, GPU, Device, Category, Start, End, EndReason, Job, Link string

	Hours                                 float64
	Censored, LeftTruncated, UnknownStart bool
}

type expectedJobs struct {
	BackfillAvailability struct {
		Summary     split
		Tenure      struct{ Summary split }
		Transitions struct {
			All                                              map[string]float64
			ByCategory, ByDevice, ByMachineType, ByOwnership map[string]map[string]float64
		}
		Periods json.RawMessage // in full, or a digest
	}
}

type expectedWindow struct {
	Common struct{ Window struct{ Start, End string } }
	Jobs   map[string]expectedJobs
}

var vacancyMetrics = []string{"count", "meanHours", "medianHours", "minHours", "maxHours", "sdHours", "gpuHours",
	"censored", "unknownStart", "kmMedianHours", "restrictedMeanHours", "available", "used", "taken", "usedPercent"}

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
						checkPeriods(t, s, source, w, want.BackfillAvailability.Periods)
						checkTransitions(t, s, source, w, &want)
						checkCurve(t, s, source, w, "vacancy", want.BackfillAvailability.Summary.All)
						checkCurve(t, s, source, w, "tenure", want.BackfillAvailability.Tenure.Summary.All)
					})
				}
			}
		}
	}
}

// by returns the query's groupBy and how a row's group reads; named brings a group of expected.json to the same form.
func by(grouping string) (list string, key func(map[string]any) string, named func(string) string) {
	if grouping == "" {
		return `[]`, func(map[string]any) string { return "" }, func(g string) string { return g }
	}
	named = func(g string) string {
		if c, ok := pool.ParseCategory(g); ok && grouping == "category" {
			return c.String()
		}
		return g
	}
	return fmt.Sprintf("[%q]", grouping), func(r map[string]any) string { return r[grouping].(string) }, named
}

func checkSummaries(t *testing.T, s runstest.Source, ads jobs.Source, w pool.Window, want *expectedJobs) {
	e := &want.BackfillAvailability
	tenures := e.Tenure.Summary.groupings()
	for grouping, groups := range e.Summary.groupings() {
		list, key, named := by(grouping)
		rows := map[string]map[string]any{}
		for _, r := range golden.Rows(s.Ask(t, ads, w, `{"queryType": "backfillAvailability", "groupBy": `+list+`, "totals": false}`)) {
			require.NotContains(t, rows, key(r), "a group twice")
			rows[key(r)] = r
		}
		require.NotEmpty(t, groups, grouping)
		require.Len(t, rows, len(groups), grouping)
		for group, f := range groups {
			row := rows[named(group)]
			require.NotNil(t, row, group)
			for _, m := range vacancyMetrics {
				require.Contains(t, f, m)
				require.True(t, golden.Same(f[m], row[m]), "%s %s: want %v, got %v", group, m, f[m], row[m])
			}
			for _, h := range []string{"hours90", "hours75", "hours50"} {
				tenure := tenures[grouping][group]
				require.True(t, golden.Same(tenure[h], row[h]), "%s %s: want %v, got %v", group, h, tenure[h], row[h])
			}
		}
	}
}

const stamp = "2006-01-02T15:04:05.000000Z"

// checkPeriods compares the lines of golden/README.md: machine|gpu|start|end|endReason|category|device, and more where
// the periods are listed in full.
func checkPeriods(t *testing.T, s runstest.Source, ads jobs.Source, w pool.Window, want json.RawMessage) {
	var got, gotMore []string
	for _, r := range golden.Rows(s.Ask(t, ads, w, `{"queryType": "backfillAvailability", "view": "periods", "limit": 50000}`)) {
		c, ok := pool.ParseCategory(r["category"].(string))
		require.True(t, ok)
		line := strings.Join([]string{r["machine"].(string), r["gpu"].(string), r["start"].(time.Time).Format(stamp),
			r["end"].(time.Time).Format(stamp), r["endReason"].(string), c.Key(), r["device"].(string)}, "|")
		got = append(got, line)
		gotMore = append(gotMore, fmt.Sprintf("%s|%v|%v|%v|%v|%v|%.9g", line, r["job"], cmp.Or(r["link"].(string), "none"),
			r["censored"],
			r["leftTruncated"], r["unknownStart"], r["hours"]))
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
	var periods []expectedPeriod
	require.NoError(t, json.Unmarshal(want, &periods))
	require.NotEmpty(t, periods)
	var wanted []string
	for _, p := range periods {
		line := strings.Join([]string{p.Machine, p.GPU, p.Start, p.End, p.EndReason, p.Category, p.Device}, "|")
		wanted = append(wanted, fmt.Sprintf("%s|%v|%v|%v|%v|%v|%.9g", line, p.Job, cmp.Or(p.Link, "none"),
			p.Censored, p.LeftTruncated,
			p.UnknownStart, p.Hours))
	}
	slices.Sort(wanted)
	slices.Sort(gotMore)
	require.Equal(t, wanted, gotMore)
}

func checkTransitions(t *testing.T, s runstest.Source, ads jobs.Source, w pool.Window, want *expectedJobs) {
	e := &want.BackfillAvailability.Transitions
	for grouping, groups := range map[string]map[string]map[string]float64{"": {"": e.All}, "category": e.ByCategory,
		"device": e.ByDevice, "machineType": e.ByMachineType, "ownership": e.ByOwnership} {
		list, key, named := by(grouping)
		got, wanted := map[string]float64{}, map[string]float64{}
		for _, r := range golden.Rows(s.Ask(t, ads, w, `{"queryType": "backfillAvailability", "view": "transitions", "groupBy": `+list+`}`)) {
			got[fmt.Sprintf("%s|%s→%s", key(r), r["from"], r["to"])] = r["count"].(float64)
		}
		for g, counts := range groups {
			for change, n := range counts {
				wanted[named(g)+"|"+change] = n
			}
		}
		require.NotEmpty(t, wanted)
		require.Equal(t, wanted, got)
	}
}

func checkCurve(t *testing.T, s runstest.Source, ads jobs.Source, w pool.Window, duration string, want figures) {
	curve := want["curve"].(map[string]any)
	rows := golden.Rows(s.Ask(t, ads, w, fmt.Sprintf(`{"queryType": "backfillAvailability", "view": "survival", "duration": %q, "metrics": ["survival", "low", "high", "atRisk"]}`, duration)))
	require.True(t, golden.Same(curve["fromHours"], rows[0]["hours"]), "from %v, got %v", curve["fromHours"],
		rows[0]["hours"])
	require.True(t, golden.Same(curve["untilHours"], rows[len(rows)-1]["hours"]), "until %v, got %v", curve["untilHours"],
		rows[len(rows)-1]["hours"])
	at := curve["at"].([]any)
	require.NotEmpty(t, at)
	for _, x := range at {
		point := x.([]any)
		i := slices.IndexFunc(rows, func(r map[string]any) bool { return r["hours"].(float64) > point[0].(float64) })
		if i < 0 {
			i = len(rows)
		}
		for k, field := range []string{"survival", "low", "high"} {
			require.True(t, golden.Same(point[k+1], rows[i-1][field]), "%s at %v h: want %v, got %v", field, point[0],
				point[k+1], rows[i-1][field])
		}
	}
}

func TestCases(t *testing.T) {
	for _, c := range golden.Cases(t, "backfillAvailability") {
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

// What the views say about the same pool agrees.
func TestViewsAgree(t *testing.T) {
	const name = "pool-b"
	s := open(t, golden.Pool(t, name), "America/Chicago")
	source := runstest.Sources(t, name)["both"][0]
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	row := golden.Rows(s.Ask(t, source, w, `{"queryType": "backfillAvailability", "totals": false}`))[0]
	metrics := []string{"available", "used", "taken", "usedPercent", "ended", "meanHours"}
	list := `["` + strings.Join(metrics, `", "`) + `"]`

	whole := golden.Series(s.Ask(t, source, w, `{"queryType": "backfillAvailability", "view": "timeseries", "bucket": "window", "metrics": `+list+`}`), "metric")
	for _, m := range metrics {
		want := row[m]
		if m == "ended" {
			want = row["count"]
		}
		require.Len(t, whole[m], 1)
		require.InDelta(t, want, whole[m][0].Value, 1e-9, m)
		require.Equal(t, "2025-11-03T05:45:00Z", whole[m][0].Time.UTC().Format(time.RFC3339), "its newest slice's beginning")
	}
	hours := golden.Series(s.Ask(t, source, w, `{"queryType": "backfillAvailability", "view": "timeseries", "bucket": "1h", "metrics": `+list+`}`), "metric")
	ended, durations := 0.0, 0.0
	for _, p := range hours["ended"] {
		ended += p.Value
		for _, q := range hours["meanHours"] {
			if q.Time.Equal(p.Time) {
				durations += p.Value * q.Value
			}
		}
	}
	require.Equal(t, row["count"], ended)
	require.InDelta(t, row["gpuHours"], durations, 1e-6)

	byMachine := golden.Rows(s.Ask(t, source, w, `{"queryType": "backfillAvailability", "groupBy": ["machine"]}`))
	last := byMachine[len(byMachine)-1]
	require.Equal(t, "All", last["machine"])
	require.Equal(t, "total", last["rowType"])
	for _, m := range []string{"count", "censored", "unknownStart", "available", "used", "taken"} {
		sum := 0.0
		for _, r := range byMachine[:len(byMachine)-1] {
			sum += r[m].(float64)
		}
		require.InDelta(t, row[m], sum, 1e-9, m)
		require.InDelta(t, row[m], last[m], 1e-9, m)
	}
	one := byMachine[0]["machine"].(string)
	filtered := golden.Rows(s.Ask(t, source, w, fmt.Sprintf(`{"queryType": "backfillAvailability", "groupBy": ["machine"], "filter": {"machines": [%q]}, "totals": false}`, one)))
	require.Len(t, filtered, 1)
	delete(byMachine[0], "rowType")
	require.Equal(t, byMachine[0], filtered[0])

	cells := golden.Rows(s.Ask(t, source, w, `{"queryType": "backfillAvailability", "view": "hourOfWeek", "metrics": ["available"]}`))
	require.Len(t, cells, 168)
	points := map[[2]float64][]float64{}
	chicago, err := time.LoadLocation("America/Chicago")
	require.NoError(t, err)
	for _, p := range hours["available"] {
		local := p.Time.In(chicago)
		at := [2]float64{float64(local.Hour()), float64((int(local.Weekday()) + 6) % 7)}
		points[at] = append(points[at], p.Value)
	}
	compared := 0
	for _, c := range cells {
		switch have := points[[2]float64{c["x"].(float64), c["y"].(float64)}]; len(have) {
		case 0:
			require.Nil(t, c["value"])
		case 1: // the hour that occurs twice is an average of two
			require.InDelta(t, have[0], c["value"], 1e-9)
			compared++
		}
	}
	require.Equal(t, 56, compared)
}
