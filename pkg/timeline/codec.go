package timeline

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// A segment on disk is the tables of a day, column by column: the numbers of a column are of one width, and read many
// at a time. Symbols are written as numbers of a dictionary of their own, since they mean nothing in another process;
// times and snapshots as differences. What is numbered in the order of its first use, as symbols and statuses are, is
// written as 0 the first time. The jobs stand at the end, as the day holds them.

// errDamaged is a segment that cannot have been written by encode.
var errDamaged = errors.New("damaged segment")

// encoder appends to a buffer.
type encoder struct {
	b       []byte
	numbers map[Symbol]uint32
	texts   []Symbol
}

func (e *encoder) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)   { e.b = binary.AppendVarint(e.b, v) }

// symbol numbers a symbol.
func (e *encoder) symbol(s Symbol) uint32 {
	n, known := e.numbers[s]
	if !known {
		e.numbers[s], e.texts = uint32(len(e.texts)), append(e.texts, s)
		return 0
	}
	return n + 1
}

// column writes a number of each item, with as many bytes as the highest one takes.
func column[T any](e *encoder, items []T, number func(*T) uint32) {
	numbers, highest := make([]uint32, len(items)), uint32(0)
	for i := range items {
		numbers[i] = number(&items[i])
		highest = max(highest, numbers[i])
	}
	switch {
	case highest < 1<<8:
		e.b = append(e.b, 1)
		for _, v := range numbers {
			e.b = append(e.b, byte(v))
		}
	case highest < 1<<16:
		e.b = append(e.b, 2)
		for _, v := range numbers {
			e.b = binary.LittleEndian.AppendUint16(e.b, uint16(v))
		}
	default:
		e.b = append(e.b, 4)
		for _, v := range numbers {
			e.b = binary.LittleEndian.AppendUint32(e.b, v)
		}
	}
}

// symbols writes a symbol of each item.
func symbols[T any](e *encoder, items []T, symbol func(*T) Symbol) {
	column(e, items, func(item *T) uint32 { return e.symbol(symbol(item)) })
}

func bits(flags ...bool) (bits uint32) {
	for i, f := range flags {
		if f {
			bits |= 1 << i
		}
	}
	return bits
}

// encode writes a day.
func encode(d *Day, names *Names) []byte {
	e := &encoder{numbers: map[Symbol]uint32{0: 0}, texts: []Symbol{0}}
	e.times(d)
	e.machines(d)
	e.statuses(d)
	e.gpus(d, names)
	e.jobs(d)
	body := e.b
	e.b = nil
	e.uint(uint64(len(e.texts)))
	column(e, e.texts, func(s *Symbol) uint32 { return uint32(len(names.Text(*s))) })
	for _, s := range e.texts {
		e.b = append(e.b, names.Text(s)...)
	}
	return append(e.b, body...)
}

func (e *encoder) times(d *Day) {
	e.int(int64(d.Date))
	e.uint(uint64(len(d.Times)))
	before := pool.Micros(0)
	for i, t := range d.Times {
		e.int(t - before)
		e.uint(uint64(d.RowsWithoutGPU[i]))
		before = t
	}
	for _, n := range []uint32{d.oddities.Back, d.oddities.Missing, d.oddities.Unreadable, d.oddities.Twice} {
		e.uint(uint64(n))
	}
}

func (e *encoder) machines(d *Day) {
	e.uint(uint64(len(d.machines)))
	symbols(e, d.machines, func(m *Machine) Symbol { return m.Name })
	column(e, d.machines, func(m *Machine) uint32 { return bits(m.HasPrimary, m.PrimaryProject, m.AnyProject) })
	column(e, d.machines, func(m *Machine) uint32 { return m.silentTo - m.silentFrom })
	column(e, d.silent, func(s *interval) uint32 { return uint32(s.first) })
	column(e, d.silent, func(s *interval) uint32 { return uint32(s.last) })
}

func (e *encoder) statuses(d *Day) {
	e.uint(uint64(len(d.rows)))
	column(e, d.rows, func(r *Row) uint32 { return uint32(r.State)<<1 | bits(r.Prevented) })
	symbols(e, d.rows, func(r *Row) Symbol { return r.Reason })
	symbols(e, d.rows, func(r *Row) Symbol { return r.Project })
	symbols(e, d.rows, func(r *Row) Symbol { return r.User })
	e.uint(uint64(len(d.statuses)))
	column(e, d.statuses, func(s *statusRows) uint32 { return s.primary })
	column(e, d.statuses, func(s *statusRows) uint32 { return s.backfill })
	e.uint(uint64(len(d.further)))
	column(e, d.further, func(f *further) uint32 { return f.status })
	column(e, d.further, func(f *further) uint32 { return f.to - f.from })
	column(e, d.extras, func(c *Claim) uint32 { return uint32(c.Side) })
	symbols(e, d.extras, func(c *Claim) Symbol { return c.User })
	symbols(e, d.extras, func(c *Claim) Symbol { return c.Job.Schedd })
	column(e, d.extras, func(c *Claim) uint32 { return c.Job.Cluster })
	column(e, d.extras, func(c *Claim) uint32 { return c.Job.Proc })
	column(e, d.extras, func(c *Claim) uint32 { return c.Job.QDate })
}

