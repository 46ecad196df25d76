package collect

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// pressureColumns of job_pressure (methodology section 14), in the order of parquet.QueueSchema.
var pressureColumns = []column{
	{"GlobalJobId", "TEXT NOT NULL"}, {"ScheddName", "TEXT"}, {"Owner", "TEXT"}, {"RequestGPUs", "REAL"},
	{"RequestCPUs", "REAL"}, {"RequestMemory", "REAL"}, {"RequestGPUMemory", "REAL"}, {"QDate", "INTEGER"},
	{"ChtcProjects", "TEXT"}, {"JobState", "TEXT"}, {"first_seen", "INTEGER NOT NULL"}, {"last_seen", "INTEGER NOT NULL"},
}

// queuePoll is the data of a poll of the queues.
type queuePoll struct {
	at  int64 // Unix seconds
	now int64 // when it is written: no poll that was written before can be later
	// away is for how many seconds a job's row is extended without the job; 0: three distances of the last two polls
	away int64
	// schedds are the access points that answered. Another poller of the same file has polls of its own.
	schedds []string
	jobs    []ad
}

// stretches are the latest row of each job, and the polls of the access points.
type stretches struct {
	schedds        []string // the access points
	rows           map[string]stretch
	newest, before int64 // the last two polls of the access points in Unix seconds; 0: there is none
	last           int64 // the last_seen of the newest row, of any access point
}

// see notes the time of a poll.
func (s *stretches) see(poll int64) {
	switch {
	case poll > s.newest:
		s.newest, s.before = poll, s.newest
	case poll > s.before && poll < s.newest:
		s.before = poll
	}
}

// stretch is a row: a job in one state over some polls.
type stretch struct {
	row     int
	running bool
	last    int64
}

// stretchColumns are the columns from which stretches are known.
var stretchColumns = []string{"GlobalJobId", "JobState", "first_seen", "last_seen", "ScheddName"}

// addRow adds a row by its number and its values of stretchColumns; rows come in the order of the file.
func addRow[T string | []byte](s *stretches, row int, values []T) {
	end, err := strconv.ParseFloat(string(values[3]), 64)
	if err != nil { // it is of no poll
		return
	}
	job, last := string(values[0]), int64(end)
	s.last = max(s.last, last)
	if known, is := s.rows[job]; !is || last >= known.last {
		s.rows[job] = stretch{row, string(values[1]) == running, last}
	}
	if slices.Contains(s.schedds, string(values[4])) {
		s.see(last) // both ends of a row are polls
		if first, err := strconv.ParseFloat(string(values[2]), 64); err == nil {
			s.see(int64(first))
		}
	}
}

// extend returns which rows the poll extends, each with its new last_seen, and the rows that it begins. A job's row is
// extended only while the job stays in its state: if it was idle at one poll, running at the next and idle again at the
// third, that is three rows, though its first row is young enough. Errors: the clock is earlier than the newest poll.
func (p *queuePoll) extend(latest *stretches) (extended map[int]any, begun []row, err error) {
	if latest.last > p.now {
		return nil, nil, pool.SourceError("this machine's clock shows %s UTC, but a poll was taken at %s: set the clock; "+
			"polls must be in the order of time", time.Unix(p.at, 0).UTC().Format(time.DateTime),
			time.Unix(latest.last, 0).UTC().Format(time.DateTime))
	}
	away := int64(awayWithoutPolls / time.Second)
	switch {
	case p.away > 0:
		away = p.away
	case latest.before > 0:
		away = 3 * (latest.newest - latest.before)
	}
	extended = map[int]any{}
	for _, job := range p.jobs {
		row, is := latest.rows[job.text("GlobalJobId")]
		if is && row.running == job.runs() && row.last >= p.at-away {
			extended[row.row] = max(row.last, p.at) // where several machines poll into a bucket, theirs may be later
		} else {
			begun = append(begun, job.jobRow(p.at))
		}
	}
	return extended, begun, nil
}

// queueFile is the name of the file of a month, YYYY-MM.
func queueFile(month, extension string) string { return "job_pressure_" + month + "." + extension }

