package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

const (
	ad1 = `{"GlobalJobId": "ap#1.0#1", "RecordTime": 1759150000, "Cmd": "a \"{[\\"}`
	ad2 = `{"GlobalJobId": "ap#2.0#1", "RecordTime": 1759150001, "Nested": {"a": [1, {"b": 2}]}}`
	// The same job and time as ad2, but an epoch: not a duplicate.
	ad3 = `{"GlobalJobId": "ap#2.0#1", "EpochWriteDate": 1759150001}`
)

func TestImportFormats(t *testing.T) {
	indent := func(s string) string { return strings.ReplaceAll(s, ", \"", ",\n  \"") }
	for name, text := range map[string]string{
		"lines":                ad1 + "\n" + ad2 + "\n" + ad3,
		"lines of Windows":     "\ufeff" + ad1 + "\r\n" + ad2 + "\r\n\r\n" + ad3 + "\r\n",
		"one array":            "[" + ad1 + "," + ad2 + "," + ad3 + "]",
		"condor_history -json": "[\n" + indent(ad1) + "\n,\n" + indent(ad2) + "\n,\n" + indent(ad3) + "\n]\n",
		"two arrays":           "[" + ad1 + "]\n[" + ad2 + ",\n  " + ad3 + "]",
		"side by side":         ad1 + indent(ad2) + ad3,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "jobs.db")
			got, err := Import(t.Context(), path, "auto", Input{name, iotest.OneByteReader(strings.NewReader(text))})
			require.NoError(t, err)
			require.Equal(t, Imported{Read: 3, Stored: 3}, got)
			got, err = Import(t.Context(), path, "auto", Input{name, strings.NewReader(text)})
			require.NoError(t, err)
			require.Equal(t, Imported{Read: 3, Duplicates: 3}, got)
			result, err := Open(path).Ads(t.Context(), []jobs.Wanted{{Job: "ap#1.0#1"}, {Job: "ap#2.0#1"}})
			require.NoError(t, err)
			require.Len(t, result.Ads[0], 1)
			require.Len(t, result.Ads[1], 2)
			require.Equal(t, jobs.Epoch, result.Ads[1][1].Kind)
		})
	}
}

func TestImportKind(t *testing.T) {
	text := strings.Join([]string{ad1, ad2, ad3}, "\n")
	for kind, want := range map[string]Imported{"history": {Read: 3, Stored: 2, Other: 1},
		"epoch": {Read: 3, Stored: 1, Other: 2}} {
		got, err := Import(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), kind, Input{"ads", strings.NewReader(text)})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := Import(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), "both")
	require.Equal(t, pool.FaultQuery, pool.FaultOf(err))
}

// Bad lines are counted and named, and lose no others.
func TestImportBad(t *testing.T) {
	text := strings.Join([]string{ad1, `{"GlobalJobId": "x", "RecordTime`, `hello`, ad2, `{"RecordTime": 5}`,
		`{"GlobalJobId": "nodate"}`, `{"GlobalJobId": "z",`, ad3, `{"open": [`}, "\n")
	path := filepath.Join(t.TempDir(), "jobs.db")
	got, err := Import(t.Context(), path, "auto", Input{"a.jsonl", strings.NewReader(text)})
	require.NoError(t, err)
	require.Equal(t, Imported{Read: 5, Stored: 3, Bad: 6, Problems: []string{
		"a.jsonl:2: a text in the JSON object is not closed",
		`a.jsonl:3: 'h' is not a JSON object`,
		"a.jsonl:5: job ad: no GlobalJobId",
		"a.jsonl:6: job ad: no RecordTime, and no other date to take it from",
		"a.jsonl:7: the JSON object ends early",
		"a.jsonl:9: the JSON object ends early",
	}}, got)
}

