package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
	fail  int // fails at the n-th line, 0 = never
}

var errTape = errors.New("the visitor has enough")

func (t *tape) Run(number int64, local months.Local, _ string) (bool, error) {
	t.lines = append(t.lines, fmt.Sprintf("%d at %d", number, local))
	return t.skip == nil || !t.skip(local), nil
}

func (t *tape) Row(row snapshots.Row, usage float64) error {
	t.lines = append(t.lines, fmt.Sprintf("%q %v", row.Columns(), usage))
	if t.fail > 0 && len(t.lines) >= t.fail {
		return errTape
	}
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

// drawMonth makes rows in the order of time, now and then without a timestamp or late, and their fields in any order.
func drawMonth(t *rapid.T) (fields []Field, rows [][]any) {
	fields = rapid.Permutation(slices.DeleteFunc(slices.Clone(Schema), func(f Field) bool {
		return !slices.Contains(snapshots.RequiredColumns, f.Name) && rapid.Bool().Draw(t, "missing")
	})).Draw(t, "order")
	texts := rapid.OneOf(rapid.SampledFrom([]any{nil, "", "x", "Claimed", "GPU-a0223334", "ünï\x00code"}),
		rapid.Map(rapid.StringN(0, 20, 80), func(s string) any { return s }))
	moment := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	for range rapid.IntRange(0, 150).Draw(t, "rows") {
		switch rapid.IntRange(0, 12).Draw(t, "next") {
		case 0, 1:
			moment = moment.Add(15 * time.Minute)
		case 2:
			moment = moment.Add(-50 * time.Minute)
		}
		row := make([]any, len(fields))
		for i, f := range fields {
			switch f.Kind {
			case Integer:
				row[i] = rapid.SampledFrom([]any{nil, int64(0), int64(81251), int64(-3)}).Draw(t, f.Name)
			case Real:
				row[i] = rapid.SampledFrom([]any{nil, 0.0, 0.5, 3.25, math.NaN()}).Draw(t, f.Name)
			case Moment:
				if row[i] = moment.Format(momentFormat); rapid.IntRange(0, 15).Draw(t, "no time") == 0 {
					row[i] = nil
				}
			default:
				row[i] = texts.Draw(t, f.Name)
			}
		}
		rows = append(rows, row)
	}
	return fields, rows
}

// expected is what a scan of rows gives, found row by row.
func expected(fields []Field, rows [][]any, r months.Range, skip func(months.Local) bool) (lines []string) {
	at := func(row []any, name string) any {
		if i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name }); i >= 0 {
			return row[i]
		}
		return nil
	}
	last := months.Local(1)
	for n := max(r.First, 0); n <= r.Last && n < int64(len(rows)); n++ {
		local := months.None
		if text, ok := at(rows[n], "timestamp").(string); ok {
			local, _ = localtime.ParseLocal([]byte(text))
		}
		if n == r.First || local != last || n%groupSize == 0 {
			lines = append(lines, fmt.Sprintf("%d at %d", n, local))
			last = local
		}
		if skip(local) {
			continue
		}
		var texts [snapshots.Columns]string
		for i, name := range snapshots.ColumnNames {
			if v := at(rows[n], name); v != nil {
				texts[i] = fmt.Sprint(v)
			}
		}
		value := math.NaN()
		if v, ok := at(rows[n], snapshots.UsageColumn).(float64); ok {
			value = v
		}
		lines = append(lines, fmt.Sprintf("%q %v", texts, value))
	}
	return lines
}

const groupSize = 40

