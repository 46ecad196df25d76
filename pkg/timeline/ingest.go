package timeline

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// margin is how much more is read on both sides of a day: repeated hours and late snapshots stand up to an hour elsewhere in
// the order of text than in the order of time, and runs within a minute are one snapshot. What stands farther behind makes
// a file Unordered.
const margin = pool.Hour + 2*pool.Minute

// source is what a day took from one file.
type source struct {
	file    string
	inode   uint64
	columns string
	edits   uint64           // the file's State.Rewritten, meaningful in this process only
	rows    snapshots.Rowids // all rows whose text can belong to the day
	closed  bool             // a row behind them existed: rows appended later cannot belong to the day
	samples []int64          // some rowids from first to last + 1, and their hashes
	hashes  []uint64
}

// notes count what was odd about the timestamps that a day was read from.
type notes struct {
	Back       uint32 // snapshots that stand out of order in their file
	Missing    uint32 // local times that do not exist
	Unreadable uint32 // rows whose timestamp is none
	Twice      uint32 // snapshots that may be two with the same text, one of each pass of a repeated hour
}

// ingest reads the rows of one day: all of them, or those behind an earlier segment of it.
type ingest struct {
	date    int32
	zone    *localtime.Zone
	table   *rowTable
	earlier *Day // its snapshots but the newest are taken over; nil = none
	blocks  []block
	notes   notes
	sources []source
	readers []reader // of each source
	rows    int64    // that were read
}

// reader is where the reading of a source stands.
type reader struct {
	localtime.Resolver
	text []byte // the last timestamp
	last int    // its block, -1 = it was unreadable
	date int32  // of the last one that could be read
	lost uint32 // rows ahead of the first timestamp that can be read, of a file's beginning
}

func newIngest(date int32, zone *localtime.Zone, names *Names) *ingest {
	return &ingest{date: date, zone: zone, table: newRowTable(names)}
}

// file is a month file and its state at the beginning of a request.
type file struct {
	*snapshots.File
	state snapshots.State
}

// surprises tells whether the file was taken to be in the order of time, and reading it has shown that it is not.
func (f file) surprises() bool { return f.Disordered() && !f.state.Unordered }

// texts returns the range of local texts in which the day's rows can stand.
func texts(date int32, zone *localtime.Zone) (from, to string) {
	begin := pool.Micros(date) * pool.Day
	wide := margin
	if zone.Changes(begin-pool.Day, begin+2*pool.Day) {
		wide = pool.Day // a move to another zone can repeat many hours
	}
	return zone.Text(begin - wide), zone.Text(begin + pool.Day + wide)
}

// read takes over all rows of the files that can belong to the day.
func (in *ingest) read(ctx context.Context, files []file) error {
	from, to := texts(in.date, in.zone)
	for n, f := range touching(files, from, to) {
		rows, err := f.Seek(ctx, f.state, from, to)
		if err != nil {
			return err
		}
		resolver := *in.zone.NewResolver()
		if n > 0 { // the previous snapshot may stand in the file before
			resolver = in.readers[n-1].Resolver
		}
		in.readers = append(in.readers, reader{Resolver: resolver, date: noDate})
		in.sources = append(in.sources, source{file: f.Name, inode: f.state.Inode, columns: f.state.Columns, edits: f.state.Rewritten, rows: rows, closed: rows.Last < f.state.Last})
		if err := in.scan(ctx, n, f, rows); err != nil {
			return err
		}
	}
	return nil
}

// finished tells whether no collector will append rows of the day: later ones stand behind them, or in a later file.
func (in *ingest) finished(files []file) bool {
	later := in.zone.Text(pool.Micros(in.date+1)*pool.Day + 2*pool.Hour)
	return len(in.sources) > 0 && !slices.ContainsFunc(in.sources, func(s source) bool {
		return !s.closed && !slices.ContainsFunc(files, func(f file) bool { return f.Name > s.file && f.state.LastText >= later })
	})
}

// touching returns those of the files whose rows reach into a range of local texts.
func touching(files []file, from, to string) []file {
	return slices.DeleteFunc(slices.Clone(files), func(f file) bool { return !f.touches(from, to) })
}

// touches tells whether the file's rows reach into a range of local texts.
func (f *file) touches(from, to string) bool {
	if f.state.Unordered {
		return !f.state.Find(from, to).Empty()
	}
	return f.state.First <= f.state.Last && f.state.FirstText < to && f.state.LastText >= from
}

// complete tells whether what was read is all that the file holds of the day.
func (s *source) complete(f file, from, to string) bool {
	if !s.is(f) || f.state.Unordered && f.state.Find(from, to) != s.rows {
		return false
	}
	return s.closed || s.rows.Last == f.state.Last
}

