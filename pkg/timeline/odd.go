package timeline

import (
	"cmp"
	"maps"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// This file counts texts that mean no value and values that are not known (methodology section 1).

// oddKey is a column and what its values mean.
type oddKey struct {
	column  uint8 // an index in snapshots.ColumnNames
	meaning pool.Meaning
}

// oddRows are the rows of a snapshot with such values.
type oddRows struct {
	Snapshot uint16
	Column   uint8
	Meaning  pool.Meaning
	Rows     uint32
}

func (o oddRows) key() oddKey { return oddKey{o.Column, o.Meaning} }

// oddExample is one of the values.
type oddExample struct {
	Column  uint8
	Meaning pool.Meaning
	Text    string
}

// exampleOf returns the index of the example of a column and meaning, −1 without.
func (d *Day) exampleOf(key oddKey) int {
	return slices.IndexFunc(d.examples, func(e oddExample) bool { return oddKey{e.Column, e.Meaning} == key })
}

// note counts an odd value of the snapshot that is read.
func (b *builder) note(o *snapshots.Odd) {
	key := oddKey{uint8(o.Column), o.Meaning}
	if b.odd == nil {
		b.odd = map[oddKey]uint32{}
	}
	b.odd[key]++
	if b.day.exampleOf(key) < 0 {
		b.day.examples = append(b.day.examples, oddExample{key.column, key.meaning, pool.Example(o.Text)})
	}
}

// countOdd keeps the counts of a snapshot.
func (b *builder) countOdd(snapshot int) {
	for _, key := range slices.SortedFunc(maps.Keys(b.odd), func(a, b oddKey) int {
		return cmp.Or(cmp.Compare(a.column, b.column), cmp.Compare(a.meaning, b.meaning))
	}) {
		b.day.odd = append(b.day.odd, oddRows{uint16(snapshot), key.column, key.meaning, b.odd[key]})
	}
	clear(b.odd)
}

// AddOdd counts the day's rows in a window with texts that mean no value or values that are not known, by column.
func (d *Day) AddOdd(w pool.Window, to *pool.Values) {
	for _, o := range d.odd {
		if w.Contains(d.Times[o.Snapshot]) {
			to.Add(snapshots.ColumnNames[o.Column], o.Meaning, int(o.Rows), d.examples[d.exampleOf(o.key())].Text)
		}
	}
}

// oddNotices tells of the odd values in a window, with a warning if figures depend on them.
func (v *View) oddNotices(w pool.Window) []Notice {
	var odd pool.Values
	for _, d := range v.Days {
		d.AddOdd(w, &odd)
	}
	if about := snapshots.AboutValues("snapshots have", &odd); about != (Notice{}) {
		return []Notice{about}
	}
	return nil
}

// validOdd reports whether all indexes are within their ranges.
func (d *Day) validOdd() bool {
	valid := true
	for _, o := range d.odd {
		valid = valid && int(o.Snapshot) < len(d.Times) && int(o.Column) < snapshots.Columns &&
			d.exampleOf(o.key()) >= 0
	}
	return valid
}