// All or nothing: a failing input leaves no new file, and an old one as it was.
func TestImportFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	failing := func() Input {
		return Input{"pipe", iotest.TimeoutReader(iotest.HalfReader(strings.NewReader(ad2 + "\n" + strings.Repeat(" ",
			1<<18))))}
	}
	_, err := Import(t.Context(), path, "auto", Input{"ok", strings.NewReader(ad1)}, failing())
	require.ErrorIs(t, err, iotest.ErrTimeout)
	require.ErrorContains(t, err, "pipe")
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	require.NoFileExists(t, path)

	_, err = Import(t.Context(), path, "auto", Input{"ok", strings.NewReader(ad1)})
	require.NoError(t, err)
	_, err = Import(t.Context(), path, "auto", failing())
	require.Error(t, err)
	health, err := Open(path).Health(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, health.Ads)

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Import(cancelled, path, "auto", Input{"ok", strings.NewReader(ad2)})
	require.ErrorIs(t, err, context.Canceled)

	_, err = Import(t.Context(), filepath.Join(t.TempDir(), "no", "jobs.db"), "auto")
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	text := filepath.Join(t.TempDir(), "text.db")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("no database", 100)), 0o600))
	_, err = Import(t.Context(), text, "auto", Input{"ok", strings.NewReader(ad1)})
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	require.False(t, errors.Is(err, os.ErrNotExist))
}

// Whatever characters are between and inside objects, each object is found once and in order.
func TestObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.SampledFrom([]string{ad1, ad2, ad3, `{}`, `{"a":"}{"}`, "{\n  \"b\": [\n    {}\n  ]\n}"})).Draw(t, "objects")
		var text strings.Builder
		for _, object := range want {
			text.WriteString(rapid.SampledFrom([]string{"\n", ",\n", " ", "[", "]\n[", "\r\n"}).Draw(t, "between") + object)
		}
		var got []string
		err := objects(strings.NewReader(text.String()), func(line int, object []byte) error {
			got = append(got, string(object))
			return nil
		}, func(line int, problem string) { t.Fatalf("%d: %s", line, problem) })
		require.NoError(t, err)
		if len(want)+len(got) > 0 {
			require.Equal(t, want, got)
		}
	})
}

// Python writes numbers that JSON does not have: the ad is read without them. Only attributes that are read are stored.
func TestImportNumbersOfPython(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	text := `[{"GlobalJobId": "a#1.0#1", "JobStatus": 4, "CompletionDate": 5, "RecordTime": 6, "A": NaN, "B": [-Infinity, 1],
		"Cmd": "say \"NaN\" -Infinity"}]`
	report, err := Import(t.Context(), path, "auto", Input{Name: "x.json", Reader: strings.NewReader(text)})
	require.NoError(t, err)
	require.Equal(t, 1, report.Stored)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	var ad string
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT ad FROM ads").Scan(&ad))
	require.Equal(t, `{"CompletionDate":5,"GlobalJobId":"a#1.0#1","JobStatus":4,"RecordTime":6}`, ad)
}

// What is no text of UTF-8 is named, with the remedy.
func TestImportEncodings(t *testing.T) {
	utf16 := func(text string) (wide string) {
		for _, c := range []byte(text) {
			wide += string([]byte{c, 0})
		}
		return wide
	}
	for text, want := range map[string]string{
		"\xff\xfe" + utf16(ad1):            "reading ads.json: it is UTF-16: save it as UTF-8",
		utf16(ad1):                         "it is UTF-16",
		"\x1f\x8b\x08\x00\x00\x00\x00\x00": "it is compressed with gzip: unpack it",
		"\x28\xb5\x2f\xfd\x04":             "it is compressed with zstd: unpack it",
		"BZh91AY&SY":                       "it is compressed with bzip2: unpack it",
	} {
		_, err := Import(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), "auto",
			Input{"ads.json", iotest.OneByteReader(strings.NewReader(text))})
		require.ErrorContains(t, err, want)
		require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	}
}

// Two imports that make one job file at the same time: the first to end makes it, the other one fails and takes nothing
// away.
func TestTwoImportsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	slow, in := io.Pipe()
	failed := make(chan error)
	go func() {
		_, err := Import(t.Context(), path, "auto", Input{"slow", slow})
		failed <- err
	}()
	_, err := io.WriteString(in, ad1) // it reads: its file is begun
	require.NoError(t, err)
	report, err := Import(t.Context(), path, "auto", Input{"quick", strings.NewReader(ad2)})
	require.NoError(t, err)
	require.Equal(t, 1, report.Stored)
	require.NoError(t, in.Close())
	require.ErrorContains(t, <-failed, "job file jobs.db: another import made it meanwhile: import again")
	result, err := Open(path).Ads(t.Context(), []jobs.Wanted{{Job: "ap#2.0#1"}})
	require.NoError(t, err)
	require.Len(t, result.Ads[0], 1)
	names, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, names, 1)
}

