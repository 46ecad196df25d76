package collect

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

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
)

// queues makes Options with access points that answer with the given texts.
func queues(t *testing.T, texts map[string]string) (o Options, dir string) {
	dir = t.TempDir()
	fill(t, dir, texts)
	o = fake(t, "queues:"+dir)
	o.Jobs, o.CondorQ = true, itself()
	return o, dir
}

func fill(t *testing.T, dir string, texts map[string]string) {
	for name, text := range texts {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

func idle(jobs ...string) string {
	var ads []string
	for _, job := range jobs {
		ads = append(ads, fmt.Sprintf(`{"GlobalJobId": %q, "Owner": "u", "RequestGPUs": 2, "RequestCpus": 4, "RequestMemory": 32768, "RequestGPUMemory": 40000, "QDate": 1780000000, "ChtcProjects": "Bio,Chem"}`, job))
	}
	return "[\n" + strings.Join(ads, ",\n") + "\n]\n"
}

// at shows one time for a whole poll.
func at(text string) func() time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return func() time.Time { return t }
}

func pressureRows(t *testing.T, dir, name string) (rows []string) {
	db := readOnly(t, filepath.Join(dir, name))
	all, err := db.Query(`SELECT concat_ws('|', GlobalJobId, ScheddName, Owner, RequestGPUs, RequestCPUs, RequestMemory, ifnull(RequestGPUMemory, '-'), QDate, ChtcProjects,
		time(first_seen, 'unixepoch'), time(last_seen, 'unixepoch')) FROM job_pressure ORDER BY rowid`)
	require.NoError(t, err)
	defer all.Close()
	for all.Next() {
		var row string
		require.NoError(t, all.Scan(&row))
		rows = append(rows, row)
	}
	require.NoError(t, all.Err())
	return rows
}

func TestPollsExtendRows(t *testing.T) {
	o, dir := queues(t, map[string]string{"ap1": idle("a", "b"), "ap2": ""})
	poll1, err := poll(t.Context(), o, awayAtMost, at("2026-07-01T12:00:00Z"))
	require.NoError(t, err)
	require.Equal(t, Polled{Time: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), Schedds: 2, Jobs: 2, New: 2}, poll1)
	fill(t, dir, map[string]string{"ap1": idle("a"), "ap2": idle("c", "c")})
	poll2, err := poll(t.Context(), o, awayAtMost, at("2026-07-01T12:30:00Z"))
	require.NoError(t, err)
	require.Equal(t, []int{2, 1}, []int{poll2.Jobs, poll2.New}, "an ad that comes twice counts once")
	fill(t, dir, map[string]string{"ap1": idle("a", "b"), "ap2": "[ ]"})
	// b was away for longer than 90 minutes, a was not
	_, err = poll(t.Context(), o, awayAtMost, at("2026-07-01T14:00:01Z"))
	require.NoError(t, err)
	const ad = "|ap1|u|2.0|4.0|32768.0|40000.0|1780000000|Bio,Chem|"
	require.Equal(t, []string{
		"a" + ad + "12:00:00|12:30:00", "b" + ad + "12:00:00|12:00:00",
		"c" + strings.Replace(ad, "ap1", "ap2", 1) + "12:30:00|12:30:00",
		"a" + ad + "14:00:01|14:00:01", "b" + ad + "14:00:01|14:00:01",
	}, pressureRows(t, o.SnapshotDir, "job_pressure_2026-07.db"))
	_, err = poll(t.Context(), o, 3*time.Hour, at("2026-07-01T15:40:00Z"))
	require.NoError(t, err)
	require.Contains(t, pressureRows(t, o.SnapshotDir, "job_pressure_2026-07.db")[4], "14:00:01|15:40:00",
		"rows go on for three of the service's intervals")
}

