package timeline

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// A segment on disk is a sequence of variable-length integers. Symbols are written as numbers of a dictionary of their
// own, since they mean nothing in another process; times, snapshots and job numbers as differences.

// errDamaged is a segment that cannot have been written by encode.
var errDamaged = errors.New("damaged segment")

// encoder appends to a buffer.
type encoder struct {
	b       []byte
	numbers map[Symbol]uint64
	texts   []Symbol
}

func (e *encoder) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)   { e.b = binary.AppendVarint(e.b, v) }

func (e *encoder) symbol(s Symbol) {
	n, known := e.numbers[s]
	if !known {
		n = uint64(len(e.texts))
		e.numbers[s], e.texts = n, append(e.texts, s)
	}
	e.uint(n)
}

func (e *encoder) flags(flags ...bool) {
	var bits uint64
	for i, f := range flags {
		if f {
			bits |= 1 << i
		}
	}
	e.uint(bits)
}

func (e *encoder) job(j, before Job) {
	e.symbol(j.Schedd)
	e.int(int64(j.Cluster) - int64(before.Cluster))
	e.uint(uint64(j.Proc))
	e.int(int64(j.QDate) - int64(before.QDate))
}

// encode writes a day.
func encode(d *Day, names *Names) []byte {
	e := &encoder{numbers: map[Symbol]uint64{0: 0}, texts: []Symbol{0}}
	e.times(d)
	e.machines(d)
	e.statuses(d)
	e.gpus(d, names)
	body := e.b
	e.b = nil
	e.uint(uint64(len(e.texts)))
	for _, s := range e.texts {
		text := names.Text(s)
		e.uint(uint64(len(text)))
		e.b = append(e.b, text...)
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
	for _, m := range d.machines {
		e.symbol(m.Name)
		e.flags(m.HasPrimary, m.PrimaryProject, m.AnyProject)
		silent := d.silent[m.silentFrom:m.silentTo]
		e.uint(uint64(len(silent)))
		for _, s := range silent {
			e.uint(uint64(s.first))
			e.uint(uint64(s.last))
		}
	}
}

func (e *encoder) statuses(d *Day) {
	e.uint(uint64(len(d.rows)))
	var before Job
	for _, r := range d.rows {
		e.uint(uint64(r.State))
		e.flags(r.Prevented)
		if r.Prevented {
			e.symbol(r.Reason)
		}
		e.symbol(r.Project)
		if r.State == pool.Claimed {
			e.symbol(r.User)
			e.job(r.Job, before)
			before = r.Job
		}
	}
	e.uint(uint64(len(d.statuses)))
	for _, s := range d.statuses {
		e.uint(uint64(s.primary))
		e.uint(uint64(s.backfill))
	}
	e.uint(uint64(len(d.further)))
	for _, f := range d.further {
		e.uint(uint64(f.status))
		e.uint(uint64(f.to - f.from))
	}
	e.uint(uint64(len(d.extras)))
	for _, c := range d.extras {
		e.uint(uint64(c.Side))
		e.symbol(c.User)
		e.job(c.Job, Job{})
	}
}

func (e *encoder) gpus(d *Day, names *Names) {
	e.uint(uint64(len(d.models)))
	for _, m := range d.models {
		e.symbol(m.Device)
		e.b = binary.LittleEndian.AppendUint64(e.b, math.Float64bits(m.Memory))
	}
	e.uint(uint64(len(d.gpus)))
	for i, g := range d.gpus {
		_, id := names.GPU(g.gpu)
		e.symbol(id)
		e.uint(uint64(g.machine))
		e.uint(uint64(g.model))
		first, status := d.Spans(i)
		e.uint(uint64(len(first)))
		before := uint16(0)
		for k := range first {
			e.uint(uint64(first[k] - before))
			e.uint(uint64(status[k]))
			before = first[k]
		}
	}
}

// decoder reads what encode wrote. After the first fault it reads zeros and keeps the fault.
type decoder struct {
	b       []byte
	at      int // how far it has been read
	err     error
	symbols []Symbol
	*scratch
}

// scratch is memory for what a day's sizes are not known ahead of, for one decoder after the other.
type scratch struct {
	texts   [][]byte
	gpuKeys []gpuKey
	first   []uint16
	status  []uint32
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (r *decoder) uint() uint64 {
	if r.at < len(r.b) && r.b[r.at] < 0x80 { // most are of one byte
		r.at++
		return uint64(r.b[r.at-1])
	}
	return r.long()
}

// long reads a number of several bytes.
func (r *decoder) long() uint64 {
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
		r.err = errDamaged
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
		r.err = errDamaged
		return make([]byte, n&0xff)
	}
	r.at += n
	return r.b[r.at-n : r.at]
}

func (r *decoder) symbol() Symbol {
	if n := r.below(len(r.symbols)); r.err == nil {
		return r.symbols[n]
	}
	return 0
}

func (r *decoder) job(before Job) Job {
	return Job{Schedd: r.symbol(), Cluster: uint32(int64(before.Cluster) + r.int()), Proc: r.uint32(),
		QDate: uint32(int64(before.QDate) + r.int())}
}

// decode reads a day and enters its texts into names.
func decode(b []byte, names *Names) (*Day, error) {
	r := &decoder{b: b, scratch: scratches.Get().(*scratch)}
	defer scratches.Put(r.scratch)
	r.texts = r.texts[:0]
	for n := r.count(); n > 0 && r.err == nil; n-- {
		r.texts = append(r.texts, r.bytes(r.count()))
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
			r.err = errDamaged
		}
		d.Times = append(d.Times, t)
		d.RowsWithoutGPU = append(d.RowsWithoutGPU, r.uint32())
		before = t
	}
	d.oddities = snapshots.Oddities{Back: r.uint32(), Missing: r.uint32(), Unreadable: r.uint32(), Twice: r.uint32()}
}

