package check

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/convert"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// advice is the advice about the newest week of an installation.
func advice(t *testing.T, in Installation) string {
	t.Helper()
	var found Findings
	found.NewestZone(t.Context(), in.Timeline, in.Zone)
	require.Len(t, found, 1)
	return found[0].Text
}

// long is a pool over five weeks, from October into November.
func long(change ...func(*samplepool.Options)) samplepool.Options {
	o := good(change...)
	o.Machines, o.Cadence = 6, time.Hour/2
	o.Start, o.End = time.Date(2025, 9, 30, 0, 0, 0, 0, time.UTC), time.Date(2025, 11, 4, 0, 0, 0, 0, time.UTC)
	o.NewColumns = o.Start
	return o
}

// A collector switched from Chicago's time and SQLite to UTC and Parquet: the proposal names the very snapshot.
func TestZoneAdvice(t *testing.T) {
	list := regexp.MustCompile(`\[\{.*\}\]`)
	_, local := made(t, long(chicago))
	p, utc := made(t, long())
	dir := t.TempDir()
	for _, name := range []string{"gpu_state_2025-09.db", "gpu_state_2025-10.db"} {
		require.NoError(t, os.Rename(filepath.Join(local, name), filepath.Join(dir, name)))
	}
	exec(t, filepath.Join(dir, "gpu_state_2025-10.db"), "DELETE FROM gpu_state WHERE timestamp >= '2025-10-18 12:00'")
	for name, from := range map[string]string{"gpu_state_2025-10.db": "2025-10-18 17:00", "gpu_state_2025-11.db": ""} {
		exec(t, filepath.Join(utc, name), "DELETE FROM gpu_state WHERE timestamp < '"+from+"'")
		_, err := convert.File(t.Context(), filepath.Join(utc, name), dir, nil)
		require.NoError(t, err)
	}
	in := open(t, dir, "America/Chicago", p.Options().End)
	text := advice(t, in)
	require.Regexp(t, `does not fit from 2025-10-18 22:\d\d to .* seems to show UTC: .* Give timezone as a list: `+
		`\[\{"until": "2025-10-18 17:\d\d:\d\d.*", "zone": "America/Chicago"\}, \{"zone": "UTC"\}\], with the time`, text)
	in = open(t, dir, list.FindString(text), p.Options().End)
	require.Equal(t, OK, look(t, in)["timezone"].Severity)
	require.Contains(t, advice(t, in), "fits the jobs' queue dates in the newest 7 days of snapshots")
	require.Regexp(t, `does not fit in the newest 7 days .* seems to show UTC: .* Set timezone to it$`,
		advice(t, open(t, utc, "America/Chicago", p.Options().End)))
	require.Regexp(t, `seems to show UTC: .* Correct the list that timezone is$`,
		advice(t, open(t, dir, `[{"until": "2025-10-01 00:00:00", "zone": "UTC"}, {"zone": "Asia/Tokyo"}]`, p.Options().End)))
}

// Within one format the change is found to the day.
func TestZoneAdviceWithinAFormat(t *testing.T) {
	_, dir := made(t, long(chicago))
	p, utc := made(t, long())
	october, november := "gpu_state_2025-10.db", "gpu_state_2025-11.db"
	require.NoError(t, os.Rename(filepath.Join(utc, november), filepath.Join(dir, november)))
	exec(t, filepath.Join(dir, october), "DELETE FROM gpu_state WHERE timestamp >= '2025-10-18 12:00'")
	exec(t, filepath.Join(dir, october), "ATTACH '"+filepath.Join(utc, october)+"' AS utc; "+
		"INSERT INTO main.gpu_state SELECT * FROM utc.gpu_state WHERE timestamp >= '2025-10-18 17:00'")
	text := advice(t, open(t, dir, "America/Chicago", p.Options().End))
	require.Regexp(t, `\[\{"until": "2025-10-1[89] .*", "zone": "America/Chicago"\}, \{"zone": "UTC"\}\],`, text)
}

// exec changes a month file of SQLite.
func exec(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.Exec(statement)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}