// is tells whether the source was taken from this file, and what was read is still there.
func (s *source) is(f file) bool {
	return s.file == f.Name && s.inode == f.state.Inode && s.columns == f.state.Columns && s.edits == f.state.Rewritten
}

func (in *ingest) scan(ctx context.Context, n int, f file, rows snapshots.Rowids) error {
	v := &visitor{in: in, reader: &in.readers[n], file: n, begin: pool.Micros(in.date) * pool.Day, beginning: rows.First == f.state.First}
	if err := f.Scan(ctx, f.state, rows, v); err != nil {
		return err
	}
	in.rows += rows.Last - rows.First + 1
	return nil
}

// fingerprint fills in by what sources can be recognised in another process.
func fingerprint(ctx context.Context, sources []source, files []file) error {
	for i := range sources {
		s := &sources[i]
		n := slices.IndexFunc(files, func(f file) bool { return f.Name == s.file })
		s.samples = sampleRows(s.rows, s.closed)
		var err error
		if s.hashes, err = files[n].Hash(ctx, files[n].state, s.samples); err != nil {
			return err
		}
	}
	return nil
}

// sampleRows returns the first and the last rowid, 8 between, and the one behind it that closes the range.
func sampleRows(r snapshots.Rowids, closed bool) []int64 {
	const between = 8
	rowids := []int64{r.First}
	for i := int64(1); i <= between; i++ {
		rowids = append(rowids, r.First+(r.Last-r.First)*i/(between+1))
	}
	if rowids = append(rowids, r.Last); closed {
		rowids = append(rowids, r.Last+1)
	}
	return slices.Compact(rowids)
}

// snapshots are those of the day among what was read.
func (in *ingest) snapshots() []snapshot { return onDay(unite(slices.Clone(in.blocks)), in.date) }

// day forms the segment of what was read, and tells where it can go on.
func (in *ingest) day() (*Day, tail) {
	all := in.snapshots()
	d := buildDay(in.date, in.earlier, all, in.table)
	d.notes = in.notes
	d.notes.Twice = in.table.twice(in.blocks)
	d.seal()
	if len(all) == 0 {
		return d, tail{}
	}
	var next tail
	for _, b := range all[len(all)-1].blocks {
		if b.file < len(in.sources)-1 { // it stands in two files
			return d, tail{}
		}
		if next.Rowid == 0 || b.rowid < next.Rowid {
			next = tail{b.rowid, b.ahead}
		}
	}
	return d, next
}

// visitor sorts the rows of a scan into blocks.
type visitor struct {
	in     *ingest
	reader *reader
	file   int
	begin  pool.Micros // of the day

	beginning bool // the scan begins with the file's first row
}

// noDate is before any timestamp that could be read.
const noDate = math.MinInt32

func (v *visitor) Snapshot(rowid int64, timestamp []byte) (bool, error) {
	r := v.reader
	if string(timestamp) != string(r.text) || r.text == nil {
		r.text = append(r.text[:0], timestamp...)
		v.begins(rowid, timestamp)
	}
	if r.last < 0 {
		return true, nil // to be counted
	}
	t := v.in.blocks[r.last].time
	return v.begin <= t && t < v.begin+pool.Day+union, nil
}

// begins opens a block for a timestamp.
func (v *visitor) begins(rowid int64, timestamp []byte) {
	reading, err := v.reader.Read(timestamp)
	if err != nil { // counted, and told with the day
		v.reader.last = -1
		return
	}
	v.reader.last = len(v.in.blocks)
	if v.reader.date = pool.DayOf(reading.Time); v.reader.date == v.in.date {
		v.in.notes.Unreadable += v.reader.lost
	}
	v.reader.lost = 0
	v.in.blocks = append(v.in.blocks, block{time: reading.Time, rowid: rowid, ahead: v.in.notes, file: v.file, number: len(v.in.blocks), repeated: reading.Repeated})
	if pool.DayOf(reading.Time) == v.in.date {
		if reading.Back {
			v.in.notes.Back++
		}
		if reading.Missing {
			v.in.notes.Missing++
		}
	}
}

func (v *visitor) Row(row snapshots.Row) error {
	if r := v.reader; r.last < 0 { // it belongs to the day of the rows before it
		switch {
		case r.date == v.in.date:
			v.in.notes.Unreadable++
		case r.date == noDate && v.beginning:
			r.lost++
		}
		return nil
	}
	b := &v.in.blocks[v.reader.last]
	b.rows = append(b.rows, v.in.table.id(row))
	return nil
}

// dateText is a day as YYYY-MM-DD.
func dateText(date int32) string {
	return pool.Time(pool.Micros(date) * pool.Day).Format(time.DateOnly)
}
