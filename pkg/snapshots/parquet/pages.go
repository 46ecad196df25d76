package parquet

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// The library's page reader allocates any size that a page claims, because it has no limits: six bytes can claim two
// billion values. So pages are found and decompressed here, where each claim is checked before anything is allocated
// for it. Their values are decoded by the library.

const (
	// maxHeader bounds the header of a page, which holds a smallest and a largest value.
	maxHeader = 1 << 20
	// readAhead is how much is read at once if the column chunk is long enough.
	readAhead = 256 << 10
)

// maxBytes bounds the decompressed pages that one read of a column visits, and maxValues the values of one page. They
// grow with the file, because a column of equal values may take a few bytes, but a month does not consist of such
// columns only.
func maxBytes(fileSize int64) int64  { return 32<<20 + 64*fileSize }
func maxValues(fileSize int64) int64 { return 1<<20 + 64*fileSize }

// page is a decompressed data page.
type page struct {
	first, rows int    // rows of the row group
	present     []byte // 1 for each row with a value, 0 for NULL; nil if all rows have one
	values      int    // number of rows with a value
	encoding    format.Encoding
	data        []byte // the encoded values
}

// pages reads the pages of a column of a row group.
type pages struct {
	in       io.ReaderAt
	size     int64 // of the file
	rows     int
	optional bool
	chunk    chunk
	zstd     *zstd.Decoder
	left     int64  // of maxBytes
	window   []byte // bytes of the file from windowAt on
	windowAt int64
	levels   []byte // buffer for page.present
	plain    []byte // buffer for decompressed pages
}

// walk visits the dictionary, if there is one, and then the data pages with rows of [from, to). The visits' arguments
// are valid until they return.
func (p *pages) walk(
	ctx context.Context, from, to int, dictionary func(values int, data []byte) error, data func(page) error,
) error {
	row := 0
	p.left = maxBytes(p.size)
	for at := p.chunk.at; row < to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		header, body, err := p.header(at)
		if err != nil {
			return err
		}
		at = body + int64(header.CompressedPageSize)
		switch header.Type {
		case format.DictionaryPage: // also if the footer mentions none
			if err := p.visitDictionary(header, body, dictionary); err != nil {
				return err
			}
		case format.DataPage, format.DataPageV2:
			rows, err := p.rowsOf(header, row)
			if err != nil {
				return err
			}
			if row+rows > from {
				one := page{first: row, rows: rows, values: rows}
				if err := p.read(header, body, &one); err != nil {
					return err
				}
				if err := data(one); err != nil {
					return err
				}
			}
			row += rows
		}
	}
	return nil
}

// header reads the page header at a position and returns where the page's body begins.
func (p *pages) header(at int64) (*format.PageHeader, int64, error) {
	for size := int64(256); ; size *= 16 {
		data, err := p.bytes(at, min(at+size, p.chunk.end))
		if err != nil {
			return nil, 0, err
		}
		if len(data) == 0 {
			return nil, 0, damaged("fewer rows in its pages than in its footer")
		}
		reader := newBounded(data)
		header := new(format.PageHeader)
		err = thrift.NewDecoder(reader).Decode(header)
		if err != nil && size < maxHeader && at+size < p.chunk.end {
			continue // it is longer than the bytes that were read
		}
		if err != nil {
			return nil, 0, damaged("page header: %v", err)
		}
		body := at + int64(reader.BytesRead())
		packed, plain, left := int64(header.CompressedPageSize), int64(header.UncompressedPageSize), p.chunk.end-body
		if packed < 0 || packed > left || plain < 0 || plain > p.left {
			return nil, 0, damaged("a page of %d bytes, %d decompressed, where the column has %d", packed, plain, left)
		}
		return header, body, nil
	}
}

// bytes returns a part of the file, valid until the next call.
func (p *pages) bytes(from, to int64) ([]byte, error) {
	if from < p.windowAt || to > p.windowAt+int64(len(p.window)) {
		n := int(min(max(to, from+readAhead), p.chunk.end) - from)
		if cap(p.window) < n {
			p.window = make([]byte, n)
		}
		p.window, p.windowAt = p.window[:n], from
		if err := readFull(p.in, p.window, from); err != nil {
			p.window = p.window[:0]
			return nil, err
		}
	}
	return p.window[from-p.windowAt : to-p.windowAt], nil
}

func (p *pages) visitDictionary(
	header *format.PageHeader, body int64, visit func(values int, data []byte) error,
) error {
	values := int64(header.DictionaryPageHeader.V.NumValues)
	if !header.DictionaryPageHeader.Valid || values < 0 || values > maxValues(p.size) {
		return damaged("a dictionary of %d values", values)
	}
	packed, err := p.bytes(body, body+int64(header.CompressedPageSize))
	if err != nil {
		return err
	}
	data, err := p.decompress(packed, int(header.UncompressedPageSize))
	if err != nil {
		return err
	}
	return visit(int(values), data)
}

