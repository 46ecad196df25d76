package usage

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"

	"github.com/chtc/gpureports/pkg/pool"
)

// ErrDamaged is returned for bytes that Encode cannot have written.
var ErrDamaged = errors.New("damaged usage block")

// storedBlock is a Block as gob writes it.
type storedBlock struct {
	Snapshots int
	Offsets   []uint32
	Code      []byte
	Further   []Further
}

// Encode writes a block.
func (b *Block) Encode() []byte {
	var encoded bytes.Buffer
	err := gob.NewEncoder(&encoded).Encode(storedBlock{b.snapshots, b.offsets, b.code, b.further})
	if err != nil {
		panic(err) // a buffer takes everything, and gob supports all the types
	}
	return encoded.Bytes()
}

// Decode reads a block of a day with the given number of GPUs and snapshots. Returns ErrDamaged if the bytes are not
// such a block.
func Decode(encoded []byte, gpus, snapshots int) (*Block, error) {
	var s storedBlock
	err := gob.NewDecoder(bytes.NewReader(encoded)).Decode(&s)
	if err != nil || s.Snapshots != snapshots || len(s.Offsets) != 2*gpus+1 || !s.valid() {
		return nil, ErrDamaged
	}
	return &Block{number: blocks.Add(1), snapshots: s.Snapshots, offsets: s.Offsets, code: s.Code, further: s.Further}, nil
}

// valid reports whether each place's code can be read and has no more values than there are snapshots, and whether the
// further values are of places and snapshots that exist.
func (s *storedBlock) valid() bool {
	places := len(s.Offsets) - 1
	if s.Offsets[0] != 0 || int(s.Offsets[places]) != len(s.Code) {
		return false
	}
	for p := range places {
		from, to := s.Offsets[p], s.Offsets[p+1]
		if from > to || int(to) > len(s.Code) || !validCode(s.Code[from:to], s.Snapshots) {
			return false
		}
	}
	for _, f := range s.Further {
		if f.Snapshot < 0 || f.Snapshot >= s.Snapshots || f.GPU < 0 || f.GPU >= places/2 ||
			f.Side > pool.Backfill || f.Claim < 0 {
			return false
		}
	}
	return true
}

func validCode(code []byte, snapshots int) bool {
	left := uint64(snapshots)
	for len(code) > 0 {
		token, n := binary.Uvarint(code)
		taken := token >> 1 // skipped
		if token&1 == 1 {
			taken = 1
		}
		if n <= 0 || taken > left {
			return false
		}
		code, left = code[n:], left-taken
	}
	return true
}
