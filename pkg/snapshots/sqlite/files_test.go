package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

func rowAt(text string) snapshotstest.Row {
	return snapshotstest.Row{"Name": "slot1@m", "Machine": "m", "AssignedGPUs": "GPU-a", "State": "Unclaimed",
		"timestamp": text}
}

func hourly(n int) (rows []snapshotstest.Row) {
	begin := time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		rows = append(rows, rowAt(begin.Add(time.Duration(i)*time.Hour).Format("2006-01-02 15:04:05.000000")))
	}
	return rows
}

// files opens all month files of a directory.
func files(t *testing.T, dir string) (all []*file) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if _, _, ok := snapshots.ParseMonthFile(e.Name()); ok {
			all = append(all, opened(t, dir, e.Name()))
		}
	}
	return all
}

// Each broken file has an error that names it by its base name and says what to do; the others still answer.
func TestBrokenFiles(t *testing.T) {
	dir := t.TempDir()
	good := "gpu_state_2025-01.db"
	whole := filepath.Join(dir, good)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{good: hourly(3000)})
	content, err := os.ReadFile(whole)
	require.NoError(t, err)
	put := func(month int, b []byte) string {
		name := fmt.Sprintf("gpu_state_2025-%02d.db", month)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
		return name
	}
	empty := put(2, nil)
	truncated := put(3, content[:len(content)/2+100])
	text := put(4, []byte(strings.Repeat("this is no database\n", 300)))
	short := put(5, content[:50])
	damaged := append([]byte(nil), content...)
	for i := 4096; i < len(damaged); i++ {
		damaged[i] ^= 0x5a
	}
	corrupt := put(6, damaged)
	other, column := "gpu_state_2025-07.db", "gpu_state_2025-08.db"
	db := snapshotstest.Open(t, dir, other, []string{"a"})
	_, err = db.Exec("ALTER TABLE gpu_state RENAME TO something")
	require.NoError(t, err)
	snapshotstest.Open(t, dir, column, []string{"Name TEXT", "State TEXT", "timestamp DATETIME"})
	require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(dir, "gpu_state_2025-09.db")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "gpu_state_2025-10.db"), 0o700))

	want := map[string]string{
		empty: "has no table gpu_state", truncated: "damaged or truncated", text: "is not a SQLite file",
		short:   "damaged or truncated",
		corrupt: "damaged or truncated", other: "has no table gpu_state", column: "no column AssignedGPUs, Machine",
		"gpu_state_2025-09.db": "links must stay inside", "gpu_state_2025-10.db": "not a regular file",
	}
	for _, f := range files(t, dir) {
		c, err := f.Look(t.Context(), false)
		if err == nil {
			err = c.Scan(t.Context(), c.Info().Rows, &tape{})
		}
		if f.watched.Name == good {
			require.NoError(t, err)
			require.EqualValues(t, 3000, c.Info().Rows.Last)
			continue
		}
		require.ErrorContains(t, err, want[f.watched.Name], f.watched.Name)
		require.ErrorContains(t, err, f.watched.Name)
		require.NotContains(t, err.Error(), dir)
		require.Equal(t, pool.FaultSource, pool.FaultOf(err), f.watched.Name)
	}
}

func TestSeek(t *testing.T) {
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{month: hourly(500)})
	content := lookAt(t, dir, month)
	at := func(h int) months.Local {
		return time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(h) * time.Hour).UnixMicro()
	}
	for _, c := range []struct {
		from, to months.Local
		want     months.Range
	}{
		{at(0), at(500), months.Range{First: 1, Last: 500}}, {at(-9), at(9), months.Range{First: 1, Last: 9}},
		{at(10), at(11), months.Range{First: 11, Last: 11}}, {at(490), at(900), months.Range{First: 491, Last: 500}},
		{at(600), at(900), months.Range{First: 1, Last: 0}}, {at(-9), at(0), months.Range{First: 1, Last: 0}},
		{at(10) + 500_000, at(11), months.Range{First: 12, Last: 11}},
	} {
		got, err := content.Seek(t.Context(), c.from, c.to)
		require.NoError(t, err)
		require.Equal(t, c.want, got, c)
	}
}

