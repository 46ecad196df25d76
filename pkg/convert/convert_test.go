package convert

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// table reads all rows of a SQLite month file as text, with their types.
func table(t testing.TB, path string, columns ...string) (rows [][]string) {
	t.Helper()
	return tableOf(t, path, "gpu_state", columns...)
}

func tableOf(t testing.TB, path, table string, columns ...string) (rows [][]string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	require.NoError(t, err)
	defer db.Close()
	query := "SELECT 0"
	for _, c := range columns {
		query += ", ifnull(CAST(" + c + " AS TEXT), 'NULL') || ' ' || typeof(" + c + ")"
	}
	found, err := db.Query(query + " FROM " + table + " ORDER BY rowid")
	require.NoError(t, err)
	defer found.Close()
	for found.Next() {
		row, into := make([]string, len(columns)), make([]any, len(columns)+1)
		into[0] = new(int)
		for i := range row {
			into[i+1] = &row[i]
		}
		require.NoError(t, found.Scan(into...))
		rows = append(rows, row)
	}
	require.NoError(t, found.Err())
	return rows
}

var all = func() (names []string) {
	for _, f := range parquet.Schema {
		names = append(names, f.Name)
	}
	return names
}()

// There and back again: the same rows in the same order, with values of the same types.
func TestRoundTrip(t *testing.T) {
	o := samplepool.Default()
	o.End = o.Start.AddDate(0, 0, 5)
	p, err := samplepool.New(o)
	require.NoError(t, err)
	dir, there, back := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, p.WriteSnapshots(t.Context(), dir))
	for month, columns := range map[string][]string{"gpu_state_2025-10": append(all[:11:11], "timestamp"),
		"gpu_state_2025-11": all[:14:14]} {
		want := table(t, filepath.Join(dir, month+".db"), columns...)
		result, err := File(t.Context(), filepath.Join(dir, month+".db"), there, nil)
		require.NoError(t, err)
		require.Equal(t, Result{Path: filepath.Join(there, month+".parquet"), Rows: len(want)}, result)
		result, err = File(t.Context(), result.Path, back, nil)
		require.NoError(t, err)
		require.Equal(t, Result{Path: filepath.Join(back, month+".db"), Rows: len(want)}, result)
		require.Equal(t, want, table(t, result.Path, columns...))
		_, err = File(t.Context(), filepath.Join(dir, month+".db"), there, nil)
		require.ErrorContains(t, err, "exists already")
	}
	entries, err := os.ReadDir(there)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

// Queue files are converted both ways, with the columns and the indexes that a poller needs to continue.
func TestQueueFileThereAndBack(t *testing.T) {
	path := file(t, "job_pressure_2025-10.db", "CREATE TABLE job_pressure (GlobalJobId TEXT NOT NULL, RequestGPUs REAL, "+
		"QDate INTEGER, first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL, JobState TEXT, Extra TEXT)",
		"INSERT INTO job_pressure VALUES ('a', 2.0, 10, 20, 30, 'running', 'x'), ('b', NULL, NULL, 20, 20, NULL, NULL)")
	result, err := File(t.Context(), path, t.TempDir(), nil)
	require.NoError(t, err)
	require.Equal(t, Result{Path: result.Path, Rows: 2}, result)
	require.Equal(t, "job_pressure_2025-10.parquet", filepath.Base(result.Path))
	back, err := File(t.Context(), result.Path, t.TempDir(), nil)
	require.NoError(t, err)
	columns := []string{"GlobalJobId", "RequestGPUs", "QDate", "JobState", "first_seen", "last_seen", "Extra"}
	require.Equal(t, tableOf(t, path, "job_pressure", columns...), tableOf(t, back.Path, "job_pressure", columns...))
	require.Equal(t, [][]string{{"job_pressure_first_seen text"}, {"job_pressure_last_seen text"}},
		tableOf(t, back.Path, "(SELECT row_number() OVER (ORDER BY name) rowid, name FROM sqlite_schema WHERE type = "+
			"'index')", "name"))
}