func (e *encoder) gpus(d *Day, names *Names) {
	e.uint(uint64(len(d.models)))
	symbols(e, d.models, func(m *Model) Symbol { return m.Device })
	for _, m := range d.models {
		e.b = binary.LittleEndian.AppendUint64(e.b, math.Float64bits(m.Memory))
	}
	e.uint(uint64(len(d.gpus)))
	symbols(e, d.gpus, func(g *gpuDay) Symbol {
		_, id := names.GPU(g.gpu)
		return id
	})
	column(e, d.gpus, func(g *gpuDay) uint32 { return g.machine })
	column(e, d.gpus, func(g *gpuDay) uint32 { return g.model })
	end := d.offsets[0]
	column(e, d.offsets[1:], func(to *uint32) uint32 {
		spans := *to - end
		end = *to
		return spans
	})
	before := uint16(0)
	column(e, d.first, func(first *uint16) uint32 {
		step := *first - before
		if *first == 0 { // of the next GPU
			step = 0
		}
		before = *first
		return uint32(step)
	})
	unused := Absent + 1
	column(e, d.status, func(s *uint32) uint32 {
		if *s == unused {
			unused++
			return 0
		}
		return *s + 1
	})
}

func (e *encoder) jobs(d *Day) {
	e.uint(uint64(len(d.jobs.schedds)))
	symbols(e, d.jobs.schedds, func(s *Symbol) Symbol { return *s })
	e.b = append(e.b, d.jobs.packed...)
}

// decoder reads what encode wrote. After the first fault it reads zeros and keeps the fault.
type decoder struct {
	b       []byte
	at      int // how far it has been read
	err     error
	symbols []Symbol
	unused  int // the first of the symbols that was not read yet
	*scratch
}

