package samplepool

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// Month files of both formats hold the same rows.
func TestFormatsHoldTheSame(t *testing.T) {
	o := days(Default(), 5)
	dirs := map[string]string{}
	for _, format := range []string{"sqlite", "parquet"} {
		o.Format, dirs[format] = format, t.TempDir()
		p, err := New(o)
		require.NoError(t, err)
		require.NoError(t, p.WriteSnapshots(t.Context(), dirs[format]))
		for _, list := range []string{"chtc_owned", "masked_hosts.yaml"} {
			require.NoError(t, os.Remove(filepath.Join(dirs[format], list)))
		}
		require.ErrorContains(t, p.WriteSnapshots(t.Context(), dirs[format]), "exists already")
	}
	for _, month := range []string{"gpu_state_2025-10", "gpu_state_2025-11"} {
		data, err := os.ReadFile(filepath.Join(dirs["parquet"], month+".parquet"))
		require.NoError(t, err)
		f, err := parquet.Open(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		fields, err := f.Fields()
		require.NoError(t, err)
		require.Len(t, fields, map[string]int{"gpu_state_2025-10": 12, "gpu_state_2025-11": 17}[month])
		columns := ""
		for _, field := range fields {
			columns += ", " + field.Name
			if field.Name == "timestamp" {
				columns += " || ''" // as text
			}
		}
		db, err := sql.Open("sqlite", "file:"+filepath.Join(dirs["sqlite"], month+".db")+"?mode=ro")
		require.NoError(t, err)
		defer db.Close()
		rows, err := db.Query("SELECT rowid" + columns + " FROM gpu_state ORDER BY rowid")
		require.NoError(t, err)
		defer rows.Close()
		require.NoError(t, f.EachRow(t.Context(), 0, fields, func(got []any) error {
			require.True(t, rows.Next())
			values := make([]any, 1+len(got))
			into := make([]any, len(values))
			for i := range values {
				into[i] = &values[i]
			}
			require.NoError(t, rows.Scan(into...))
			require.Equal(t, values[1:], got)
			return nil
		}))
		require.False(t, rows.Next())
	}
	o.Format = "csv"
	_, err := New(o)
	require.ErrorContains(t, err, "csv")
}

// Files of days hold the snapshots of their local days, those of the month files.
func TestDays(t *testing.T) {
	o := days(Default(), 5)
	o.Format = "parquet"
	p, err := New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, p.WriteSnapshots(t.Context(), dir))
	require.NoError(t, p.WriteDays(t.Context(), dir))
	require.ErrorContains(t, p.WriteDays(t.Context(), dir), "exists already")
	times := func(pattern string, check func(path, timestamp string)) map[string]int {
		all := map[string]int{}
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			found, err := parquet.Timestamps(t.Context(), bytes.NewReader(data), int64(len(data)))
			require.NoError(t, err)
			for timestamp, rows := range found {
				check(file, timestamp)
				all[timestamp] += rows
			}
		}
		return all
	}
	months := times("gpu_state_*.parquet", func(string, string) {})
	require.NotEmpty(t, months)
	require.Equal(t, months, times("date=*/snapshots.parquet", func(path, timestamp string) {
		require.Contains(t, path, "date="+timestamp[:len("2026-07-01")])
	}))
}
