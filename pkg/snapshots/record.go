package snapshots

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// parser takes the columns that are read out of a record (https://sqlite.org/fileformat2.html, section 2.1).
type parser struct {
	want   []int // for each column of the table: 0 not read, 1 the timestamp, 2 … the columns
	values [1 + columns][]byte
	digits [1 + columns][24]byte // of numbers
	buffer Row
}

func newParser(s *schema) *parser {
	p := &parser{want: make([]int, len(s.order))}
	for c, position := range s.positions {
		if position >= 0 {
			p.want[position] = 2 + c
		}
	}
	p.want[s.timestamp] = 1
	for len(p.want) > 0 && p.want[len(p.want)-1] == 0 {
		p.want = p.want[:len(p.want)-1]
	}
	return p
}

// record parses a record. Columns that it ends before are NULL.
func (p *parser) record(b []byte) error {
	clear(p.values[:])
	size, n := varint(b)
	if n == 0 || size > uint64(len(b)) || int(size) < n {
		return errUnusual
	}
	header, body := b[n:size], b[size:]
	for _, want := range p.want {
		if len(header) == 0 {
			break
		}
		kind, n := uint64(header[0]), 1
		if kind >= 0x80 {
			if kind, n = varint(header); n == 0 {
				return errUnusual
			}
		}
		header = header[n:]
		length := length(kind)
		if length < 0 || length > len(body) {
			return errUnusual
		}
		if want > 0 {
			value := body[:length]
			if kind < 12 {
				var ok bool
				if value, ok = p.number(want-1, kind, value); !ok {
					return errUnusual
				}
			}
			p.values[want-1] = value
		}
		body = body[length:]
	}
	if len(header) == 0 && len(body) > 0 { // damaged, as SQL will say
		return errUnusual
	}
	return nil
}

// length is a serial type's number of bytes, -1 for one that is not known.
func length(kind uint64) int {
	switch {
	case kind >= 12:
		if kind > 2*maxPayload+13 {
			return -1
		}
		return int(kind-12) / 2
	case kind >= 10:
		return -1
	}
	return [...]int{0, 1, 2, 3, 4, 6, 8, 8, 0, 0}[kind]
}

// number is an integer as SQLite prints it. Floating-point numbers are left to SQL.
func (p *parser) number(slot int, kind uint64, value []byte) (text []byte, ok bool) {
	switch kind {
	case 0:
		return nil, true
	case 7:
		return nil, false
	case 8, 9:
		return strconv.AppendUint(p.digits[slot][:0], kind-8, 10), true
	}
	n := int64(int8(value[0]))
	for _, b := range value[1:] {
		n = n<<8 | int64(b)
	}
	return strconv.AppendInt(p.digits[slot][:0], n, 10), true
}

func (p *parser) timestamp() []byte { return p.values[0] }

func (p *parser) row() Row {
	b := p.buffer[:0]
	for _, value := range p.values[1:] {
		if len(value) < 0x80 {
			b = append(b, byte(len(value)))
		} else {
			b = binary.AppendUvarint(b, uint64(len(value)))
		}
		b = append(b, value...)
	}
	p.buffer = b
	return b
}

// isReal tells whether a column's declared type gives it REAL affinity (https://sqlite.org/datatype3.html, section 3.1):
// SQLite stores such numbers as integers where it can and shows them with a point.
func isReal(declared string) bool {
	declared = strings.ToUpper(declared)
	for _, other := range []string{"INT", "CHAR", "CLOB", "TEXT", "BLOB"} {
		if strings.Contains(declared, other) {
			return false
		}
	}
	return strings.Contains(declared, "REAL") || strings.Contains(declared, "FLOA") || strings.Contains(declared, "DOUB")
}
