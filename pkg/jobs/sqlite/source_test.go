package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

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
	defer s.Close()
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
		require.NoError(t, source.Close())
	}
}
