package queues

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
	"github.com/chtc/gpureports/pkg/timeline"
)

const monthName = "job_pressure_2025-10.db"

// schema is that of the poller in use.
const schema = `CREATE TABLE IF NOT EXISTS job_pressure (GlobalJobId TEXT NOT NULL, ScheddName TEXT, Owner TEXT, RequestGPUs REAL, RequestCPUs REAL,
	RequestMemory REAL, RequestGPUMemory REAL, QDate INTEGER, ChtcProjects TEXT, first_seen INTEGER NOT NULL,
		last_seen INTEGER NOT NULL);
	CREATE INDEX IF NOT EXISTS idx_last_seen ON job_pressure (last_seen); CREATE INDEX IF NOT EXISTS idx_first_seen ON job_pressure (first_seen)`

// october is 2025-10-01 00:00 UTC.
const october = 1759276800

// line is a row as the tests write it: times are minutes after october.
type line struct {
	job         string
	gpus        any
	memory      any
	first, last int
}

func open(t *testing.T, dir, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, name)+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	return db
}

func create(t *testing.T, dir, name string, lines ...line) *sql.DB {
	t.Helper()
	db := open(t, dir, name)
	exec(t, db, schema)
	insert(t, db, lines...)
	return db
}

func exec(t *testing.T, db *sql.DB, statement string, values ...any) {
	t.Helper()
	_, err := db.Exec(statement, values...)
	require.NoError(t, err)
}

func insert(t *testing.T, db *sql.DB, lines ...line) {
	t.Helper()
	tx, err := db.Begin()
	require.NoError(t, err)
	for _, l := range lines {
		_, err := tx.Exec("INSERT INTO job_pressure VALUES (?,?,?,?,?,?,?,?,?,?,?)", l.job, "ap1.example.org", "user",
			l.gpus, 4.0, 32768.0,
			l.memory, october-60, "B, A", october+60*l.first, october+60*l.last)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit())
}

func job(n int) string { return fmt.Sprintf("ap1.example.org#%d.0#1759276000", n) }

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	s := NewStore(Options{Root: root, Path: dir, Names: timeline.NewNames(), MaxBytes: 64 << 20,
		Parquet: parquet.EachRow})
	t.Cleanup(func() { _ = s.Close(); _ = root.Close() })
	return s
}

var inOctober = pool.Window{From: october * pool.Second, To: (october + 86400) * pool.Second}

// texts are the rows of a view, in the order of their files.
func texts(v *View) (all []string) {
	for _, d := range v.Days {
		for i := range d.Rows {
			r := &d.Rows[i]
			q := v.Requests[r.File][r.Request]
			all = append(all, fmt.Sprintf("%s %s %s %q %g×%g %g %g q%d %d–%d", v.Names.JobText(r.Job), v.Names.Text(r.Schedd),
				v.Names.Text(r.Owner), v.Names.Text(r.Project),
				q.GPUs, q.GPUMemory, q.CPUs, q.Memory, r.QDate, (int(r.First)-october)/60, (int(r.Last)-october)/60))
		}
	}
	return all
}

func load(t *testing.T, s *Store) *View {
	t.Helper()
	v, err := s.Load(t.Context(), inOctober)
	require.NoError(t, err)
	return v
}

func warnings(v *View) (all []string) {
	for _, n := range v.Notices {
		all = append(all, n.Text)
	}
	return all
}

