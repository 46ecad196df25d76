package snapshots

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots/snapshotstest"
)

func rowAt(text string) snapshotstest.Row {
	return snapshotstest.Row{"Name": "slot1@m", "Machine": "m", "AssignedGPUs": "GPU-a", "State": "Unclaimed", "timestamp": text}
}

func hourly(n int) (rows []snapshotstest.Row) {
	begin := time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		rows = append(rows, rowAt(begin.Add(time.Duration(i)*time.Hour).Format("2006-01-02 15:04:05.000000")))
	}
	return rows
}

func list(t *testing.T, dir string) []*File {
	t.Helper()
	d, err := OpenDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	files, err := d.Files(t.Context())
	require.NoError(t, err)
	return files
}

func TestOnlyMonthFilesAreData(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{month, "gpu_state_2025-10.db", "gpu_state_2025-09_dev.db", "gpu_state_2025-9.db", "xgpu_state_2025-09.db", "gpu_state_2025-09.db.bak", "jobs.db"} {
		snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{name: hourly(1)})
	}
	var names []string
	for _, f := range list(t, dir) {
		names = append(names, f.Name)
	}
	require.Equal(t, []string{month, "gpu_state_2025-10.db"}, names)
}

func TestDirectoryErrors(t *testing.T) {
	_, err := OpenDir(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "does not exist")
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	plain := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	_, err = OpenDir(plain)
	require.ErrorContains(t, err, "cannot be opened")
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
		empty: "has no table gpu_state", truncated: "damaged or truncated", text: "is no SQLite file", short: "damaged or truncated",
		corrupt: "damaged or truncated", other: "has no table gpu_state", column: "no column AssignedGPUs, Machine",
		"gpu_state_2025-09.db": "links must stay inside", "gpu_state_2025-10.db": "no regular file",
	}
	for _, f := range list(t, dir) {
		s, err := f.State(t.Context())
		if err == nil {
			err = f.Scan(t.Context(), s, Rowids{s.First, s.Last}, &tape{})
		}
		if f.Name == good {
			require.NoError(t, err)
			require.EqualValues(t, 3000, s.Last)
			continue
		}
		require.ErrorContains(t, err, want[f.Name], f.Name)
		require.ErrorContains(t, err, f.Name)
		require.NotContains(t, err.Error(), dir)
		require.Equal(t, pool.FaultSource, pool.FaultOf(err), f.Name)
	}
}

// A file that grows, is edited, replaced by rename or removed is seen as it is at each look.
func TestChangesAreSeen(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		t.Run(journal, func(t *testing.T) {
			dir := t.TempDir()
			db := snapshotstest.Open(t, dir, month, snapshotstest.Schema, "journal_mode="+journal)
			snapshotstest.Append(t, db, snapshotstest.Schema, hourly(10)...)
			d, err := OpenDir(dir)
			require.NoError(t, err)
			defer d.Close()
			f, first := fileOf(t, d, month)
			_, same := fileOf(t, d, month)
			require.Equal(t, first, same)

			snapshotstest.Append(t, db, snapshotstest.Schema, rowAt("2025-09-01 10:00:00"))
			_, grown := fileOf(t, d, month)
			require.EqualValues(t, 11, grown.Last)
			require.Equal(t, "2025-09-01 10:00:00", grown.LastText)
			require.Equal(t, first.Rewritten, grown.Rewritten, "rows were only appended")
			require.NotEqual(t, first.Version, grown.Version)

			_, err = db.Exec("UPDATE gpu_state SET State = 'Claimed' WHERE rowid = 4")
			require.NoError(t, err)
			_, edited := fileOf(t, d, month)
			require.NotEqual(t, grown.Rewritten, edited.Rewritten)

			_, err = db.Exec("DELETE FROM gpu_state WHERE rowid < 4")
			require.NoError(t, err)
			_, shrunk := fileOf(t, d, month)
			require.NotEqual(t, edited.Rewritten, shrunk.Rewritten)
			require.EqualValues(t, 4, shrunk.First)
			require.NoError(t, db.Close())

			elsewhere := t.TempDir()
			snapshotstest.Write(t, elsewhere, map[string][]snapshotstest.Row{month: hourly(3)})
			require.NoError(t, os.Rename(filepath.Join(elsewhere, month), filepath.Join(dir, month)))
			for _, left := range []string{"-wal", "-shm"} {
				_ = os.Remove(filepath.Join(dir, month+left))
			}
			replaced, s := fileOf(t, d, month)
			require.NotSame(t, f, replaced)
			require.EqualValues(t, 3, s.Last)

			require.NoError(t, os.Remove(filepath.Join(dir, month)))
			files, err := d.Files(t.Context())
			require.NoError(t, err)
			require.Empty(t, files)
		})
	}
}

