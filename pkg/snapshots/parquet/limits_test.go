package parquet

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
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
