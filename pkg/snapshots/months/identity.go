package months

import (
	"context"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/snapshots"
)

// RowsIdentity is an identity that every format can give: it reads all rows of a range.
func RowsIdentity(ctx context.Context, c Content, r Range) (string, error) {
	h := hasher{digest: xxhash.New()}
	if err := c.Scan(ctx, r, true, &h); err != nil {
		return "", err
	}
	return strconv.FormatInt(h.rows, 36) + "-" + strconv.FormatUint(h.digest.Sum64(), 36), nil
}

// hasher implements Visitor.
type hasher struct {
	digest *xxhash.Digest
	rows   int64
	buffer []byte
}

// Run implements Visitor.
func (h *hasher) Run(_ int64, local Local) (bool, error) {
	h.buffer = binary.LittleEndian.AppendUint64(append(h.buffer[:0], 't'), uint64(local))
	_, _ = h.digest.Write(h.buffer) // never fails
	return true, nil
}

// Row implements Visitor.
func (h *hasher) Row(row snapshots.Row, usage float64) error {
	h.rows++
	h.buffer = binary.AppendUvarint(append(h.buffer[:0], 'r'), uint64(len(row)))
	h.buffer = append(h.buffer, row...)
	bits := math.Float64bits(usage)
	if math.IsNaN(usage) {
		bits = math.Float64bits(math.NaN()) // there are many
	}
	h.buffer = binary.LittleEndian.AppendUint64(h.buffer, bits)
	_, _ = h.digest.Write(h.buffer)
	return nil
}
