package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/chtc/gpureports/pkg/pool"
)

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

// bounded reads thrift structures whose lists cannot be longer than the bytes left: the decoder allocates a list
// before it reads the first element.
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
