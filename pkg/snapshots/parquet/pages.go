package parquet

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

const (
	// maxPage bounds a page, compressed or not: writers make pages of 1 MB.
	maxPage = 32 << 20
	// maxHeader bounds the header of a page, which holds a smallest and a largest value.
	maxHeader = 1 << 20
	// readAhead is what is read at once where the chunk goes on.
	readAhead = 256 << 10
)

// page is a data page, decompressed.
type page struct {
	first, rows int    // rows of the row group
	present     []byte // 1 where a row has a value; nil = all have one
	values      int    // rows that have one
	encoding    format.Encoding
	data        []byte // the values, encoded
}

// pages walks over the pages of a column of a row group.
type pages struct {
	r         io.ReaderAt
	rows      int
	optional  bool
	chunk     chunk
	inflate   *inflater
	pos       int64
	window    []byte // bytes from windowAt on
	windowAt  int64
	present   []byte
	plain     []byte // the decompressed page
	dictPlain []byte // the decompressed dictionary
}

// inflater decompresses pages.
type inflater struct{ zstd *zstd.Decoder }

// newInflater returns an inflater for one goroutine.
func newInflater() (*inflater, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage))
	return &inflater{d}, err
}

func (f *inflater) close() { f.zstd.Close() }

// walk visits the dictionary, if there is one, and the data pages with rows of [from, to). The dictionary comes first.
// What a visit is given is valid until it returns.
func (p *pages) walk(
	ctx context.Context, from, to int, dictionary func(values int, data []byte) error, data func(page) error,
) error {
	row := 0
	for p.pos = p.chunk.at; row < to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		header, body, err := p.header()
		if err != nil {
			return err
		}
		end := body + int64(header.CompressedPageSize)
		switch header.Type {
		case format.DictionaryPage: // also where the footer mentions none
			h := header.DictionaryPageHeader
			if !h.Valid || h.V.NumValues < 0 || h.V.NumValues > math.MaxInt32/2 || row > 0 {
				return damaged("a dictionary page without a header, or behind the values")
			}
			packed, err := p.bytes(body, end)
			if err != nil {
				return err
			}
			if p.dictPlain, err = p.decompress(p.dictPlain, packed, int(header.UncompressedPageSize)); err != nil {
				return err
			}
			if err := dictionary(int(h.V.NumValues), p.dictPlain); err != nil {
				return err
			}
		case format.DataPage, format.DataPageV2:
			rows, err := p.rowsOf(header, row)
			if err != nil {
				return err
			}
			if row+rows > from {
				packed, err := p.bytes(body, end)
				if err != nil {
					return err
				}
				one, err := p.page(header, packed, row, rows)
				if err != nil {
					return err
				}
				if err := data(one); err != nil {
					return err
				}
			}
			row += rows
		}
		p.pos = end
	}
	return nil
}

// header reads the page header at the current position and returns where the page's body begins.
func (p *pages) header() (*format.PageHeader, int64, error) {
	for size := int64(256); ; size *= 16 {
		data, err := p.bytes(p.pos, min(p.pos+size, p.chunk.end))
		if err != nil {
			return nil, 0, err
		}
		if len(data) == 0 {
			return nil, 0, damaged("fewer rows in its pages than in its footer")
		}
		reader := newBounded(data)
		header := new(format.PageHeader)
		err = thrift.NewDecoder(reader).Decode(header)
		if err != nil && size < maxHeader && p.pos+size < p.chunk.end {
			continue // it is longer than what was read of it
		}
		if err != nil {
			return nil, 0, damaged("page header: %v", err)
		}
		body := p.pos + int64(reader.BytesRead())
		packed, plain, left := header.CompressedPageSize, header.UncompressedPageSize, p.chunk.end-body
		if packed < 0 || plain < 0 || packed > maxPage || plain > maxPage || int64(packed) > left {
			return nil, 0, damaged("a page of %d bytes, %d decompressed, where the column has %d", packed, plain, left)
		}
		return header, body, nil
	}
}

// rowsOf returns the number of rows of a data page; each has one value or none.
func (p *pages) rowsOf(header *format.PageHeader, row int) (int, error) {
	rows := int32(-1)
	if h := header.DataPageHeader; header.Type == format.DataPage && h.Valid {
		rows = h.V.NumValues
	}
	if h := header.DataPageHeaderV2; header.Type == format.DataPageV2 && h.Valid && h.V.NumRows == h.V.NumValues {
		rows = h.V.NumRows
	}
	if rows < 0 || int(rows) > p.rows-row {
		return 0, damaged("a page of %d rows, where the row group has %d left", rows, p.rows-row)
	}
	return int(rows), nil
}

// bytes returns a part of the file, valid until the next call.
func (p *pages) bytes(from, to int64) ([]byte, error) {
	if from < p.windowAt || to > p.windowAt+int64(len(p.window)) {
		end := min(max(to, from+readAhead), p.chunk.end)
		n := int(end - from)
		if cap(p.window) < n {
			p.window = make([]byte, n)
		}
		p.window, p.windowAt = p.window[:n], from
		if err := readFull(p.r, p.window, from); err != nil {
			p.window = p.window[:0]
			return nil, err
		}
	}
	return p.window[from-p.windowAt : to-p.windowAt], nil
}

