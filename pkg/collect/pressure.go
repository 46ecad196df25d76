package collect

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

var affinities = map[parquet.Kind]string{parquet.Text: "TEXT", parquet.Real: "REAL", parquet.Integer: "INTEGER"}

// pressureColumns of job_pressure (methodology section 14).
var pressureColumns = func() (all []column) {
	for _, f := range parquet.QueueSchema {
		c := column{f.Name, affinities[f.Kind]}
		if slices.Contains([]string{"GlobalJobId", "first_seen", "last_seen"}, f.Name) {
			c.affinity += " NOT NULL"
		}
		all = append(all, c)
	}
	return all
}()

// queuePoll is the data of a poll of the queues.
type queuePoll struct {
	at  int64 // Unix seconds
	now int64 // when it is written: no poll that was written before can be later
	// away is for how many seconds a job may be away before its row is not extended; 0: three distances of the file's
	// last two polls
	away int64
	// schedds are the access points that answered. Another poller of the same file has polls of its own.
	schedds []string
	ads     []jobAd
}

// stretches are the latest row of each job, and the last polls of the access points.
type stretches struct {
	rows           map[string]stretch
	newest, before int64 // the last two polls in Unix seconds; 0: there is none
	last           int64 // the last_seen of the newest row, of any access point
}

// stretch is a row: a job in one state over some polls.
type stretch struct {
	row     int64
	running bool
	last    int64
}

// add adds a row; rows come in the order of the file.
func (s *stretches) add(job, state string, row, last int64) {
	s.last = max(s.last, last)
	if known, is := s.rows[job]; !is || last >= known.last {
		s.rows[job] = stretch{row, state == running, last}
	}
}

// seen notes a poll. Both ends of a row are polls.
func (s *stretches) seen(poll int64) {
	switch {
	case poll > s.newest:
		s.newest, s.before = poll, s.newest
	case poll > s.before && poll < s.newest:
		s.before = poll
	}
}

// oldest returns the earliest last_seen of the rows that the poll may extend, in Unix seconds.
func (p *queuePoll) oldest(latest *stretches) int64 {
	switch {
	case p.away > 0:
		return p.at - p.away
	case latest.before == 0:
		return p.at - int64(awayWithoutPolls/time.Second)
	default:
		return p.at - 3*(latest.newest-latest.before)
	}
}

// extend returns which rows the poll extends, each with its new last_seen, and the rows that it begins. A job's row is
// extended only while the job stays in its state: if it was idle at one poll, running at the next and idle again at the
// third, that is three rows, though its first row is young enough. Errors: the clock is earlier than the newest poll.
func (p *queuePoll) extend(latest *stretches) (extended map[int64]int64, begun [][]any, err error) {
	if latest.last > p.now {
		return nil, nil, pool.SourceError("this machine's clock shows %s UTC, but a poll was taken at %s: set the clock; "+
			"polls must be in the order of time", time.Unix(p.at, 0).UTC().Format(time.DateTime),
			time.Unix(latest.last, 0).UTC().Format(time.DateTime))
	}
	oldest := p.oldest(latest)
	extended = map[int64]int64{}
	for i := range p.ads {
		ad := &p.ads[i]
		row, is := latest.rows[ad.GlobalJobID.Value]
		if is && row.running == ad.running() && row.last >= oldest {
			extended[row.row] = max(row.last, p.at) // where several machines poll into a bucket, theirs may be later
		} else {
			begun = append(begun, ad.row(p.at))
		}
	}
	return extended, begun, nil
}

// queueFiles is where queue files are written: a directory or a bucket.
type queueFiles interface {
	// has reports whether there is a file of a name.
	has(ctx context.Context, name string) (bool, error)
	// add writes a poll into the file of a name, as a whole or not at all, and returns how many rows it begins.
	add(ctx context.Context, name string, p *queuePoll) (begun int, err error)
}

// queueDirectory is a directory of queue files in one format.
type queueDirectory struct {
	dir    string
	format format
}