func TestSeek(t *testing.T) {
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{month: hourly(500)})
	f, s := openFile(t, dir, month)
	at := func(h int) string {
		return time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(h) * time.Hour).Format(time.DateTime)
	}
	for _, c := range []struct {
		from, to string
		want     Rowids
	}{
		{at(0), at(500), Rowids{1, 500}}, {at(-9), at(9), Rowids{1, 9}}, {at(10), at(11), Rowids{11, 11}}, {at(490), at(900), Rowids{491, 500}},
		{at(600), at(900), Rowids{1, 0}}, {at(-9), at(0), Rowids{1, 0}}, {at(10) + ".5", at(11), Rowids{12, 11}},
	} {
		got, err := f.Seek(t.Context(), s, c.from, c.to)
		require.NoError(t, err)
		require.Equal(t, c.want, got, c)
	}
}

func TestUnorderedFileIsTold(t *testing.T) {
	dir := t.TempDir()
	rows := hourly(200)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{month: append(rows[100:], rows[:100]...), "gpu_state_2025-10.db": hourly(200)})
	_, s := openFile(t, dir, month)
	require.True(t, s.Unordered)
	_, s = openFile(t, dir, "gpu_state_2025-10.db")
	require.False(t, s.Unordered)
}

// Nothing is ever written beside the data, but SQLite's own files of a file in WAL mode.
func TestNothingIsWritten(t *testing.T) {
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{month: hourly(100)})
	wal := snapshotstest.Open(t, dir, "gpu_state_2025-10.db", snapshotstest.Schema, "journal_mode=WAL")
	snapshotstest.Append(t, wal, snapshotstest.Schema, hourly(3)...)
	old := time.Now().Add(-100 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, month), old, old))
	before, err := os.ReadFile(filepath.Join(dir, month))
	require.NoError(t, err)
	d, err := OpenDir(dir)
	require.NoError(t, err)
	for _, name := range []string{month, "gpu_state_2025-10.db"} {
		f, s := fileOf(t, d, name)
		require.NoError(t, f.Scan(t.Context(), s, Rowids{s.First, s.Last}, &tape{}))
	}
	require.NoError(t, d.Close())
	after, err := os.ReadFile(filepath.Join(dir, month))
	require.NoError(t, err)
	require.Equal(t, before, after)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.Contains(t, []string{month, "gpu_state_2025-10.db", "gpu_state_2025-10.db-wal", "gpu_state_2025-10.db-shm"}, e.Name())
	}
}

func TestLists(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDir(dir)
	require.NoError(t, err)
	defer d.Close()
	lists, err := d.Lists("", "masked_hosts.yaml")
	require.NoError(t, err, "a default that is missing is no error")
	require.Empty(t, lists.CHTCOwned)
	require.Nil(t, lists.ExclusionOf("m1"))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("chtc_owned", "# machines\n c1.example.org # rack 3\n\nc2.example.org\r\n")
	write("masked_hosts.yaml", "excluded_hosts:\n  Lab.1: interactive\n  zzz: 12\n")
	lists, err = d.Lists("", "")
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"c1.example.org": true, "c2.example.org": true}, lists.CHTCOwned)
	require.Equal(t, &pool.Exclusion{Pattern: "Lab.1", Reason: "interactive"}, lists.ExclusionOf("gpulab.1x"))
	require.Nil(t, lists.ExclusionOf("labx1"))
	for text, want := range map[string]string{"excluded_hosts: [a]": "must map patterns", "{": "no YAML", "excluded_hosts: {' ': x}": "empty pattern"} {
		write("masked_hosts.yaml", text)
		_, err = d.Lists("", "")
		require.ErrorContains(t, err, want)
	}
	for _, name := range []string{"../x", "/etc/passwd", "a/b", ".."} {
		_, err = d.Lists(name, "")
		require.ErrorContains(t, err, "plain file name")
	}
	_, err = d.Lists("missing", "")
	require.ErrorContains(t, err, "cannot be read")
	require.NotContains(t, err.Error(), dir)
	require.NoError(t, os.Symlink("/etc/hostname", filepath.Join(dir, "out")))
	_, err = d.Lists("out", "")
	require.ErrorContains(t, err, "cannot be read")
}

// A line can be as long as the file.
func TestLongLineInList(t *testing.T) {
	dir := t.TempDir()
	text := "first.example.org\n# " + strings.Repeat("a long remark ", 10_000) + "\r\nlast.example.org # the last"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chtc_owned"), []byte(text), 0o600))
	d, err := OpenDir(dir)
	require.NoError(t, err)
	defer d.Close()
	lists, err := d.Lists("", "")
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"first.example.org": true, "last.example.org": true}, lists.CHTCOwned)
}
