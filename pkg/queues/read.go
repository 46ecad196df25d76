package queues

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// builder gathers rows by day.
type builder struct {
	store *Store
	days  map[int32]*Day
	odd   oddities

	values pool.Values
}

func (s *Store) builder() *builder { return &builder{store: s, days: map[int32]*Day{}} }

// read reads all rows, in two halves side by side.
func (f *file) read(ctx context.Context, h *sqlitefile.Handle) (*contents, error) {
	table, err := sqlitefile.FindTable(ctx, h.Conn, "job_pressure")
	if err != nil {
		return nil, err
	}
	if err := checkColumns(table.Has); err != nil {
		return nil, err
	}
	var middle int64
	if err := h.Conn.QueryRowContext(ctx, table.SQL("SELECT ifnull((SELECT min(rowid) FROM job_pressure) / 2 + "+
		"(SELECT max(rowid) FROM job_pressure) / 2, 0)")).Scan(&middle); err != nil {
		return nil, err
	}
	group, ctx := parallel.WithContext(ctx)
	start := func(first, last int64) *builder { // read once the group has ended
		b, texts := f.store.builder(), make([]string, len(columns))
		group.Go(func() error {
			return table.Read(ctx, h.DB, columns, first, last, func(row *sqlitefile.Row) error {
				for i, text := range row.Texts {
					texts[i] = string(text)
				}
				b.add(texts)
				return nil
			})
		})
		return b
	}
	b, second := start(math.MinInt64, middle), start(middle+1, math.MaxInt64)
	if err := group.Wait(); err != nil {
		return nil, err
	}
	b.append(second)
	return b.finish(), nil
}

// append appends the rows of another one, which come later in the file.
func (b *builder) append(other *builder) {
	for date, d := range other.days {
		b.day(date).Rows = append(b.day(date).Rows, d.Rows...)
	}
	for of, n := range other.odd {
		b.odd[of] += n
	}
	b.values.Merge(&other.values)
}

// day returns the rows of a day.
func (b *builder) day(date int32) *Day {
	if b.days[date] == nil {
		b.days[date] = &Day{Date: date}
	}
	return b.days[date]
}

// finish returns the rows by day, ascending.
func (b *builder) finish() *contents {
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
	return &contents{days: days, odd: b.odd, values: b.values}
}

// add adds the row of the texts to its day, unless it says nothing or asks for too much.
func (b *builder) add(t []string) {
	running := b.readTexts(t)
	first, okFirst := seconds(t[firstSeen])
	last, okLast := seconds(t[lastSeen])
	if t[id] == "" || !okFirst || !okLast {
		b.odd[unreadable]++
		return
	}
	if last < first {
		b.odd[backwards]++
		last = first
	}
	for i := range t {
		if len(t[i]) > pool.MostText {
			b.odd[long]++
			t[i] = pool.Cut(t[i])
		}
	}
	n := number(t[gpus])
	if n > MostGPUs {
		b.odd[greedy]++
		return
	}
	if !(n >= 1) { // also NaN
		n = 1
	}
	names := b.store.options.Names
	row := Row{Job: names.Job(t[id]), Schedd: names.Symbol(t[schedd]), Owner: names.Symbol(t[owner]),
		Project: names.Symbol(pool.ProjectList(t[projects])), First: first, Last: last, Running: running}
	if row.Schedd == 0 {
		row.Schedd = row.Job.Schedd
	}
	if qdate, ok := seconds(t[queued]); ok {
		row.QDate = qdate
	}
	if row.QDate > row.First {
		row.QDate = row.Job.QDate // users can set QDate, not the id
	}
	row.Request = b.store.request(Request{GPUs: n, CPUs: b.amount(t[cpus], mostAmount, mostAmount),
		Memory: b.amount(t[memory], mostAmount, mostAmount), GPUMemory: b.amount(t[gpuMemory], mostGPUMemory, 0)})
	d := b.day(pool.DayOf(int64(row.First) * pool.Second))
	d.Rows = append(d.Rows, row)
}

// textReaders know the values of the columns that hold texts (methodology section 1).
var textReaders = map[int]func(string) (string, pool.Meaning){
	id: pool.ReadText, schedd: pool.ReadText, owner: pool.ReadFreeText, projects: pool.ReadText,
}

// readTexts makes texts that mean no value empty, counts them and unknown states, and reports whether the job runs.
func (b *builder) readTexts(t []string) (running bool) {
	for column, read := range textReaders {
		value, meaning := read(t[column])
		b.values.Add(columns[column], meaning, 1, t[column])
		t[column] = value
	}
	running, meaning := pool.ReadJobState(t[state])
	b.values.Add(columns[state], meaning, 1, t[state])
	return running
}

// The largest requests of a job: more is a mistake of the job. Rows that request more GPUs are left out.
const (
	MostGPUs      = 10_000
	mostGPUMemory = 10 << 20 // MiB of a GPU
	mostAmount    = 1 << 40
)

// number reads a number; NaN if there is none, ±Inf if it is too large.
func number(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return math.NaN()
	}
	return x
}

// amount reads how much of something a job asks for; 0: nothing. More than most counts as another amount.
func (b *builder) amount(text string, most, instead float64) float64 {
	if text == "" {
		return 0
	}
	switch x := number(text); {
	case math.IsNaN(x), math.IsInf(x, 0), x < 0:
		b.odd[badAmount]++
		return 0
	case x > most:
		b.odd[badAmount]++
		return instead
	default:
		return x
	}
}

// seconds reads Unix seconds.
func seconds(text string) (uint32, bool) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x != math.Trunc(x) || x <= 0 || x > math.MaxUint32 {
		return 0, false
	}
	return uint32(x), true
}
