package collect

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// The test binary, started again, is condor_status (FAKE_CONDOR_STATUS says how it behaves) or a whole collector
// (COLLECT_INTO says where to).
func TestMain(m *testing.M) {
	if dir := os.Getenv("COLLECT_INTO"); dir != "" {
		os.Unsetenv("COLLECT_INTO")
		collectForever(dir)
	}
	if behaviour := os.Getenv("FAKE_CONDOR_STATUS"); behaviour != "" {
		fakeCondorStatus(behaviour)
	}
	goleak.VerifyTestMain(m)
}

// collectForever takes one snapshot after the other, or as many as COLLECT_TIMES says.
func collectForever(dir string) {
	times, _ := strconv.Atoi(os.Getenv("COLLECT_TIMES"))
	for i := 0; times == 0 || i < times; i++ {
		if _, err := Run(context.Background(), Options{SnapshotDir: dir, CondorStatus: itself(),
			To: Target{URL: os.Getenv("COLLECT_TO"), Endpoint: os.Getenv("COLLECT_ENDPOINT"), PathStyle: true}}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(0)
}

func itself() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// fake makes Options with a condor_status that behaves so.
func fake(t *testing.T, behaviour string) Options {
	t.Setenv("FAKE_CONDOR_STATUS", behaviour)
	return Options{SnapshotDir: t.TempDir(), CondorStatus: itself(), Timeout: time.Minute}
}

func fakeCondorStatus(behaviour string) {
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	kind, arg, _ := strings.Cut(behaviour, ":")
	n, _ := strconv.Atoi(arg)
	code := 0
	switch kind {
	case "machines":
		printPool(out, n)
	case "queues":
		fakeQueues(out, arg)
	case "none":
	case "file":
		text, err := os.ReadFile(arg)
		if err != nil {
			panic(err)
		}
		out.Write(text)
	case "hang": // with a grandchild that would keep the pipe open, deaf to everything but SIGKILL
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		if arg != "alone" {
			os.Setenv("FAKE_CONDOR_STATUS", "hang:alone")
			grandchild := exec.Command(itself())
			grandchild.Stdout, grandchild.Stderr = os.Stdout, os.Stderr
			if err := grandchild.Start(); err != nil {
				panic(err)
			}
			fmt.Fprint(os.Stderr, "deaf")
			if err := os.WriteFile(os.Getenv("FAKE_GROUP"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
				panic(err)
			}
		}
		io.WriteString(out, "[\n")
		out.Flush()
		time.Sleep(10 * time.Minute)
	case "fail":
		fmt.Fprintln(os.Stderr, "Error: communication error\nCEDAR:6001:Failed to connect to <10.0.0.1:9618>")
		code = 1
	case "failAfterAll":
		printPool(out, 3)
		fmt.Fprintln(os.Stderr, "Error: lost the collector")
		code = 1
	case "half":
		var all strings.Builder
		w := bufio.NewWriter(&all)
		printPool(w, 10)
		w.Flush()
		io.WriteString(out, all.String()[:all.Len()/2])
	case "endless":
		io.WriteString(out, "[\n")
		for ad := fmt.Sprintf(`{"Name": "slot1@m", "Machine": "m", "State": "Claimed", "RemoteOwner": "%s"},`,
			strings.Repeat("a", 1<<16)); ; {
			if _, err := io.WriteString(out, ad); err != nil {
				os.Exit(1)
			}
		}
	case "wordy":
		for range 1000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("w\xff", 1000))
		}
		code = 3
	case "types":
		io.WriteString(out, `[{"Name": 1, "Machine": {}, "State": []}]`)
	case "latin1":
		io.WriteString(out, "[{\"Name\": \"slot1@m\", \"Machine\": \"m\", \"State\": \"Claimed\", \"AssignedGPUs\": "+
			"\"GPU-1\", \"RemoteOwner\": \"J\xf6rg\"}]")
	case "arguments":
		args, _ := json.Marshal(os.Args[1:])
		fmt.Fprintf(os.Stderr, "%s", args)
		code = 1
	default:
		panic(behaviour)
	}
	out.Flush()
	os.Exit(code)
}

// fakeQueues answers as condor_status -schedd or as condor_q, from the files of a directory, one an access point. A
// file that says hang lets the caller wait, one that says fail fails.
func fakeQueues(out *bufio.Writer, dir string) {
	if slices.Contains(os.Args, "-schedd") {
		entries, err := os.ReadDir(dir)
		if err != nil {
			panic(err)
		}
		for i, e := range entries {
			fmt.Fprintf(out, "%s{\"Name\": %q}\n", []string{"[\n", ",\n"}[min(i, 1)], e.Name())
		}
		if len(entries) > 0 {
			io.WriteString(out, "]\n")
		}
		return
	}
	text, err := os.ReadFile(filepath.Join(dir, os.Args[slices.Index(os.Args, "-name")+1]))
	if err != nil {
		panic(err)
	}
	switch string(text) {
	case "hang":
		time.Sleep(10 * time.Minute)
	case "fail":
		fmt.Fprintln(os.Stderr, "-- Failed to fetch ads")
		os.Exit(1)
	}
	out.Write(text)
}

// gpusPerMachine of the fake pool; each machine has rowsPerMachine rows: 4 of slot1, 2 of slot1_1, 1 of backfill2, 1 of
// backfill2_1.
const (
	gpusPerMachine = 4
	rowsPerMachine = 8
	adsPerMachine  = 4
)

// printPool prints a pool of the given number of machines as condor_status does.
func printPool(w *bufio.Writer, machines int) {
	for m := range machines {
		machine := fmt.Sprintf("gpu%05d.chtc.example.org", m)
		ids := make([]string, gpusPerMachine)
		for i := range ids {
			ids[i] = fmt.Sprintf("%04x%04x", m, i)
		}
		job := fmt.Sprintf("\n  \"GlobalJobId\": \"ap2001.chtc.example.org#%d.0#1759341353\",\n  \"RemoteOwner\": "+
			"\"user%d@chtc.example.org\",\n  \"GPUsAverageUsage\": 0.5,", m, m%100)
		slot := func(name, state, job string, assigned, available []string) {
			separator := ",\n"
			if m == 0 && name == "slot1" {
				separator = "[\n"
			}
			var expressions []string
			for _, id := range available {
				expressions = append(expressions, "\n    \"\\/Expr(GPUs_GPU_"+id+")\\/\"")
			}
			hold := ""
			if assigned != nil {
				hold = "\n  \"AssignedGPUs\": \"GPU-" + strings.Join(assigned, ",GPU-") + "\","
			}
			fmt.Fprintf(w, "%s{%s\n  \"AvailableGPUs\": [%s\n  ],\n  \"Disk\": 1929379840,%s\n  \"GPUs_DeviceName\": "+
				"\"NVIDIA A100-SXM4-80GB\",\n  \"GPUs_GlobalMemoryMb\": 81153,\n"+
				"  \"Machine\": %q,\n  \"Name\": \"%s@%s\",\n  \"PrioritizedProjects\": \"Bio_One\",\n  \"State\": %q\n}\n",
				separator, hold, strings.Join(expressions, ","), job, machine, name, machine, state)
		}
		slot("slot1", "Unclaimed", "", ids, ids[2:])
		slot("slot1_1", "Claimed", job, ids[:2], ids[:2])
		slot("backfill2", "Unclaimed", "", nil, ids[2:])
		slot("backfill2_1", "Claimed", job, ids[2:], ids[2:])
	}
	if machines > 0 {
		io.WriteString(w, "]\n")
	}
}

func TestPrintedPoolIsWhatTheTestsCount(t *testing.T) {
	var text strings.Builder
	w := bufio.NewWriter(&text)
	printPool(w, 3)
	w.Flush()
	got, err := decode(strings.NewReader(text.String()))
	require.NoError(t, err)
	require.Len(t, got.slots, 3*adsPerMachine)
	require.Len(t, table(snapshot{"", got}), 3*rowsPerMachine)
	require.Empty(t, notesOn(got.slots, slotAttributes, "slots", "Name", ""))
}

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

func idle(jobs ...string) string { return queue(1, jobs...) }

// queue is what condor_q prints of jobs in a JobStatus.
func queue(status int, jobs ...string) string {
	var ads []string
	for _, job := range jobs {
		ads = append(ads, fmt.Sprintf(`{"GlobalJobId": %q, "Owner": "u", "RequestGPUs": 2, "RequestCpus": 4, "RequestMemory": 32768, "RequestGPUMemory": 40000, "QDate": 1780000000, "ChtcProjects": "Bio,Chem", "JobStatus": %d}`, job, status))
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

// pressureRows reads a queue file of either format.
func pressureRows(t *testing.T, path string) (rows []string) {
	const idColumn, firstColumn = 0, 10
	texts, names := make([]string, len(pressureColumns)), make([]string, len(pressureColumns))
	targets, casts := make([]any, len(texts)), make([]string, len(texts))
	for i, c := range pressureColumns {
		names[i], targets[i], casts[i] = c.name, &texts[i], "coalesce(CAST("+c.name+" AS TEXT), '')"
	}
	line := func(texts []string) string {
		texts = slices.Clone(texts)
		for i, text := range texts {
			x, err := strconv.ParseFloat(text, 64)
			switch {
			case i >= firstColumn:
				texts[i] = time.Unix(int64(x), 0).UTC().Format(time.TimeOnly)
			case err == nil && i > idColumn:
				texts[i] = strconv.FormatFloat(x, 'f', -1, 64)
			}
		}
		return strings.Join(texts, "|")
	}
	if strings.HasSuffix(path, ".parquet") {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, parquet.EachRow(t.Context(), bytes.NewReader(data), int64(len(data)), names,
			func(func(string) bool) error { return nil }, func(row []string) { rows = append(rows, line(row)) }))
		return rows
	}
	all, err := readOnly(t, path).Query("SELECT " + strings.Join(casts, ", ") + " FROM job_pressure ORDER BY rowid")
	require.NoError(t, err)
	defer all.Close()
	for all.Next() {
		require.NoError(t, all.Scan(targets...))
		rows = append(rows, line(texts))
	}
	require.NoError(t, all.Err())
	return rows
}

// A poll on its own knows the interval of polls by the last two in the file.
func TestPollWithoutAnInterval(t *testing.T) {
	for _, place := range []string{"sqlite", "parquet", "bucket"} {
		t.Run(place, func(t *testing.T) {
			o, dir := queues(t, map[string]string{"ap1": idle("a", "b")})
			month := pollPlace(t, &o, place)
			polls := []struct{ time, jobs string }{
				{"12:00:00", idle("a", "b")}, {"12:05:00", idle("a", "b")},
				{"12:10:00", idle("b", "c")}, // the last two are five minutes apart: a may be away for fifteen
				{"12:20:00", idle("a", "b")},
				{"12:50:01", idle("a", "b")}, // ten minutes apart: half an hour, and it was a second longer
			}
			for _, p := range polls {
				fill(t, dir, map[string]string{"ap1": p.jobs})
				_, err := poll(t.Context(), o, 0, at("2026-07-01T"+p.time+"Z"))
				require.NoError(t, err)
			}
			const ad = "|ap1|u|2|4|32768|40000|1780000000|Bio,Chem|idle|"
			require.Equal(t, []string{"a" + ad + "12:00:00|12:20:00", "b" + ad + "12:00:00|12:20:00",
				"c" + ad + "12:10:00|12:10:00", "a" + ad + "12:50:01|12:50:01", "b" + ad + "12:50:01|12:50:01"}, month("2026-07"))
		})
	}
}

func TestPollsExtendRows(t *testing.T) {
	for _, place := range []string{"sqlite", "parquet", "bucket"} {
		t.Run(place, func(t *testing.T) {
			o, dir := queues(t, map[string]string{"ap1": idle("a", "b"), "ap2": ""})
			month := pollPlace(t, &o, place)
			poll1, err := poll(t.Context(), o, 0, at("2026-07-01T12:00:00Z"))
			require.NoError(t, err)
			require.Equal(t, Polled{Time: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), Schedds: 2, Jobs: 2, New: 2}, poll1)
			fill(t, dir, map[string]string{"ap1": idle("a"), "ap2": queue(2, "c", "c")})
			poll2, err := poll(t.Context(), o, 0, at("2026-07-01T12:30:00Z"))
			require.NoError(t, err)
			require.Equal(t, []int{2, 1, 1}, []int{poll2.Jobs, poll2.Running, poll2.New}, "an ad that comes twice counts once")
			fill(t, dir, map[string]string{"ap1": queue(2, "a"), "ap2": queue(2, "c")})
			_, err = poll(t.Context(), o, 0, at("2026-07-01T13:00:00Z"))
			require.NoError(t, err)
			fill(t, dir, map[string]string{"ap1": idle("a", "b"), "ap2": "[ ]"})
			// b was away for longer than 90 minutes; a was not, but it ran in the meantime
			_, err = poll(t.Context(), o, 0, at("2026-07-01T13:30:01Z"))
			require.NoError(t, err)
			const ad, ad2 = "|ap1|u|2|4|32768|40000|1780000000|Bio,Chem|", "|ap2|u|2|4|32768|40000|1780000000|Bio,Chem|"
			require.Equal(t, []string{
				"a" + ad + "idle|12:00:00|12:30:00", "b" + ad + "idle|12:00:00|12:00:00",
				"c" + ad2 + "running|12:30:00|13:00:00", "a" + ad + "running|13:00:00|13:00:00",
				"a" + ad + "idle|13:30:01|13:30:01", "b" + ad + "idle|13:30:01|13:30:01",
			}, month("2026-07"))
			_, err = poll(t.Context(), o, 3*time.Hour, at("2026-07-01T15:40:00Z"))
			require.NoError(t, err)
			require.Contains(t, month("2026-07")[4], "13:30:01|15:40:00",
				"rows are extended for three of the service's intervals")

			_, err = poll(t.Context(), o, 30*24*time.Hour, at("2026-08-01T00:00:00Z"))
			require.NoError(t, err)
			require.Equal(t, []string{"a" + ad + "idle|00:00:00|00:00:00", "b" + ad + "idle|00:00:00|00:00:00"},
				month("2026-08"),
				"a month begins with rows of its own")
			require.Contains(t, month("2026-07")[4], "13:30:01|15:40:00")
			_, err = poll(t.Context(), o, 0, at("2026-07-31T23:59:00Z"))
			require.ErrorContains(t, err, "a poll of the next month was taken")
		})
	}
}

// pollPlace has polls go to a place, and returns how the rows of a month are read there.
func pollPlace(t *testing.T, o *Options, place string) (month func(string) []string) {
	switch place {
	case "bucket":
		to, b := target(t)
		o.To = to
		return func(month string) []string {
			data, _, err := b.Get(t.Context(), queueFile(month, "parquet"))
			require.NoError(t, err)
			path := filepath.Join(t.TempDir(), "copy.parquet")
			require.NoError(t, os.WriteFile(path, data, 0o600))
			return pressureRows(t, path)
		}
	case "parquet":
		o.Format = "parquet"
	}
	return func(month string) []string {
		return pressureRows(t, filepath.Join(o.SnapshotDir, queueFile(month, formats[cmp.Or(o.Format, "sqlite")].extension)))
	}
}

// A collector that polls other access points is faster: the slower one reads its file again. An answer that is lost
// doubles nothing.
func TestPollersShareBucket(t *testing.T) {
	o, dir := queues(t, map[string]string{"ap1": idle("a"), "ap2": idle("b")})
	month := pollPlace(t, &o, "bucket")
	other := o
	other.SnapshotDir, o.Schedds, other.Schedds = t.TempDir(), []string{"ap1"}, []string{"ap2"}
	proxy := buckettest.NewProxy(t, &buckettest.Server{Endpoint: o.To.Endpoint}, false)
	o.To.Endpoint = proxy.Endpoint
	put := func(r *http.Request) bool { return r.Method == http.MethodPut }
	for i, want := range [][]string{
		{"b 12:00:01|12:00:01", "a 12:00:00|12:00:00"},
		{"b 12:00:01|12:30:01", "a 12:00:00|12:30:00"},
		{"b 12:00:01|12:30:01", "a 12:00:00|13:00:00", "c 13:00:00|13:00:00"},
	} {
		began := time.Date(2026, 7, 1, 12, 30*i, 0, 0, time.UTC)
		proxy.Set(buckettest.Times(1, put, func(w http.ResponseWriter, r *http.Request, server http.Handler) {
			if i == 2 {
				buckettest.Lost(w, r, server)
			}
			_, err := poll(t.Context(), other, 0, func() time.Time { return began.Add(time.Second) })
			assert.NoError(t, err)
			server.ServeHTTP(w, r)
		}))
		if i == 2 {
			fill(t, dir, map[string]string{"ap1": idle("a", "c")})
		}
		now := began
		got, err := poll(t.Context(), o, 0, func() time.Time {
			defer func() { now = now.Add(5 * time.Second) }()
			return now
		})
		require.NoError(t, err)
		require.Equal(t, []int{1, 0, 1}[i], got.New)
		var rows []string
		for _, row := range month("2026-07") {
			parts := strings.Split(row, "|")
			rows = append(rows, parts[0]+" "+strings.Join(parts[10:], "|"))
		}
		require.Equal(t, want, rows)
	}
}

// A SQLite file is the one that the poller in use made, with a column for the state; months are the collector's.
func TestPressureFileIsThatOfThePollerInUse(t *testing.T) {
	o, _ := queues(t, map[string]string{"ap1": idle("a")})
	o.Timezone = "America/Chicago"
	old := filepath.Join(o.SnapshotDir, "job_pressure_2026-07.db")
	db, err := sql.Open("sqlite", "file:"+old)
	require.NoError(t, err)
	_, err = db.Exec(`CREATE TABLE job_pressure (GlobalJobId TEXT NOT NULL, ScheddName TEXT, Owner TEXT,
		RequestGPUs REAL, RequestCPUs REAL, RequestMemory REAL, RequestGPUMemory REAL, QDate INTEGER, ChtcProjects TEXT,
		first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL);
		INSERT INTO job_pressure (GlobalJobId, first_seen, last_seen) VALUES ('a', 1785558600, 1785558600)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = poll(t.Context(), o, 0, at("2026-08-01T04:59:59Z"))
	require.NoError(t, err)
	require.Equal(t, []string{"a||||||||||04:30:00|04:59:59"}, pressureRows(t, old), "a row without a state is of an "+
		"idle job")
	_, err = poll(t.Context(), o, 0, at("2026-08-01T05:00:00Z"))
	require.NoError(t, err)
	db = readOnly(t, filepath.Join(o.SnapshotDir, "job_pressure_2026-08.db"))
	require.Equal(t, "GlobalJobId TEXT 1,ScheddName TEXT 0,Owner TEXT 0,RequestGPUs REAL 0,RequestCPUs REAL "+
		"0,RequestMemory REAL 0,RequestGPUMemory REAL 0,QDate INTEGER 0,"+
		"ChtcProjects TEXT 0,JobState TEXT 0,first_seen INTEGER 1,last_seen INTEGER 1",
		one[string](t, db, `SELECT group_concat(name || ' ' || type || ' ' || "notnull") FROM (SELECT * FROM pragma_table_info('job_pressure') ORDER BY cid)`))
	require.Equal(t, "idx_first_seen,idx_last_seen", one[string](t, db,
		"SELECT group_concat(name) FROM (SELECT name FROM pragma_index_list('job_pressure') ORDER BY name)"))
	require.Equal(t, "wal", one[string](t, db, "PRAGMA journal_mode"))
}

// A Parquet file is the one that the poller in use makes; months are those of UTC.
func TestParquetPressureFile(t *testing.T) {
	o, _ := queues(t, map[string]string{"ap1": `[{"GlobalJobId": "a", "RequestGPUs": 1}]`})
	o.Timezone, o.Format = "America/Chicago", "parquet"
	_, err := poll(t.Context(), o, 0, at("2026-07-31T23:59:59Z"))
	require.NoError(t, err)
	_, err = poll(t.Context(), o, 0, at("2026-08-01T00:00:00Z"))
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(o.SnapshotDir, "job_pressure_2026-07.parquet"))
	path := filepath.Join(o.SnapshotDir, "job_pressure_2026-08.parquet")
	for _, time := range []string{"2026-08-01T00:30:00Z", "2026-08-01T01:00:00Z"} { // some columns have no value yet
		_, err = poll(t.Context(), o, 0, at(time))
		require.NoError(t, err)
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	f, err := parquet.Open(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	fields, err := f.Fields()
	require.NoError(t, err)
	require.Equal(t, parquet.QueueSchema, fields)
	require.Equal(t, []string{"a|ap1||1||||||idle|00:00:00|01:00:00"}, pressureRows(t, path))
}

// Of two files of one month, the Parquet file counts: nothing is written that would not be read, or that would hide
// existing data.
func TestPollBesideOtherFormat(t *testing.T) {
	o, _ := queues(t, map[string]string{"ap1": idle("a")})
	_, err := poll(t.Context(), o, 0, at("2026-07-01T12:00:00Z"))
	require.NoError(t, err)
	o.Format = "parquet"
	_, err = poll(t.Context(), o, 0, at("2026-07-01T12:30:00Z"))
	require.ErrorContains(t, err, "`gpureports convert job_pressure_2026-07.db`")
	_, err = poll(t.Context(), o, 0, at("2026-08-01T12:30:00Z"))
	require.NoError(t, err)
	o.Format = "sqlite"
	_, err = poll(t.Context(), o, 0, at("2026-08-01T13:00:00Z"))
	require.ErrorContains(t, err, "poll with --format parquet")
	require.NoFileExists(t, filepath.Join(o.SnapshotDir, "job_pressure_2026-08.db"))
}

// Nothing is evaluated: an expression counts as 1 GPU. The submit file's gpus_minimum_memory is in GPUsMinMemory.
func TestPollValues(t *testing.T) {
	o, _ := queues(t, map[string]string{"ap1": "[{\"GlobalJobId\": \"a\", \"requestgpus\": 1, \"RequestMemory\": " +
		"\"\\/Expr(1024 * NumJobStarts)\\/\", \"RequestGPUMemory\": 0, \"QDate\": \"x\"},\n" +
		"{\"GlobalJobId\": \"b\", \"Owner\": \"J\xf6rg\", \"RequestGPUs\": \"\\/Expr(NumJobStarts + 1)\\/\", " +
		"\"GPUsMinMemory\": 20000},\n" +
		"{\"GlobalJobId\": \"c\", \"RequestGPUMemory\": 40000, \"GPUsMinMemory\": 20000, \"JobStatus\": 2},\n" +
		"{\"GlobalJobId\": \"d\", \"RequestGPUMemory\": \"\\/Expr(x)\\/\", \"GPUsMinMemory\": 20000}]"})
	got, err := poll(t.Context(), o, 0, at("2026-07-01T12:00:00Z"))
	require.NoError(t, err)
	require.Equal(t, "RequestGPUs of 1 jobs is an expression or of a wrong type: each counts as 1 GPU; "+
		"RequestMemory of 1 jobs is an expression or of a wrong type: stored as missing; "+
		"RequestGPUMemory of 1 jobs is an expression or of a wrong type: stored as missing; "+
		"QDate of 1 jobs is an expression or of a wrong type: stored as missing; "+
		"1 jobs hold bytes that are not UTF-8: stored as U+FFFD (first: a)", got.Notes)
	require.Equal(t, []string{"a|ap1||1||||||idle|12:00:00|12:00:00", "b|ap1|J\uFFFDrg||||20000|||idle|12:00:00|12:00:00",
		"c|ap1|||||40000|||running|12:00:00|12:00:00", "d|ap1||||||||idle|12:00:00|12:00:00"},
		pressureRows(t, filepath.Join(o.SnapshotDir, "job_pressure_2026-07.db")))
}

// An access point that does not answer, or not in time, is named; the others are polled, and its rows continue with its
// next answer.
func TestPollWithoutSomeAccessPoints(t *testing.T) {
	o, dir := queues(t, map[string]string{"ap1": idle("a"), "ap2": idle("b"), "ap3": idle("c"), "ap4": idle("d")})
	_, err := poll(t.Context(), o, 0, at("2026-07-01T12:00:00Z"))
	require.NoError(t, err)
	fill(t, dir, map[string]string{"ap2": "fail", "ap3": "hang", "ap4": `[{"GlobalJobId": "d"`})
	o.Timeout = 3 * time.Second
	got, err := poll(t.Context(), o, 0, at("2026-07-01T12:30:00Z"))
	require.NoError(t, err)
	require.Equal(t, 1, got.Schedds)
	require.Regexp(t, "^3 access points did not answer: ap2: .*Failed to fetch ads; ap3: .*did not end within 3s.*; "+
		"ap4: condor_q's output is not as expected, after 0 ads: it ends in the middle$", got.Notes)
	o.Timeout = time.Minute
	fill(t, dir, map[string]string{"ap2": idle("b"), "ap3": idle("c"), "ap4": idle("d")})
	_, err = poll(t.Context(), o, 0, at("2026-07-01T13:00:00Z"))
	require.NoError(t, err)
	for _, row := range pressureRows(t, filepath.Join(o.SnapshotDir, "job_pressure_2026-07.db")) {
		require.Contains(t, row, "12:00:00|13:00:00")
	}
	log := readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name))
	require.Equal(t, "4|4|4|-,1|1|0|3 access points,4|4|0|-", one[string](t, log,
		"SELECT group_concat(concat_ws('|', schedds, jobs, added, ifnull(substr(notes, 1, 15), '-'))) FROM (SELECT * FROM "+
			"polls ORDER BY rowid)"))
}

func TestPollErrors(t *testing.T) {
	o, dir := queues(t, map[string]string{"ap1": "fail"})
	_, err := poll(t.Context(), o, 0, at("2026-07-01T12:00:00Z"))
	require.ErrorContains(t, err, "no access point answers: ap1")
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	require.NoFileExists(t, filepath.Join(o.SnapshotDir, "job_pressure_2026-07.db"))
	require.NoError(t, os.Remove(filepath.Join(dir, "ap1")))
	_, err = poll(t.Context(), o, 0, at("2026-07-01T12:00:00Z"))
	require.ErrorContains(t, err, "knows no access point")
	fill(t, dir, map[string]string{"ap1": idle("a")})
	_, err = poll(t.Context(), o, 0, at("2026-07-01T12:30:00Z"))
	require.NoError(t, err)
	_, err = poll(t.Context(), o, 0, at("2026-07-01T12:30:00Z"))
	require.ErrorContains(t, err, "set the clock")

	held, err := lock(o.SnapshotDir, pollLockName)
	require.NoError(t, err)
	_, err = poll(t.Context(), o, 0, at("2026-07-01T13:00:00Z"))
	require.ErrorContains(t, err, "another collection is under way")
	require.NoError(t, held.Close())

	db, err := sql.Open("sqlite", "file:"+filepath.Join(o.SnapshotDir, "job_pressure_2026-08.db"))
	require.NoError(t, err)
	_, err = db.Exec("CREATE TABLE job_pressure (GlobalJobId TEXT, timestamp TEXT)")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = poll(t.Context(), o, 0, at("2026-08-02T12:00:00Z"))
	require.ErrorContains(t, err, "job_pressure_2026-08.db: it has the older layout, with a row for each poll: convert "+
		"it with `gpureports convert`")

	_, err = Poll(t.Context(), Options{SnapshotDir: t.TempDir(), Schedds: []string{"ap1"}})
	require.ErrorContains(t, err, "with --jobs only")
	log := readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name))
	require.Equal(t, 4, one[int](t, log, "SELECT count(*) FROM polls WHERE error IS NOT NULL"))
}

// A site whose jobs name their projects in another attribute fills ChtcProjects from it, also from a list.
func TestPollWithAnotherProjectAttribute(t *testing.T) {
	job := func(id, attributes string) string {
		return fmt.Sprintf(`{"GlobalJobId": %q, "Owner": "u", "RequestGPUs": 1, "JobStatus": 1%s}`, id, attributes)
	}
	o, _ := queues(t, map[string]string{"ap1": "[" + job("ap1#1.0#1", `, "AcctGroup": "physics", "ChtcProjects": "P"`) + "," +
		job("ap1#2.0#1", `, "acctgroup": ["chem", "bio"]`) + "," + job("ap1#3.0#1", `, "ChtcProjects": "P"`) + "," +
		job("ap1#4.0#1", `, "AcctGroup": 7`) + "]"})
	o.ProjectAttribute = "AcctGroup"
	got, err := poll(t.Context(), o, 0, at("2026-07-01T12:00:00Z"))
	require.NoError(t, err)
	require.Contains(t, got.Notes, "AcctGroup of 1 jobs is an expression or of a wrong type")
	db := readOnly(t, filepath.Join(o.SnapshotDir, "job_pressure_2026-07.db"))
	require.Equal(t, "ap1#1.0#1=physics ap1#2.0#1=chem,bio ap1#3.0#1= ap1#4.0#1=", one[string](t, db,
		"SELECT group_concat(GlobalJobId || '=' || ChtcProjects, ' ') FROM (SELECT * FROM job_pressure "+
			"ORDER BY GlobalJobId)"))

	o.ProjectAttribute = "ProjectName; rm"
	_, err = poll(t.Context(), o, 0, at("2026-07-01T12:10:00Z"))
	require.ErrorContains(t, err, "is not the name of an attribute")
	_, err = Poll(t.Context(), Options{SnapshotDir: t.TempDir(), ProjectAttribute: "ProjectName"})
	require.ErrorContains(t, err, "with --jobs only")
}

// Without a job nothing is written, as by the poller in use.
func TestPollOfEmptyQueues(t *testing.T) {
	o, _ := queues(t, map[string]string{"ap1": ""})
	got, err := poll(t.Context(), o, 0, at("2026-07-01T12:00:00Z"))
	require.NoError(t, err)
	require.Equal(t, Polled{Schedds: 1}, got)
	require.NoFileExists(t, filepath.Join(o.SnapshotDir, "job_pressure_2026-07.db"))
}

func TestPollThatIsCancelled(t *testing.T) {
	o, _ := queues(t, map[string]string{"ap1": "hang"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := poll(ctx, o, 0, at("2026-07-01T12:00:00Z"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
