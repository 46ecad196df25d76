package fleet_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
)

// The project of a job is that of the fact's UTC day: over several days the fleet's hours are the sum of the answers
// for each day alone, also where rows more than a week later tell what was not known on the day.
func TestJobProjectIsOfTheDay(t *testing.T) {
	url := jobstest.Elasticsearch(t)
	alias := fmt.Sprintf("facts-projects-%d", time.Now().UnixNano())
	o := samplepool.Default()
	o.Machines, o.Timezone, o.Cadence, o.Polls = 5, "UTC", time.Hour, 2*time.Hour
	o.Start, o.End = time.Date(2025, 10, 3, 0, 0, 0, 0, time.UTC), time.Date(2025, 10, 13, 0, 30, 0, 0, time.UTC)
	made, err := samplepool.New(o)
	require.NoError(t, err)
	m := member{name: "late", dir: t.TempDir(), zone: "UTC"}
	require.NoError(t, made.Write(t.Context(), m.dir))
	first := o.Start.AddDate(0, 0, 1)
	keepLateRows(t, filepath.Join(m.dir, "job_pressure_2025-10.db"), first.AddDate(0, 0, 8))
	now := func() time.Time { return o.End }
	m.source = plugin.Open(settings(t, url, map[string]any{"snapshotDir": m.dir, "factsIndex": alias}), now)
	t.Cleanup(m.source.Dispose)
	publishAll(t, []member{m}, time.Time{})
	fleet := plugin.Open(settings(t, url, map[string]any{"mode": "fleet", "factsIndex": alias}), now)
	t.Cleanup(fleet.Dispose)

	q := parse(t, `{"queryType": "userHours", "groupBy": ["jobProject"], "metrics": ["gpuHours"]}`)
	whole := pool.NewWindow(first, o.End.Truncate(24*time.Hour))
	whole.To--
	want := map[string]float64{}
	for from := whole.From; from < whole.To; from += pool.Day {
		add(t, want, ask(t, m.source, q, pool.Window{From: from, To: from + pool.Day - 1}).Frames)
	}
	got, together := map[string]float64{}, map[string]float64{}
	answer := ask(t, fleet, parse(t, `{"queryType": "userHours", "view": "timeseries", "bucket": "1d",
		"groupBy": ["jobProject"]}`), whole)
	require.NoError(t, answer.Error)
	add(t, got, answer.Frames)
	require.Contains(t, golden.Told(answer.Frames), "% not known from the queue files of their days")
	add(t, together, ask(t, m.source, q, whole).Frames)
	require.Len(t, got, len(want))
	for project, hours := range want {
		require.InDelta(t, hours, got[project], 1e-6, project)
	}
	require.Greater(t, got["Unknown"], together["Unknown"]+1, "what becomes known later stays unknown")
}

// keepLateRows removes all rows whose jobs were last seen before a time.
func keepLateRows(t *testing.T, file string, since time.Time) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	require.NoError(t, err)
	_, err = db.Exec("DELETE FROM job_pressure WHERE last_seen < ?", since.Unix())
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// add adds up hours by the project of the job.
func add(t *testing.T, to map[string]float64, frames data.Frames) {
	t.Helper()
	rows := labelled(frames)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		to[row["jobProject"].(string)] += row["gpuHours"].(float64)
	}
}
