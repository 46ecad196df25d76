package timeline

import (
	"context"
	"iter"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Synthetic is a snapshot that stands in no file.
type Synthetic struct {
	Time pool.Micros
	Rows []snapshots.Row
}

// Synthesize keeps a UTC day of snapshots that stand in no file in the cache directory, written as ingestion writes it.
// It is for measuring pools that are too large to be made as files: a month file must reach over the day without a row of it.
func (t *Timeline) Synthesize(ctx context.Context, date int32, day iter.Seq2[Synthetic, error]) error {
	files, _, err := t.files(ctx)
	if err != nil {
		return err
	}
	in := newIngest(date, t.zone, t.names)
	if err := in.read(ctx, files); err != nil {
		return err
	}
	for s, err := range day {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		b := block{time: s.Time, number: len(in.blocks)}
		for _, row := range s.Rows {
			b.rows = append(b.rows, in.table.id(row))
		}
		in.blocks = append(in.blocks, b)
	}
	if err := fingerprint(ctx, in.sources, files); err != nil {
		return err
	}
	d, _ := in.day()
	t.disk.write(d, in.sources, tail{}, true, t.names)
	return t.disk.failure()
}
