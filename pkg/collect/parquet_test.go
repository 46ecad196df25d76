package collect

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// parquetRows reads all rows of a month file in the order of columns.
func parquetRows(t testing.TB, path string) (rows [][]any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	f, err := parquet.Open(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	fields, err := f.Fields()
	require.NoError(t, err)
	require.Equal(t, parquet.Schema, fields, "the order of the reference collector")
	require.NoError(t, f.EachRow(t.Context(), 0, fields, func(row []any) error {
		values := make([]any, len(columns))
		for i, f := range parquet.Schema {
			values[slices.IndexFunc(columns, func(c column) bool { return c.name == f.Name })] = row[i]
		}
		rows = append(rows, values)
		return nil
	}))
	return rows
}

// Both formats hold the same rows in the same order.
func TestFormatsHoldTheSame(t *testing.T) {
	o := fake(t, "machines:5")
	times := []string{"2026-06-30T23:59:58.123456Z", "2026-07-01T00:15:00Z", "2026-07-01T00:30:00Z"}
	now := clock(times...)
	for range times {
		_, err := run(t.Context(), o, now)
		require.NoError(t, err)
	}
	p := fake(t, "machines:5")
	p.Format = "parquet"
	now = clock(times...)
	for range times {
		result, err := run(t.Context(), p, now)
		require.NoError(t, err)
		require.Equal(t, 5*rowsPerMachine, result.Rows)
	}
	for _, month := range []string{"gpu_state_2026-06", "gpu_state_2026-07"} {
		db := readOnly(t, filepath.Join(o.SnapshotDir, month+".db"))
		found, err := db.Query(`SELECT Name, AssignedGPUs, AvailableGPUs, State, GPUs_DeviceName, GPUs_GlobalMemoryMb, PrioritizedProjects,
			GPUsAverageUsage, Machine, PreventJobsReason, RemoteOwner, GlobalJobId, CAST(timestamp AS TEXT), Disk,
			Cpus, Memory, SlotType, SlotBrokenReason, BackfillSlot FROM gpu_state ORDER BY rowid`)
		require.NoError(t, err)
		var want [][]any
		for found.Next() {
			row := make([]any, len(columns))
			into := make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			require.NoError(t, found.Scan(into...))
			want = append(want, row)
		}
		require.NoError(t, found.Err())
		require.NoError(t, found.Close())
		require.NotEmpty(t, want)
		require.Equal(t, want, parquetRows(t, filepath.Join(p.SnapshotDir, month+".parquet")))
	}
	entries, err := os.ReadDir(p.SnapshotDir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NotContains(t, e.Name(), ".tmp")
		require.NotContains(t, e.Name(), "gpu_state_2026-07.db")
	}
}