// Texts that mean no value are none in any column, and are counted; a file that cannot be read is named.
func TestTextsThatMeanNoValue(t *testing.T) {
	dir := t.TempDir()
	db := create(t, dir, monthName, line{job: job(1), gpus: 2, last: 30})
	for n, values := range [][]any{
		{" UNDEFINED ", "{ }", "NaN", "null", "[]", "<na>", "error", `{ "Y" , " X " }`},
		{"nan", "ap9", "2", "undefined", "7", "None", "1759275999", "undefined"},
	} {
		exec(t, db, "INSERT INTO job_pressure (GlobalJobId, Owner, ScheddName, RequestGPUs, RequestCPUs, RequestMemory, "+
			"RequestGPUMemory, QDate, ChtcProjects, first_seen, last_seen) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
			append(append([]any{job(n + 2)}, values...), october, october+60)...)
	}
	exec(t, db, "INSERT INTO job_pressure (GlobalJobId, first_seen, last_seen) VALUES ('undefined', ?, ?)", october,
		october)
	s := openStore(t, dir)
	v := load(t, s)
	require.Equal(t, []string{
		`ap1.example.org#1.0#1759276000 ap1.example.org user "A,B" 2×0 4 32768 q1759276740 0–30`,
		`ap1.example.org#2.0#1759276000 ap1.example.org  "X,Y" 1×0 0 0 q0 0–1`,
		`ap1.example.org#3.0#1759276000 ap9 nan "" 2×0 0 7 q1759275999 0–1`,
	}, texts(v))
	odd, notices, err := s.Review(t.Context())
	require.NoError(t, err)
	for _, told := range []string{`GlobalJobId (1, such as "undefined")`, `Owner (1, such as " UNDEFINED ")`,
		`ScheddName (1, such as "{ }")`, `RequestGPUs (1, such as "NaN")`, `RequestCPUs (2, such as "null")`,
		`RequestMemory (1, such as "[]")`, `RequestGPUMemory (2, such as "<na>")`, `QDate (1, such as "error")`,
		`ChtcProjects (1, such as "undefined")`} {
		require.Contains(t, odd.String(), told)
	}
	require.Contains(t, strings.Join(warnings(v), "\n"), monthName+" has "+odd.String())
	require.Len(t, notices, 1) // the row without an id
	require.NoError(t, os.WriteFile(filepath.Join(dir, "job_pressure_2025-11.db"), []byte("no database at all"), 0o600))
	again, notices, err := s.Review(t.Context())
	require.NoError(t, err)
	require.Equal(t, odd.String(), again.String())
	require.Len(t, notices, 2)
	require.Contains(t, notices[1].Text, "job_pressure_2025-11.db")
}

// The two halves of a file meet in the middle of its row numbers, also if these are extreme.
func TestRowsKeepTheOrderOfTheFile(t *testing.T) {
	dir := t.TempDir()
	var lines []line
	numbers := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, 2, math.MaxInt64 - 1, math.MaxInt64}
	for n := range numbers {
		lines = append(lines, line{job: job(n), gpus: 1, first: 1500 * (n % 2), last: 3000})
	}
	db := create(t, dir, monthName, lines...)
	ordered := texts(load(t, openStore(t, dir)))
	require.Len(t, ordered, len(numbers))
	for n, number := range numbers {
		exec(t, db, "UPDATE job_pressure SET rowid = ? WHERE GlobalJobId = ?", number, job(n))
	}
	require.Equal(t, ordered, texts(load(t, openStore(t, dir))))
}

func TestRowsAsTheyAreStored(t *testing.T) {
	dir := t.TempDir()
	create(t, dir, monthName, line{job(1), 2.0, 40000.0, 0, 60}, line{job(2), nil, nil, 30, 30},
		line{job(3), 0.5, 0.0, 1500, 1530})
	create(t, dir, "job_pressure_2025-10_dev.db", line{job(9), 1.0, nil, 0, 0})
	v := load(t, openStore(t, dir))
	require.Empty(t, v.Notices)
	require.Equal(t, 1, v.Files)
	require.Equal(t, []string{
		job(1) + ` ap1.example.org user "A,B" 2×40000 4 32768 q1759276740 0–60`,
		job(2) + ` ap1.example.org user "A,B" 1×0 4 32768 q1759276740 30–30`,
		job(3) + ` ap1.example.org user "A,B" 1×0 4 32768 q1759276740 1500–1530`,
	}, texts(v))
	require.Len(t, v.Days, 2)
	require.Equal(t, []uint32{october, october + 1800, october + 3600}, v.Days[0].Times)
	require.EqualValues(t, october+3600, v.Days[0].Last)
}

