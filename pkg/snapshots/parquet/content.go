package parquet

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

// content implements months.Content. Its rows are numbered from 0 through all row groups.
type content struct {
	month   *month
	newest  bool // the last row group may still grow
	version Version
	file    *File
	info    months.Info
	begins  []int64 // the number of each row group's first row, and the one after the last row
	groups  []*groupTimes
	whole   bool         // all timestamps were read by the look
	changes atomic.Int64 // how often the timestamp changes from row to row, in the row groups that were read
	prints  sync.Map     // the known fingerprints, by months.Range
}

// groupTimes has the known times of a row group: those of the footer, until the timestamps are read.
type groupTimes struct {
	min, max months.Local
	times    atomic.Pointer[timestamps] // nil until they are read
	hash     atomic.Uint64              // see content.hashOf; 0 until it is needed
}

// timestamps are those of a row group.
type timestamps struct {
	min, max months.Local // the runs with a readable timestamp lie between them; or as in the footer
	runs     []run
	sample   string // a timestamp that cannot be read; "" if there is none
	damage   error  // why they cannot be read: the runs are empty then
}

// run is where consecutive rows of a row group with the same timestamp begin.
type run struct {
	number int64
	local  months.Local
}

func (c *content) Info() *months.Info { return &c.info }

// open opens the file that the content was read from.
func (c *content) open(ctx context.Context) (*File, error) {
	in, err := c.month.holder.Open(ctx, c.version)
	if err != nil {
		return nil, err
	}
	return c.file.on(in), nil
}

// failure makes an error fit for a user; a failure because the file was replaced or written to is ErrStale.
func (c *content) failure(err error) error {
	if now, failed := c.month.holder.Version(); failed == nil && !now.same(c.version) {
		return snapshots.ErrStale
	}
	return c.month.explain(err)
}

// load finds out where which times are, and reuses the known row groups of an earlier content.
func (c *content) load(ctx context.Context, f *File, before *content) (err error) {
	if err = f.check(); err != nil {
		return err
	}
	if before != nil && !c.newest && !c.version.same(before.version) {
		before = nil // rows are only ever appended to the newest file: it was edited
	}
	begin := int64(0)
	// most of the finished files are of days that no query needs
	c.whole = c.newest || c.month.unordered.Load()
	// Keep unchanged row groups, and read the times of the others.
	for i, g := range f.Groups {
		hash := uint64(0) // shows whether the file was edited as well as appended to
		if c.newest {
			if hash, err = c.hashOf(ctx, f, i); err != nil && ctx.Err() != nil {
				return err // others show where the rows are read
			}
		}
		var found *groupTimes
		if c.keeps(before, i, begin, hash) {
			found = before.groups[i]
		} else {
			if found, err = c.newGroupTimes(ctx, f, i, begin); err != nil {
				return err
			}
			found.hash.Store(hash)
		}
		c.groups, c.begins = append(c.groups, found), append(c.begins, begin)
		begin += int64(g.Rows)
	}
	c.begins = append(c.begins, begin)
	if c.describe(); c.info.Unordered && !c.whole { // the footer says so, but not where which rows are
		c.month.unordered.Store(true)
		c.groups, c.begins = nil, nil
		return c.load(ctx, f, before)
	}
	return nil
}

// keeps reports whether a row group that begins at a row is the one of an earlier content, if there is one. hash is
// that of its bytes, 0 if it is not known.
func (c *content) keeps(before *content, n int, begin int64, hash uint64) bool {
	return before != nil && n < len(before.groups) && before.begins[n] == begin && (before.whole || !c.whole) &&
		(before.version.same(c.version) || hash != 0 && before.groups[n].hash.Load() == hash)
}

// newGroupTimes finds out between which times the rows of the n-th row group are: from the footer if that is enough.
func (c *content) newGroupTimes(ctx context.Context, f *File, n int, begin int64) (*groupTimes, error) {
	if from, to, told := f.span(n, c.month.zone); told && from <= to && !c.whole {
		return &groupTimes{min: from, max: to}, nil
	}
	found, err := c.take(ctx, f, n, begin)
	if err != nil {
		return nil, err
	}
	g := &groupTimes{min: found.min, max: found.max}
	g.times.Store(found)
	return g, nil
}

