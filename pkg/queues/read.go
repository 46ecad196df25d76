package queues

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/sqlitefile"
	"github.com/chtc/gpureports/pkg/timeline"
)

// builder gathers rows by day.
type builder struct {
	days map[int32]*Day
	odd  oddities
}

// read reads all rows, in parts at the same time.
func (f *file) read(ctx context.Context, h *sqlitefile.Handle, b *builder) error {
	table, err := sqlitefile.FindTable(ctx, h.Conn, "job_pressure")
	if err != nil {
		return err
	}
	if err := checkColumns(table.Has); err != nil {
		return err
	}
	var first, last sql.NullInt64
	if err := h.Conn.QueryRowContext(ctx, table.SQL("SELECT (SELECT min(rowid) FROM job_pressure), "+
		"(SELECT max(rowid) FROM job_pressure)")).Scan(&first, &last); err != nil || !first.Valid {
		return err
	}
	parts := make([]builder, readers)
	group, ctx := parallel.WithContext(ctx)
	step := (last.Int64 - first.Int64 + readers) / readers
	for i := range parts {
		parts[i].days = map[int32]*Day{}
		from := first.Int64 + int64(i)*step
		group.Go(func() error {
			p := newParser(f.store)
			return table.Read(ctx, h.DB, columns, from, min(last.Int64, from+step-1), func(row *sqlitefile.Row) error {
				parts[i].read(p, row.Texts)
				return nil
			})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, p := range parts {
		b.odd.add(p.odd)
		for date, d := range p.days {
			known := b.days[date]
			if known == nil {
				b.days[date] = d
				continue
			}
			known.Rows = append(known.Rows, d.Rows...)
		}
	}
	return nil
}

// read adds a row to its day, unless it says nothing.
func (b *builder) read(p *parser, texts [][]byte) {
	row, fine := p.row(texts, &b.odd)
	if !fine {
		return
	}
	date := pool.DayOf(int64(row.First) * pool.Second)
	d := b.days[date]
	if d == nil {
		d = &Day{Date: date}
		b.days[date] = d
	}
	d.Rows = append(d.Rows, row)
}

// finish returns the days, ascending.
func (b *builder) finish() []*Day {
	days := make([]*Day, 0, len(b.days))
	for _, date := range slices.Sorted(maps.Keys(b.days)) {
		d := b.days[date]
		d.Rows = slices.Clip(d.Rows)
		seen := map[uint32]bool{}
		for i := range d.Rows {
			seen[d.Rows[i].First], seen[d.Rows[i].Last] = true, true
			d.Last = max(d.Last, d.Rows[i].Last)
		}
		d.Times = slices.Sorted(maps.Keys(seen))
		days = append(days, d)
	}
	return days
}

// parser reads the texts of a row.
type parser struct {
	store    *Store
	symbols  map[string]timeline.Symbol
	projects map[string]timeline.Symbol
	requests map[Request]uint32
}

func newParser(s *Store) *parser {
	return &parser{store: s, symbols: map[string]timeline.Symbol{}, projects: map[string]timeline.Symbol{},
		requests: map[Request]uint32{}}
}

// row makes a row of the texts; false: it says nothing.
func (p *parser) row(t [][]byte, odd *oddities) (Row, bool) {
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
	for i := range t {
		if len(t[i]) > pool.MostText {
			odd.long++
			t[i] = []byte(pool.Cut(string(t[i])))
		}
	}
	gpus := number(t[3])
	if gpus > MostGPUs {
		odd.greedy++
		return Row{}, false
	}
	row := Row{Job: p.store.options.Names.Job(string(t[0])), Schedd: p.symbol(t[1]), Owner: p.symbol(t[2]),
		Project: p.project(t[8]), First: first, Last: last, Running: string(t[11]) == "running"}
	if row.Schedd == 0 {
		row.Schedd = row.Job.Schedd
	}
	if qdate, ok := seconds(t[7]); ok {
		row.QDate = qdate
	}
	if row.QDate > row.First {
		row.QDate = row.Job.QDate // users can set QDate, not the id
	}
	if !(gpus >= 1) {
		gpus = 1
	}
	request := Request{GPUs: gpus, CPUs: odd.amount(t[4]), Memory: odd.amount(t[5]), GPUMemory: odd.amount(t[6])}
	if request.GPUMemory > mostGPUMemory {
		request.GPUMemory = 0
		odd.amounts++
	}
	row.Request = p.request(request)
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

// The largest requests of a job: more is a mistake of the job. Rows that request more GPUs are left out.
const (
	MostGPUs      = 10_000
	mostGPUMemory = 10 << 20 // MiB of a GPU
	mostAmount    = 1 << 40
)

// number reads a number; NaN if there is none.
func number(text []byte) float64 {
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return math.NaN()
	}
	return x
}

// amount reads how much of something a job asks for; 0: nothing.
func (o *oddities) amount(text []byte) float64 {
	if len(text) == 0 {
		return 0
	}
	switch x := number(text); {
	case math.IsNaN(x), math.IsInf(x, 0), x < 0:
		o.amounts++
		return 0
	case x > mostAmount:
		o.amounts++
		return mostAmount
	default:
		return x
	}
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