func TestOddRows(t *testing.T) {
	dir := t.TempDir()
	db := create(t, dir, monthName, line{"no such id\x1fat all", 1.0, nil, 0, 5}, line{"", 1.0, nil, 0, 5},
		line{job(1), 1.0, nil, 30, 20})
	exec(t, db, "INSERT INTO job_pressure (GlobalJobId, first_seen, last_seen) VALUES ('ap7#1.0#5', 'never', 7), "+
		"('ap7#1.0#5', 1759276800, 1759276800)")
	v := load(t, openStore(t, dir))
	require.Equal(t, []string{
		"no such id\x1fat all" + ` ap1.example.org user "A,B" 1×0 4 32768 q1759276740 0–5`,
		job(1) + ` ap1.example.org user "A,B" 1×0 4 32768 q1759276740 30–30`,
		`ap7#1.0#5 ap7  "" 1×0 0 0 q0 0–0`,
	}, texts(v))
	require.Equal(t, []string{
		"job_pressure_2025-10.db: 2 rows have no GlobalJobId or no readable first_seen and last_seen: left out",
		"job_pressure_2025-10.db: 1 rows end before they begin (the poller's clock was set back): they count as seen once",
	}, warnings(v))
}

// Without a column the other rows still answer; without one that is needed the file is named.
func TestOtherLayouts(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, monthName)
	exec(t, db, "CREATE TABLE job_pressure (last_seen INTEGER, first_seen INTEGER, globaljobid TEXT, Extra TEXT)")
	exec(t, db, "INSERT INTO job_pressure VALUES (1759276860, 1759276800, 'ap7#1.0#5', 'x')")
	older := open(t, dir, "job_pressure_2025-09.db")
	exec(t, older, "CREATE TABLE job_pressure (GlobalJobId TEXT, Owner TEXT, timestamp TEXT)")
	exec(t, open(t, dir, "job_pressure_2025-11.db"), "CREATE TABLE other (a)")
	s := openStore(t, dir)
	v, err := s.Load(t.Context(), pool.Window{From: inOctober.From, To: inOctober.To + 28*pool.Day})
	require.NoError(t, err)
	require.Equal(t, []string{`ap7#1.0#5 ap7  "" 1×0 0 0 q0 0–1`}, texts(v))
	require.Equal(t, []string{
		"job_pressure_2025-09.db is left out: it has the older layout, with a row for each poll and a column timestamp. " +
			"Convert it with `gpureports convert` and move it away",
		"job_pressure_2025-11.db: it has no table job_pressure: it is not a file of the queue poller, or is still empty",
	}, warnings(v))
	_, err = s.Load(t.Context(), pool.Window{From: inOctober.From + 70*pool.Day, To: inOctober.To + 70*pool.Day})
	require.ErrorContains(t, err, "no table job_pressure", "no file that is needed can be read")
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
}

func TestWithoutFiles(t *testing.T) {
	v := load(t, openStore(t, t.TempDir()))
	require.Zero(t, v.Files)
	require.Empty(t, v.Days)
}