// has reports whether the directory, or the bucket, has a file.
func (o Options) has(ctx context.Context, name string) (bool, error) {
	var err error
	if o.bucket != nil {
		_, err = o.bucket.Stat(ctx, name)
	} else {
		_, err = os.Lstat(filepath.Join(o.SnapshotDir, name))
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, bucket.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// writePoll writes a poll into the directory or the bucket, and returns how many rows it begins, and a note. Errors: a
// poll of a later month was taken, or not all rows of the month would be read: of two files of one month Parquet
// counts. Months are the collector's, in Parquet those of UTC.
func (o Options) writePoll(ctx context.Context, at time.Time, p *queuePoll) (begun int, note string, err error) {
	// Look for files of this month and the next.
	f := formats[o.Format]
	if at = at.In(o.zone); f.extension == "parquet" {
		at = at.UTC()
	}
	month := at.Format("2006-01")
	later := queueFile(at.AddDate(0, 1, 1-at.Day()).Format("2006-01"), f.extension)
	sqlite, inParquet := queueFile(month, "db"), queueFile(month, "parquet")
	there := map[string]bool{}
	for _, name := range []string{later, sqlite, inParquet} {
		if there[name], err = o.has(ctx, name); err != nil {
			return 0, "", err
		}
	}
	switch {
	case there[later]:
		return 0, "", pool.SourceError("this machine's clock shows %s, but a poll of the next month was taken (%s): set the "+
			"clock; polls must be in the order of time", at.Format(time.DateTime), later)
	case f.extension == "parquet" && !there[inParquet] && there[sqlite]:
		return 0, "", pool.SourceError("%s would be ignored next to a Parquet file of the month: convert it with "+
			"`gpureports convert %s`, or move it away", sqlite, sqlite)
	case f.extension == "db" && there[inParquet]:
		return 0, "", pool.SourceError("of two files of one month Parquet counts, and there is %s: poll with --format "+
			"parquet, or convert it with `gpureports convert` and move it away", inParquet)
	}
	// Write the poll.
	name := queueFile(month, f.extension)
	if o.bucket != nil {
		begun, err = p.replace(ctx, o.bucket, name, o.now)
	} else {
		begun, note, err = f.poll(ctx, filepath.Join(o.SnapshotDir, name), p)
	}
	if err != nil && pool.FaultOf(err) == 0 {
		err = pool.SourceError("writing to %s: %w", name, err)
	}
	return begun, note, err
}

// pollParquet writes a poll into a Parquet file, which is replaced as a whole.
func pollParquet(ctx context.Context, path string, p *queuePoll) (begun int, note string, err error) {
	err = files.Replace(ctx, path, func(out *os.File) error {
		there, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		begun, err = p.revise(ctx, there, out)
		return err
	})
	return begun, "", err
}

// replace writes the poll into a queue file of the bucket. If another collector was faster, it reads that one's file.
func (p *queuePoll) replace(ctx context.Context, b *bucket.Bucket, name string, now func() time.Time) (begun int,
	err error) {
	const patience = 10
	var sent []byte
	for n := 1; ; n++ {
		there, object, err := b.Get(ctx, name)
		condition := object.ETag
		switch {
		case errors.Is(err, bucket.ErrNotFound):
			there, condition = nil, bucket.Absent
		case err != nil:
			return 0, err
		case sent != nil && bytes.Equal(there, sent):
			return begun, nil // it had arrived, only its answer had not
		}
		p.now = now().Unix()
		var out bytes.Buffer
		if begun, err = p.revise(ctx, there, &out); err != nil {
			return 0, err
		}
		sent = out.Bytes()
		_, err = b.Put(ctx, name, sent, condition)
		if !errors.Is(err, bucket.ErrPrecondition) || n == patience {
			return begun, err
		}
	}
}

// revise writes a Parquet file (nil: there is none yet) with the poll.
func (p *queuePoll) revise(ctx context.Context, there []byte, out io.Writer) (begun int, err error) {
	latest := &stretches{schedds: p.schedds, rows: map[string]stretch{}}
	var files [][]byte
	if there != nil {
		files = [][]byte{there}
		n := -1
		in := bytes.NewReader(there)
		err := parquet.EachRow(ctx, in, in.Size(), stretchColumns, checkStretches, func(row []string) {
			n++
			addRow(latest, n, row)
		})
		if err != nil {
			return 0, err
		}
	}
	extended, begins, err := p.extend(latest)
	if err != nil {
		return 0, err
	}
	rows := inFields(parquet.QueueSchema, begins)
	return len(rows), parquet.Rewrite(ctx, out, files, parquet.Changes{Fields: parquet.QueueSchema, Rows: rows,
		Column: "last_seen", Values: extended})
}

// checkStretches returns an error if a file lacks a column without which rows cannot be extended.
func checkStretches(has func(string) bool) error {
	for _, column := range []string{"GlobalJobId", "first_seen", "last_seen"} {
		if !has(column) {
			return fmt.Errorf("it has no column %s: move it away, and a new one is begun", column)
		}
	}
	return nil
}

// pollSQLite writes a poll into a SQLite file, in one transaction.
func pollSQLite(ctx context.Context, path string, p *queuePoll) (begun int, note string, err error) {
	return queueLayout.write(ctx, path, p.update)
}

// update writes the poll into the table of a SQLite file.
func (p *queuePoll) update(ctx context.Context, tx *sql.Tx) (begun int, err error) {
	there, err := sqlitefile.FindTable(ctx, tx, queueLayout.table)
	if err != nil {
		return 0, err
	}
	latest := &stretches{schedds: p.schedds, rows: map[string]stretch{}}
	err = there.Read(ctx, tx, stretchColumns, 1, math.MaxInt64, func(r *sqlitefile.Row) error {
		addRow(latest, int(r.Number), r.Texts)
		return nil
	})
	if err != nil {
		return 0, err
	}
	extended, rows, err := p.extend(latest)
	if err != nil {
		return 0, err
	}
	update, err := tx.PrepareContext(ctx, "UPDATE job_pressure SET last_seen = ? WHERE rowid = ?")
	if err != nil {
		return 0, err
	}
	defer update.Close()
	for rowid, last := range extended {
		if _, err := update.ExecContext(ctx, last, rowid); err != nil {
			return 0, err
		}
	}
	return queueLayout.insert(ctx, tx, rows)
}
