package registry

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/convert"
	"github.com/chtc/gpureports/pkg/golden"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/samplepool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// reading keeps what a day is made of.
type reading struct {
	rows  []snapshots.Row
	lines []string
}

func (r *reading) Begin(bool) {}

func (r *reading) Distinct(row snapshots.Row) {
	r.rows = append(r.rows, append(snapshots.Row{}, row...))
}

func (r *reading) Snapshot(s snapshots.Snapshot) error {
	r.lines = append(r.lines, fmt.Sprint("snapshot ", s.Time))
	for i, n := range s.Rows {
		r.lines = append(r.lines, fmt.Sprintf("%q %v", r.rows[n].Columns(), s.Usage[i]))
	}
	return nil
}

// source opens a directory.
func source(t testing.TB, dir, zone string) snapshots.Source {
	t.Helper()
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	z, err := localtime.Parse([]byte(`"` + zone + `"`))
	require.NoError(t, err)
	s := OpenDir(d, z)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// everything is all that a state holds, and its oddities.
func everything(t testing.TB, s snapshots.Source) (lines []string, notices []string) {
	t.Helper()
	state, err := s.Look(t.Context())
	require.NoError(t, err)
	for _, date := range state.Dates() {
		var r reading
		found, err := state.Rows(t.Context(), date, snapshots.Known{}, true, &r)
		require.NoError(t, err)
		if len(r.lines) > 0 {
			lines = append(lines, fmt.Sprintf("day %d %+v", date, found.Oddities))
			lines = append(lines, r.lines...)
		}
	}
	for _, n := range state.Notices() {
		notices = append(notices, n.Text)
	}
	return lines, notices
}

// converted returns a directory with the months of another one in the other format.
func converted(t testing.TB, dir string) string {
	t.Helper()
	out := t.TempDir()
	files, err := filepath.Glob(filepath.Join(dir, "gpu_state_20??-??.db"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		_, err := convert.File(t.Context(), file, out)
		require.NoError(t, err)
	}
	return out
}

// Both formats hold the same snapshots: of the golden pools, converted and as polars wrote them, and of a made-up pool
// over a repeated hour, with late and doubled snapshots.
func TestFormatsAgree(t *testing.T) {
	for name, zone := range map[string]string{"pool-a": "UTC", "pool-b": "America/Chicago", "pool-c": "America/Chicago"} {
		t.Run(name, func(t *testing.T) {
			dir := golden.Pool(t, name)
			want, _ := everything(t, source(t, dir, zone))
			require.NotEmpty(t, want)
			got, notices := everything(t, source(t, converted(t, dir), zone))
			require.Equal(t, want, got)
			require.Empty(t, notices)
			if name == "pool-c" {
				got, notices = everything(t, source(t, golden.Parquet(t), zone))
				require.Equal(t, want, got)
				require.Empty(t, notices)
			}
		})
	}
	t.Run("sample", func(t *testing.T) {
		var all [][]string
		for _, format := range []string{"sqlite", "parquet"} {
			o := samplepool.Default()
			o.Format, o.RowNoise, o.MissedSnapshots, o.Outages = format, 0.1, 0.1, 10
			p, err := samplepool.New(o)
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, p.WriteSnapshots(context.Background(), dir))
			lines, _ := everything(t, source(t, dir, o.Timezone))
			all = append(all, lines)
		}
		require.NotEmpty(t, all[0])
		require.Equal(t, all[0], all[1])
	})
}

// exec changes a month file of SQLite.
func exec(t testing.TB, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.Exec(statement)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o600))
}

// Of two files of one month rows never count twice; each counts where the other has none.
func TestTwoFilesOfAMonth(t *testing.T) {
	const month, zone = "gpu_state_2025-10", "UTC"
	dir := golden.Pool(t, "pool-a")
	want, _ := everything(t, source(t, dir, zone))
	parquet := filepath.Join(converted(t, dir), month+".parquet")

	t.Run("the same twice", func(t *testing.T) {
		copyFile(t, parquet, filepath.Join(dir, month+".parquet"))
		got, notices := everything(t, source(t, dir, zone))
		require.Equal(t, want, got)
		require.Equal(t, []string{"gpu_state_2025-10.db and gpu_state_2025-10.parquet are of one month: " +
			"gpu_state_2025-10.parquet counts, and gpu_state_2025-10.db where it has no rows"}, notices)
	})
	t.Run("Parquet counts", func(t *testing.T) {
		exec(t, filepath.Join(dir, month+".db"), "UPDATE gpu_state SET RemoteOwner = 'nobody'")
		got, _ := everything(t, source(t, dir, zone))
		require.Equal(t, want, got)
	})
	for name, delete := range map[string][2]string{
		"SQLite first":  {"timestamp >= '2025-10-01 11:00'", "timestamp < '2025-10-01 11:00'"},
		"Parquet first": {"timestamp < '2025-10-01 11:00'", "timestamp >= '2025-10-01 11:00'"},
		"SQLite inside": {"timestamp < '2025-10-01 08:00' OR timestamp >= '2025-10-01 17:00'",
			"timestamp >= '2025-10-01 08:00' AND timestamp < '2025-10-01 17:00'"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := golden.Pool(t, "pool-a")
			half := filepath.Join(t.TempDir(), month+".db")
			copyFile(t, filepath.Join(dir, month+".db"), half)
			exec(t, filepath.Join(dir, month+".db"), "DELETE FROM gpu_state WHERE "+delete[0])
			exec(t, half, "DELETE FROM gpu_state WHERE "+delete[1])
			_, err := convert.File(t.Context(), half, dir)
			require.NoError(t, err)
			got, notices := everything(t, source(t, dir, zone))
			if name == "SQLite inside" { // Parquet counts from its first row to its last
				require.Less(t, len(got), len(want))
				require.True(t, strings.HasPrefix(notices[0],
					"gpu_state_2025-10.db and gpu_state_2025-10.parquet are of one month"))
				return
			}
			require.Equal(t, want, got)
			require.Len(t, notices, 1)
		})
	}
}

// What a collector leaves beside a month is not read.
func TestOtherNames(t *testing.T) {
	dir := golden.Parquet(t)
	want, _ := everything(t, source(t, dir, "America/Chicago"))
	for _, name := range []string{".gpu_state_2025-10.parquet.tmp", "gpu_state_2025-10.tmp.parquet",
		"gpu_state_2025-10_dev.parquet", "gpu_state_2025-10.parquet.bak", "gpu_state_2025-1.parquet"} {
		copyFile(t, filepath.Join(dir, "gpu_state_2025-10.parquet"), filepath.Join(dir, name))
	}
	got, notices := everything(t, source(t, dir, "America/Chicago"))
	require.Equal(t, want, got)
	require.Empty(t, notices)
}