var errRuns = errors.New("its timestamps change more often than is reasonable for its size: look for repeated rows")

// take reads the timestamps of a row group. If they are damaged, the footer still says between which times its rows
// are, so that the others can be read. Errors: errRuns, because a few bytes can hold a billion changes.
func (c *content) take(ctx context.Context, f *File, n int, begin int64) (*timestamps, error) {
	most := pool.MostChanges + f.size // a timestamp of its own takes a byte at least
	runs, sample, err := f.runs(ctx, c.month.zone, n, begin, most-c.changes.Load())
	if err != nil {
		from, to, told := f.span(n, c.month.zone)
		if !told || !errors.Is(err, errDamaged) {
			return nil, err
		}
		return &timestamps{min: from, max: to, damage: err}, nil
	}
	c.changes.Add(int64(len(runs)))
	t := &timestamps{min: months.None, max: months.None, runs: runs, sample: sample}
	for _, run := range runs {
		if run.local != months.None {
			t.max = max(t.max, run.local)
			if t.min == months.None || run.local < t.min {
				t.min = run.local
			}
		}
	}
	return t, nil
}

// times returns the timestamps of a row group. Errors: snapshots.ErrStale if they are out of order, contrary to Info.
func (c *content) times(ctx context.Context, n int) (*timestamps, error) {
	g := c.groups[n]
	if known := g.times.Load(); known != nil {
		return known, nil
	}
	f, err := c.open(ctx)
	if err != nil {
		return nil, c.failure(err)
	}
	defer f.Close()
	found, err := c.take(ctx, f, n, c.begins[n])
	if err != nil {
		return nil, c.failure(fmt.Errorf("row group %d: %w", n, err))
	}
	if found.min < g.min || found.max > g.max {
		found.damage = damaged("timestamps that its footer rules out")
	}
	highest := months.None
	for _, run := range found.runs {
		if months.FellBack(highest, run.local) {
			c.month.unordered.Store(true)
			return nil, snapshots.ErrStale
		}
		highest = max(highest, run.local)
	}
	g.times.CompareAndSwap(nil, found) // others may have read them meanwhile, and use them
	return g.times.Load(), nil
}

// runs reads the timestamps of a row group, with a sample of those that cannot be read. Errors: errRuns above most.
func (f *File) runs(ctx context.Context, zone *localtime.Zone, group int, begin, most int64) (runs []run, sample string,
	err error) {
	err = f.batches(ctx, group, 0, f.Groups[group].Rows, []string{snapshots.TimestampColumn},
		func(first, _ int, texts []Texts) error {
			locals := make([]months.Local, len(texts[0].Values))
			for i, text := range texts[0].Values {
				local, err := zone.ReadLocal([]byte(text))
				if err != nil || i == 0 {
					local, sample = months.None, cmp.Or(text, sample)
				}
				locals[i] = local
			}
			for i, code := range texts[0].Codes {
				if n := len(runs); n == 0 || runs[n-1].local != locals[code] {
					runs = append(runs, run{begin + int64(first+i), locals[code]})
				}
			}
			if int64(len(runs)) > most {
				return errRuns
			}
			return nil
		})
	return slices.Clip(runs), sample, err
}

// describe fills in the info.
func (c *content) describe() {
	c.info = months.Info{Edits: c.month.edits, Rows: months.Nothing, First: months.None, Last: months.None}
	for _, column := range c.file.Columns {
		c.info.Columns = append(c.info.Columns, column.Name)
	}
	rows := c.begins[len(c.begins)-1]
	if rows > 0 {
		c.info.Rows = months.Range{First: 0, Last: rows - 1}
	}
	// Find the first and the last time, and whether times fall back.
	highest := months.None
	add := func(local months.Local) {
		if local == months.None {
			return
		}
		if c.info.First == months.None {
			c.info.First = local
		}
		c.info.Last = local
		c.info.Unordered = c.info.Unordered || months.FellBack(highest, local)
		highest = max(highest, local)
	}
	for _, g := range c.groups {
		times := g.times.Load()
		if times != nil {
			c.info.Sample = cmp.Or(c.info.Sample, times.sample)
		}
		if !c.whole {
			add(g.min)
			add(g.max)
			continue
		}
		for _, run := range times.runs {
			add(run.local)
		}
	}
	c.info.Unordered = c.info.Unordered || months.TooLong(c.info.First, c.info.Last)
	if !c.info.Unordered || !c.whole {
		return
	}
	// Out of order, the stretches say where which times are.
	for n, g := range c.groups {
		for i, run := range g.times.Load().runs {
			c.info.Stretches = months.Order(c.info.Stretches, run.number, run.local)
			c.info.Stretches = months.Order(c.info.Stretches, c.end(n, i)-1, run.local)
		}
	}
}

