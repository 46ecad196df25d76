package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

const july = "gpu_state_2026-07.parquet"

// tape keeps all that a scan gives.
type tape struct {
	lines []string
	skip  func(months.Local) bool
}

func (t *tape) Run(number int64, local months.Local, _ string) (bool, error) {
	t.lines = append(t.lines, fmt.Sprintf("%d at %d", number, local))
	return t.skip == nil || !t.skip(local), nil
}

func (t *tape) Row(row snapshots.Row, usage float64) error {
	t.lines = append(t.lines, fmt.Sprintf("%q %v", row.Columns(), usage))
	return nil
}

// openMonth opens a directory's month.
func openMonth(t testing.TB, dir string) months.File {
	t.Helper()
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return Format.Open(d, july, localtime.UTC)
}

func look(t testing.TB, f months.File, newest bool) months.Content {
	t.Helper()
	c, err := f.Look(t.Context(), newest)
	require.NoError(t, err)
	return c
}

// writeGroups writes a month of rows of the schema, in row groups of a size.
func writeGroups(t testing.TB, dir string, fields []Field, rows [][]any, group int) {
	t.Helper()
	require.NoError(t, files.Put(filepath.Join(dir, july), func(out *os.File) error {
		w := NewWriter(out, fields)
		for i, row := range rows {
			if i > 0 && i%group == 0 {
				if err := w.Flush(); err != nil {
					return err
				}
			}
			if err := w.Write(row); err != nil {
				return err
			}
		}
		return w.Close()
	}))
}

// Damage in one row group is an error of its days; the others are read.
func TestDamagedRowGroups(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, july)
	for snapshot := range 40 {
		// 3 hours each, 10 a row group
		require.NoError(t, appendRows(t.Context(), path, Schema, rowsOf(snapshot*36, 30), 300))
	}
	data := read(t, path)
	at := func(snapshot int) months.Local {
		local, err := localtime.ParseLocal([]byte(rowsOf(snapshot*36, 1)[0][13].(string)))
		require.NoError(t, err)
		return local
	}
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Len(t, f.Groups, 4)
	for _, column := range []string{"Name", "timestamp"} {
		broken := slices.Clone(data)
		chunk := f.Groups[1].chunks[f.Column(column).leaf]
		for i := chunk.at + 30; i < chunk.end; i++ {
			broken[i] ^= 0xa5
		}
		require.NoError(t, os.WriteFile(path, broken, 0o600))
		c := look(t, openMonth(t, dir), true)
		for snapshot := range 40 {
			r, err := c.Seek(t.Context(), at(snapshot), at(snapshot)+1)
			if err == nil {
				err = c.Scan(t.Context(), r, &tape{})
			}
			if snapshot >= 10 && snapshot < 20 {
				require.ErrorContains(t, err,
					"gpu_state_2026-07.parquet cannot be read (row group 1: column "+column+": damaged or truncated: ")
				require.Equal(t, pool.FaultSource, pool.FaultOf(err))
				continue
			}
			require.NoError(t, err)
			require.Equal(t, months.Range{First: int64(30 * snapshot), Last: int64(30*snapshot + 29)}, r)
		}
	}
}

// Rows without a readable timestamp belong to the stretch before them, at the file's beginning to the first one, also
// if they fill row groups of their own: a day's range reaches to the file's end, and rows appended there are seen.
func TestSeekBesideRowGroupsWithoutTimes(t *testing.T) {
	dir := t.TempDir()
	rows := slices.Concat(rowsOf(0, 5), rowsOf(0, 5), rowsOf(36, 5), rowsOf(36, 5))
	for _, row := range slices.Concat(rows[:5], rows[15:]) {
		row[13] = nil
	}
	writeGroups(t, dir, Schema, rows, 5)
	c := look(t, openMonth(t, dir), true)
	begin, err := localtime.ParseLocal([]byte(rows[5][13].(string)))
	require.NoError(t, err)
	hour := time.Hour.Microseconds()
	for _, want := range []struct {
		from, to months.Local
		rows     months.Range
	}{
		{begin, begin + hour, months.Range{First: 0, Last: 9}},
		{begin + 2*hour, begin + 4*hour, months.Range{First: 10, Last: 19}},
		{begin, begin + 4*hour, months.Range{First: 0, Last: 19}},
		{begin + hour, begin + 2*hour, months.Nothing},
	} {
		found, err := c.Seek(t.Context(), want.from, want.to)
		require.NoError(t, err)
		require.Equal(t, want.rows, found)
	}
}

