package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
)

func TestMain(m *testing.M) {
	backend.Logger = log.NewNullLogger()
	log.DefaultLogger = backend.Logger
	goleak.VerifyTestMain(m)
}

var now = time.Date(2025, 10, 2, 0, 10, 0, 0, time.UTC)

// open opens a data source on a directory of month files.
func open(t testing.TB, dir string) *plugin.Datasource {
	jsonData, err := json.Marshal(map[string]any{"snapshotDir": dir, "jobs": "sqlite"})
	require.NoError(t, err)
	source := plugin.Open(backend.DataSourceInstanceSettings{Type: plugin.ID, JSONData: jsonData},
		func() time.Time { return now })
	t.Cleanup(source.Dispose)
	return source
}

type expectations struct {
	Windows map[string]struct {
		Common struct {
			Window struct{ Start, End time.Time }
			Slices int

			Allocation struct {
				ByCategory, ByCategoryDevice map[string]map[string]any
				ByMemory                     struct{ Real, Backfill map[string]map[string]any }
			}
			UserHours map[string]struct {
				Table []struct {
					Category                 string
					UserCount                int
					GpuHours, PercentOfTotal float64
					Users                    []struct {
						User                     string
						GpuHours, PercentOfTotal float64
					}
				}
			}
		}
		Jobs map[string]struct {
			BackfillAvailability struct {
				Summary     struct{ ByDevice, ByMachineType map[string]map[string]any }
				Transitions struct{ All map[string]int }
				Tenure      struct {
					Summary struct{ ByDevice, ByMachineType map[string]map[string]any }
				}
			}
			Evictions struct{ ByCategory, ByDevice map[string]map[string]any }
		}
	}
}

// poolA makes the report of the golden pool, with the answers that are expected.
func poolA(t *testing.T) (*Report, expectations) {
	var want expectations
	golden.Expected(t, "pool-a", &want)
	window := want.Windows["whole"].Common.Window
	r, err := Make(t.Context(), open(t, golden.Pool(t, "pool-a")), Options{From: window.Start, To: window.End, Now: now})
	require.NoError(t, err)
	require.Zero(t, r.Failed)
	return r, want
}

func TestGolden(t *testing.T) {
	r, _ := poolA(t)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"pool-a.txt":    func(b *bytes.Buffer) error { return r.Text(b, DefaultWidth) },
		"pool-a-80.txt": func(b *bytes.Buffer) error { return r.Text(b, 80) },
		"pool-a.html":   func(b *bytes.Buffer) error { return r.HTML(b) },
	} {
		var b bytes.Buffer
		require.NoError(t, write(&b))
		path := filepath.Join("testdata", name)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), b.String(), name)
	}
}

// The figures are those of the oracle that answers for the golden pool.
func TestFiguresAreTheExpectedOnes(t *testing.T) {
	r, want := poolA(t)
	whole := want.Windows["whole"]
	common, jobs := whole.Common, whole.Jobs["both"]
	slotNames := names{"allocatedPercent", "allocated", "available", "free", "drained", "prevented"}
	withoutFree := slices.DeleteFunc(slices.Clone(slotNames), func(n string) bool { return n == "free" })

	checkFigures(t, r, "real", 0, byDisplayName(common.Allocation.ByCategory), slotNames, 3)
	checkFigures(t, r, "backfill", 0, byDisplayName(common.Allocation.ByCategory), withoutFree, 3)
	checkFigures(t, r, "memory", 0, common.Allocation.ByMemory.Real, slotNames, 4)
	checkFigures(t, r, "memory", 1, common.Allocation.ByMemory.Backfill, withoutFree, 4)
	lengths := names{"count", "meanHours", "medianHours", "minHours", "maxHours", "sdHours", "kmMedianHours", "censored",
		"unknownStart"}
	checkFigures(t, r, "availability", 0, jobs.BackfillAvailability.Summary.ByDevice, lengths, 7)
	checkFigures(t, r, "availability", 1, jobs.BackfillAvailability.Summary.ByMachineType, lengths, 2)
	use := func(summary, tenure map[string]map[string]any) map[string]map[string]any {
		for group, values := range summary {
			for _, name := range []string{"hours90", "hours75", "hours50"} {
				values[name] = tenure[group][name]
			}
		}
		return summary
	}
	uses := names{"available", "used", "taken", "usedPercent", "hours90", "hours75", "hours50"}
	availability, tenure := jobs.BackfillAvailability.Summary, jobs.BackfillAvailability.Tenure.Summary
	checkFigures(t, r, "utilization", 0, use(availability.ByDevice, tenure.ByDevice), uses, 7)
	checkFigures(t, r, "utilization", 1, use(availability.ByMachineType, tenure.ByMachineType), uses, 2)
	checkFigures(t, r, "evictions", 0, byDisplayName(jobs.Evictions.ByCategory),
		names{"runs", "evictions", "yielded", "completed", "removed", "held", "running", "lost", "ambiguous"}, 3)
	rates := names{"lostGpuHours", "evictedGpuHours", "checkpointedPercent", "lostPercent", "ratePer100GpuHours",
		"rateLow", "rateHigh", "evictedPercent", "medianHoursToEviction"}
	checkFigures(t, r, "evictions", 1, byDisplayName(jobs.Evictions.ByCategory), rates, 3)
	checkFigures(t, r, "evictions", 2, jobs.Evictions.ByDevice, rates, 7)

	for key, of := range map[string]string{"h200": "h200", "users": "backfill"} {
		var lines []string
		for _, group := range common.UserHours[of].Table {
			lines = append(lines, fmt.Sprintf("group %s|%d|%.1f|%.1f", displayName6[group.Category], group.UserCount,
				group.GpuHours, group.PercentOfTotal))
			for _, u := range group.Users {
				lines = append(lines, fmt.Sprintf("item %s||%.1f|%.1f", u.User, u.GpuHours, u.PercentOfTotal))
			}
		}
		blocks := sectionOf(t, r, key).Blocks
		var got []string
		for _, row := range blocks[len(blocks)-1].Table.Rows {
			if row.Kind != Total {
				got = append(got, string(row.Kind)+" "+strings.Join(row.Cells, "|"))
			}
		}
		require.Equal(t, lines, got, key)
	}

	square := sectionOf(t, r, "utilization").Blocks[3].Table
	for pair, count := range jobs.BackfillAvailability.Transitions.All {
		from, to, _ := strings.Cut(pair, "→")
		row := square.Rows[slices.IndexFunc(square.Rows, func(r Row) bool { return r.Cells[0] == from })]
		require.Equal(t, fmt.Sprint(count), row.Cells[slices.IndexFunc(square.Columns,
			func(c Column) bool { return c.Name == to })], pair)
	}
	require.Contains(t, r.Facts, Fact{"Slices (N)", fmt.Sprint(common.Slices)})
}