// rowsOf returns the number of rows of a data page that begins at a row. Each row has one value or none.
func (p *pages) rowsOf(header *format.PageHeader, row int) (int, error) {
	rows := int32(-1)
	if h := header.DataPageHeader; header.Type == format.DataPage && h.Valid {
		rows = h.V.NumValues
	}
	if h := header.DataPageHeaderV2; header.Type == format.DataPageV2 && h.Valid && h.V.NumRows == h.V.NumValues {
		rows = h.V.NumRows
	}
	if rows < 0 || int(rows) > p.rows-row || int64(rows) > maxValues(p.size) {
		return 0, damaged("a page of %d rows, where the row group has %d left", rows, p.rows-row)
	}
	return int(rows), nil
}

// read reads a data page: it decompresses the values and decodes the levels, which say which rows have one.
func (p *pages) read(header *format.PageHeader, body int64, one *page) error {
	packed, err := p.bytes(body, body+int64(header.CompressedPageSize))
	if err != nil {
		return err
	}
	size := int(header.UncompressedPageSize)
	if header.Type == format.DataPage {
		one.encoding = header.DataPageHeader.V.Encoding
		if one.data, err = p.decompress(packed, size); err != nil || !p.optional {
			return err
		}
		if len(one.data) < 4 || binary.LittleEndian.Uint32(one.data) > uint32(len(one.data)-4) {
			return damaged("a page without its levels")
		}
		n := 4 + int(binary.LittleEndian.Uint32(one.data))
		levels := one.data[4:n]
		one.data = one.data[n:]
		return p.decodeLevels(levels, one)
	}
	h := header.DataPageHeaderV2.V
	one.encoding = h.Encoding
	n := int(h.DefinitionLevelsByteLength)
	if h.RepetitionLevelsByteLength != 0 || n < 0 || n > len(packed) || n > size {
		return damaged("levels of %d bytes in a page of %d", n, len(packed))
	}
	one.data = packed[n:]
	if compressed := !h.IsCompressed.Valid || h.IsCompressed.V; compressed && size > n { // a page of NULLs has no values
		if one.data, err = p.decompress(packed[n:], size-n); err != nil {
			return err
		}
	}
	if !p.optional {
		return nil
	}
	return p.decodeLevels(packed[:n], one)
}

// decodeLevels decodes which rows have a value: one bit per row.
func (p *pages) decodeLevels(data []byte, one *page) error {
	data, err := boundRuns(data, 1, one.rows)
	if err != nil {
		return err
	}
	p.levels, err = (&rle.Encoding{BitWidth: 1}).DecodeLevels(p.levels, data)
	if err != nil {
		return damaged("levels: %v", err)
	}
	one.present = p.levels[:one.rows]
	if one.values = bytes.Count(one.present, []byte{1}); one.values == one.rows {
		one.present = nil
	}
	return nil
}

// decompress returns the bytes of a page, valid until the next call. No codec allocates more than size.
func (p *pages) decompress(packed []byte, size int) (plain []byte, err error) {
	p.left -= int64(size)
	if p.chunk.codec == format.Uncompressed {
		if len(packed) != size {
			return nil, damaged("a page of %d bytes has %d", size, len(packed))
		}
		return packed, nil
	}
	if cap(p.plain) < size {
		p.plain = make([]byte, size)
	}
	plain = p.plain[:size]
	n := 0
	switch p.chunk.codec {
	case format.Zstd:
		var all []byte
		all, err = p.zstd.DecodeAll(packed, p.plain[:0:size])
		n = len(all)
	case format.Snappy:
		if n, err = snappy.DecodedLen(packed); err == nil && n == size {
			_, err = snappy.Decode(plain, packed)
		}
	case format.Lz4Raw:
		n, err = lz4.UncompressBlock(packed, plain)
	case format.Gzip:
		var r io.Reader
		if r, err = gzip.NewReader(bytes.NewReader(packed)); err == nil {
			n, err = io.ReadFull(r, plain)
		}
	case format.Brotli:
		n, err = io.ReadFull(brotli.NewReader(bytes.NewReader(packed)), plain)
	default:
		return nil, unreadable("it is compressed with %s", p.chunk.codec)
	}
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes, %d expected", n, size)
	}
	if err != nil {
		return nil, damaged("decompressing a page: %v", err)
	}
	return plain, nil
}

// boundRuns returns the part of a sequence of runs that holds the given number of values, each of a bit width.
// Errors: there are too few, or a run claims more values than a writer would fill it up to. The decoder of runs
// allocates each claim.
func boundRuns(data []byte, width, values int) ([]byte, error) {
	const most = 256 // DuckDB fills up the last run to a multiple of it
	at := 0
	for left := values; left > 0; {
		run, n := binary.Uvarint(data[at:])
		if n <= 0 {
			return nil, damaged("%d values too few", left)
		}
		at += n
		count, size := min(run>>1, math.MaxInt32), uint64(width+7)/8
		if run&1 == 1 { // groups of eight packed values
			size = count * uint64(width)
			count *= 8
		}
		if count > uint64(left+most) || size > uint64(len(data)-at) {
			return nil, damaged("a run of %d values in %d bytes, %d values expected", count, len(data)-at, left)
		}
		at += int(size)
		left -= int(count)
	}
	return data[:at], nil
}