// A line and an ad of the long form are as long as an object may be.
func TestImportOfLongLines(t *testing.T) {
	defer func(most int) { maxObject = most }(maxObject)
	maxObject = 1 << 20
	const ad = "GlobalJobId = \"ap#1.0#1\"\nRecordTime = 1759276800\n"
	for _, long := range []string{
		ad + "Environment = \"" + strings.Repeat("x", 1<<20) + "\"\n\n",
		ad + strings.Repeat("Environment = \""+strings.Repeat("x", 1000)+"\"\n", 1<<10+100),
		`{"GlobalJobId": "` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		path := filepath.Join(t.TempDir(), "jobs.db")
		_, err := Import(t.Context(), path, "auto", Input{"long", strings.NewReader(long)})
		require.ErrorContains(t, err, "more than 1 MiB")
		require.ErrorContains(t, err, "line ")
		require.NoFileExists(t, path)
	}
	_, err := Import(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), "auto", Input{"long",
		strings.NewReader(strings.Repeat(ad+strings.Repeat("A = 1\n", 1000)+"\n", 1000))})
	require.NoError(t, err)
}

// Ads that another tool stored whole are read by pages of bytes; one that is longer than an ad may be is left out.
func TestPagesOfWholeAds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	const n = 120
	var wanted []jobs.Wanted
	_, err := Import(t.Context(), path, "auto", Input{"ad", strings.NewReader(ad1)})
	require.NoError(t, err)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	for i := range n {
		job := fmt.Sprintf("ap#%d.0#1759276800", i)
		_, err := db.ExecContext(t.Context(), `INSERT INTO ads SELECT 'history', ?1, 1759276800, json_object('GlobalJobId', ?1,
			'RecordTime', 1759276800, 'Environment', printf('%1000000s', 'x'))`, job)
		require.NoError(t, err)
		wanted = append(wanted, jobs.Wanted{Job: job})
	}
	_, err = db.ExecContext(t.Context(), `INSERT INTO ads SELECT 'history', 'long', 1759276800, printf('%70000000s', 'x')`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	stop, most := make(chan bool), make(chan uint64)
	go func() {
		highest := uint64(0)
		for {
			select {
			case <-stop:
				most <- highest
				return
			default:
				runtime.ReadMemStats(&after)
				highest = max(highest, after.HeapInuse)
				runtime.Gosched()
			}
		}
	}()
	found, err := Open(path).Ads(t.Context(), append(wanted, jobs.Wanted{Job: "long"}))
	close(stop)
	highest := <-most
	require.NoError(t, err)
	for i := range n {
		require.Len(t, found.Ads[i], 1)
	}
	require.Empty(t, found.Ads[n])
	require.Equal(t, []string{"1 stored documents are not job ads (invalid JSON or no GlobalJobId) and were left out."},
		found.Notices)
	require.Less(t, (max(highest, before.HeapInuse)-before.HeapInuse)>>20, uint64(80), "120 MB are read")
	since, err := Open(path).AdsOnMachines(t.Context(), []jobs.MachineDay{{Machine: "m", Day: 20000}})
	require.NoError(t, err)
	require.Empty(t, since.Ads[0])
}

// What SQLite left of an earlier job file is set aside, and said.
func TestImportSetsALogAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	require.NoError(t, os.WriteFile(path+"-journal", []byte("left"), 0o600))
	report, err := Import(t.Context(), path, "auto", Input{"ads", strings.NewReader(ad1)})
	require.NoError(t, err)
	require.Contains(t, report.Note, "jobs.db-journal.left-")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The suite, on a file made by Import.
func TestImported(t *testing.T) {
	jobstest.Run(t, func(t *testing.T, documents [][]byte) jobs.Source {
		path := filepath.Join(t.TempDir(), "jobs ?#%.db")
		_, err := Import(t.Context(), path, "auto", Input{"ads", bytes.NewReader(bytes.Join(documents, []byte("\n")))})
		require.NoError(t, err)
		return Open(path)
	})
}