// A scan gives the rows that were written, for any columns, row groups and range.
func TestScan(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		dir, err := os.MkdirTemp(tt.TempDir(), "")
		require.NoError(t, err)
		fields, rows := drawMonth(t)
		writeGroups(tt, dir, fields, rows, groupSize)
		c := look(tt, openMonth(tt, dir), true)
		skip := func(local months.Local) bool { return local != months.None && local/pool.Minute%60 == 15 }
		r := months.Range{First: rapid.Int64Range(0, 160).Draw(t, "first"), Last: rapid.Int64Range(-3, 160).Draw(t, "last")}
		r.Last = min(r.Last, c.Info().Rows.Last)
		got := &tape{skip: skip}
		require.NoError(t, c.Scan(tt.Context(), r, got))
		require.Equal(t, expected(fields, rows, r, skip), got.lines)

		from := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC).UnixMicro() + rapid.Int64Range(-2, 40).Draw(t, "from")*pool.Hour/4
		to := from + rapid.Int64Range(0, 12).Draw(t, "to")*pool.Hour/4
		found, err := c.Seek(tt.Context(), from, to)
		require.NoError(t, err)
		for n, row := range rows {
			text, _ := row[slices.IndexFunc(fields, func(f Field) bool { return f.Name == "timestamp" })].(string)
			local, err := localtime.ParseLocal([]byte(text))
			if err == nil && local >= from && local < to {
				require.True(t, found.First <= int64(n) && int64(n) <= found.Last, "row %d of %v is outside %v", n, text, found)
			}
		}
	})
}

// A file that only grew is known to have; so is one that did not.
func TestGrowth(t *testing.T) {
	dir := t.TempDir()
	f := openMonth(t, dir)
	_, err := f.Look(t.Context(), true)
	require.ErrorContains(t, err, "gpu_state_2026-07.parquet was removed while it was read")
	path := filepath.Join(dir, july)
	const most = 100
	appendTo := func(snapshot, rows int) months.Content {
		t.Helper()
		require.NoError(t, appendRows(t.Context(), path, Schema, rowsOf(snapshot, rows), most))
		return look(t, f, true)
	}
	c := appendTo(0, 30)
	require.Same(t, c, look(t, f, true))
	r := months.Range{First: 5, Last: 25}
	print, err := c.Fingerprint(t.Context(), r)
	require.NoError(t, err)
	for snapshot := range 10 {
		before := c
		c = appendTo(snapshot+1, 30)
		require.Equal(t, int64(30*(snapshot+2)-1), c.Info().Rows.Last)
		require.ErrorIs(t, before.Scan(t.Context(), r, &tape{}), snapshots.ErrStale)
		if snapshot < 2 { // the row group is the last one
			_, err := before.Fingerprint(t.Context(), months.Range{First: 5, Last: 24})
			require.ErrorIs(t, err, snapshots.ErrStale)
			again, err := c.Fingerprint(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, print, again)
		}
	}
	other := look(t, openMonth(t, dir), true) // as another process sees it
	for _, r := range []months.Range{{First: 0, Last: 329}, {First: 5, Last: 25}, {First: 90, Last: 110},
		{First: 310, Last: 320}, months.Nothing} {
		a, err := c.Fingerprint(t.Context(), r)
		require.NoError(t, err)
		b, err := other.Fingerprint(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, a, b)
	}

	data := read(t, path)
	rows := everything(t, data, Schema)
	for _, change := range []struct {
		name string
		do   func()
	}{
		{"a value of a closed row group", func() { rows[10][3] = "Drained" }},
		{"a value of the last one", func() { rows[320][9] = "somebody@else" }},
		{"a usage of the last one", func() { rows[321][7] = 0.123 }},
		{"a time", func() { rows[322][13] = "2026-06-02 00:00:00.000000" }},
		{"rows that are gone", func() { rows = rows[:300] }},
	} {
		change.do()
		writeGroups(t, dir, Schema, rows, 90)
		before, err := c.Fingerprint(t.Context(), c.Info().Rows)
		require.NoError(t, err)
		c = look(t, f, true)
		after, err := c.Fingerprint(t.Context(), c.Info().Rows)
		require.NoError(t, err)
		require.NotEqual(t, before, after, change.name)
	}
	before := c.Info().Edits
	writeGroups(t, dir, Schema[1:], [][]any{rows[0][1:]}, 90)
	_, err = f.Look(t.Context(), true)
	require.ErrorContains(t, err, "it has no column Name")
	writeGroups(t, dir, Schema, rows[:1], 90)
	require.NotEqual(t, before, look(t, f, true).Info().Edits)
}

