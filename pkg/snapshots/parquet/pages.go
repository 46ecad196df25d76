package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// The library's page reader allocates any size that a page claims, because it has no limits: six bytes can claim two
// billion values. So pages are found and decompressed here, where each claim is checked before anything is allocated
// for it.

// pages reads the pages of a column of a row group.
type pages struct {
	codec format.CompressionCodec
	data  []byte // the pages that follow
	rows  int    // of the row group
	size  int64  // of the file
	left  int64  // bytes that may still be decompressed
}

// piece is a range of the file.
type piece struct {
	at   int64
	data []byte
}

// read reads some columns of a row group, apart from those that cannot be read, in one piece: of an object in a bucket,
// each piece takes a request.
func (f *File) read(group int, columns []*Column) (piece, error) {
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

// open finds the pages of a column of a row group in the bytes that were read of it, still compressed. Their
// decompressed bytes are bounded. The bound grows with the file, because a column of equal values may take a few bytes,
// but a month does not consist of such columns only.
func (f *File) open(group int, c *Column, read piece) (*pages, error) {
	g := &f.Groups[group]
	chunk := g.chunks[c.leaf]
	p := &pages{codec: chunk.codec, rows: g.Rows, size: f.size, left: 32<<20 + 64*f.size}
	if g.Rows == 0 {
		return p, nil
	}
	if err := chunk.check(f.size); err != nil {
		return nil, err
	}
	p.data = read.data[chunk.at-read.at : chunk.end-read.at]
	return p, nil
}

// maxValues bounds the values of one page. It grows with the file, as the bytes do.
func (p *pages) maxValues() int64 { return 1<<20 + 64*p.size }

// next returns the header and the bytes of the next page.
func (p *pages) next() (*format.PageHeader, []byte, error) {
	if len(p.data) == 0 {
		return nil, nil, damaged("fewer rows in its pages than in its footer")
	}
	reader, header := newBounded(p.data), new(format.PageHeader)
	if err := thrift.NewDecoder(reader).Decode(header); err != nil {
		return nil, nil, damaged("page header: %v", err)
	}
	body := p.data[reader.BytesRead():]
	packed, plain := int64(header.CompressedPageSize), int64(header.UncompressedPageSize)
	if packed < 0 || packed > int64(len(body)) || plain < 0 || plain > p.left {
		return nil, nil, damaged("a page of %d bytes, %d decompressed, where the column has %d", packed, plain, len(body))
	}
	p.data = body[packed:]
	return header, body[:packed], nil
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
	if rows < 0 || int(rows) > p.rows-row || int64(rows) > p.maxValues() {
		return 0, damaged("a page of %d rows, where the row group has %d left", rows, p.rows-row)
	}
	return int(rows), nil
}

// split decompresses a data page of an optional column: its levels, which say which rows have a value, and its values.
func (p *pages) split(header *format.PageHeader, packed []byte, optional bool) (form format.Encoding,
	levels, data []byte, err error) {
	size := int(header.UncompressedPageSize)
	if header.Type == format.DataPage {
		form = header.DataPageHeader.V.Encoding
		if data, err = p.decompress(packed, size); err != nil || !optional {
			return form, nil, data, err
		}
		if len(data) < 4 || binary.LittleEndian.Uint32(data) > uint32(len(data)-4) {
			return form, nil, nil, damaged("a page without its levels")
		}
		n := 4 + int(binary.LittleEndian.Uint32(data))
		return form, data[4:n], data[n:], nil
	}
	h := header.DataPageHeaderV2.V
	n := int(h.DefinitionLevelsByteLength)
	if h.RepetitionLevelsByteLength != 0 || n < 0 || n > len(packed) || n > size {
		return form, nil, nil, damaged("levels of %d bytes in a page of %d", n, len(packed))
	}
	levels, data = packed[:n], packed[n:]
	if compressed := !h.IsCompressed.Valid || h.IsCompressed.V; compressed && size > n { // a page of NULLs has no values
		data, err = p.decompress(data, size-n)
	}
	return h.Encoding, levels, data, err
}

// unzstd is safe for concurrent use by DecodeAll.
var unzstd, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true))

// decompress returns the bytes of a page. No codec allocates more than size.
func (p *pages) decompress(packed []byte, size int) (plain []byte, err error) {
	p.left -= int64(size)
	if p.codec == format.Uncompressed {
		if len(packed) != size {
			return nil, damaged("a page of %d bytes has %d", size, len(packed))
		}
		return packed, nil
	}
	plain = make([]byte, size)
	n := 0
	switch p.codec {
	case format.Zstd:
		var all []byte
		all, err = unzstd.DecodeAll(packed, plain[:0])
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
		return nil, unreadable("it is compressed with %s", p.codec)
	}
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes, %d expected", n, size)
	}
	if err != nil {
		return nil, damaged("decompressing a page: %v", err)
	}
	return plain, nil
}
