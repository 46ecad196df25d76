package demand_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
)

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
