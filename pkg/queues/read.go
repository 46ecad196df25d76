package queues

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// builder gathers rows by day, as long as they fit into the store's memory.
type builder struct {
	file     *file
	days     map[int32]*Day
	requests pool.Numbered[Request]
	odd      oddities
	values   pool.Values
	room     *atomic.Int64 // bytes that are left; builders of one file share it
	stop     context.CancelCauseFunc
}

// builder returns a builder, and a context in which to read: it ends when the memory is used up.
func (f *file) builder(ctx context.Context) (context.Context, *builder) {
	ctx, stop := context.WithCancelCause(ctx)
	b := &builder{file: f, days: map[int32]*Day{}, room: &atomic.Int64{}, stop: stop}
	b.room.Store(f.store.options.MaxBytes)
	return ctx, b
}

// readTable reads all rows, in two halves side by side.
func (f *file) readTable(ctx context.Context, h *sqlitefile.Handle) (*contents, error) {
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
	reading, b := f.builder(ctx)
	defer b.stop(nil)
	second := &builder{file: f, days: map[int32]*Day{}, room: b.room, stop: b.stop}
	group, inner := parallel.WithContext(reading)
	start := func(b *builder, first, last int64) {
		texts := make([]string, len(columns))
		group.Go(func() error {
			return table.Read(inner, h.DB, columns, first, last, func(row *sqlitefile.Row) error {
				for i, text := range row.Texts {
					texts[i] = string(text)
				}
				b.addRow(texts)
				return nil
			})
		})
	}
	start(b, math.MinInt64, middle)
	start(second, middle+1, math.MaxInt64)
	if err := cmp.Or(group.Wait(), context.Cause(reading)); err != nil {
		return nil, cmp.Or(context.Cause(reading), err)
	}
	b.append(second)
	return b.finish(), nil
}

// append appends the rows of another one, which come later in the file.
func (b *builder) append(other *builder) {
	for date, d := range other.days {
		for i := range d.Rows {
			d.Rows[i].Request = uint32(b.requests.Number(other.requests.All[d.Rows[i].Request]))
		}
		day := pool.In(b.days, date)
		day.Rows = append(day.Rows, d.Rows...)
	}
	for of, n := range other.odd {
		b.odd[of] += n
	}
	b.values.Merge(&other.values)
}

func (b *builder) finish() *contents {
	days := make([]*Day, 0, len(b.days))
	for _, date := range slices.Sorted(maps.Keys(b.days)) {
		d := b.days[date]
		d.Date, d.Rows = date, slices.Clip(d.Rows)
		seen := map[uint32]bool{}
		for i := range d.Rows {
			seen[d.Rows[i].First], seen[d.Rows[i].Last] = true, true
			d.Last = max(d.Last, d.Rows[i].Last)
		}
		d.Times = slices.Sorted(maps.Keys(seen))
		days = append(days, d)
	}
	return &contents{days: days, requests: slices.Clip(b.requests.All), odd: b.odd, values: b.values}
}

// addRow adds the row of the texts to its day, unless it says nothing, or nothing new after the row before it, or asks
// for too much.
func (b *builder) addRow(t []string) {
	// Leave out what cannot be read, and cut what is too long.
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
	if n > pool.MostGPUs {
		b.odd[greedy]++
		return
	}
	if !(n >= 1) { // also NaN
		n = 1
	}
	// Make a row. Users can set QDate, not the id.
	names := b.file.store.options.Names
	row := Row{Job: names.Job(t[id]), Schedd: names.Symbol(t[schedd]), Owner: names.Symbol(t[owner]),
		Project: names.Symbol(pool.ProjectList(t[projects])), First: first, Last: last,
		File: b.file.number, Running: running}
	if row.Schedd == 0 {
		row.Schedd = row.Job.Schedd
	}
	if qdate, ok := seconds(t[queued]); ok {
		row.QDate = qdate
	}
	_, named := row.Job.Queued()
	switch late := row.QDate > row.First; {
	case named && (late || row.QDate != 0 && row.QDate+clockError < row.Job.QDate):
		row.QDate = row.Job.QDate
	case late:
		row.QDate = 0
	}
	// Number its request, and keep the row unless it repeats the one before.
	known := len(b.requests.All)
	row.Request = uint32(b.requests.Number(Request{GPUs: n,
		CPUs:      b.amount(t[cpus], pool.MostAmount, pool.MostAmount),
		Memory:    b.amount(t[memory], pool.MostAmount, pool.MostAmount),
		GPUMemory: b.amount(t[gpuMemory], pool.MostGPUMemory, 0)}))
	d := pool.In(b.days, pool.DayOf(micros(row.First)))
	if len(d.Rows) > 0 && d.Rows[len(d.Rows)-1] == row {
		return
	}
	if b.room.Add(-rowBytes-int64(len(b.requests.All)-known)*requestBytes) < 0 {
		b.stop(fmt.Errorf("its rows need more memory than the data source has for a queue file (%d MB): raise cacheMaxMB, "+
			"or look for repeated rows", b.file.store.options.MaxBytes>>20))
		return
	}
	d.Rows = append(d.Rows, row)
}

// readTexts makes texts that mean no value empty, counts them and unknown states, and reports whether the job runs
// (methodology section 1).
func (b *builder) readTexts(t []string) (running bool) {
	for column := range firstSeen { // those of texts, and of numbers, in which texts can stand as well
		read := pool.ReadText
		if column == owner {
			read = pool.ReadFreeText
		}
		value, meaning := read(t[column])
		b.values.Add(columns[column], meaning, 1, t[column])
		t[column] = value
	}
	running, meaning := pool.ReadJobState(t[state])
	b.values.Add(columns[state], meaning, 1, t[state])
	return running
}

// clockError is how many seconds a QDate may be before the qdate of the GlobalJobId: clocks may differ so much.
const clockError = 120

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

func seconds(text string) (uint32, bool) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x != math.Trunc(x) || x <= 0 || x > math.MaxUint32 {
		return 0, false
	}
	return uint32(x), true
}