func (r *decoder) machines(d *Day) {
	n := r.count()
	d.machines = make([]Machine, 0, n)
	for ; n > 0 && r.err == nil; n-- {
		m := Machine{Name: r.symbol()}
		flags := r.uint()
		m.HasPrimary, m.PrimaryProject, m.AnyProject = flags&1 != 0, flags&2 != 0, flags&4 != 0
		m.silentFrom = uint32(len(d.silent))
		for k := r.count(); k > 0 && r.err == nil; k-- {
			s := interval{uint16(r.below(len(d.Times))), uint16(r.below(len(d.Times)))}
			if s.last < s.first {
				r.err = errDamaged
			}
			d.silent = append(d.silent, s)
		}
		m.silentTo = uint32(len(d.silent))
		d.machines = append(d.machines, m)
	}
}

func (r *decoder) statuses(d *Day) {
	var before Job
	n := r.count()
	for d.rows = make([]Row, 0, n); n > 0 && r.err == nil; n-- {
		row := Row{State: pool.State(r.below(int(pool.Claimed) + 1)), Prevented: r.uint()&1 != 0}
		if row.Prevented {
			row.Reason = r.symbol()
		}
		row.Project = r.symbol()
		if row.State == pool.Claimed {
			row.User = r.symbol()
			row.Job = r.job(before)
			before = row.Job
		}
		d.rows = append(d.rows, row)
	}
	n = r.count()
	for d.statuses = make([]statusRows, 0, n); n > 0 && r.err == nil; n-- {
		d.statuses = append(d.statuses, statusRows{uint32(r.below(len(d.rows))), uint32(r.below(len(d.rows)))})
	}
	end := 0
	for n := r.count(); n > 0 && r.err == nil; n-- {
		status, claims := uint32(r.below(len(d.statuses))), r.count()
		if m := len(d.further); m > 0 && d.further[m-1].status >= status || end+claims > len(r.b)-r.at {
			r.err = errDamaged
			return
		}
		d.further = append(d.further, further{status, uint32(end), uint32(end + claims)})
		end += claims
	}
	for n := r.count(); n > 0 && r.err == nil; n-- {
		d.extras = append(d.extras, Claim{pool.Side(r.below(2)), r.symbol(), r.job(Job{})})
	}
	if end != len(d.extras) || len(d.statuses) <= int(Absent) {
		r.err = errDamaged
	}
}

func (r *decoder) gpus(d *Day, names *Names) {
	for n := r.count(); n > 0 && r.err == nil; n-- {
		m := Model{Device: r.symbol()}
		m.Memory = math.Float64frombits(binary.LittleEndian.Uint64(r.bytes(8)))
		d.models = append(d.models, m)
	}
	n := r.count()
	d.gpus, d.offsets = make([]gpuDay, 0, n), make([]uint32, 0, n+1)
	r.gpuKeys, r.first, r.status = r.gpuKeys[:0], r.first[:0], r.status[:0]
	for ; n > 0 && r.err == nil; n-- {
		id, machine, model := r.symbol(), r.below(len(d.machines)), r.below(len(d.models))
		if r.err != nil {
			return
		}
		r.gpuKeys = append(r.gpuKeys, gpuKey{d.machines[machine].Name, id})
		d.gpus = append(d.gpus, gpuDay{machine: uint32(machine), model: uint32(model)})
		d.offsets = append(d.offsets, uint32(len(r.first)))
		r.spans(len(d.Times), len(d.statuses))
	}
	if r.err != nil {
		return
	}
	for i, g := range names.enterGPUs(r.gpuKeys) {
		d.gpus[i].gpu = g
	}
	d.offsets = append(d.offsets, uint32(len(r.first)))
	d.first, d.status = exact(r.first), exact(r.status)
}

// spans reads those of a GPU.
func (r *decoder) spans(times, statuses int) {
	n, at := r.count(), 0
	for k := 0; k < n && r.err == nil; k++ {
		step := r.below(times)
		if at += step; at >= times || (step == 0) != (k == 0) {
			r.err = errDamaged
		}
		r.first, r.status = append(r.first, uint16(at)), append(r.status, uint32(r.below(statuses)))
	}
	if n == 0 {
		r.err = errDamaged
	}
}
