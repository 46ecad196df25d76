package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// claim is a page that claims to have more than its bytes hold.
type claim struct {
	header format.PageHeader
	body   []byte
	codec  format.CompressionCodec
	rows   int64
}

// file returns a file with the pages as the optional column RemoteOwner of one row group.
func (c claim) file(t *testing.T, more ...claim) []byte {
	t.Helper()
	out := []byte(magic)
	for _, p := range append([]claim{c}, more...) {
		p.header.CompressedPageSize = int32(len(p.body))
		header, err := thrift.Marshal(new(thrift.CompactProtocol), &p.header)
		require.NoError(t, err)
		out = append(append(out, header...), p.body...)
	}
	schema := []format.SchemaElement{{Name: "root"}, {Name: "RemoteOwner"}}
	schema[0].NumChildren.V, schema[0].NumChildren.Valid = 1, true
	schema[1].Type.V, schema[1].Type.Valid = format.ByteArray, true
	schema[1].RepetitionType.V, schema[1].RepetitionType.Valid = format.Optional, true
	column := format.ColumnChunk{MetaData: format.ColumnMetaData{
		Type: format.ByteArray, Codec: c.codec, DataPageOffset: int64(len(magic)),
		TotalCompressedSize: int64(len(out) - len(magic)), PathInSchema: []string{"RemoteOwner"},
	}}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &format.FileMetaData{
		Schema: schema, NumRows: c.rows,
		RowGroups: []format.RowGroup{{Columns: []format.ColumnChunk{column}, NumRows: c.rows}},
	})
	require.NoError(t, err)
	out = append(out, footer...)
	return append(binary.LittleEndian.AppendUint32(out, uint32(len(footer))), magic...)
}

func dataPage(values int, encoding format.Encoding, size int) (h format.PageHeader) {
	h.Type, h.UncompressedPageSize = format.DataPage, int32(size)
	h.DataPageHeader.Valid = true
	h.DataPageHeader.V = format.DataPageHeader{NumValues: int32(values), Encoding: encoding,
		DefinitionLevelEncoding: format.RLE}
	return h
}

func dictionaryPage(values, size int) (h format.PageHeader) {
	h.Type, h.UncompressedPageSize = format.DictionaryPage, int32(size)
	h.DictionaryPageHeader.Valid = true
	h.DictionaryPageHeader.V = format.DictionaryPageHeader{NumValues: int32(values), Encoding: format.Plain}
	return h
}

// levels are those of rows that all have a value.
func levels(rows int) []byte {
	run := append(binary.AppendUvarint(nil, uint64(rows)<<1), 1)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(run))), run...)
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A small file whose page headers claim more than it can hold is an error that takes less than 100 MB: the library
// would allocate what they claim. A page whose LZ4 is damaged is one, too.
func TestClaims(t *testing.T) {
	packer, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	pack := func(plain []byte) []byte { return packer.EncodeAll(plain, nil) }
	const huge, long = 1 << 28, 20 << 20
	const tooLarge, damage = "is too large for a file of", "damaged or truncated"
	run := binary.AppendUvarint(nil, huge<<1|1)
	one := append(dictionaryBody("a"), "more"...)
	var dictionaries []claim
	for range 3 {
		dictionaries = append(dictionaries,
			claim{header: dictionaryPage(1<<20, 1<<22), body: pack(make([]byte, 1<<22)), codec: format.Zstd})
	}
	var texts []claim
	for n := range 12 {
		body := pack(append(levels(1), dictionaryBody(string(bytes.Repeat([]byte{byte(n)}, long)))...))
		texts = append(texts, claim{header: dataPage(1, format.Plain, long+10), body: body})
	}
	for name, c := range map[string]struct {
		claim
		more []claim
		want string
	}{
		"rows":     {claim{header: dataPage(huge, format.Plain, 9), body: levels(huge), rows: huge}, nil, tooLarge},
		"negative": {claim{header: dataPage(-1, format.Plain, 9), body: levels(9), rows: 9}, nil, damage},
		"levels": {claim{header: dataPage(9, format.Plain, 4+len(run)),
			body: append([]byte{byte(len(run)), 0, 0, 0}, run...), rows: 9}, nil, damage},
		"no values": {claim{header: dataPage(9, format.DeltaLengthByteArray, len(levels(9))),
			body: levels(9), rows: 9}, nil, damage},
		"a page": {claim{header: dataPage(9, format.Plain, 1<<30),
			body: pack(make([]byte, 1<<28)), codec: format.Zstd, rows: 9}, nil, tooLarge},
		"a damaged page": {claim{header: dataPage(9, format.Plain, 100),
			body: []byte("no LZ4"), codec: format.Lz4Raw, rows: 9}, nil, damage},
		"a dictionary": {claim{header: dictionaryPage(long/4, long),
			body: pack(make([]byte, long)), codec: format.Zstd, rows: 1}, nil, tooLarge},
		"empty texts": {claim{header: dictionaryPage(1, long),
			body: pack(make([]byte, long)), codec: format.Zstd, rows: 1}, nil, damage},
		"dictionaries": {claim{header: dictionaryPage(1, 5),
			body: pack(one[:5]), codec: format.Zstd, rows: 9}, dictionaries, damage},
		"many long texts": {claim{header: dataPage(0, format.Plain, 4),
			body: pack(levels(0)), codec: format.Zstd, rows: 12}, texts, tooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			data := c.file(t, c.more...)
			f, err := Open(bytes.NewReader(data), int64(len(data)))
			require.NoError(t, err)
			grown := allocated(func() {
				_, err = f.columns(t.Context(), 0, 0, int(min(c.rows, GroupRows)), []string{"RemoteOwner"})
			})
			require.ErrorContains(t, err, c.want)
			require.Less(t, grown, uint64(100<<20), "a file of %d bytes", len(data))
		})
	}
}

// The timestamps of a file may change a million times, and once for each of its bytes: each change takes 16 bytes, but
// hardly any of a compressed file.
func TestChangesOfTheTimestamp(t *testing.T) {
	const rows = 2000
	var out bytes.Buffer
	w := NewWriter(&out, []Field{{snapshots.TimestampColumn, Moment}})
	for n := range rows {
		require.NoError(t, w.Write([]any{[]string{"2025-10-01 00:00:00", "2025-10-01 00:00:01"}[n%2]}))
	}
	require.NoError(t, w.Close())
	f, err := Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
	require.NoError(t, err)
	most := 1<<20 + int64(out.Len())
	for _, others := range []int64{0, most - rows, most - rows + 1, most} { // changes in other row groups
		c := &content{month: &month{zone: localtime.UTC}}
		c.changes.Store(others)
		found, err := c.take(t.Context(), f, 0, 0)
		if others+rows <= most {
			require.NoError(t, err)
			require.Len(t, found.runs, rows)
			require.Equal(t, others+rows, c.changes.Load())
			continue
		}
		require.ErrorIs(t, err, errRuns)
	}
}

// dictionaryBody is a text as dictionaries and plain pages have it.
func dictionaryBody(text string) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
}

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
