package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"

	"github.com/chtc/gpureports/pkg/pool"
)

// Pages are unpacked and decoded by parquet-go. It allocates what the header of a page claims: six bytes can claim two
// billion values. So the headers are read here first, and each claim is compared with the size of the file.

// piece is a range of the file.
type piece struct {
	at   int64
	data []byte
}

// piece reads some columns of a row group, apart from those that cannot be read, in one piece: of an object in a
// bucket, each piece takes a request.
func (f *File) piece(group int, columns []*Column) (piece, error) {
	from, to := f.size, int64(0)
	for _, c := range columns {
		if c == nil {
			continue
		}
		if chunk := f.Groups[group].chunks[c.leaf]; chunk.check(f.size) == nil {
			from, to = min(from, chunk.at), max(to, chunk.end)
		}
	}
	p := piece{from, make([]byte, max(to-from, 0))}
	return p, readFull(f.in, p.data, from)
}

// codecs are the compressions that parquet-go supports.
var codecs = []format.CompressionCodec{
	format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd, format.Lz4Raw,
}

// pagesOf returns what the library needs of a column's chunk for the rows [from, to): the dictionary, and the pages
// with these rows. first is the row with which the first of the pages begins. Errors: the chunk is damaged; its pages
// claim more than is reasonable for a file of this size. A column of equal values may take a few bytes, but a month
// does not consist of such columns only.
func pagesOf(chunk *chunk, data []byte, size int64, from, to int) (wanted []byte, first int, err error) {
	if !slices.Contains(codecs, chunk.codec) {
		return nil, 0, unreadable("it is compressed with %s", chunk.codec)
	}
	mostBytes, mostValues := pool.MostPageBytes+pool.MostPerByte*size, pool.MostPageValues+pool.MostPerByte*size
	first = -1
	for row := 0; row < to; {
		header, begin := new(format.PageHeader), newBounded(data)
		if err := thrift.NewDecoder(begin).Decode(header); err != nil {
			return nil, 0, damaged("page header: %v", err)
		}
		end := int64(begin.BytesRead()) + int64(header.CompressedPageSize)
		if header.CompressedPageSize < 0 || header.UncompressedPageSize < 0 || end > int64(len(data)) {
			return nil, 0, damaged("fewer rows in its pages than in its footer, or a page beyond its end")
		}
		// Skip pages before the wanted rows, and indexes.
		values := max(header.DataPageHeader.V.NumValues, header.DataPageHeaderV2.V.NumValues,
			header.DictionaryPageHeader.V.NumValues)
		page, next := data[:end], row
		data = data[end:]
		switch header.Type {
		case format.DictionaryPage:
		case format.DataPage, format.DataPageV2:
			if next += int(values); next <= from {
				row = next
				continue
			}
			if first < 0 {
				first = row
			}
		default: // an index, say
			continue
		}
		// Bound what the library allocates for the page.
		if mostBytes -= int64(header.UncompressedPageSize); mostBytes < 0 || int64(values) > mostValues {
			return nil, 0, unreadable("a page of %d values and %d bytes is too large for a file of %d bytes", values,
				header.UncompressedPageSize, size)
		}
		if chunk.codec == format.Lz4Raw && !fitsLZ4(header, page[begin.BytesRead():]) {
			return nil, 0, damaged("decompressing a page")
		}
		wanted, row = append(wanted, page...), next
	}
	return wanted, max(first, 0), nil
}

// fitsLZ4 reports whether a page has as many bytes as its header says. The library doubles its buffer until it is large
// enough, for a damaged page until the process runs out of memory.
func fitsLZ4(header *format.PageHeader, body []byte) bool {
	levels := header.DataPageHeaderV2.V.RepetitionLevelsByteLength + header.DataPageHeaderV2.V.DefinitionLevelsByteLength
	size := int(header.UncompressedPageSize - levels)
	if compressed := header.DataPageHeaderV2.V.IsCompressed; compressed.Valid && !compressed.V {
		return true
	}
	if levels < 0 || int(levels) > len(body) || size < 0 {
		return false
	}
	n, err := lz4.UncompressBlock(body[levels:], make([]byte, size))
	return err == nil && n == size
}