// Each commit is seen, even one that edits a row among many.
func TestEditedFile(t *testing.T) {
	dir := t.TempDir()
	db := create(t, dir, monthName, line{job(1), 1.0, nil, 0, 30}, line{job(2), 1.0, nil, 30, 60})
	for n := range 60 {
		insert(t, db, line{job(100 + n), 1.0, 0.0, n, n + 30})
	}
	s := openStore(t, dir)
	before := load(t, s)
	exec(t, db, "UPDATE job_pressure SET Owner = 'other', RequestGPUs = 8 WHERE rowid = 33")
	edited := texts(load(t, s))
	require.NotEqual(t, texts(before), edited)
	require.Equal(t, texts(load(t, openStore(t, dir))), edited)
	exec(t, db, "DELETE FROM job_pressure WHERE rowid > 2")
	exec(t, db, "UPDATE job_pressure SET Owner = 'other' WHERE rowid = 1")
	require.Contains(t, texts(load(t, s))[0], "other")
	exec(t, db, "DELETE FROM job_pressure WHERE rowid = 1")
	require.Len(t, texts(load(t, s)), 1)
	fresh := t.TempDir()
	require.NoError(t, create(t, fresh, monthName, line{job(8), 1.0, nil, 0, 0}).Close())
	require.NoError(t, os.Rename(filepath.Join(fresh, monthName), filepath.Join(dir, monthName)))
	require.Contains(t, texts(load(t, s))[0], job(8), "another file took its place")
}

func TestMonthsInReach(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"job_pressure_2025-07.db", "job_pressure_2025-08.db",
		"job_pressure_2025-09.db", monthName,
		"job_pressure_2025-11.db", "job_pressure_2025-13.db"} {
		require.NoError(t, create(t, dir, name, line{name, 1.0, nil, 0, 0}).Close())
	}
	var jobs []string
	v := load(t, openStore(t, dir))
	for _, text := range texts(v) {
		jobs = append(jobs, strings.Fields(text)[0])
	}
	slices.Sort(jobs)
	require.Equal(t, []string{"job_pressure_2025-08.db", "job_pressure_2025-09.db", monthName}, jobs)
	require.Equal(t, 6, v.Files)
}

func TestBudget(t *testing.T) {
	dir := t.TempDir()
	var lines []line
	for i := range 100 {
		lines = append(lines, line{job(i), 1.0, nil, 0, 0})
	}
	for _, name := range []string{"job_pressure_2025-06.db", monthName} {
		require.NoError(t, create(t, dir, name, lines...).Close())
	}
	s := openStore(t, dir)
	s.options.MaxBytes = 8000
	require.Len(t, texts(load(t, s)), 100)
	first := s.Bytes()
	require.LessOrEqual(t, first, int64(100*60))
	june := pool.Window{From: inOctober.From - 110*pool.Day, To: inOctober.To - 110*pool.Day}
	v, err := s.Load(t.Context(), june)
	require.NoError(t, err)
	require.Len(t, texts(v), 100)
	require.Equal(t, first, s.Bytes(), "October is forgotten")
	require.Len(t, texts(load(t, s)), 100)
}