// Of a file with a row for each poll, each run of polls that saw a job becomes a row. The poll at 01:10 follows that at
// 01:30, because clocks were set back; after 05:00 there was none until 09:00.
func TestOlderQueueFile(t *testing.T) {
	var statements []string
	poll := func(timestamp string, jobs ...string) {
		for _, job := range jobs {
			statements = append(statements, fmt.Sprintf(
				"INSERT INTO job_pressure VALUES ('2025-11-%s', '%s', 'ap1', 'u', 2.0, NULL, 7)", timestamp, job))
		}
	}
	poll("02T00:30:00.500000", "a", "b", "a")
	poll("02T01:30:00.500000", "a", "b")
	poll("02T01:10:00.500000", "a")
	poll("02T02:30:00.500000", "a", "b")
	poll("02T03:30:00.500000", "a", "b")
	poll("02T04:30:00.500000", "b", "")
	poll("02T05:00:00.500000", "b")
	poll("02T09:00:00.500000", "b", "c")
	path := file(t, "job_pressure_2025-11.db", append([]string{"CREATE TABLE job_pressure (timestamp TEXT, GlobalJobId " +
		"TEXT, ScheddName TEXT, Owner TEXT, RequestGPUs REAL, RequestGPUMemory REAL, QDate INTEGER)"}, statements...)...)
	zone, err := localtime.Parse([]byte(`"America/Chicago"`))
	require.NoError(t, err)
	result, err := File(t.Context(), path, t.TempDir(), zone)
	require.NoError(t, err)
	require.Equal(t, 5, result.Rows)
	require.Equal(t, []string{"it had a row for each job and poll: 13 sightings at 8 polls, whose times are read as " +
		"those of America/Chicago", "1 rows without GlobalJobId or timestamp are left out"}, result.Notes)
	back, err := File(t.Context(), result.Path, t.TempDir(), nil)
	require.NoError(t, err)
	var rows []string
	for _, row := range tableOf(t, back.Path, "job_pressure", "GlobalJobId", "RequestGPUs", "QDate", "JobState",
		"datetime(first_seen, 'unixepoch')", "datetime(last_seen, 'unixepoch')") {
		rows = append(rows, strings.ReplaceAll(strings.Join(row, " "), " text", ""))
	}
	const day = " 2.0 real 7 integer idle 2025-11-02 "
	require.Equal(t, []string{"a" + day + "05:30:00 2025-11-02 09:30:00", "b" + day + "05:30:00 2025-11-02 06:30:00",
		"b" + day + "08:30:00 2025-11-02 11:00:00", "b" + day + "15:00:00 2025-11-02 15:00:00",
		"c" + day + "15:00:00 2025-11-02 15:00:00"}, rows)
}

func month(t testing.TB, statements ...string) string {
	t.Helper()
	return file(t, "gpu_state_2025-10.db", statements...)
}