var displayName6 = func() map[string]string {
	names := map[string]string{}
	for c := range pool.Category(pool.Categories) {
		names[c.Key()] = c.String()
	}
	return names
}()

func byDisplayName(byKey map[string]map[string]any) map[string]map[string]any {
	named := map[string]map[string]any{}
	for key, values := range byKey {
		named[displayName6[key]] = values
	}
	return named
}

func sectionOf(t *testing.T, r *Report, key string) Section {
	i := slices.IndexFunc(r.Sections, func(s Section) bool { return s.Key == key })
	require.GreaterOrEqual(t, i, 0)
	return r.Sections[i]
}

// checkFigures compares a table's rows but totals with the expected figures.
func checkFigures(t *testing.T, r *Report, key string, block int, want map[string]map[string]any, metrics names,
	rows int) {
	t.Helper()
	table := sectionOf(t, r, key).Blocks[block].Table
	checked := 0
	for _, row := range table.Rows {
		if row.Kind == Total {
			continue
		}
		values, ok := want[row.Cells[0]]
		require.True(t, ok, "%s %d: %s", key, block, row.Cells[0])
		require.Len(t, row.Cells, 1+len(metrics))
		for i, metric := range metrics {
			expected, ok := values[metric]
			require.True(t, ok, metric)
			digits := 1
			switch metric {
			case "count", "censored", "unknownStart", "runs", "evictions", "yielded", "completed", "removed", "held", "running",
				"lost", "ambiguous":
				digits = 0
			case "ratePer100GpuHours", "rateLow", "rateHigh":
				digits = 2
			}
			text := none
			if number, is := expected.(float64); is {
				text = fmt.Sprintf("%.*f", digits, number)
			}
			require.Equal(t, text, strings.ReplaceAll(row.Cells[1+i], ",", ""), "%s %d: %s of %s", key, block, metric,
				row.Cells[0])
		}
		checked++
	}
	require.Equal(t, rows, checked, "%s %d", key, block)
}

func TestOneSection(t *testing.T) {
	source := open(t, golden.Pool(t, "pool-a"))
	o := Options{From: now.Add(-24 * time.Hour), To: now, Now: now, Sections: []string{"methodology", "real"},
		Title: "Pool A"}
	r, err := Make(t.Context(), source, o)
	require.NoError(t, err)
	require.Equal(t, []string{"real", "methodology"}, []string{r.Sections[0].Key, r.Sections[1].Key})
	require.Equal(t, "Pool A", r.Title)
	o.Sections = []string{"real", "weather"}
	_, err = Make(t.Context(), source, o)
	require.ErrorContains(t, err, `section "weather" is unknown: use real, backfill, `)
	require.Equal(t, pool.FaultQuery, pool.FaultOf(err))
	o.From, o.Sections = now, nil
	_, err = Make(t.Context(), source, o)
	require.ErrorContains(t, err, "must be after its start")
}