// Of two files of a month that of Parquet counts if it has rows, and both formats of the same rows are read alike.
func TestParquet(t *testing.T) {
	fields := []parquet.Field{{Name: "GlobalJobId"}, {Name: "ScheddName"}, {Name: "Owner"},
		{Name: "RequestGPUs", Kind: parquet.Real}, {Name: "RequestCPUs", Kind: parquet.Real},
		{Name: "RequestMemory", Kind: parquet.Real}, {Name: "RequestGPUMemory", Kind: parquet.Real},
		{Name: "QDate", Kind: parquet.Integer}, {Name: "ChtcProjects"}, {Name: "first_seen", Kind: parquet.Integer},
		{Name: "last_seen", Kind: parquet.Integer}, {Name: "JobState"}}
	rows := [][]any{
		{job(1), "ap1", "u", 2.0, 4.0, -1.0, 40000.0, int64(october - 60), "B, A", int64(october), int64(october + 600), nil},
		{job(2), "ap1", nil, nil, 1e15, nil, 1e8, int64(october + 900), "", int64(october), int64(october + 60), "running"},
		{job(3), "ap1", "u", 20000.0, nil, nil, nil, nil, nil, int64(october), int64(october + 60), "idle"},
		{job(4), "ap1", "u", 0.5, nil, nil, nil, nil, nil, int64(october + 90000), int64(october + 90000), "Running"},
	}
	write := func(dir string, rows [][]any) {
		content, err := parquet.Encode(fields, rows)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "job_pressure_2025-10.parquet"), content, 0o600))
	}
	dir, other := t.TempDir(), t.TempDir()
	db := create(t, other, monthName)
	exec(t, db, "ALTER TABLE job_pressure ADD COLUMN JobState TEXT")
	for _, row := range rows {
		exec(t, db, "INSERT INTO job_pressure VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", row...)
	}
	write(dir, rows)
	v, same := load(t, openStore(t, dir)), load(t, openStore(t, other))
	want := []string{job(1) + ` ap1 u "A,B" 2×40000 4 0 q1759276740 0–10`,
		job(2) + ` ap1  "" 1×0 1.099511627776e+12 0 q1759276000 0–1`, job(4) + ` ap1 u "" 1×0 0 0 q0 1500–1500`}
	require.Equal(t, want, texts(v))
	require.Equal(t, want, texts(same))
	for _, v := range []*View{v, same} {
		require.Equal(t, []bool{false, true}, []bool{v.Days[0].Rows[0].Running, v.Days[0].Rows[1].Running})
		require.True(t, v.Days[1].Rows[0].Running)
		require.Len(t, v.Notices, 2)
		require.Contains(t, v.Notices[0].Text, "1 rows ask for more than 10000 GPUs")
		require.Contains(t, v.Notices[1].Text, "3 amounts of CPUs")
	}

	s := openStore(t, dir)
	create(t, dir, monthName, line{job(9), 1.0, nil, 0, 5})
	require.Equal(t, want, texts(load(t, s)), "that of Parquet counts")
	write(dir, nil)
	require.Equal(t, []string{job(9) + ` ap1.example.org user "A,B" 1×0 4 32768 q1759276740 0–5`}, texts(load(t, s)))
	write(dir, rows[:1])
	require.Equal(t, want[:1], texts(load(t, s)), "it was replaced")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "job_pressure_2025-10.parquet"), []byte("PAR1"), 0o600))
	create(t, dir, "job_pressure_2025-09.db", line{job(8), 1.0, nil, -5, 5})
	v = load(t, s)
	require.Len(t, texts(v), 1, "the other months still answer")
	require.Contains(t, v.Notices[0].Text, "job_pressure_2025-10.parquet cannot be read")
}

const parquetName = "job_pressure_2025-10.parquet"

// parquetStore opens a store of a directory with one Parquet file, which read reads.
func parquetStore(t *testing.T, most int64, read EachRow) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, parquetName)
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	return NewStore(Options{Root: root, Path: dir, Names: timeline.NewNames(), MaxBytes: most, Parquet: read}), path
}

var october1 = pool.Window{From: 1_759_276_800 * pool.Second, To: 1_759_276_800*pool.Second + pool.Day}

// rowOf is a row of a job with a number, whose request is of a memory.
func rowOf(n, memoryMB int) []string {
	row := make([]string, len(columns))
	row[id], row[schedd], row[owner] = fmt.Sprintf("ap#1.%d#1759276800", n), "ap", "u"
	row[memory] = fmt.Sprint(memoryMB)
	row[firstSeen], row[lastSeen] = "1759276800", "1759280400"
	return row
}

// A file whose reading hangs holds another load only until that one's deadline.
func TestWaitingForAFileEndsAtTheOwnDeadline(t *testing.T) {
	reading, leave := make(chan bool), make(chan bool)
	s, _ := parquetStore(t, 1<<20, func(context.Context, io.ReaderAt, int64, []string,
		func(func(string) bool) error, func([]string)) error {
		reading <- true
		<-leave
		return nil
	})
	first := make(chan error)
	go func() {
		_, err := s.Load(context.Background(), october1)
		first <- err
	}()
	<-reading
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Load(ctx, october1)
	require.ErrorIs(t, err, context.Canceled)
	close(leave)
	require.NoError(t, <-first)
}