func file(t testing.TB, name string, statements ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	for _, s := range statements {
		_, err := db.Exec(s)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	return path
}

// Values of other types than the collector's are kept, with a note.
func TestOddColumns(t *testing.T) {
	path := month(t,
		`CREATE TABLE gpu_state ("Extra" BLOB, "name" TEXT, "GPUs_GlobalMemoryMb" TEXT, "Disk" TEXT, "GPUsAverageUsage", "timestamp" DATETIME)`,
		`INSERT INTO gpu_state VALUES (1, 'a', '81251', '12 GB', 1, '2025-10-01 00:00:00'), (NULL, '', NULL, NULL, 0.5, '2025-10-01 00:15:00.5'),
			(2, NULL, '46068', '', NULL, NULL)`)
	result, err := File(t.Context(), path, t.TempDir(), nil)
	require.NoError(t, err)
	require.Equal(t, 3, result.Rows)
	require.Equal(t, []string{
		"GPUs_GlobalMemoryMb: 2 whole numbers stored as text are written as numbers",
		"Disk is written as text: 2 values are not numbers",
	}, result.Notes)
	back, err := File(t.Context(), result.Path, t.TempDir(), nil)
	require.NoError(t, err)
	require.Equal(t, [][]string{
		{"a text", "81251 integer", "12 GB text", "1.0 real", "2025-10-01 00:00:00.000000 text", "1 integer"},
		{" text", "NULL null", "NULL null", "0.5 real", "2025-10-01 00:15:00.500000 text", "NULL null"},
		{"NULL null", "46068 integer", " text", "NULL null", "NULL null", "2 integer"},
	}, table(t, back.Path, "Name", "GPUs_GlobalMemoryMb", "Disk", "GPUsAverageUsage", "timestamp", "Extra"))

	odd := month(t, `CREATE TABLE gpu_state ("timestamp" DATETIME)`,
		`INSERT INTO gpu_state VALUES ('noon'), ('2025-10-01 00:00:00')`)
	result, err = File(t.Context(), odd, t.TempDir(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"timestamp is written as text: it has 1 different values that are not times"}, result.Notes)
}

// A file that cannot be converted in full is an error, and no output is left.
func TestFailures(t *testing.T) {
	out := t.TempDir()
	fails := func(path, want string) {
		t.Helper()
		_, err := File(t.Context(), path, out, nil)
		require.ErrorContains(t, err, want)
	}
	fails(month(t, `CREATE TABLE gpu_state ("Name" BLOB)`, `INSERT INTO gpu_state VALUES (x'00ff')`),
		"column Name holds 1 binary values")
	fails(month(t, `CREATE TABLE other ("Name" TEXT)`), "it has no table gpu_state")
	fails(filepath.Join(out, "jobs.txt"), "is not a month file")
	fails(filepath.Join(out, "gpu_state_2025-09.parquet"), "no such file")
	broken := filepath.Join(t.TempDir(), "gpu_state_2025-09.parquet")
	require.NoError(t, os.WriteFile(broken, []byte("PAR1 PAR1 PAR1"), 0o600))
	fails(broken, "damaged or truncated")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := File(ctx, month(t, `CREATE TABLE gpu_state ("Name" TEXT)`, `INSERT INTO gpu_state VALUES ('a')`), out, nil)
	require.ErrorIs(t, err, context.Canceled)
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// A difference between the files is found, wherever it is.
func TestCompareFindsDifferences(t *testing.T) {
	path := month(t, `CREATE TABLE gpu_state ("Name" TEXT, "Disk" INTEGER)`,
		`INSERT INTO gpu_state VALUES ('a', 1), ('b', NULL), (NULL, 3)`)
	result, err := File(t.Context(), path, t.TempDir(), nil)
	require.NoError(t, err)
	for change, want := range map[string]string{
		`UPDATE gpu_state SET Name = 'c' WHERE rowid = 2`: "row 2, column Name: c became b",
		`UPDATE gpu_state SET Name = '' WHERE rowid = 3`:  "row 3, column Name:  became <nil>",
		`UPDATE gpu_state SET Disk = 0 WHERE rowid = 2`:   "row 2, column Disk: 0 became <nil>",
		`DELETE FROM gpu_state WHERE rowid = 3`:           "the SQLite file has fewer rows",
		`INSERT INTO gpu_state VALUES ('d', 4)`:           "the Parquet file ends after 3 rows",
	} {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		changed := filepath.Join(t.TempDir(), "x.db")
		require.NoError(t, os.WriteFile(changed, data, 0o600))
		db, err := sql.Open("sqlite", changed)
		require.NoError(t, err)
		_, err = db.Exec(change)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		source, err := snapshotLayout.open(t.Context(), changed)
		require.NoError(t, err)
		table, err := sqlitefile.FindTable(t.Context(), source.tx, "gpu_state")
		require.NoError(t, err)
		fields, _, err := source.fields(t.Context(), table.Columns)
		require.NoError(t, err)
		_, err = compare(t.Context(), source.rows(t.Context(), fields), fields, result.Path)
		require.ErrorContains(t, err, want)
		source.close()
	}
}

// A month is converted while its collector, by now with --format parquet, takes its first snapshot: the snapshot stays,
// and the conversion says what is in its way. A second conversion likewise.
func TestFileThatComesMeanwhile(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "gpu_state_2026-07.db"), filepath.Join(dir, "gpu_state_2026-07.parquet")
	db, err := sql.Open("sqlite", "file:"+from)
	require.NoError(t, err)
	_, err = db.Exec(`CREATE TABLE gpu_state (Name TEXT, timestamp DATETIME);
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
		INSERT INTO gpu_state SELECT 'slot1@m' || i, '2026-07-01 00:00:00.000000' FROM n`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	done := make(chan error, 1)
	go func() {
		_, err := File(t.Context(), from, dir, nil)
		done <- err
	}()
	require.Eventually(t, func() bool { // it writes
		names, err := filepath.Glob(filepath.Join(dir, ".gpu_state_2026-07.parquet.*.tmp"))
		return err == nil && len(names) == 1 && len(done) == 0
	}, time.Minute, time.Millisecond)
	row := make([]any, len(parquet.Schema))
	row[0], row[13] = "slot1@new", "2026-07-01 00:15:00.000000"
	require.NoError(t, parquet.Append(t.Context(), to, parquet.Schema, [][]any{row}))
	require.ErrorContains(t, <-done, "gpu_state_2026-07.parquet exists already: move it away")
	n, err := parquet.Count(t.Context(), to, "2026-07-01 00:15:00.000000")
	require.NoError(t, err)
	require.Equal(t, 1, n)

	require.NoError(t, os.Remove(to))
	for range 2 {
		go func() {
			_, err := File(t.Context(), from, dir, nil)
			done <- err
		}()
	}
	one, two := <-done, <-done
	require.NotEqual(t, one == nil, two == nil, "%v, %v", one, two)
	n, err = parquet.Count(t.Context(), to, "2026-07-01 00:00:00.000000")
	require.NoError(t, err)
	require.Equal(t, 200_000, n)
}
