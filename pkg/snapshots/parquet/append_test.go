package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

// rowsOf makes rows of the schema for a snapshot.
func rowsOf(snapshot, n int) [][]any {
	begin := time.Date(2026, 6, 1, 0, 0, 0, 1000, time.UTC)
	moment := begin.Add(time.Duration(snapshot) * 5 * time.Minute).Format("2006-01-02 15:04:05.000000")
	rows := make([][]any, n)
	for i := range rows {
		rows[i] = []any{
			fmt.Sprintf("slot1_%d@m", i), fmt.Sprintf("GPU-%08x", i), nil, "Claimed", "NVIDIA L40S", int64(46068), "",
			float64(i) / 3, "m", "u@x", fmt.Sprintf("ap#%d.%d#1", snapshot, i%5), nil, int64(1000000), moment,
			int64(4), int64(16000), "Dynamic", nil, nil,
		}
	}
	return rows
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

// Row groups that are full stay byte for byte where they are, and the file is never seen half written.
func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gpu_state_2026-06.parquet")
	var want [][]any
	var before []byte
	const each, most = 1000, 2500 // two fill a row group
	for snapshot := range 6 {
		rows := rowsOf(snapshot, each)
		want = append(want, rows...)
		require.NoError(t, appendRows(t.Context(), path, Schema, rows, most))
		after := read(t, path)
		f, err := Open(bytes.NewReader(after), int64(len(after)))
		require.NoError(t, err)
		require.Len(t, f.Groups, snapshot/2+1)
		require.Equal(t, (snapshot+1)*each, f.Rows())
		if snapshot > 0 {
			old, err := Open(bytes.NewReader(before), int64(len(before)))
			require.NoError(t, err)
			end := old.Groups[len(old.Groups)-1].chunks[0].at
			if snapshot%2 == 0 { // the last one was full
				end = int64(len(magic))
				for _, c := range old.Groups[len(old.Groups)-1].chunks {
					end = max(end, c.end)
				}
			}
			require.True(t, bytes.Equal(before[:end], after[:end]))
			for g := range snapshot / 2 {
				require.Equal(t, old.Groups[g].Key, f.Groups[g].Key)
			}
		}
		before = after
	}
	require.Equal(t, want, everything(t, before, Schema))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 2, "the file and its lock")
}

// Row groups of other writers stay whole if they have more rows than those of this one.
func TestAppendToLargeRowGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	out, err := os.Create(path)
	require.NoError(t, err)
	w := NewWriter(out, []Field{{"M", Integer}})
	for range GroupRows + 1 {
		_, err := w.file.WriteRows([]parquet.Row{{parquet.Int64Value(1).Level(0, 1, 0)}})
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(w.Close(), out.Close()))
	before, err := Open(bytes.NewReader(read(t, path)), int64(len(read(t, path))))
	require.NoError(t, err)
	require.NoError(t, Append(t.Context(), path, w.fields, [][]any{{int64(2)}}))
	after, err := Open(bytes.NewReader(read(t, path)), int64(len(read(t, path))))
	require.NoError(t, err)
	require.Len(t, after.Groups, 2)
	require.Equal(t, before.Groups[0].Key, after.Groups[0].Key)
}

// A file that another kind of collector began is continued in its own order of columns; missing columns are added.
func TestAppendToFilesOfOthers(t *testing.T) {
	for _, name := range []string{"polars.parquet", "arrow-nanos-v2.parquet", "arrow-pages.parquet"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "gpu_state_2026-06.parquet")
			data := read(t, filepath.Join("testdata", name))
			require.NoError(t, os.WriteFile(path, data, 0o600))
			want := everything(t, data, Schema)
			for snapshot := range 3 {
				require.NoError(t, Append(t.Context(), path, Schema, rowsOf(snapshot, 10)))
				want = append(want, rowsOf(snapshot, 10)...)
				require.Equal(t, want, everything(t, read(t, path), Schema))
			}
			f, err := Open(bytes.NewReader(data), int64(len(data)))
			require.NoError(t, err)
			after := read(t, path)
			g, err := Open(bytes.NewReader(after), int64(len(after)))
			require.NoError(t, err)
			for i := range f.Columns {
				require.Equal(t, f.Columns[i].Name, g.Columns[i].Name)
			}
			require.Len(t, g.Columns, len(Schema))
		})
	}
}

// A column of integers becomes one of reals when a real is added, and one of texts when a text is; nothing is lost.
func TestAppendWidens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	integers := []Field{{"U", Integer}, {"M", Integer}}
	require.NoError(t, Append(t.Context(), path, integers, [][]any{{int64(1), int64(2)}}))
	require.NoError(t, Append(t.Context(), path, []Field{{"M", Text}, {"U", Real}}, [][]any{{"undefined", 0.5}}))
	got := everything(t, read(t, path), []Field{{"U", Real}, {"M", Text}})
	require.Equal(t, [][]any{{1.0, "2"}, {0.5, "undefined"}}, got)
}

// A value that its column cannot hold, or a damaged file, ends an append, and the file stays as it was.
func TestAppendFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gpu_state_2026-06.parquet")
	require.NoError(t, Append(t.Context(), path, Schema, rowsOf(0, 3)))
	before := read(t, path)
	bad := rowsOf(1, 1)
	bad[0][13] = "noon"
	require.ErrorContains(t, Append(t.Context(), path, Schema, bad), `"noon" is not a time`)
	bad = rowsOf(1, 1)
	bad[0][5] = 1.5
	require.ErrorContains(t, Append(t.Context(), path, Schema, bad), "GPUs_GlobalMemoryMb cannot hold 1.5")
	require.Equal(t, before, read(t, path))
	require.NoError(t, os.WriteFile(path, before[:len(before)-9], 0o600))
	require.ErrorIs(t, Append(t.Context(), path, Schema, rowsOf(1, 1)), errDamaged)
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 2, "the file and its lock")
}
