package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
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

// poolA makes the report of the golden pool, over all of it.
func poolA(t *testing.T) *Report {
	var want struct {
		Windows map[string]struct {
			Common struct {
				Window struct{ Start, End time.Time }
			}
		}
	}
	golden.Expected(t, "pool-a", &want)
	window := want.Windows["whole"].Common.Window
	r, err := Make(t.Context(), open(t, golden.Pool(t, "pool-a")), Options{From: window.Start, To: window.End, Now: now})
	require.NoError(t, err)
	require.Zero(t, r.Failed)
	return r
}

func TestGolden(t *testing.T) {
	r := poolA(t)
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

func sectionOf(t *testing.T, r *Report, key string) Section {
	i := slices.IndexFunc(r.Sections, func(s Section) bool { return s.Key == key })
	require.GreaterOrEqual(t, i, 0)
	return r.Sections[i]
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
