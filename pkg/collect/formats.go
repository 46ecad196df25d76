package collect

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/objects"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// format is a format of month files.
type format struct {
	extension string
	// count returns the rows of a snapshot in a file that exists.
	count func(ctx context.Context, path, timestamp string) (int, error)
	// add appends a snapshot to a file, which it creates if there is none, and returns its rows: all of them, or none.
	// note describes what was set aside, and a failure after they were written.
	add func(ctx context.Context, path string, s snapshot) (rows int, note string, err error)
	// poll writes a poll of the queues into a file, which it creates if there is none. begun is the number of new rows.
	poll func(ctx context.Context, path string, p *queuePoll) (begun int, note string, err error)
}

// formats by their name on the command line.
var formats = map[string]format{
	"sqlite":  {"db", countSQLite, addSQLite, pollSQLite},
	"parquet": {"parquet", parquet.Count, addParquet, pollParquet},
}

// monthFile is the name of the file that holds the snapshot of a local time: that of its month.
func (f format) monthFile(timestamp string) string {
	return snapshots.MonthFile(timestamp[:len("2026-07")], f.extension)
}

// rowsOf counts the rows of a snapshot in the files of all formats and in the bucket, 0 if it was not written.
func (o Options) rowsOf(ctx context.Context, timestamp string) (rows int, err error) {
	for _, f := range formats {
		path := filepath.Join(o.SnapshotDir, f.monthFile(timestamp))
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		n, err := f.count(ctx, path, timestamp)
		if err != nil {
			return 0, err
		}
		rows += n
	}
	if rows == 0 && o.bucket != nil {
		return objects.CountSnapshot(ctx, o.bucket, timestamp)
	}
	return rows, nil
}

// inFields returns rows as Parquet files take them, with a value for each field.
func inFields(fields []parquet.Field, rows []row) (all [][]any) {
	columns := make([]string, len(fields))
	for i, f := range fields {
		columns[i] = f.Name
	}
	for _, r := range rows {
		all = append(all, r.in(columns))
	}
	return all
}

// addParquet appends the snapshot to a month file, which is replaced as a whole.
func addParquet(ctx context.Context, path string, s snapshot) (n int, note string, err error) {
	rows := inFields(parquet.Schema, s.rows())
	return len(rows), "", parquet.Append(ctx, path, parquet.Schema, rows)
}

// writeObject puts the snapshot into the bucket, and merges the days before it. note describes a failure after the
// snapshot was written.
func (s snapshot) writeObject(ctx context.Context, b *bucket.Bucket, at time.Time) (rows int, note string, err error) {
	all := inFields(parquet.Schema, s.rows())
	if err := objects.PutSnapshot(ctx, b, at, s.timestamp, all); err != nil {
		return 0, "", err
	}
	if _, err := objects.Merge(ctx, b, s.timestamp[:len("2026-07-01")]); err != nil {
		note = err.Error() + " (the next run continues with it)"
	}
	return len(all), note, nil
}