// Times are of the report's zone, and the charts' buckets too.
func TestZone(t *testing.T) {
	chicago, err := time.LoadLocation("America/Chicago")
	require.NoError(t, err)
	r, err := Make(t.Context(), open(t, golden.Pool(t, "pool-a")),
		Options{From: now.Add(-24 * time.Hour), To: now, Now: now, Zone: chicago, Sections: []string{"gaps"}})
	require.NoError(t, err)
	require.Equal(t, "2025-09-30 19:10 to 2025-10-01 19:10 America/Chicago (24 h)", r.Subtitle)
	table := sectionOf(t, r, "gaps").Blocks[0].Table
	require.Equal(t, "Time (America/Chicago)", table.Columns[0].Name)
	require.Equal(t, "2025-09-30 21:15:07", table.Rows[0].Cells[0])
}

// The error of what fails is in its place, the rest of the report is there.
func TestFailures(t *testing.T) {
	source := open(t, t.TempDir()+"/missing")
	r, err := Make(t.Context(), source, Options{From: now.Add(-24 * time.Hour), To: now, Now: now,
		Sections: []string{"real", "methodology"}})
	require.NoError(t, err)
	require.Equal(t, 2, r.Failed)
	var b bytes.Buffer
	require.NoError(t, r.Text(&b, 80))
	require.Contains(t, b.String(), "Coverage is unknown: ")
	require.Contains(t, b.String(), "! snapshot directory ")
	require.Contains(t, b.String(), "A snapshot lists every slot")
	b.Reset()
	require.NoError(t, r.HTML(&b))
	require.Contains(t, b.String(), `<p class="error">Primary slots by category: snapshot directory `)
}

func TestNoData(t *testing.T) {
	r, err := Make(t.Context(), open(t, golden.Pool(t, "pool-a")),
		Options{From: now.AddDate(-1, 0, -1), To: now.AddDate(-1, 0, 0), Now: now})
	require.NoError(t, err)
	require.Zero(t, r.Failed)
	require.Contains(t, r.Notices, "Warning: no snapshot in the time range")
	for _, s := range r.Sections {
		for i, b := range s.Blocks {
			require.Nil(t, b.Table, "%s %d", s.Key, i)
			require.Nil(t, b.Chart, "%s %d", s.Key, i)
			require.True(t, b.Empty != "" || len(b.Paragraphs) > 0, "%s %d", s.Key, i)
		}
	}
}

func TestLast(t *testing.T) {
	chicago, err := time.LoadLocation("America/Chicago")
	require.NoError(t, err)
	at := time.Date(2025, 12, 1, 3, 0, 0, 0, time.UTC) // still November in Chicago
	for _, c := range []struct{ name, from, to string }{
		{"24h", "2025-11-30T03:00:00Z", "2025-12-01T03:00:00Z"},
		{"7d", "2025-11-24T03:00:00Z", "2025-12-01T03:00:00Z"},
		{"month", "2025-10-01T05:00:00Z", "2025-11-01T04:59:59.999999Z"},
	} {
		from, to, err := Last(c.name, at, chicago, 1)
		require.NoError(t, err)
		require.Equal(t, []string{c.from, c.to}, []string{from.UTC().Format(time.RFC3339Nano),
			to.UTC().Format(time.RFC3339Nano)}, c.name)
	}
	for _, name := range []string{"", "h", "0h", "-1d", "5w", "24hh", "24 h", "1e9h", "month2", "24h x"} {
		_, _, err := Last(name, at, chicago, 1)
		require.ErrorContains(t, err, "is not a time range", name)
	}
}

// Quarters and years of a fiscal year that begins in July: of the calendar, that are over.
func TestLastQuarterAndFiscalYear(t *testing.T) {
	day := func(year int, month time.Month) time.Time { return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name      string
		now       time.Time
		yearStart int
		from, end time.Time
	}{
		{"quarter", day(2026, 1), 1, day(2025, 10), day(2026, 1)},
		{"quarter", day(2026, 3).AddDate(0, 0, 30), 1, day(2025, 10), day(2026, 1)},
		{"quarter", day(2025, 12), 2, day(2025, 8), day(2025, 11)},
		{"quarter", day(2025, 5).AddDate(0, 0, 30), 7, day(2025, 1), day(2025, 4)},
		{"fiscal-year", day(2025, 6).AddDate(0, 0, 29), 7, day(2023, 7), day(2024, 7)},
		{"fiscal-year", day(2025, 7), 7, day(2024, 7), day(2025, 7)},
		{"fiscal-year", day(2025, 10), 1, day(2024, 1), day(2025, 1)},
		{"month", day(2025, 3).AddDate(0, 0, 30), 7, day(2025, 2), day(2025, 3)},
	} {
		from, to, err := Last(c.name, c.now, time.UTC, c.yearStart)
		require.NoError(t, err)
		require.Equal(t, c.from, from, "%+v", c)
		require.Equal(t, c.end.Add(-time.Microsecond), to, "%+v", c)
	}
}