// open returns the library's reader of pages of a column. They are given to it as the only column of a file, because it
// takes all row groups of a column to be compressed as the first one.
func (c *Column) open(codec format.CompressionCodec, pages []byte) (*parquet.FilePages, error) {
	metadata := format.FileMetaData{Schema: make([]format.SchemaElement, 1), RowGroups: make([]format.RowGroup, 1)}
	metadata.Schema[0].NumChildren.V, metadata.Schema[0].NumChildren.Valid = 1, true
	metadata.Schema = append(metadata.Schema, c.schema...)
	var path []string
	for i := range c.schema {
		path = append(path, c.schema[i].Name)
	}
	metadata.RowGroups[0].Columns = []format.ColumnChunk{{MetaData: format.ColumnMetaData{
		Type: c.Kind, Codec: codec, PathInSchema: path, TotalCompressedSize: int64(len(pages)),
	}}}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &metadata)
	if err != nil {
		return nil, err
	}
	footer = append(binary.LittleEndian.AppendUint32(footer, uint32(len(footer))), magic...)
	file, err := parquet.OpenFile(bytes.NewReader(footer), int64(len(footer)), parquet.SkipMagicBytes(true),
		parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	return file.RowGroups()[0].ColumnChunks()[0].(*parquet.FileColumnChunk).PagesFrom(bytes.NewReader(pages)), nil
}

// The format: https://github.com/apache/parquet-format. The sizes and counts in a file may be damaged, so each is
// compared with the bytes that are there before anything is allocated for it.
const (
	magic     = "PAR1"
	encrypted = "PARE"
)

// errDamaged is the error of a file that no writer has finished like this.
var errDamaged = errors.New("damaged or truncated")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
}

// bounded reads thrift structures with lists no longer than the bytes left: the decoder allocates them beforehand.
type bounded struct {
	thrift.BytesReader
	size int
}

func newBounded(data []byte) *bounded {
	var protocol thrift.CompactProtocol
	return &bounded{protocol.NewReaderFromBytes(data), len(data)}
}

func (b *bounded) ReadList() (thrift.List, error) {
	list, err := b.BytesReader.ReadList()
	if left := b.size - b.BytesRead(); err == nil && (list.Size < 0 || int(list.Size) > min(left, pool.MostFooterList)) {
		return list, damaged("a list of %d elements in %d bytes", list.Size, left)
	}
	return list, err
}

func (b *bounded) ReadSet() (thrift.Set, error) {
	list, err := b.ReadList()
	return thrift.Set(list), err
}

func (b *bounded) ReadMap() (thrift.Map, error) {
	return thrift.Map{}, damaged("a map, which the format does not have")
}

// Discard skips bytes; the decoder calls it if a field is unknown.
func (b *bounded) Discard(n int) (int, error) {
	if d, ok := b.BytesReader.(interface{ Discard(int) (int, error) }); ok {
		return d.Discard(n)
	}
	return 0, errors.ErrUnsupported
}

// readFooter returns the metadata at the end of a file.
func readFooter(r io.ReaderAt, size int64) (*format.FileMetaData, error) {
	const frame = int64(len(magic))
	if size < 3*frame {
		return nil, damaged("%d bytes", size)
	}
	var tail [2 * len(magic)]byte
	if err := readFull(r, tail[:], size-2*frame); err != nil {
		return nil, err
	}
	if end := string(tail[4:]); end != magic {
		var head [len(magic)]byte // otherwise not needed: it takes another request to a bucket
		err := readFull(r, head[:], 0)
		switch {
		case err != nil:
			return nil, err
		case string(head[:]) == encrypted || end == encrypted:
			return nil, errors.New("it is encrypted")
		case string(head[:]) != magic:
			return nil, errNoParquet
		}
		return nil, damaged("the footer is missing: its writer died, or the copy is incomplete")
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	begin := size - 2*frame - length
	if begin < frame || length > pool.MostFooter {
		return nil, damaged("a footer of %d bytes in a file of %d", length, size)
	}
	data := make([]byte, length)
	if err := readFull(r, data, begin); err != nil {
		return nil, err
	}
	metadata := new(format.FileMetaData)
	if err := thrift.NewDecoder(newBounded(data)).Decode(metadata); err != nil {
		return nil, damaged("footer: %v", err)
	}
	return metadata, nil
}

// errNoParquet is a file of another format.
var errNoParquet = errors.New("it is not a Parquet file")

// readFull reads all of a range. A range that the file does not have any more is damage.
func readFull(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case err == nil, errors.Is(err, io.EOF):
		return damaged("it ends at byte %d", at+int64(n))
	}
	return err
}
