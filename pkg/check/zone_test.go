package check

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/convert"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
)

func TestShift(t *testing.T) {
	for wait, want := range map[Wait]pool.Micros{
		{}:                                    0,
		{Jobs: 1, Shortest: 0}:                0,
		{Jobs: 1, Shortest: -2 * pool.Minute}: 0,
		{Jobs: 1, Shortest: -5*pool.Hour + 3*pool.Minute}:   -5 * pool.Hour,
		{Jobs: 1, Shortest: -5*pool.Hour - pool.Minute}:     -5 * pool.Hour,
		{Jobs: 1, Shortest: -5*pool.Hour + 25*pool.Minute}:  -5 * pool.Hour,
		{Jobs: 1, Shortest: -330*pool.Minute + pool.Second}: -330 * pool.Minute,
		{Jobs: 1, Shortest: -9 * pool.Minute}:               0, // a clock
		{Jobs: 50, Shortest: 59 * pool.Minute}:              0,
		{Jobs: 50, Shortest: 61 * pool.Minute}:              pool.Hour,
		{Jobs: 50, Shortest: 6*pool.Hour - pool.Minute}:     6 * pool.Hour,
		{Jobs: 3, Shortest: 6 * pool.Hour}:                  0, // all three may have waited
	} {
		require.Equal(t, want, wait.shift(), "%+v", wait)
	}
}

// A wrong list is not replaced.
func TestTimeZoneList(t *testing.T) {
	p, dir := made(t, good(chicago))
	found := look(t, open(t, dir, `[{"until": "2025-11-01 00:00:00", "zone": "America/Chicago"}, {"zone": "UTC"}]`,
		p.Options().End))["timezone"]
	require.Equal(t, Warning, found.Severity)
	require.Contains(t, found.Text, "the list of zones does not fit from 2025-11-01 04:59 to ")
	require.Contains(t, found.Text, "seems to show America/Chicago")
	require.Contains(t, found.Text, "Correct the list")
}

// An access point whose clock is ahead queues jobs in the future; that is not a matter of the time zone.
func TestTimeZoneOrClock(t *testing.T) {
	zone, err := localtime.Parse(nil)
	require.NoError(t, err)
	found := zoneFinding([]Wait{{Jobs: 90, Shortest: 30 * pool.Second},
		{Jobs: 90, Shortest: -9 * pool.Minute, Schedd: "ap7"}}, zone, "all")
	require.Equal(t, Warning, found.Severity)
	require.Contains(t, found.Text, "UTC fits, but a job of ap7 is seen 9 min before it was queued")
	require.Equal(t, Note, zoneFinding([]Wait{{}}, zone, "all").Severity)
	found = zoneFinding([]Wait{{Jobs: 3, Shortest: 6 * pool.Hour}}, zone, "all")
	require.Equal(t, Warning, found.Severity)
	require.Contains(t, found.Text, "no job of all is seen sooner than 6 h after it was queued, but only 3 jobs can tell")
}

// chicago is a pool whose collector writes Chicago's time, over the end of daylight saving.
func chicago(o *samplepool.Options) { o.Timezone = "America/Chicago" }

func TestTimeZone(t *testing.T) {
	p, dir := made(t, good(chicago))
	for zone, wrong := range map[string]bool{"America/Chicago": false, "America/Winnipeg": false, "UTC": true,
		"Pacific/Honolulu": true, "Asia/Kolkata": true} {
		found := look(t, open(t, dir, zone, p.Options().End))["timezone"]
		require.Equal(t, wrong, found.Severity == Warning, "%s: %s", zone, found.Text)
		require.Contains(t, found.Text, zone)
		if wrong {
			require.Contains(t, found.Text, "The collector's clock seems to show America/Chicago", zone)
			require.Contains(t, found.Text, "in all month files")
		}
	}
}

// A collector that changed from Chicago's time to UTC at the month's end: the setting that the finding gives is right.
func TestTimeZoneChanged(t *testing.T) {
	p, dir := made(t, good(chicago))
	_, utc := made(t, good())
	november := "gpu_state_2025-11.db"
	require.NoError(t, os.Rename(filepath.Join(utc, november), filepath.Join(dir, november)))
	list := regexp.MustCompile(`\[\{.*\}\]`)
	for _, zone := range []string{"America/Chicago", "UTC"} {
		found := look(t, open(t, dir, zone, p.Options().End))["timezone"]
		require.Equal(t, Warning, found.Severity)
		require.Contains(t, found.Text, map[string]string{"America/Chicago": "month file 2025-11",
			"UTC": "month file 2025-10"}[zone])
		suggested := list.FindString(found.Text)
		require.NotEmpty(t, suggested, found.Text)
		found = look(t, open(t, dir, suggested, p.Options().End))["timezone"]
		require.Equal(t, OK, found.Severity, "%s: %s", suggested, found.Text)
	}
}

// The shortest wait against the rows themselves.
func TestShortestWait(t *testing.T) {
	p, dir := made(t, good())
	in := open(t, dir, "UTC", p.Options().End)
	w := pool.NewWindow(p.Options().Start.Add(30*time.Hour), p.Options().Start.Add(50*time.Hour))
	want := Wait{Window: w}
	jobs := map[string]bool{}
	for s, err := range p.Snapshots(t.Context()) {
		require.NoError(t, err)
		at := s.Time.UnixMicro()
		for _, r := range s.Rows {
			parts := strings.Split(r.GlobalJobID, "#")
			if !w.Contains(at) || len(parts) != 3 || r.State != "Claimed" || r.AssignedGPUs == "" {
				continue
			}
			queued, err := strconv.ParseInt(parts[2], 10, 64)
			require.NoError(t, err)
			if wait := at - queued*pool.Second; len(jobs) == 0 || wait < want.Shortest {
				want.Shortest, want.At, want.Schedd = wait, at, parts[0]
			}
			jobs[r.GlobalJobID] = true
		}
	}
	v, err := in.Timeline.Load(t.Context(), w.From, w.To)
	require.NoError(t, err)
	got := shortestWait(v, w)
	require.LessOrEqual(t, got.Jobs, len(jobs), "a job that was there before, and of which nothing changes, is not "+
		"counted")
	require.Greater(t, got.Jobs, len(jobs)*3/4)
	want.Jobs = got.Jobs
	require.Equal(t, want, got)
}

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
