package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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

// Python writes numbers that JSON does not have: the ad is stored without them.
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
	require.Contains(t, ad, `"A":null,"B":[null,1],"Cmd":"say \"NaN\" -Infinity"}`)
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

// A job file that another tool has written has the same ads, also where real columns hide the rowid.
func TestTablesOfOtherTools(t *testing.T) {
	for schema, want := range map[string]string{
		"CREATE TABLE ads (kind TEXT, GlobalJobId TEXT, RecordTime INTEGER, ad TEXT, rowid INTEGER, _rowid_ INTEGER)": "",
		"CREATE TABLE t (kind, GlobalJobId, RecordTime, ad); CREATE VIEW ads AS SELECT * FROM t": "ads is a view, which " +
			"is not supported: copy it into an ordinary table",
	} {
		path := filepath.Join(t.TempDir(), "jobs.db")
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), schema)
		require.NoError(t, err)
		if want == "" {
			_, err = Import(t.Context(), path, "auto", Input{"ads", strings.NewReader(ad1 + ad2 + ad3)})
			require.NoError(t, err)
			_, err = db.ExecContext(t.Context(), "UPDATE ads SET rowid = 1")
			require.NoError(t, err)
		}
		require.NoError(t, db.Close())
		result, err := Open(path).Ads(t.Context(), []jobs.Wanted{{Job: "ap#1.0#1"}, {Job: "ap#2.0#1"}})
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.Len(t, result.Ads[0], 1)
		require.Len(t, result.Ads[1], 2)
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

// What SQLite left of an earlier job file is set aside, and said.
func TestImportSetsALogAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	require.NoError(t, os.WriteFile(path+"-journal", []byte("left"), 0o600))
	report, err := Import(t.Context(), path, "auto", Input{"ads", strings.NewReader(ad1)})
	require.NoError(t, err)
	require.Contains(t, report.Note, "jobs.db-journal.left-")
}
