package months

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// content is a key's content.
type content struct {
	Rules   string   `json:"rules"` // a hash of the zone's
	Sources []source `json:"sources"`
}

// source is the part of a day that comes from one piece of a file.
type source struct {
	Name        string `json:"name"`
	Columns     string `json:"columns"` // a hash of them
	Rows        Range  `json:"rows"`    // all rows whose local time can belong to the day
	Closed      bool   `json:"closed"`  // a row after them existed: rows appended later cannot belong to the day
	Cut         string `json:"cut"`     // the piece's bounds if another file of the month counts for a part of the day
	Fingerprint string `json:"fingerprint"`
}

// sealedColumns stands for the columns of a sealed file, which are known once it is opened.
const sealedColumns = "-"

// columnsKey is a hash of a table's columns.
func columnsKey(columns []string) string { return hash(strings.Join(columns, ",")) }

func hash(text string) string { return strconv.FormatUint(xxhash.Sum64String(text), 16) }

func (s *state) content(sources []source) string {
	return text(content{hash(s.source.zone.Rules()), sources})
}

// parse reads a key's content; ok is false if it belongs to another zone or is not a key's content at all.
func (s *state) parse(key string) (sources []source, ok bool) {
	var c content
	err := json.Unmarshal([]byte(key), &c)
	return c.Sources, err == nil && c.Rules == hash(s.source.zone.Rules())
}

// mark is where the reading of a day that grows is resumed: at its newest snapshot, of which there may be more to come.
type mark struct {
	Number int64              `json:"number"` // its first row, in the last source
	Time   pool.Micros        `json:"time"`
	Ahead  snapshots.Oddities `json:"ahead"` // what the rows ahead of it have
}

func text(v any) string {
	text, _ := json.Marshal(v) // never fails for numbers and texts
	return string(text)
}

func parseMark(text string) (m mark, ok bool) {
	return m, text != "" && json.Unmarshal([]byte(text), &m) == nil
}