// The file is the one that the poller in use makes.
func TestPressureFileIsThatOfThePollerInUse(t *testing.T) {
	o, _ := queues(t, map[string]string{"ap1": idle("a")})
	o.Timezone = "America/Chicago"
	_, err := poll(t.Context(), o, awayAtMost, at("2026-08-01T04:59:59Z"))
	require.NoError(t, err)
	db := readOnly(t, filepath.Join(o.SnapshotDir, "job_pressure_2026-07.db"))
	require.Equal(t, "GlobalJobId TEXT 1,ScheddName TEXT 0,Owner TEXT 0,RequestGPUs REAL 0,RequestCPUs REAL "+
		"0,RequestMemory REAL 0,RequestGPUMemory REAL 0,QDate INTEGER 0,"+
		"ChtcProjects TEXT 0,first_seen INTEGER 1,last_seen INTEGER 1",
		one[string](t, db, `SELECT group_concat(name || ' ' || type || ' ' || "notnull") FROM (SELECT * FROM pragma_table_info('job_pressure') ORDER BY cid)`))
	require.Equal(t, "idx_first_seen,idx_last_seen", one[string](t, db,
		"SELECT group_concat(name) FROM (SELECT name FROM pragma_index_list('job_pressure') ORDER BY name)"))
	require.Equal(t, "wal", one[string](t, db, "PRAGMA journal_mode"))
	_, err = poll(t.Context(), o, awayAtMost, at("2026-08-01T05:00:00Z"))
	require.NoError(t, err)
	require.Len(t, pressureRows(t, o.SnapshotDir, "job_pressure_2026-08.db"), 1, "a new month, a new row")
}

func TestPollValues(t *testing.T) {
	o, _ := queues(t, map[string]string{"ap1": "[{\"GlobalJobId\": \"a\", \"requestgpus\": 1, \"RequestMemory\": " +
		"\"\\/Expr(1024 * NumJobStarts)\\/\", \"RequestGPUMemory\": 0, \"QDate\": \"x\"},\n" +
		"{\"GlobalJobId\": \"b\", \"Owner\": \"J\xf6rg\", \"RequestGPUs\": 1.0}]"})
	got, err := poll(t.Context(), o, awayAtMost, at("2026-07-01T12:00:00Z"))
	require.NoError(t, err)
	require.Equal(t, "RequestMemory of 1 jobs is an expression or of a wrong type: stored as missing; QDate of 1 jobs "+
		"is an expression or of a wrong type: stored as missing; "+
		"1 jobs hold bytes that are no UTF-8: stored as U+FFFD (first: a)", got.Notes)
	require.Equal(t, []string{"a|ap1||1.0|-||12:00:00|12:00:00", "b|ap1|J\uFFFDrg|1.0|-||12:00:00|12:00:00"},
		pressureRows(t, o.SnapshotDir, "job_pressure_2026-07.db"))
}

// An access point that does not answer, or not in time, is named; the others go on, and its rows with its next answer.
func TestPollWithoutSomeAccessPoints(t *testing.T) {
	o, dir := queues(t, map[string]string{"ap1": idle("a"), "ap2": idle("b"), "ap3": idle("c"), "ap4": idle("d")})
	_, err := poll(t.Context(), o, awayAtMost, at("2026-07-01T12:00:00Z"))
	require.NoError(t, err)
	fill(t, dir, map[string]string{"ap2": "fail", "ap3": "hang", "ap4": `[{"GlobalJobId": "d"`})
	o.Timeout = 3 * time.Second
	got, err := poll(t.Context(), o, awayAtMost, at("2026-07-01T12:30:00Z"))
	require.NoError(t, err)
	require.Equal(t, 1, got.Schedds)
	require.Len(t, got.Failed, 3)
	for i, reason := range []string{"ap2: ", "ap3: ", "ap4: condor_q's output is not what it should be, after 0 ads: " +
		"it ends in the middle"} {
		require.Contains(t, got.Failed[i], reason)
	}
	require.Contains(t, got.Failed[0], "Failed to fetch ads")
	require.Contains(t, got.Failed[1], "did not end within 3s")
	require.Contains(t, got.Notes, "3 access points did not answer: ap2")
	o.Timeout = time.Minute
	fill(t, dir, map[string]string{"ap2": idle("b"), "ap3": idle("c"), "ap4": idle("d")})
	_, err = poll(t.Context(), o, awayAtMost, at("2026-07-01T13:00:00Z"))
	require.NoError(t, err)
	for _, row := range pressureRows(t, o.SnapshotDir, "job_pressure_2026-07.db") {
		require.Contains(t, row, "12:00:00|13:00:00")
	}
	log := readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name))
	require.Equal(t, "4|4|4|-,1|1|0|3 access points,4|4|0|-", one[string](t, log,
		"SELECT group_concat(concat_ws('|', schedds, jobs, added, ifnull(substr(notes, 1, 15), '-'))) FROM (SELECT * FROM "+
			"polls ORDER BY rowid)"))
}

