package sqlite

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/chtc/gpureports/pkg/snapshots"
)

// parser takes the columns that are read out of a record (https://sqlite.org/fileformat2.html, section 2.1).
type parser struct {
	want   []int // for each column of the table: 0 not read, else 1 + its place
	bytes  []byte
	texts  [places]text
	digits [places][24]byte // of numbers
	used   float64
	buffer snapshots.Row
}

// text says where the text of a column is: no pointer, which would be written for each column of each row, with the
// garbage collector's share of the work.
type text struct {
	begin, end int32
	digits     bool // it is among the digits, not in the record
}

func newParser(s *schema, usage bool) *parser {
	p := &parser{want: make([]int, len(s.order))}
	for place, position := range s.positions {
		if position >= 0 && (usage || place != usagePlace) {
			p.want[position] = 1 + place
		}
	}
	for len(p.want) > 0 && p.want[len(p.want)-1] == 0 {
		p.want = p.want[:len(p.want)-1]
	}
	return p
}

// record parses a record. Columns that it ends before are NULL.
func (p *parser) record(b []byte) error {
	clear(p.texts[:])
	p.bytes, p.used = b, notMeasured
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
			switch value := body[:length]; {
			case want-1 == usagePlace:
				p.used = p.measured(kind, value)
			case kind >= 12:
				end := len(b) - len(body) + length
				p.texts[want-1] = text{begin: int32(end - length), end: int32(end)}
			default:
				digits, ok := p.number(want-1, kind, value)
				if !ok {
					return errUnusual
				}
				p.texts[want-1] = text{end: int32(len(digits)), digits: true}
			}
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

// measured is a value as a number, of whatever type it was stored as; NaN if it is none.
func (p *parser) measured(kind uint64, value []byte) float64 {
	switch {
	case kind == 0:
		return notMeasured
	case kind == 7:
		return math.Float64frombits(binary.BigEndian.Uint64(value))
	case kind < 12:
		value, _ = p.number(usagePlace, kind, value)
	}
	return usageOf(value)
}

// text returns the text at a place.
func (p *parser) text(place int) []byte {
	t := p.texts[place]
	if t.digits {
		return p.digits[place][:t.end]
	}
	return p.bytes[t.begin:t.end]
}

func (p *parser) timestamp() []byte { return p.text(timestampPlace) }

func (p *parser) usage() float64 { return p.used }

func (p *parser) row() snapshots.Row {
	b := p.buffer[:0]
	for place := firstPlace; place < usagePlace; place++ {
		value := p.text(place)
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
