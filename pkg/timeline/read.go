package timeline

import (
	"fmt"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// reader makes a segment out of the snapshots of a day: of all of them, or of an earlier segment and those from its
// newest one onward. It implements snapshots.Visitor.
type reader struct {
	names   *Names
	date    int32
	earlier *Day // nil if there is none
	builder *builder
}

// Begin implements snapshots.Visitor.
func (r *reader) Begin(resumed bool) {
	r.builder = newBuilder(r.date, newRowTable(r.names))
	if resumed {
		r.builder.resume(r.earlier)
	}
}

// Distinct implements snapshots.Visitor.
func (r *reader) Distinct(row snapshots.Row) { r.builder.table.add(row) }

// Snapshot implements snapshots.Visitor.
func (r *reader) Snapshot(s snapshots.Snapshot) error {
	r.builder.add(s)
	return nil
}

// finish returns the segment.
func (r *reader) finish(oddities snapshots.Oddities) *Day {
	d := r.builder.finish()
	d.oddities = oddities
	d.seal()
	return d
}

// notices returns notices about odd rows of the day.
func (d *Day) notices(names *Names) []snapshots.Notice {
	var all []snapshots.Notice
	add := func(n uint32, text string) {
		if n > 0 {
			all = append(all, snapshots.Notice{Text: fmt.Sprintf("%s: %d %s", dateText(d.Date), n, text)})
		}
	}
	add(d.oddities.Back, "snapshots were out of order in their file and have been sorted")
	add(d.oddities.Missing, "snapshots have a local time that does not exist: read with the offset before the change")
	add(d.oddities.Unreadable, fmt.Sprintf("rows have no readable timestamp, such as %q: left out", d.oddities.Sample))
	add(d.oddities.Twice, "snapshots of the repeated hour may be two with the same text: counted as one")
	add(uint32(names.cutOf(d)), fmt.Sprintf("different rows have texts of more than %d bytes: cut", pool.MostText))
	return all
}

// Oddities counts the irregular timestamps of the day.
func (d *Day) Oddities() snapshots.Oddities { return d.oddities }

// dateText is a day as YYYY-MM-DD.
func dateText(date int32) string {
	return pool.Time(pool.Micros(date) * pool.Day).Format(time.DateOnly)
}
