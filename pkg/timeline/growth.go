package timeline

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// A day that grows is formed out of its earlier segment, whose newest snapshot may have been read in part, and the rows
// from that snapshot on.

// tail is where a day that grows is read again: its newest snapshot, of which there may be more to come.
type tail struct {
	Rowid int64 `json:"rowid"` // of its first row, in the last source; 0 = the day must be read anew
	Ahead notes `json:"ahead"` // of the rows ahead of it
}

// goOn reads a day from its newest snapshot on, with the rows appended since. It returns nil where that is not possible: then the
// day must be read anew.
func (t *Timeline) goOn(ctx context.Context, e *entry, files []file) (*ingest, error) {
	d := e.day
	begin, end := texts(d.Date, t.zone)
	files = touching(files, begin, end)
	last := len(files) - 1
	if e.tail.Rowid == 0 || !steady(d.Date, t.zone) || !slices.EqualFunc(e.sources, files, func(s source, f file) bool { return s.is(f) }) {
		return nil, nil
	}
	in := newIngest(d.Date, t.zone, t.names)
	in.earlier, in.notes, in.sources, in.readers = d, e.tail.Ahead, slices.Clone(e.sources), make([]reader, len(e.sources))
	in.table.know(d)
	for n, f := range files {
		rows, err := f.Seek(ctx, f.state, begin, end)
		if err != nil {
			return nil, err
		}
		read := e.sources[n].rows
		if rows.First != read.First || rows.Last < read.Last || rows.Last > read.Last && n < last {
			return nil, nil
		}
		if n == last {
			in.readers[n] = reader{Resolver: *t.zone.NewResolver(), date: d.Date}
			if err := in.scan(ctx, n, f, snapshots.Rowids{First: e.tail.Rowid, Last: rows.Last}); err != nil {
				return nil, err
			}
		}
		in.sources[n].rows, in.sources[n].closed = rows, rows.Last < f.state.Last
	}
	if all := in.snapshots(); len(all) == 0 || all[0].time != d.Times[len(d.Times)-1] {
		return nil, nil // rows came late
	}
	return in, nil
}

// steady tells whether the zone's offset is the same wherever rows of the day can stand.
func steady(date int32, zone *localtime.Zone) bool {
	begin := pool.Micros(date) * pool.Day
	return !zone.Changes(begin-pool.Day, begin+2*pool.Day) && zone.Offset(begin-margin) == zone.Offset(begin+pool.Day+margin)
}

// know numbers the rows, GPUs and machines of a day as the day does. The table must be new.
func (t *rowTable) know(d *Day) {
	for _, row := range d.rows {
		t.index(row)
	}
	for i := range d.machines {
		t.machineIndex(d.machines[i].Name)
	}
	for _, g := range d.gpus {
		t.gpu(g.gpu, g.machine)
	}
}

// resume goes on ahead of the newest snapshot of a day. Of that one only the names stay.
func (b *builder) resume(d *Day) {
	keep := len(d.Times) - 1
	b.day.Times = slices.Clone(d.Times[:keep])
	b.day.RowsWithoutGPU = slices.Clone(d.RowsWithoutGPU[:keep])
	b.day.statuses, b.day.further, b.day.extras = slices.Clone(d.statuses), slices.Clone(d.further), slices.Clone(d.extras)
	for s := Absent + 1; s < uint32(len(d.statuses)); s++ {
		if len(d.claims(s)) == 0 {
			b.known[d.statuses[s]] = s
		}
	}
	for i := range d.machines {
		m := &b.machines[i]
		m.bits, m.seen = d.machines[i], keep-1
		for _, s := range d.silent[m.bits.silentFrom:m.bits.silentTo] {
			if int(s.last) >= keep-1 { // it may go on
				m.seen = min(m.seen, int(s.first)-1)
				break
			}
			m.silent = append(m.silent, s)
		}
	}
	for i := range d.gpus {
		g, model := &b.gpus[i], d.Model(i)
		g.device, g.memory = model.Device, model.Memory
		first, status := d.Spans(i)
		for k := range first {
			last := keep - 1
			if k+1 < len(first) {
				last = min(last, int(first[k+1])-1)
			}
			if int(first[k]) <= last && status[k] > Absent {
				g.spans = append(g.spans, span{first[k], uint16(last), status[k]})
			}
		}
	}
}