// A pipe and a directory with the name of a queue file are refused, without waiting for a writer.
func TestPipeAsQueueFile(t *testing.T) {
	for _, put := range []func(string) error{
		func(path string) error { return syscall.Mkfifo(path, 0o600) },
		func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		s, path := parquetStore(t, 1<<20, nil)
		require.NoError(t, os.Remove(path))
		require.NoError(t, put(path))
		_, err := s.Load(t.Context(), october1)
		require.ErrorContains(t, err, parquetName+" cannot be read: it is not a regular file")
		require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	}
}

// Equal rows one after another, which a Parquet file stores in no space, count once.
func TestEqualRowsCountOnce(t *testing.T) {
	s, path := parquetStore(t, 1<<20, parquet.EachRow)
	out, err := os.Create(path)
	require.NoError(t, err)
	w := parquet.NewWriter(out, parquet.QueueSchema)
	row := []any{"ap#1.0#1759276800", "ap", "u", 1.0, 1.0, 1.0, nil, int64(1759276800), "", "idle", int64(1759276800),
		int64(1759280400)}
	for range 300_000 {
		require.NoError(t, w.Write(row))
	}
	require.NoError(t, w.Close())
	require.NoError(t, out.Close())
	v, err := s.Load(t.Context(), october1)
	require.NoError(t, err)
	require.Empty(t, v.Notices)
	require.Len(t, v.Days, 1)
	require.Len(t, v.Days[0].Rows, 1)
	require.Less(t, s.Bytes(), int64(1000))
}

// A file whose rows need more memory than the store has is an error, found while it is read, in both formats; the other
// months answer.
func TestRowsAreBoundedWhileTheyAreRead(t *testing.T) {
	const room, most = 1000 * (rowBytes + requestBytes), 1_000_000
	visited := 0
	s, path := parquetStore(t, room, func(ctx context.Context, _ io.ReaderAt, _ int64, _ []string,
		_ func(func(string) bool) error, visit func([]string)) error {
		for n := 0; n < most && ctx.Err() == nil; n++ {
			visit(rowOf(n, n))
			visited++
		}
		return ctx.Err()
	})
	_, err := s.Load(t.Context(), october1)
	require.ErrorContains(t, err, parquetName+" cannot be read: its rows need more memory than the data source has for a "+
		"queue file (0 MB): raise cacheMaxMB")
	require.LessOrEqual(t, visited, 1001)
	require.Zero(t, s.Bytes())

	require.NoError(t, os.Remove(path))
	var lines []line
	for i := range 3000 {
		lines = append(lines, line{job(i), 1.0, nil, 0, 0})
	}
	require.NoError(t, create(t, filepath.Dir(path), monthName, lines...).Close())
	_, err = s.Load(t.Context(), inOctober)
	require.ErrorContains(t, err, monthName+" cannot be read: its rows need more memory")
	september := strings.Replace(monthName, "10", "09", 1)
	require.NoError(t, create(t, filepath.Dir(path), september, lines[:10]...).Close())
	v, err := s.Load(t.Context(), inOctober)
	require.NoError(t, err)
	require.Len(t, v.Notices, 1)
	require.Len(t, texts(v), 10)
}

// Requests go with the rows that have them, and count as memory.
func TestRequestsGoWithTheirRows(t *testing.T) {
	version, rows := 0, 20_000
	s, path := parquetStore(t, 4<<20, func(_ context.Context, _ io.ReaderAt, _ int64, _ []string,
		_ func(func(string) bool) error, visit func([]string)) error {
		for n := range rows {
			visit(rowOf(n, version*rows+n))
		}
		return nil
	})
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var before int64
	for version = range 20 {
		require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", version+1)), 0o600))
		v, err := s.Load(t.Context(), october1)
		require.NoError(t, err)
		r := v.Days[0].Rows[rows-1]
		require.InDelta(t, version*rows+rows-1, v.Requests[r.File][r.Request].Memory, 0)
		require.EqualValues(t, rows*(rowBytes+requestBytes)+len(v.Days[0].Times)*4+100, s.Bytes())
		if version == 0 {
			before = heap()
		}
	}
	require.Less(t, heap()-before, int64(6<<20), "nineteen more versions of the requests would take 20 MB")
	runtime.KeepAlive(s)
}