// A file that is not a collector's month file is an error that says so, with a remedy.
func TestNoMonths(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, july)
	fails := func(want string) {
		t.Helper()
		_, err := openMonth(t, dir).Look(t.Context(), true)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, july)
		require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	}
	require.NoError(t, os.Mkdir(path, 0o700))
	fails("it is not a regular file")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, []byte("SQLite format 3\x00, not Parquet"), 0o600))
	fails("is not a Parquet file: convert it")
	require.NoError(t, os.WriteFile(path, read(t, "testdata/polars.parquet")[:5000], 0o600))
	fails("cannot be read (damaged or truncated: the footer is missing")
	writeGroups(t, dir, []Field{{"Name", Text}, {"State", Text}}, nil, 1)
	fails("it has no column AssignedGPUs, Machine, timestamp")
	var out bytes.Buffer
	w := parquet.NewGenericWriter[struct {
		Numbers []int64 `parquet:"AssignedGPUs,list"`
	}](&out)
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	fails("its column AssignedGPUs has a structure")
	require.NoError(t, os.Remove(path))
	outside := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	require.NoError(t, os.Symlink(outside, path))
	fails("links must stay inside")
}

// An edit that leaves sizes and statistics as they are shows in the newest month, in a row group that rows no longer
// come to: in the process that read it before, and in one that reads it now. So does one of the timestamps.
func TestEditOfEqualSizeInTheNewestMonth(t *testing.T) {
	dir := t.TempDir()
	rows := rowsOf(0, 20)
	rows[5][13] = rowsOf(1, 1)[0][13]
	rows[6][13] = rowsOf(2, 1)[0][13]
	writeGroups(t, dir, Schema, rows, 10)
	f := openMonth(t, dir)
	first := months.Range{First: 0, Last: 9}
	known := map[string]bool{}
	for _, column := range []string{"", "Name", "timestamp"} {
		if column != "" {
			i := position(Schema, column)
			rows[5][i], rows[6][i] = rows[6][i], rows[5][i]
			writeGroups(t, dir, Schema, rows, 10)
		}
		here, there := look(t, f, true).(*content), look(t, openMonth(t, dir), true).(*content)
		print, err := here.Fingerprint(t.Context(), first)
		require.NoError(t, err)
		other, err := there.Fingerprint(t.Context(), first)
		require.NoError(t, err)
		require.Equal(t, other, print, column)
		require.False(t, known[print], column)
		known[print] = true
		require.Equal(t, there.groups[0].times.Load().runs, here.groups[0].times.Load().runs)
	}
}

// A finished month whose row groups are out of order, or too far apart, gives all rows, as the newest one does.
func TestFinishedMonthOutOfOrder(t *testing.T) {
	for name, order := range map[string][]int{"late": {500, 0, 600}, "of the future": {0, 20000, 500}} {
		dir := t.TempDir()
		var rows [][]any
		for _, first := range order {
			rows = append(rows, rowsOf(first, 10)...)
		}
		writeGroups(t, dir, Schema, rows, 10)
		for _, newest := range []bool{true, false} {
			c := look(t, openMonth(t, dir), newest).(*content)
			require.True(t, c.info.Unordered, name)
			for n, first := range order {
				at, err := localtime.ParseLocal([]byte(rowsOf(first, 1)[0][13].(string)))
				require.NoError(t, err)
				found, err := c.Seek(t.Context(), at, at+1)
				require.NoError(t, err)
				require.EqualValues(t, 10*n, found.First, "%s, newest: %t", name, newest)
			}
		}
	}
}

// A row group that stays the same behind one that becomes longer has other numbers than before.
func TestRowGroupBehindALongerOne(t *testing.T) {
	dir := t.TempDir()
	f := openMonth(t, dir)
	write := func(first int) *content {
		require.NoError(t, files.Put(filepath.Join(dir, july), func(out *os.File) error {
			w := NewWriter(out, Schema)
			for _, rows := range [][][]any{rowsOf(0, first), rowsOf(36, 10)} {
				for _, row := range rows {
					if err := w.Write(row); err != nil {
						return err
					}
				}
				if err := w.Flush(); err != nil {
					return err
				}
			}
			return w.Close()
		}))
		return look(t, f, true).(*content)
	}
	before, after := write(10), write(15)
	require.Equal(t, before.groups[1].hash.Load(), after.groups[1].hash.Load())
	at, err := localtime.ParseLocal([]byte(rowsOf(36, 1)[0][13].(string)))
	require.NoError(t, err)
	found, err := after.Seek(t.Context(), at, at+1)
	require.NoError(t, err)
	require.Equal(t, months.Range{First: 15, Last: 24}, found)
}

// silent holds a file on a volume or in a bucket that does not answer.
type silent struct{ opened, leave chan bool }

func (silent) Version() (Version, error) { return Version{Size: 100, Tag: "x"}, nil }

func (h silent) Open(ctx context.Context, _ Version) (Input, error) {
	h.opened <- true
	select {
	case <-h.leave:
	case <-ctx.Done():
	}
	return nil, errors.New("no answer")
}

// Who waits for another one's look waits no longer than until the own deadline.
func TestWaitingForALook(t *testing.T) {
	h := silent{make(chan bool), make(chan bool)}
	f := NewFile(july, true, nil, h, localtime.UTC)
	first := make(chan error)
	go func() {
		_, err := f.Look(t.Context(), true)
		first <- err
	}()
	<-h.opened
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Look(ctx, true)
	require.ErrorIs(t, err, context.Canceled)
	close(h.leave)
	require.ErrorContains(t, <-first, "no answer")
}
