package months

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// reading takes the rows of one day: all of them, or those from its newest known snapshot onward.
type reading struct {
	date     int32
	resumed  bool
	table    table
	blocks   []block
	sources  []source
	all      []united // the day's snapshots among the rows that were read
	oddities snapshots.Oddities
	rows     int64
	taken    int64 // bytes that the rows take
	limit    int64 // how many they may take
}

// The sizes of what a reading keeps of a row with its usage, of a distinct row apart from its text, of a block.
const (
	rowBytes      = 12
	distinctBytes = 64
	blockBytes    = 200
)

const (
	unread     = -1 // visitor.last: no row was read yet
	unreadable = -2 // the last timestamp could not be read
)

// noDate is before any timestamp that could be read.
const noDate = math.MinInt32

// give hands the day to a visitor.
func (r *reading) give(s *state, v snapshots.Visitor) (snapshots.Reading, error) {
	key := snapshots.Key{Content: s.content(r.sources), Version: versionOf(s.day(r.date))}
	found := snapshots.Reading{Key: key, Oddities: r.oddities, Rows: r.rows}
	found.Oddities.Twice = r.table.twice(r.all)
	v.Begin(r.resumed)
	for _, row := range r.table.rows {
		v.Distinct(row)
	}
	for _, u := range r.all {
		if err := v.Snapshot(u.join()); err != nil {
			return found, err
		}
	}
	if n := len(r.all); n > 0 {
		found.Key.Mark = r.all[n-1].mark(len(r.sources) - 1)
	}
	return found, nil
}

// visitor is the Visitor that sorts the rows of a source into blocks.
type visitor struct {
	*reading
	localtime.Resolver
	source    int
	piece     piece
	begin     pool.Micros // when the day begins
	beginning bool        // the scan begins with the file's first row

	local Local  // the last timestamp
	last  int    // its block, or one of the two above
	read  int32  // the day of the last timestamp that could be read
	lost  uint32 // rows ahead of the first timestamp that can be read, of a file's beginning
	text  string // a timestamp that could not be read
}

func (v *visitor) Run(number int64, local Local, text string) (bool, error) {
	if local == None {
		v.text = text
	}
	if local != v.local || v.last == unread {
		v.local = local
		v.start(number, local)
		if err := v.take(blockBytes); err != nil {
			return false, err
		}
	}
	if v.last == unreadable {
		return true, nil // to be counted
	}
	if local < v.piece.from || local >= v.piece.to {
		return false, nil
	}
	t := v.blocks[v.last].time
	return v.begin-longest < t && t < v.begin+pool.Day+longest, nil
}

// start opens a block for a timestamp.
func (v *visitor) start(number int64, local Local) {
	if local == None { // counted, and reported with the day
		v.last = unreadable
		return
	}
	got := v.Resolve(local)
	v.last = len(v.blocks)
	if v.read = pool.DayOf(got.Time); v.read == v.date && v.lost > 0 {
		v.count(v.lost)
	}
	v.lost = 0
	v.blocks = append(v.blocks, block{
		time: got.Time, number: number, ahead: v.oddities, source: v.source, order: len(v.blocks), repeated: got.Repeated,
	})
	if v.read == v.date {
		if got.Back {
			v.oddities.Back++
		}
		if got.Missing {
			v.oddities.Missing++
		}
	}
}

// take counts bytes. A compressed file of 100 KB can hold a billion equal rows.
func (v *visitor) take(bytes int) error {
	if v.taken += int64(bytes); v.taken <= v.limit {
		return nil
	}
	return pool.SourceError("%s: the rows of a day need more memory than the data source has for reading them (%d MB): "+
		"raise cacheMaxMB, or look for repeated rows", v.piece.Name, v.limit>>20)
}

// count counts rows of the day whose timestamp is none.
func (v *visitor) count(rows uint32) {
	v.oddities.Unreadable += rows
	if v.oddities.Sample == "" {
		v.oddities.Sample = shortened(v.text)
	}
}

// shortened returns a timestamp that cannot be read as users are shown it.
func shortened(text string) string {
	const most = 40
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

func (v *visitor) Row(row snapshots.Row, usage float64) error {
	if v.last == unreadable { // it belongs to the day of the rows before it
		switch {
		case v.read == v.date:
			v.count(1)
		case v.read == noDate && v.beginning:
			v.lost++
		}
		return nil
	}
	id, known := v.table.id(row)
	bytes := rowBytes
	if !known {
		bytes += distinctBytes + 2*len(row) // in the index, and as a row
	}
	if err := v.take(bytes); err != nil {
		return err
	}
	b := &v.blocks[v.last]
	if v.table.data[id] {
		b.dataSlots = true
		return nil
	}
	b.rows, b.usage = append(b.rows, id), append(b.usage, usage)
	return nil
}

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