// A QDate that is after first_seen, or earlier than the id's by more than clocks differ, is replaced by the id's.
func TestQDateIsBoundedByTheID(t *testing.T) {
	const id, first = 1_759_270_000, 1_759_276_800
	for qdate, want := range map[int]uint32{1: id, id - 121: id, id - 120: id - 120, id + 5: id + 5, first: first,
		first + 1: id} {
		s, _ := parquetStore(t, 1<<20, func(_ context.Context, _ io.ReaderAt, _ int64, _ []string,
			_ func(func(string) bool) error, visit func([]string)) error {
			row := rowOf(0, 1)
			row[0], row[queued] = fmt.Sprintf("ap#1.0#%d", id), fmt.Sprint(qdate)
			visit(row)
			return nil
		})
		v, err := s.Load(t.Context(), october1)
		require.NoError(t, err)
		require.Equal(t, want, v.Days[0].Rows[0].QDate, qdate)
	}
}

// A job may ask for 10,000 GPUs, and for no more.
func TestMostGPUs(t *testing.T) {
	s, _ := parquetStore(t, 1<<20, func(_ context.Context, _ io.ReaderAt, _ int64, _ []string,
		_ func(func(string) bool) error, visit func([]string)) error {
		for n, asked := range []string{"10000", "10001", "9999.5"} {
			row := rowOf(n, 1)
			row[gpus] = asked
			visit(row)
		}
		return nil
	})
	v, err := s.Load(t.Context(), october1)
	require.NoError(t, err)
	require.Len(t, v.Days[0].Rows, 2)
	require.Len(t, v.Notices, 1)
	require.Contains(t, v.Notices[0].Text, "1 rows ask for more than 10000 GPUs: left out")
}

// rowOfView is a row of a naive view: texts, and seconds since 1970.
type rowOfView struct {
	job, owner, list string
	first, last      uint32
}

// viewOf is a view of rows, each on the day on which it begins, in two months whose rows alternate in their files.
func viewOf(rows []rowOfView) *View {
	names := timeline.NewNames()
	days := map[uint32]*Day{}
	v := &View{Names: names}
	for _, r := range rows {
		date := r.first / 86400
		if days[date] == nil {
			days[date] = &Day{Date: int32(date)}
			v.Days = append(v.Days, days[date])
		}
		d := days[date]
		d.Rows = append(d.Rows, Row{Job: names.Job(r.job), Owner: names.Symbol(r.owner), Project: names.Symbol(r.list),
			First: r.first, Last: r.last})
		d.Last = max(d.Last, r.last)
		d.Times = append(d.Times, r.first, r.last)
	}
	for _, d := range v.Days {
		slices.Sort(d.Times)
		d.Times = slices.Compact(d.Times)
	}
	return v
}

// naive finds the list of a job that a user runs by looking at all rows again and again.
func naive(rows []rowOfView, w pool.Window, job, user string) (list string, how Attribution) {
	const week = 7 * 86400
	var near []rowOfView
	for _, r := range rows {
		if int64(r.last)*1e6 >= w.From-week*1e6 && int64(r.first)*1e6 <= w.To+week*1e6 {
			near = append(near, r)
		}
	}
	listOf := func(job string) (list string, there bool) {
		var best rowOfView
		for _, r := range near {
			if r.job != job {
				continue
			}
			there = true
			if r.list != "" && (best.list == "" || r.last > best.last || r.last == best.last && r.first >= best.first) {
				best = r
			}
		}
		return best.list, there
	}
	if list, there := listOf(job); there && job != "" {
		return list, ByJob
	}
	lists := map[string]bool{}
	for _, r := range near {
		if short, _, _ := strings.Cut(user, "@"); r.owner != "" && (r.owner == user || r.owner == short) {
			list, _ := listOf(r.job)
			lists[list] = true
		}
	}
	if len(lists) == 1 {
		for list := range lists {
			return list, ByUser
		}
	}
	return "", ByNone
}