// Rows out of the order of time are found, wherever they are.
func TestDisorder(t *testing.T) {
	dir := t.TempDir()
	var rows [][]any
	for _, snapshot := range []int{0, 1, 2, 40, 41, 1, 2, 42} { // 41 is more than an hour after 1
		rows = append(rows, rowsOf(snapshot, 10)...)
	}
	writeGroups(t, dir, Schema, rows, 25)
	c := look(t, openMonth(t, dir), true)
	require.True(t, c.Info().Unordered)
	at := func(snapshot int) months.Local {
		local, err := localtime.ParseLocal([]byte(rowsOf(snapshot, 1)[0][13].(string)))
		require.NoError(t, err)
		return local
	}
	found, err := c.Seek(t.Context(), at(1), at(2))
	require.NoError(t, err)
	require.LessOrEqual(t, found.First, int64(10))
	require.GreaterOrEqual(t, found.Last, int64(59))
	require.Equal(t, []months.Local{at(0), at(42)}, []months.Local{c.Info().First, c.Info().Last})
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
	fails("is not a Parquet file: restore it from a backup")
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

// A scan ends with what its visitor or its context says.
func TestEndsOfAScan(t *testing.T) {
	dir := t.TempDir()
	writeGroups(t, dir, Schema, rowsOf(0, 10), 5)
	c := look(t, openMonth(t, dir), true)
	v := &tape{fail: 3}
	require.ErrorIs(t, c.Scan(t.Context(), c.Info().Rows, v), errTape)
	require.Len(t, v.lines, 3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Scan(ctx, c.Info().Rows, &tape{}), context.Canceled)
	require.NoError(t, c.Scan(ctx, months.Nothing, &tape{}))
}

// An edit that leaves sizes and statistics as they are shows in a file that no collector appends to anymore: in the
// process that read it before, and in another one.
func TestEditOfEqualSize(t *testing.T) {
	dir := t.TempDir()
	rows := rowsOf(0, 10)
	writeGroups(t, dir, Schema, rows, 10)
	f := openMonth(t, dir)
	before := look(t, f, false).(*content)
	print, err := before.Fingerprint(t.Context(), before.Info().Rows)
	require.NoError(t, err)

	name := slices.IndexFunc(Schema, func(f Field) bool { return f.Name == "Name" })
	rows[3][name], rows[4][name] = rows[4][name], rows[3][name]
	writeGroups(t, dir, Schema, rows, 10)
	for _, other := range []months.File{f, openMonth(t, dir)} {
		after := look(t, other, false).(*content)
		require.Equal(t, before.file.Groups[0].Key, after.file.Groups[0].Key)
		require.NotEqual(t, before.Version(), after.Version())
		edited, err := after.Fingerprint(t.Context(), after.Info().Rows)
		require.NoError(t, err)
		require.NotEqual(t, print, edited)
	}
	require.NotEqual(t, before.Info().Edits, look(t, f, false).Info().Edits)
}

// Such an edit shows in the newest month as well, in a row group that rows no longer come to: in the process that read
// it before, and in one that reads it now. So does one of the timestamps.
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

// hanging holds a file on a volume or in a bucket that does not answer.
type hanging struct{ opened, leave chan bool }

func (hanging) Version() (Version, error) { return Version{Size: 100, Tag: "x"}, nil }

func (h hanging) Open(ctx context.Context, _ Version) (Input, error) {
	h.opened <- true
	select {
	case <-h.leave:
	case <-ctx.Done():
	}
	return nil, errors.New("no answer")
}

// Who waits for another one's look waits no longer than until the own deadline.
func TestWaitingForALook(t *testing.T) {
	h := hanging{make(chan bool), make(chan bool)}
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
