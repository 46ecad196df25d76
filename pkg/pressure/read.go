package pressure

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/sqlitefile"
	"github.com/chtc/gpureports/pkg/timeline"
)

// maxRows bounds a statement, so that neither a checkpoint nor a writer waits for a reader.
const maxRows = 20_000

// separator stands between the texts of a line. A row whose own texts hold it is read column by column.
const separator = 0x1f

// builder gathers rows by day.
type builder struct {
	days map[int32]*Day
	odd  oddities
}

// read reads the rows of a range of rowids, in parts at the same time.
func (f *file) read(ctx context.Context, columns []string, first, last int64, b *builder) error {
	parts := make([]builder, readers)
	group, ctx := parallel.WithContext(ctx)
	step := (last - first + readers) / readers
	for i := range parts {
		parts[i].days = map[int32]*Day{}
		from := first + int64(i)*step
		group.Go(func() error { return f.readPart(ctx, columns, from, min(last, from+step-1), &parts[i]) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, p := range parts {
		b.odd.unreadable += p.odd.unreadable
		b.odd.backwards += p.odd.backwards
		for date, d := range p.days {
			known := b.days[date]
			if known == nil {
				b.days[date] = d
				continue
			}
			known.Rows, known.rowids = append(known.Rows, d.Rows...), append(known.rowids, d.rowids...)
		}
	}
	return nil
}

func (f *file) readPart(ctx context.Context, columns []string, first, last int64, b *builder) error {
	statement, err := f.db.PrepareContext(ctx, "SELECT concat(rowid, X'1F', "+strings.Join(columns, ", X'1F', ")+
		") FROM job_pressure WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?")
	if err != nil {
		return err
	}
	defer statement.Close()
	p := newParser(f.store)
	for first <= last {
		next, err := f.readSome(ctx, statement, columns, first, last, p, b)
		if err != nil || next == first {
			return err
		}
		first = next
	}
	return nil
}

// readSome is one statement. It returns the rowid behind the last row, first without any.
func (f *file) readSome(ctx context.Context, statement *sql.Stmt, columns []string, first, last int64, p *parser,
	b *builder) (int64, error) {
	rows, err := statement.QueryContext(ctx, first, last, maxRows)
	if err != nil {
		return first, err
	}
	defer rows.Close()
	var line sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&line); err != nil {
			return first, err
		}
		rowid, whole := p.split(line)
		if rowid < first || rowid > last {
			return first, sqlitefile.ErrCircle
		}
		if !whole {
			if err := p.ask(ctx, f.db, columns, rowid); err != nil {
				return first, err
			}
		}
		row, fine := p.row(&b.odd)
		if fine {
			b.add(rowid, row)
		}
		first = rowid + 1
	}
	return first, rows.Err()
}

// add puts a row to its day.
func (b *builder) add(rowid int64, row Row) {
	date := pool.DayOf(int64(row.First) * pool.Second)
	d := b.days[date]
	if d == nil {
		d = &Day{Date: date}
		b.days[date] = d
	}
	d.Rows, d.rowids = append(d.Rows, row), append(d.rowids, rowid)
}

// finish returns the days, ascending; those that were not touched are taken over from the ones before.
func (b *builder) finish(before []*Day) []*Day {
	for _, d := range before {
		if b.days[d.Date] == nil {
			b.days[d.Date] = d
		}
	}
	days := make([]*Day, 0, len(b.days))
	for _, date := range slices.Sorted(maps.Keys(b.days)) {
		d := b.days[date]
		if d.Times == nil {
			d.sum()
		}
		days = append(days, d)
	}
	return days
}

// sum fills in what holds for all rows.
func (d *Day) sum() {
	d.Rows, d.rowids = slices.Clip(d.Rows), slices.Clip(d.rowids)
	seen := map[uint32]bool{}
	for i := range d.Rows {
		seen[d.Rows[i].First], seen[d.Rows[i].Last] = true, true
		d.Last = max(d.Last, d.Rows[i].Last)
	}
	d.Times = slices.Sorted(maps.Keys(seen))
}

// grow adds the rows that are new and moves the ends of those that went on, in copies of their days. false: more than
// that has changed.
func (f *file) grow(ctx context.Context, columns []string, now state) (grown bool, err error) {
	b := builder{days: map[int32]*Day{}, odd: f.odd}
	same, err := f.unchanged(ctx, columns)
	if err != nil || !same {
		return false, err
	}
	found, err := f.moved(ctx)
	if err != nil {
		return false, err
	}
	sum, count := f.state.sum, f.state.count
	for _, d := range f.days {
		var changed *Day
		for i, rowid := range d.rowids {
			last, yes := found[rowid]
			if !yes {
				continue
			}
			if changed == nil {
				changed = &Day{Date: d.Date, Rows: slices.Clone(d.Rows), rowids: slices.Clone(d.rowids)}
				b.days[d.Date] = changed
			}
			sum += int64(last) - int64(d.Rows[i].Last)
			changed.Rows[i].Last = last
			delete(found, rowid)
		}
	}
	if len(found) > 0 { // a row that could not be read can be now
		return false, nil
	}
	fresh := builder{days: map[int32]*Day{}}
	if err := f.read(ctx, columns, f.state.last+1, now.last, &fresh); err != nil {
		return false, err
	}
	for date, d := range fresh.days {
		known := b.days[date]
		if i, there := slices.BinarySearchFunc(f.days, date,
			func(d *Day, date int32) int { return int(d.Date - date) }); known == nil && there {
			known = &Day{Date: date, Rows: slices.Clone(f.days[i].Rows), rowids: slices.Clone(f.days[i].rowids)}
		}
		if known == nil {
			known = &Day{Date: date}
		}
		for i := range d.Rows {
			sum += int64(d.Rows[i].Last)
			count++
		}
		known.Rows, known.rowids = append(known.Rows, d.Rows...), append(known.rowids, d.rowids...)
		b.days[date] = known
	}
	if sum != now.sum || count != now.count || fresh.odd != (oddities{}) {
		return false, nil
	}
	f.days, f.state = b.finish(f.days), now
	return true, nil
}

// moved returns the rows whose last_seen lies behind all that were known, by rowid.
func (f *file) moved(ctx context.Context) (map[int64]uint32, error) {
	rows, err := f.watch.QueryContext(ctx, "SELECT rowid, CAST(last_seen AS INTEGER) FROM job_pressure WHERE last_seen "+
		"> ? AND rowid <= ?",
		f.state.newest, f.state.last)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[int64]uint32{}
	for rows.Next() {
		var rowid, last int64
		if err := rows.Scan(&rowid, &last); err != nil {
			return nil, err
		}
		found[rowid] = uint32(min(last, math.MaxUint32)) // one that is cut off makes the sums differ
	}
	return found, rows.Err()
}

// unchanged compares some rows with what is kept of them: a file that only grew has them as they were.
func (f *file) unchanged(ctx context.Context, columns []string) (bool, error) {
	const samples = 16
	var all []*Day
	n := 0
	for _, d := range f.days {
		all = append(all, d)
		n += len(d.Rows)
	}
	p := newParser(f.store)
	for i := range min(samples, n) {
		at := i * (n - 1) / max(1, min(samples, n)-1)
		k := 0
		for at >= len(all[k].Rows) {
			at -= len(all[k].Rows)
			k++
		}
		kept := all[k].Rows[at]
		err := p.ask(ctx, f.db, columns, all[k].rowids[at])
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		var odd oddities
		row, fine := p.row(&odd)
		row.Last = kept.Last
		if !fine || row != kept {
			return false, nil
		}
	}
	return true, nil
}

// parser reads the texts of a row.
type parser struct {
	store    *Store
	texts    [11][]byte
	symbols  map[string]timeline.Symbol
	projects map[string]timeline.Symbol
	requests map[Request]uint32
}

func newParser(s *Store) *parser {
	return &parser{store: s, symbols: map[string]timeline.Symbol{}, projects: map[string]timeline.Symbol{},
		requests: map[Request]uint32{}}
}

// split takes a line over; whole is false if it does not show where the texts end.
func (p *parser) split(line []byte) (rowid int64, whole bool) {
	number, rest, _ := bytes.Cut(line, []byte{separator})
	rowid, _ = strconv.ParseInt(string(number), 10, 64) // SQLite has printed it: it is a number
	for i := range p.texts {
		end := bytes.IndexByte(rest, separator)
		if last := i == len(p.texts)-1; last != (end < 0) {
			return rowid, false
		} else if last {
			end = len(rest)
		}
		p.texts[i] = rest[:end]
		rest = rest[min(end+1, len(rest)):]
	}
	return rowid, true
}

// ask asks for one row column by column.
func (p *parser) ask(ctx context.Context, db *sql.DB, columns []string, rowid int64) error {
	targets := make([]any, len(p.texts))
	casts := make([]string, len(columns))
	for i := range p.texts {
		targets[i], casts[i] = &p.texts[i], "CAST("+columns[i]+" AS TEXT)"
	}
	return db.QueryRowContext(ctx, "SELECT "+strings.Join(casts, ", ")+" FROM job_pressure WHERE rowid = ?",
		rowid).Scan(targets...)
}

// row makes a row of the texts; false: it says nothing.
func (p *parser) row(odd *oddities) (Row, bool) {
	t := &p.texts
	first, okFirst := seconds(t[9])
	last, okLast := seconds(t[10])
	if len(t[0]) == 0 || !okFirst || !okLast {
		odd.unreadable++
		return Row{}, false
	}
	if last < first {
		odd.backwards++
		last = first
	}
	row := Row{Job: p.store.options.Names.Job(string(t[0])), Schedd: p.symbol(t[1]), Owner: p.symbol(t[2]),
		Project: p.project(t[8]), First: first, Last: last}
	if row.Schedd == 0 {
		row.Schedd = row.Job.Schedd
	}
	if qdate, ok := seconds(t[7]); ok {
		row.QDate = qdate
	}
	row.Request = p.request(Request{GPUs: max(1, amount(t[3])), CPUs: amount(t[4]), Memory: amount(t[5]),
		GPUMemory: amount(t[6])})
	return row, true
}

func (p *parser) symbol(text []byte) timeline.Symbol {
	s, known := p.symbols[string(text)]
	if !known {
		s = p.store.options.Names.Symbol(string(text))
		p.symbols[string(text)] = s
	}
	return s
}

func (p *parser) project(text []byte) timeline.Symbol {
	s, known := p.projects[string(text)]
	if !known {
		s = p.store.options.Names.Symbol(pool.ProjectList(string(text)))
		p.projects[string(text)] = s
	}
	return s
}

func (p *parser) request(r Request) uint32 {
	n, known := p.requests[r]
	if !known {
		n = p.store.request(r)
		p.requests[r] = n
	}
	return n
}

// amount reads a number above 0; anything else is 0, not stored.
func amount(text []byte) float64 {
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(x > 0) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

// seconds reads Unix seconds.
func seconds(text []byte) (uint32, bool) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		x, errFloat := strconv.ParseFloat(string(text), 64)
		if errFloat != nil || x != math.Trunc(x) || math.Abs(x) > math.MaxUint32 {
			return 0, false
		}
		n = int64(x)
	}
	return uint32(n), n > 0 && n <= math.MaxUint32
}