func TestProjectsLikeNaive(t *testing.T) {
	met := map[Attribution]int{}
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		pick := func(from ...string) string { return from[random.IntN(len(from))] }
		jobs := []string{"", "odd"}
		for i := range 12 {
			jobs = append(jobs, fmt.Sprintf("ap1#%d.0#1700000000", i))
		}
		users := []string{"", "a", "b", "c", "a@x", "b@x", "c@y", "d", "d@x"}
		var rows []rowOfView
		for range random.IntN(40) {
			first := uint32(1_700_000_000 + random.IntN(30)*43200)
			rows = append(rows, rowOfView{pick(jobs[1:9]...), pick(users[:7]...), pick("", "", "P", "P", "Q", "P,Q"), first,
				first + uint32(random.IntN(3)*43200)})
		}
		v := viewOf(rows)
		w := pool.Window{From: (1_700_000_000 + int64(random.IntN(30)*43200)) * 1e6}
		w.To = w.From + int64(random.IntN(10)*43200)*1e6
		p, err := v.ProjectsIn(t.Context(), w)
		require.NoError(t, err)
		again, err := v.ProjectsIn(t.Context(), w)
		require.NoError(t, err)
		require.Equal(t, p.Fingerprint, again.Fingerprint)
		for range 5 { // kept projects are those of another window, too, if it has the same rows in reach
			other := pool.Window{From: w.From - int64(random.IntN(9)-4)*43200e6, To: w.To}
			of, err := v.ProjectsIn(t.Context(), other)
			require.NoError(t, err)
			require.True(t, !p.In(v, other) || p.Fingerprint == of.Fingerprint, "seed %d", seed)
		}
		for _, job := range jobs {
			for _, user := range users {
				want, how := naive(rows, w, job, user)
				list, as := p.Of(v.Names.Job(job), user)
				require.Equal(t, how, as, "seed %d: %q of %q", seed, job, user)
				require.Equal(t, want, v.Names.Text(list), "seed %d: %q of %q", seed, job, user)
				met[how]++
			}
		}
	}
	require.Len(t, met, Attributions)
}

// A list that changes, an owner or a job more makes another fingerprint.
func TestFingerprint(t *testing.T) {
	rows := []rowOfView{{"ap#1.0#9", "a", "P", 1_700_000_000, 1_700_000_000}, {"ap#2.0#9", "b", "", 1_700_000_000,
		1_700_000_000}}
	fingerprint := func(rows []rowOfView) uint64 {
		p, err := viewOf(rows).ProjectsIn(t.Context(), pool.Window{From: 1_700_000_000e6, To: 1_700_000_001e6})
		require.NoError(t, err)
		return p.Fingerprint
	}
	seen := map[uint64]bool{fingerprint(rows): true}
	for _, other := range [][]rowOfView{
		{rows[0]}, {rows[0], {"ap#2.0#9", "b", "P", 1_700_000_000, 1_700_000_000}},
		{rows[0], {"ap#2.0#9", "a", "", 1_700_000_000, 1_700_000_000}},
		{rows[0], rows[1], {"ap#2.0#9", "a", "", 1_700_000_000, 1_700_000_000}},
		{rows[0], {"ap#3.0#9", "b", "", 1_700_000_000, 1_700_000_000}},
	} {
		f := fingerprint(other)
		require.False(t, seen[f])
		seen[f] = true
	}
}