// Nothing is ever written next to the data, except SQLite's own files of a file in WAL mode.
func TestNothingIsWritten(t *testing.T) {
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{month: hourly(100)})
	wal := snapshotstest.Open(t, dir, "gpu_state_2025-10.db", snapshotstest.Schema, "journal_mode=WAL")
	snapshotstest.Append(t, wal, snapshotstest.Schema, hourly(3)...)
	old := time.Now().Add(-100 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, month), old, old))
	before, err := os.ReadFile(filepath.Join(dir, month))
	require.NoError(t, err)
	for _, f := range files(t, dir) {
		c, err := f.Look(t.Context(), f.watched.Name != month)
		require.NoError(t, err)
		require.NoError(t, c.Scan(t.Context(), c.Info().Rows, &tape{}))
		f.Close()
	}
	after, err := os.ReadFile(filepath.Join(dir, month))
	require.NoError(t, err)
	require.Equal(t, before, after)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.Contains(t, []string{month, "gpu_state_2025-10.db", "gpu_state_2025-10.db-wal", "gpu_state_2025-10.db-shm"},
			e.Name())
	}
}

// Columns that hide the rowid, and every encoding of texts, give what a plain file gives.
func TestTablesOfOtherTools(t *testing.T) {
	rows := []snapshotstest.Row{}
	for i := range 50 {
		rows = append(rows, snapshotstest.Row{"Name": "slöt1@m", "AssignedGPUs": fmt.Sprint("GPU-", i%2), "State": "Claimed",
			"Machine": "m", "rowid": 1, "_rowid_": 7 - i, "timestamp": fmt.Sprintf("2025-09-01 %02d:%02d:00.000000",
				i/4, i%4*15)})
	}
	read := func(schema []string, pragmas ...string) ([]string, error) {
		dir := t.TempDir()
		db := snapshotstest.Open(t, dir, month, schema, pragmas...)
		snapshotstest.Append(t, db, schema, rows...)
		require.NoError(t, db.Close())
		seen, err := opened(t, dir, month).Look(t.Context(), true)
		if err != nil {
			return nil, err
		}
		c := seen.(*content)
		var v tape
		found, err := c.Seek(t.Context(), c.info.First, c.info.Last)
		require.NoError(t, err)
		require.NoError(t, c.Scan(t.Context(), c.info.Rows, &v))
		return append(v.lines, fmt.Sprint(found)), nil
	}
	plain, err := read(snapshotstest.Schema)
	require.NoError(t, err)
	require.Greater(t, len(plain), 100)
	for _, encoding := range []string{"UTF-8", "UTF-16le", "UTF-16be"} {
		got, err := read(append(snapshotstest.Schema[:len(snapshotstest.Schema):len(snapshotstest.Schema)], "ROWID INTEGER",
			"_rowid_ INTEGER"), "encoding='"+encoding+"'")
		require.NoError(t, err, encoding)
		require.Equal(t, plain, got, encoding)
	}
	for _, statements := range []string{
		"CREATE TABLE gpu_state(Name, AssignedGPUs, State, Machine, timestamp PRIMARY KEY) WITHOUT ROWID",
		"CREATE TABLE t(Name, AssignedGPUs, State, Machine, timestamp); CREATE VIEW gpu_state AS SELECT * FROM t",
		"CREATE TABLE gpu_state(Name, AssignedGPUs, State, Machine, timestamp, rowid, _rowid_, oid)",
	} {
		dir := t.TempDir()
		db, err := sql.Open("sqlite", filepath.Join(dir, month))
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), statements)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		_, err = opened(t, dir, month).Look(t.Context(), true)
		require.ErrorContains(t, err, "CREATE TABLE copy AS SELECT * FROM gpu_state", statements)
		require.NotContains(t, err.Error(), "damaged")
	}
}

// counter counts the rows of a scan.
type counter struct{ rows int }

func (c *counter) Run(int64, months.Local, string) (bool, error) { return true, nil }
func (c *counter) Row(snapshots.Row, float64) error              { c.rows++; return nil }

// A file is reopened while other goroutines read it: each reading is complete or fails as stale. (It is meant for the
// race detector.)
func TestReopenedWhileRead(t *testing.T) {
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{month: hourly(300)})
	f := opened(t, dir, month)
	path := filepath.Join(dir, month)
	old := time.Now().Add(-100 * time.Hour)
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			for range 50 {
				if i == 0 { // as immutable, and not, in turns
					old = old.Add(-time.Hour)
					if err := os.Chtimes(path, old, old); err != nil {
						t.Error(err)
					}
				}
				c, err := f.Look(t.Context(), i == 1)
				if err != nil {
					t.Error(err)
					return
				}
				info := c.Info()
				read := &counter{}
				_, errSeek := c.Seek(t.Context(), info.First, info.Last)
				_, errPrint := c.Fingerprint(t.Context(), info.Rows)
				err = c.Scan(t.Context(), info.Rows, read)
				for _, err := range []error{err, errSeek, errPrint} {
					if err != nil && !errors.Is(err, snapshots.ErrStale) {
						t.Error(err)
					}
				}
				if err == nil && read.rows != 300 {
					t.Errorf("%d rows", read.rows)
				}
			}
		})
	}
	wait.Wait()
}