// end is the number of the row after a run of a row group.
func (c *content) end(n, i int) int64 {
	if runs := c.groups[n].times.Load().runs; i+1 < len(runs) {
		return runs[i+1].number
	}
	return c.begins[n+1]
}

func (c *content) Seek(ctx context.Context, from, to months.Local) (months.Range, error) {
	found := months.Nothing
	// of the rows without a timestamp ahead of a run: they go with it at the file's beginning only
	before := true  // no run with a timestamp came yet
	inside := false // the last one is in the range
	for n, g := range c.groups {
		if g.max != months.None && (g.max < from || g.min >= to) {
			before, inside = false, false
			continue
		}
		times, err := c.times(ctx, n)
		if err != nil {
			return months.Nothing, err
		}
		if times.damage != nil {
			return months.Nothing, c.month.explain(fmt.Errorf("row group %d: %w", n, times.damage))
		}
		// Find the first and the last run of the range.
		for i, run := range times.runs {
			if run.local != months.None {
				if inside = run.local >= from && run.local < to; inside && found.Empty() {
					found.First = run.number
					if before {
						found.First = c.info.Rows.First
					}
				}
				before = false
			}
			if inside {
				found.Last = c.end(n, i) - 1
			}
		}
	}
	if c.info.Unordered {
		return months.Find(c.info.Stretches, from, to), nil
	}
	return found, nil
}

// Version implements months.Content. The newest file has none: it may be written to while it is read.
func (c *content) Version() string {
	if c.newest {
		return ""
	}
	return c.version.Tag
}

func (c *content) Unchanged(_ context.Context, version string, _ months.Range, _ string) (bool, error) {
	return version != "" && version == c.Version(), nil
}

func (*content) Verified() bool { return true }

// within returns an error if rows have times outside of a stretch, or none of them has a time.
func (c *content) within(s *months.Stretch) error {
	if s == nil || c.info.Rows.Empty() {
		return nil
	}
	dated := false
	for _, g := range c.groups {
		switch {
		case g.max == months.None:
		case g.min < s.First:
			return c.elsewhere("it has a row of " + pool.Time(g.min).Format(time.DateTime))
		case g.max > s.Last:
			return c.elsewhere("it has a row of " + pool.Time(g.max).Format(time.DateTime))
		default:
			dated = true
		}
	}
	if !dated {
		return c.elsewhere("none of its rows has a readable timestamp")
	}
	return nil
}

func (c *content) elsewhere(why string) error {
	return pool.SourceError("%s cannot be read: %s: it contains rows outside the month in its name (in the collector's "+
		"time): move them to a file with the right name, and remove it", c.month.name, why)
}

// groupAt is the row group of a row.
func (c *content) groupAt(number int64) int {
	return sort.Search(len(c.groups), func(g int) bool { return c.begins[g+1] > number })
}

// span returns the smallest and the largest timestamp of a row group by what the footer says of it; known is false if
// it says nothing. Of times of UTC it does so only where the zone's clock was not changed between them.
func (f *File) span(group int, zone *localtime.Zone) (from, to months.Local, known bool) {
	c := f.Column(snapshots.TimestampColumn)
	chunk := f.Groups[group].chunks[c.leaf]
	if c.unit <= noTime || len(chunk.min) != 8 || len(chunk.max) != 8 {
		return months.None, months.None, false
	}
	from = c.unit.time(int64(binary.LittleEndian.Uint64(chunk.min))).UnixMicro()
	to = c.unit.time(int64(binary.LittleEndian.Uint64(chunk.max))).UnixMicro()
	if c.zoned {
		return zone.Local(from), zone.Local(to), zone.Offset(from) == zone.Offset(to)
	}
	return from, to, true
}