// The suite, on a file that holds every document as it is, doubled ones and others' kinds too.
func TestPlainFile(t *testing.T) {
	jobstest.Run(t, func(t *testing.T, documents [][]byte) jobs.Source {
		path := filepath.Join(t.TempDir(), "jobs.db")
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		defer db.Close()
		_, err = db.Exec("CREATE TABLE ads(kind TEXT, GlobalJobId TEXT, RecordTime INTEGER, ad TEXT)")
		require.NoError(t, err)
		tx, err := db.Begin()
		require.NoError(t, err)
		for _, document := range documents {
			ad, err := jobs.ParseAd(document)
			require.NoError(t, err)
			_, err = tx.Exec("INSERT INTO ads VALUES (?, ?, ?, ?)", ad.Kind.String(), ad.GlobalJobID, ad.RecordTime,
				string(document))
			require.NoError(t, err)
		}
		require.NoError(t, tx.Commit())
		return Open(path)
	})
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "text.db"),
		[]byte("no database at all, but long enough to be looked at"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty.db"), nil, 0o600))
	for name, remedy := range map[string]string{
		"missing.db": "import-jobs",
		"text.db":    "is not a job file",
		"empty.db":   "is not a job file",
		".":          "it is not a regular file",
	} {
		_, err := Open(filepath.Join(dir, name)).Ads(t.Context(), []jobs.Wanted{{Job: "j"}})
		require.Equal(t, pool.FaultSource, pool.FaultOf(err), name)
		require.ErrorContains(t, err, remedy)
		if name != "." {
			require.ErrorContains(t, err, name)
		}
		require.NotContains(t, err.Error(), dir)
	}
}

// Only writing changes the revision.
func TestRevision(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	add := func(ad string) {
		t.Helper()
		_, err := Import(t.Context(), path, "auto", Input{"ads", strings.NewReader(ad)})
		require.NoError(t, err)
	}
	add(ad1)
	source := Open(path)
	revision := source.Revision()
	_, err := source.Ads(t.Context(), []jobs.Wanted{{Job: "ap#1.0#1"}})
	require.NoError(t, err)
	require.Equal(t, revision, source.Revision())
	add(ad2)
	require.NotEqual(t, revision, source.Revision())
}

// A file that another program holds is an error that says so, as soon as the question's time is over.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	_, err := Import(t.Context(), path, "auto")
	require.NoError(t, err)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.ExecContext(t.Context(), "BEGIN EXCLUSIVE")
	require.NoError(t, err)
	_, err = Import(t.Context(), path, "auto", Input{"ads",
		strings.NewReader(`{"GlobalJobId": "k", "RecordTime": 1759130000}`)})
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	require.ErrorContains(t, err, "another program")
	_, err = conn.ExecContext(context.Background(), "ROLLBACK")
	require.NoError(t, err)
}

// A job file that becomes a link out of its directory is not followed.
func TestLinkOutOfTheDirectory(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for _, at := range []string{dir, outside} {
		_, err := Import(t.Context(), filepath.Join(at, "jobs.db"), "auto", Input{Name: "x", Reader: strings.NewReader(ad1)})
		require.NoError(t, err)
	}
	path := filepath.Join(dir, "jobs.db")
	s := Open(path)
	_, err := s.Newest(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink(filepath.Join(outside, "jobs.db"), path))
	_, err = s.Newest(t.Context())
	require.ErrorContains(t, err, "jobs.db")
}

// A job file can have texts in UTF-16, as a month file can.
func TestFileInUTF16(t *testing.T) {
	for _, encoding := range []string{"UTF-8", "UTF-16le", "UTF-16be"} {
		path := filepath.Join(t.TempDir(), "jobs.db")
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		_, err = db.Exec("PRAGMA encoding = '" + encoding + "'; CREATE TABLE ads(kind TEXT, GlobalJobId TEXT, RecordTime " +
			`INTEGER, ad TEXT); INSERT INTO ads VALUES ('history', 'ap#1.0#9', 10, '{"GlobalJobId": "ap#1.0#9", "Owner": "zoë"}')`)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		source := Open(path)
		found, err := source.Ads(t.Context(), []jobs.Wanted{{Job: "ap#1.0#9"}})
		require.NoError(t, err)
		require.Empty(t, found.Notices, encoding)
		require.Len(t, found.Ads[0], 1, encoding)
		require.Equal(t, "zoë", found.Ads[0][0].Owner)
	}
}