func (d queueDirectory) has(_ context.Context, name string) (bool, error) {
	_, err := os.Lstat(filepath.Join(d.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (d queueDirectory) add(ctx context.Context, name string, p *queuePoll) (int, error) {
	return d.format.poll(ctx, filepath.Join(d.dir, name), p)
}

// queueFile is the name of the file of a month, YYYY-MM.
func queueFile(month, extension string) string { return "job_pressure_" + month + "." + extension }

// writePoll writes a poll to its month file and returns how many rows it begins. at is in the zone of the months.
func writePoll(ctx context.Context, files queueFiles, extension string, at time.Time, p *queuePoll) (begun int,
	err error) {
	month := at.Format("2006-01")
	name := queueFile(month, extension)
	if err := checkMonths(ctx, files, extension, at); err != nil {
		return 0, err
	}
	begun, err = files.add(ctx, name, p)
	if err != nil && pool.FaultOf(err) == 0 {
		err = pool.SourceError("writing to %s: %w", name, err)
	}
	return begun, err
}

// checkMonths returns an error if a poll of a later month was taken, or if not all rows of a month would be read: of
// two files of one month Parquet counts.
func checkMonths(ctx context.Context, files queueFiles, extension string, at time.Time) error {
	month, next := at.Format("2006-01"), at.AddDate(0, 1, 1-at.Day()).Format("2006-01")
	there := map[string]bool{}
	for _, name := range []string{queueFile(next, extension), queueFile(month, "db"), queueFile(month, "parquet")} {
		var err error
		if there[name], err = files.has(ctx, name); err != nil {
			return err
		}
	}
	switch later, own, other := queueFile(next, extension), queueFile(month, "parquet"), queueFile(month, "db"); {
	case there[later]:
		return pool.SourceError("this machine's clock shows %s, but a poll of the next month was taken (%s): set the "+
			"clock; polls must be in the order of time", at.Format(time.DateTime), later)
	case extension == "parquet" && !there[own] && there[other]:
		return pool.SourceError("%s would be ignored next to a Parquet file of the month: convert it with "+
			"`gpureports convert %s`, or move it away", other, other)
	case extension == "db" && there[own]:
		return pool.SourceError("of two files of one month Parquet counts, and there is %s: poll with --format parquet, "+
			"or convert it with `gpureports convert` and move it away", own)
	}
	return nil
}

// pollParquet writes a poll into a Parquet file, which is replaced as a whole.
func pollParquet(ctx context.Context, path string, p *queuePoll) (begun int, err error) {
	in, err := os.Open(path)
	var size int64
	var old io.ReaderAt // nil: there is none
	switch {
	case err == nil:
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			return 0, err
		}
		old, size = in, info.Size()
	case !errors.Is(err, os.ErrNotExist):
		return 0, err
	}
	err = parquet.Replace(path, func(out io.Writer) error {
		begun, err = p.revise(ctx, old, size, out)
		return err
	})
	return begun, err
}

// revise writes a Parquet file (nil: there is none yet) with the poll.
func (p *queuePoll) revise(ctx context.Context, in io.ReaderAt, size int64, out io.Writer) (begun int, err error) {
	latest := &stretches{}
	if in != nil {
		if latest, err = p.parquetStretches(ctx, in, size); err != nil {
			return 0, err
		}
	}
	extended, rows, err := p.extend(latest)
	if err != nil {
		return 0, err
	}
	values := map[int]any{}
	for row, last := range extended {
		values[int(row)] = last
	}
	return len(rows), parquet.Revise(ctx, in, size, out, parquet.QueueSchema, "last_seen", values, rows)
}

// parquetStretches returns the latest rows of a Parquet file.
func (p *queuePoll) parquetStretches(ctx context.Context, in io.ReaderAt, size int64) (*stretches, error) {
	latest := &stretches{rows: map[string]stretch{}}
	n := int64(-1)
	needed := []string{"GlobalJobId", "JobState", "first_seen", "last_seen", "ScheddName"}
	check := func(has func(string) bool) error {
		for _, column := range []string{"GlobalJobId", "first_seen", "last_seen"} {
			if !has(column) {
				return fmt.Errorf("it has no column %s: move it away, and a new one is begun", column)
			}
		}
		return nil
	}
	err := parquet.EachRow(ctx, in, size, needed, check, func(row []string) {
		n++
		if last, err := strconv.ParseFloat(row[3], 64); err == nil { // a row without it is of no poll
			latest.add(row[0], row[1], n, int64(last))
			if slices.Contains(p.schedds, row[4]) {
				first, _ := strconv.ParseFloat(row[2], 64)
				latest.seen(int64(first))
				latest.seen(int64(last))
			}
		}
	})
	return latest, err
}

// pollSQLite writes a poll into a SQLite file, in one transaction.
func pollSQLite(ctx context.Context, path string, p *queuePoll) (begun int, err error) {
	afterwards, err := writeSQLite(ctx, path, preparePressure, func(tx *sql.Tx) error {
		begun, err = pollInto(ctx, tx, p)
		return err
	})
	return begun, errors.Join(err, afterwards)
}

// preparePressure creates the missing parts of job_pressure. A table of the older layout is not changed, and an error.
func preparePressure(ctx context.Context, db *sql.DB) error {
	var older int
	err := db.QueryRowContext(ctx, "SELECT count(*) FROM pragma_table_info('job_pressure') WHERE name = 'timestamp' "+
		"COLLATE NOCASE").Scan(&older)
	if err != nil {
		return err
	}
	if older > 0 {
		return errors.New("it has the older layout, with a row for each poll: convert it with `gpureports convert`, and " +
			"move it away")
	}
	return prepareColumns(ctx, db, "job_pressure", pressureColumns,
		"CREATE INDEX IF NOT EXISTS idx_last_seen ON job_pressure (last_seen)",
		"CREATE INDEX IF NOT EXISTS idx_first_seen ON job_pressure (first_seen)")
}

func pollInto(ctx context.Context, tx *sql.Tx, p *queuePoll) (begun int, err error) {
	latest, err := p.sqliteStretches(ctx, tx)
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
	return insert(ctx, tx, "job_pressure", pressureColumns, slices.Values(rows))
}

// sqliteStretches returns the last polls of a file and the latest of the rows that the poll may extend.
func (p *queuePoll) sqliteStretches(ctx context.Context, tx *sql.Tx) (*stretches, error) {
	schedds, err := json.Marshal(p.schedds)
	if err != nil {
		return nil, err
	}
	latest := &stretches{rows: map[string]stretch{}}
	err = eachRow(ctx, tx, func(rows *sql.Rows) error {
		var poll int64
		err := rows.Scan(&poll)
		latest.seen(poll)
		return err
	}, "WITH own AS (SELECT * FROM job_pressure WHERE ScheddName IN (SELECT value FROM json_each(?))) "+
		"SELECT * FROM (SELECT DISTINCT first_seen FROM own WHERE first_seen > 0 ORDER BY first_seen DESC LIMIT 2) UNION "+
		"SELECT * FROM (SELECT DISTINCT last_seen FROM own WHERE last_seen > 0 ORDER BY last_seen DESC LIMIT 2)",
		string(schedds))
	if err != nil {
		return nil, err
	}
	err = eachRow(ctx, tx, func(rows *sql.Rows) error {
		var (
			job, state  string
			rowid, last int64
		)
		err := rows.Scan(&job, &state, &rowid, &last)
		latest.add(job, state, rowid, last)
		return err
	}, "SELECT GlobalJobId, coalesce(JobState, ''), rowid, last_seen FROM job_pressure WHERE last_seen >= ? "+
		"ORDER BY rowid", p.oldest(latest))
	return latest, err
}

// eachRow calls scan for each row of a query's result.
func eachRow(ctx context.Context, tx *sql.Tx, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