// decompress returns a page's bytes, in the buffer where it can.
func (p *pages) decompress(buffer, packed []byte, size int) ([]byte, error) {
	var plain []byte
	var err error
	switch p.chunk.codec {
	case format.Uncompressed:
		plain = append(buffer[:0], packed...)
	case format.Zstd:
		plain, err = p.inflate.zstd.DecodeAll(packed, buffer[:0])
	case format.Snappy:
		var n int
		if n, err = snappy.DecodedLen(packed); err == nil && n != size {
			err = damaged("%d bytes, %d expected", n, size)
		}
		if err == nil {
			plain, err = snappy.Decode(buffer[:cap(buffer)], packed)
		}
	default:
		return nil, unreadable("it is compressed with %s", p.chunk.codec)
	}
	if err != nil {
		return nil, damaged("decompressing a page: %v", err)
	}
	if len(plain) != size {
		return nil, damaged("a page of %d bytes has %d", size, len(plain))
	}
	return plain, nil
}

// page decompresses a data page and reads which of its rows have a value.
func (p *pages) page(header *format.PageHeader, packed []byte, first, rows int) (page, error) {
	one := page{first: first, rows: rows, values: rows}
	if header.Type == format.DataPage {
		one.encoding = header.DataPageHeader.V.Encoding
		plain, err := p.decompress(p.plain, packed, int(header.UncompressedPageSize))
		if err != nil {
			return one, err
		}
		p.plain, one.data = plain, plain
		if !p.optional {
			return one, nil
		}
		if len(plain) < 4 || binary.LittleEndian.Uint32(plain) > uint32(len(plain)-4) {
			return one, damaged("a page without its levels")
		}
		n := 4 + int(binary.LittleEndian.Uint32(plain))
		one.data = plain[n:]
		return one, p.levels(&one, plain[4:n])
	}
	h := header.DataPageHeaderV2.V
	one.encoding = h.Encoding
	repetition, levels := int(h.RepetitionLevelsByteLength), int(h.DefinitionLevelsByteLength)
	if repetition != 0 || levels < 0 || levels > len(packed) || levels > int(header.UncompressedPageSize) {
		return one, damaged("levels of %d bytes in a page of %d", levels, len(packed))
	}
	if one.data = packed[levels:]; !h.IsCompressed.Valid || h.IsCompressed.V {
		var err error
		if one.data, err = p.unpackV2(packed[levels:], int(header.UncompressedPageSize)-levels); err != nil {
			return one, err
		}
	}
	if !p.optional {
		return one, nil
	}
	return one, p.levels(&one, packed[:levels])
}

func (p *pages) unpackV2(packed []byte, size int) ([]byte, error) {
	if len(packed) == 0 && size == 0 { // a page of NULLs has nothing to compress
		return nil, nil
	}
	plain, err := p.decompress(p.plain, packed, size)
	if err == nil {
		p.plain = plain
	}
	return plain, err
}

// levels reads which rows have a value: one bit a row.
func (p *pages) levels(one *page, data []byte) error {
	if allOnes(data, one.rows) {
		return nil
	}
	if err := checkRuns(data, 1, one.rows); err != nil {
		return err
	}
	present, err := (&rle.Encoding{BitWidth: 1}).DecodeLevels(p.present, data)
	if err != nil || len(present) < one.rows {
		return damaged("levels of %d rows, %d expected", len(present), one.rows)
	}
	p.present = present
	one.present = present[:one.rows]
	one.values = bytes.Count(one.present, []byte{1})
	return nil
}

// allOnes reports whether levels are one run of ones.
func allOnes(data []byte, rows int) bool {
	run, n := binary.Uvarint(data)
	return n > 0 && n < len(data) && run&1 == 0 && run>>1 >= uint64(rows) && data[n] == 1
}

// checkRuns checks that runs of a bit width hold the values wanted, and no more than fill up the last eight. The
// decoder of runs allocates what they say.
func checkRuns(data []byte, width, wanted int) error {
	total := 0
	for len(data) > 0 && total < wanted {
		run, n := binary.Uvarint(data)
		if n <= 0 {
			return damaged("a run without a length")
		}
		data = data[n:]
		count, size := run>>1, (width+7)/8
		if run&1 == 1 {
			if count > uint64(wanted) {
				return damaged("a run of %d groups of values, %d values expected", count, wanted)
			}
			size = int(count) * width
			count *= 8
		}
		if count > uint64(wanted-total)+7 || size > len(data) {
			return damaged("a run of %d values in %d bytes, %d values expected", count, len(data), wanted-total)
		}
		data = data[size:]
		total += int(count)
	}
	switch {
	case total < wanted:
		return damaged("runs of %d values, %d expected", total, wanted)
	case len(data) > 0:
		return damaged("%d bytes behind the values", len(data))
	}
	return nil
}