func TestPollErrors(t *testing.T) {
	o, dir := queues(t, map[string]string{"ap1": "fail"})
	_, err := poll(t.Context(), o, awayAtMost, at("2026-07-01T12:00:00Z"))
	require.ErrorContains(t, err, "no access point answers: ap1")
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	require.NoFileExists(t, filepath.Join(o.SnapshotDir, "job_pressure_2026-07.db"))
	require.NoError(t, os.Remove(filepath.Join(dir, "ap1")))
	_, err = poll(t.Context(), o, awayAtMost, at("2026-07-01T12:00:00Z"))
	require.ErrorContains(t, err, "knows no access point")
	fill(t, dir, map[string]string{"ap1": idle("a")})
	_, err = poll(t.Context(), o, awayAtMost, at("2026-07-01T12:30:00Z"))
	require.NoError(t, err)
	_, err = poll(t.Context(), o, awayAtMost, at("2026-07-01T12:30:00Z"))
	require.ErrorContains(t, err, "set the clock")

	held, err := lock(o.SnapshotDir, pollLockName)
	require.NoError(t, err)
	_, err = poll(t.Context(), o, awayAtMost, at("2026-07-01T13:00:00Z"))
	require.ErrorContains(t, err, "another collection is under way")
	require.NoError(t, held.Close())

	db, err := sql.Open("sqlite", "file:"+filepath.Join(o.SnapshotDir, "job_pressure_2026-08.db"))
	require.NoError(t, err)
	_, err = db.Exec("CREATE TABLE job_pressure (GlobalJobId TEXT, timestamp TEXT)")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = poll(t.Context(), o, awayAtMost, at("2026-08-02T12:00:00Z"))
	require.ErrorContains(t, err, "job_pressure_2026-08.db: it has the older layout")

	_, err = Poll(t.Context(), Options{SnapshotDir: t.TempDir(), Schedds: []string{"ap1"}})
	require.ErrorContains(t, err, "with --jobs only")
	log := readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name))
	require.Equal(t, 4, one[int](t, log, "SELECT count(*) FROM polls WHERE error IS NOT NULL"))
}

// Without an idle job nothing is written, as by the poller in use.
func TestPollOfEmptyQueues(t *testing.T) {
	o, _ := queues(t, map[string]string{"ap1": ""})
	got, err := poll(t.Context(), o, awayAtMost, at("2026-07-01T12:00:00Z"))
	require.NoError(t, err)
	require.Equal(t, Polled{Schedds: 1}, got)
	require.NoFileExists(t, filepath.Join(o.SnapshotDir, "job_pressure_2026-07.db"))
}

func TestPollAsksForIdleGPUJobsOfNamedAccessPoints(t *testing.T) {
	o := fake(t, "arguments")
	o.Jobs, o.CondorQ, o.Schedds, o.Pool = true, itself(), []string{"ap1"}, "cm"
	_, err := poll(t.Context(), o, awayAtMost, at("2026-07-01T12:00:00Z"))
	require.ErrorContains(t, err, `["-name","ap1","-allusers","-constraint","RequestGPUs \u003e= 1 \u0026\u0026 JobStatus == 1","-json","-attributes",`+
		`"GlobalJobId,Owner,RequestGPUs,RequestCPUs,RequestMemory,RequestGPUMemory,QDate,ChtcProjects","-pool","cm"]`)
}

func TestPollThatIsCancelled(t *testing.T) {
	o, _ := queues(t, map[string]string{"ap1": "hang"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := poll(ctx, o, awayAtMost, at("2026-07-01T12:00:00Z"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