// scratch is memory for what does not stay, for one decoder after the other.
type scratch struct {
	texts   [][]byte
	gpuKeys []gpuKey
	numbers []uint32
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (r *decoder) uint() uint64 {
	v, n := binary.Uvarint(r.b[r.at:])
	if n <= 0 {
		r.fail()
		return 0
	}
	r.at += n
	return v
}

func (r *decoder) int() int64 {
	v := r.uint()
	return int64(v>>1) ^ -int64(v&1)
}

// fail keeps the fault and leaves nothing to read.
func (r *decoder) fail() { r.err, r.at = errDamaged, len(r.b) }

// below reads a number that must be less than the limit.
func (r *decoder) below(limit int) int {
	v := r.uint()
	if v >= uint64(limit) {
		r.fail()
		return 0
	}
	return int(v)
}

// count reads a number of things that take at least a byte each.
func (r *decoder) count() int { return r.below(len(r.b) - r.at + 1) }

// uint32 reads a number of 32 bits.
func (r *decoder) uint32() uint32 { return uint32(r.below(1 << 32)) }

func (r *decoder) bytes(n int) []byte {
	if n > len(r.b)-r.at {
		r.fail()
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at]
}

// column reads n numbers that must be less than the limit. They are valid until the next column is read; after a fault
// they are zeros.
func (r *decoder) column(n, limit int) []uint32 {
	numbers := slices.Grow(r.numbers[:0], n)[:n]
	r.numbers = numbers
	width, highest := r.below(5), uint32(0)
	b := r.bytes(n * width)
	switch {
	case r.err != nil:
	case width == 1:
		for i, v := range b {
			numbers[i], highest = uint32(v), max(highest, uint32(v))
		}
	case width == 2:
		for i := range numbers {
			v := uint32(binary.LittleEndian.Uint16(b[2*i:]))
			numbers[i], highest = v, max(highest, v)
		}
	case width == 4:
		for i := range numbers {
			v := binary.LittleEndian.Uint32(b[4*i:])
			numbers[i], highest = v, max(highest, v)
		}
	default:
		r.fail()
	}
	if n > 0 && uint64(highest) >= uint64(limit) {
		r.fail()
	}
	if r.err != nil {
		clear(numbers)
	}
	return numbers
}

// columnOfSymbols is column of symbols.
func (r *decoder) columnOfSymbols(n int) []uint32 {
	numbers := r.column(n, len(r.symbols)+1)
	for i, v := range numbers {
		if v == 0 {
			if r.unused >= len(r.symbols) {
				r.fail()
				clear(numbers)
				break
			}
			v = uint32(r.unused) + 1
			r.unused++
		}
		numbers[i] = uint32(r.symbols[v-1])
	}
	return numbers
}

// decode reads a day and enters its texts into names.
func decode(b []byte, names *Names) (*Day, error) {
	r := &decoder{b: b, scratch: scratches.Get().(*scratch), unused: 1}
	defer scratches.Put(r.scratch)
	r.texts = r.texts[:0]
	for _, length := range r.column(r.count(), len(b)) {
		r.texts = append(r.texts, r.b[:length]) // so long, but not there
	}
	for i, text := range r.texts {
		r.texts[i] = r.bytes(len(text))
	}
	if len(r.texts) == 0 || r.err != nil {
		return nil, errDamaged
	}
	r.symbols = names.enter(r.texts)
	d := &Day{}
	r.times(d)
	r.machines(d)
	r.statuses(d)
	r.gpus(d, names)
	r.jobs(d)
	if r.err == nil && r.at < len(r.b) {
		r.err = errDamaged
	}
	if r.err != nil {
		return nil, r.err
	}
	d.seal()
	return d, nil
}

// decodeOf reads the segment of a date.
func decodeOf(date int32, b []byte, names *Names) (*Day, error) {
	d, err := decode(b, names)
	if err == nil && d.Date != date {
		err = errDamaged
	}
	return d, err
}

func (r *decoder) times(d *Day) {
	d.Date = int32(r.int())
	n := r.below(1 << 16)
	d.Times, d.RowsWithoutGPU = make([]pool.Micros, 0, n), make([]uint32, 0, n)
	before := pool.Micros(0)
	for i := 0; i < n && r.err == nil; i++ {
		t := before + r.int()
		if i > 0 && t <= before {
			r.fail()
		}
		d.Times = append(d.Times, t)
		d.RowsWithoutGPU = append(d.RowsWithoutGPU, r.uint32())
		before = t
	}
	d.oddities = snapshots.Oddities{Back: r.uint32(), Missing: r.uint32(), Unreadable: r.uint32(), Twice: r.uint32()}
}

func (r *decoder) machines(d *Day) {
	n := r.count()
	d.machines = make([]Machine, n)
	for i, name := range r.columnOfSymbols(n) {
		d.machines[i].Name = Symbol(name)
	}
	for i, flags := range r.column(n, 8) {
		m := &d.machines[i]
		m.HasPrimary, m.PrimaryProject, m.AnyProject = flags&1 != 0, flags&2 != 0, flags&4 != 0
	}
	end := uint32(0)
	for i, to := range r.ends(n) {
		d.machines[i].silentFrom, d.machines[i].silentTo, end = end, to, to
	}
	d.silent = make([]interval, end)
	for i, first := range r.column(len(d.silent), len(d.Times)) {
		d.silent[i].first = uint16(first)
	}
	for i, last := range r.column(len(d.silent), len(d.Times)) {
		if d.silent[i].last = uint16(last); d.silent[i].last < d.silent[i].first {
			r.fail()
		}
	}
}

func (r *decoder) statuses(d *Day) {
	d.rows = make([]Row, r.count())
	for i, v := range r.column(len(d.rows), int(pool.Claimed)<<1+2) {
		d.rows[i].State, d.rows[i].Prevented = pool.State(v>>1), v&1 != 0
	}
	for i, reason := range r.columnOfSymbols(len(d.rows)) {
		d.rows[i].Reason = Symbol(reason)
	}
	for i, project := range r.columnOfSymbols(len(d.rows)) {
		d.rows[i].Project = Symbol(project)
	}
	for i, user := range r.columnOfSymbols(len(d.rows)) {
		d.rows[i].User = Symbol(user)
	}
	d.statuses = make([]statusRows, r.count())
	for i, row := range r.column(len(d.statuses), len(d.rows)) {
		d.statuses[i].primary = row
	}
	for i, row := range r.column(len(d.statuses), len(d.rows)) {
		d.statuses[i].backfill = row
	}
	if len(d.statuses) <= int(Absent) {
		r.fail()
	}
	r.claims(d)
}

func (r *decoder) claims(d *Day) {
	d.further = make([]further, r.count())
	for i, status := range r.column(len(d.further), len(d.statuses)) {
		if d.further[i].status = status; i > 0 && d.further[i-1].status >= status {
			r.fail()
		}
	}
	end := uint32(0)
	for i, to := range r.ends(len(d.further)) {
		d.further[i].from, d.further[i].to, end = end, to, to
	}
	d.extras = make([]Claim, end)
	for i, side := range r.column(len(d.extras), 2) {
		d.extras[i].Side = pool.Side(side)
	}
	for i, user := range r.columnOfSymbols(len(d.extras)) {
		d.extras[i].User = Symbol(user)
	}
	for i, schedd := range r.columnOfSymbols(len(d.extras)) {
		d.extras[i].Job.Schedd = Symbol(schedd)
	}
	for i, cluster := range r.column(len(d.extras), 1<<32) {
		d.extras[i].Job.Cluster = cluster
	}
	for i, proc := range r.column(len(d.extras), 1<<32) {
		d.extras[i].Job.Proc = proc
	}
	for i, queued := range r.column(len(d.extras), 1<<32) {
		d.extras[i].Job.QDate = queued
	}
}

func (r *decoder) gpus(d *Day, names *Names) {
	d.models = make([]Model, r.count())
	for i, device := range r.columnOfSymbols(len(d.models)) {
		d.models[i].Device = Symbol(device)
	}
	for i := range d.models {
		if memory := r.bytes(8); r.err == nil {
			d.models[i].Memory = math.Float64frombits(binary.LittleEndian.Uint64(memory))
		}
	}
	d.gpus = make([]gpuDay, r.count())
	r.gpuKeys = slices.Grow(r.gpuKeys[:0], len(d.gpus))[:len(d.gpus)]
	for i, id := range r.columnOfSymbols(len(d.gpus)) {
		r.gpuKeys[i].id = Symbol(id)
	}
	for i, machine := range r.column(len(d.gpus), len(d.machines)) {
		d.gpus[i].machine = machine
	}
	for i, model := range r.column(len(d.gpus), len(d.models)) {
		d.gpus[i].model = model
	}
	d.offsets = make([]uint32, len(d.gpus)+1)
	copy(d.offsets[1:], r.ends(len(d.gpus)))
	r.spans(d)
	if r.err != nil {
		return
	}
	for i := range d.gpus {
		r.gpuKeys[i].machine = d.machines[d.gpus[i].machine].Name
	}
	for i, g := range names.enterGPUs(r.gpuKeys) {
		d.gpus[i].gpu = g
	}
}

func (r *decoder) spans(d *Day) {
	n := int(d.offsets[len(d.gpus)])
	d.first, d.status = make([]uint16, n), make([]uint32, n)
	steps := r.column(n, len(d.Times))
	for i := range d.gpus {
		from, to := d.offsets[i], d.offsets[i+1]
		if from == to || steps[from] != 0 {
			r.fail()
			return
		}
		at := uint32(0)
		for k := from; k < to; k++ {
			at += steps[k]
			if at >= uint32(len(d.Times)) || steps[k] == 0 && k > from {
				r.fail()
				return
			}
			d.first[k] = uint16(at)
		}
	}
	unused := Absent + 1
	for i, s := range r.column(n, len(d.statuses)+1) {
		if s == 0 {
			unused++
			s = unused
		}
		d.status[i] = s - 1
	}
	if n > 0 && int(unused) > len(d.statuses) {
		r.fail()
	}
}

// jobs takes over the jobs as they are. They are what was written, as the body's checksum says, so they are read when
// somebody asks for them; here only that they can be.
func (r *decoder) jobs(d *Day) {
	d.jobs.schedds = make([]Symbol, r.count())
	for i, schedd := range r.columnOfSymbols(len(d.jobs.schedds)) {
		d.jobs.schedds[i] = Symbol(schedd)
	}
	if r.err != nil {
		return
	}
	packed := r.b[r.at:]
	n := d.claimed()
	for range n {
		r.below(len(d.jobs.schedds))
	}
	if r.err == nil && !holds(r.b[r.at:], 3*n) {
		r.fail()
	}
	d.jobs.packed = exact(packed)
	r.at = len(r.b)
}

// ends reads the sizes of n ranges, one after the other, and returns where each ends. What is in them takes at least a
// byte each.
func (r *decoder) ends(n int) []uint32 {
	sizes := r.column(n, len(r.b)-r.at+1)
	end := 0
	for i, size := range sizes {
		if end += int(size); end > len(r.b)-r.at {
			r.fail()
			clear(sizes)
			break
		}
		sizes[i] = uint32(end)
	}
	return sizes
}
