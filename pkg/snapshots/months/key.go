package months

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// A key's content is a line for the zone's rules and one for each piece of a file.

// source is the part of a day that comes from one piece of a file.
type source struct {
	name        string
	columns     string // a hash of them
	rows        Range  // all rows whose local time can belong to the day
	closed      bool   // a row after them existed: rows appended later cannot belong to the day
	cut         string // the piece's bounds if another file of the month counts for a part of the day
	fingerprint string // of the rows
}

// columnsKey is a hash of a table's columns.
func columnsKey(columns []string) string { return hash(strings.Join(columns, ",")) }

func hash(text string) string { return strconv.FormatUint(xxhash.Sum64String(text), 16) }

func (s *state) content(sources []source) string {
	var b strings.Builder
	b.WriteString(hash(s.source.zone.Rules()))
	for _, p := range sources {
		fmt.Fprintf(&b, "\n%s %s %d %d %t %s %s", p.name, p.columns, p.rows.First, p.rows.Last, p.closed, p.cut,
			p.fingerprint)
	}
	return b.String()
}

// parse reads a key's content; ok is false if it belongs to another zone or is not a key's content at all.
func (s *state) parse(content string) (sources []source, ok bool) {
	lines := strings.Split(content, "\n")
	if lines[0] != hash(s.source.zone.Rules()) {
		return nil, false
	}
	for _, line := range lines[1:] {
		fields := strings.Split(line, " ")
		if len(fields) != 7 {
			return nil, false
		}
		first, errFirst := strconv.ParseInt(fields[2], 10, 64)
		last, errLast := strconv.ParseInt(fields[3], 10, 64)
		if errFirst != nil || errLast != nil {
			return nil, false
		}
		sources = append(sources, source{fields[0], fields[1], Range{first, last}, fields[4] == "true", fields[5], fields[6]})
	}
	return sources, true
}

// mark is where the reading of a day that grows is resumed: at its newest snapshot, of which there may be more to come.
type mark struct {
	Number int64              `json:"number"` // of its first row, in the last source
	Time   pool.Micros        `json:"time"`
	Ahead  snapshots.Oddities `json:"ahead"` // of the rows ahead of it
}

func (m mark) text() string {
	text, err := json.Marshal(m)
	if err != nil {
		return "" // not reached: numbers only
	}
	return string(text)
}

func parseMark(text string) (m mark, ok bool) {
	return m, text != "" && json.Unmarshal([]byte(text), &m) == nil
}
