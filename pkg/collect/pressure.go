package collect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// pressureColumns of job_pressure in their order (methodology section 14), as the poller in use makes them.
const pressureColumns = `GlobalJobId TEXT NOT NULL, ScheddName TEXT, Owner TEXT, RequestGPUs REAL, RequestCPUs REAL, RequestMemory REAL,
	RequestGPUMemory REAL, QDate INTEGER, ChtcProjects TEXT, first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL`

// writePoll writes a poll to its month file, in one transaction: rows of jobs that were idle not too long ago go on,
// the others are new.
func writePoll(ctx context.Context, dir string, at time.Time, ads []jobAd, away time.Duration) (added int, err error) {
	name := "job_pressure_" + at.Format("2006-01") + ".db"
	path := filepath.Join(dir, name)
	if err = createFile(ctx, path, preparePressure); err == nil {
		added, err = appendPoll(ctx, path, at.Unix(), ads, away)
	}
	switch {
	case err == nil, pool.FaultOf(err) != 0:
		return added, err
	}
	return 0, pool.SourceError("writing to %s: %w", name, err)
}

// preparePressure creates what is missing of job_pressure. A table of the older layout is left alone, with an error.
func preparePressure(ctx context.Context, db *sql.DB) error {
	var older int
	err := db.QueryRowContext(ctx, "SELECT count(*) FROM pragma_table_info('job_pressure') WHERE name = 'timestamp' "+
		"COLLATE NOCASE").Scan(&older)
	if err != nil {
		return err
	}
	if older > 0 {
		return errors.New("it has the older layout, with a row for each poll: convert it with migrate_job_pressure.py, or " +
			"move it away")
	}
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS job_pressure (" + pressureColumns + ")",
		"CREATE INDEX IF NOT EXISTS idx_last_seen ON job_pressure (last_seen)",
		"CREATE INDEX IF NOT EXISTS idx_first_seen ON job_pressure (first_seen)",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func appendPoll(ctx context.Context, path string, at int64, ads []jobAd, away time.Duration) (added int, err error) {
	db, err := open(ctx, path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := keepLog(ctx, db); err != nil {
		return 0, err
	}
	if err := preparePressure(ctx, db); err != nil {
		return 0, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	if added, err = pollInto(ctx, tx, at, ads, away); err != nil {
		return 0, err
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	// The main file is complete then, for those who copy it. A reader can prevent this; the next poll does it.
	_, err = db.ExecContext(ctx, "PRAGMA busy_timeout = 1000; PRAGMA wal_checkpoint(TRUNCATE)")
	return added, err
}

func pollInto(ctx context.Context, tx *sql.Tx, at int64, ads []jobAd, away time.Duration) (added int, err error) {
	var newest sql.NullInt64
	if err := tx.QueryRowContext(ctx, "SELECT max(last_seen) FROM job_pressure").Scan(&newest); err != nil {
		return 0, err
	}
	if newest.Int64 >= at {
		return 0, pool.SourceError("this machine's clock shows %s UTC, but a poll was taken at %s: set the clock; polls "+
			"must be in the order of time",
			time.Unix(at, 0).UTC().Format(time.DateTime), time.Unix(newest.Int64, 0).UTC().Format(time.DateTime))
	}
	open, err := openRows(ctx, tx, at-int64(away/time.Second))
	if err != nil {
		return 0, err
	}
	goOn, err := tx.PrepareContext(ctx, "UPDATE job_pressure SET last_seen = ? WHERE rowid = ?")
	if err != nil {
		return 0, err
	}
	defer goOn.Close()
	begin, err := tx.PrepareContext(ctx, "INSERT INTO job_pressure VALUES (?"+strings.Repeat(",?", 10)+")")
	if err != nil {
		return 0, err
	}
	defer begin.Close()
	for i := range ads {
		if rowid, is := open[ads[i].GlobalJobID.Text]; is {
			_, err = goOn.ExecContext(ctx, at, rowid)
		} else {
			added++
			_, err = begin.ExecContext(ctx, ads[i].row(at)...)
		}
		if err != nil {
			return 0, fmt.Errorf("job %s: %w", ads[i].GlobalJobID.Text, err)
		}
	}
	return added, nil
}

// openRows are the rows, by job, that were seen since a time: the latest of each job.
func openRows(ctx context.Context, tx *sql.Tx, since int64) (map[string]int64, error) {
	rows, err := tx.QueryContext(ctx, "SELECT GlobalJobId, rowid FROM job_pressure WHERE last_seen >= ? ORDER BY rowid",
		since)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	open := map[string]int64{}
	for rows.Next() {
		var job string
		var rowid int64
		if err := rows.Scan(&job, &rowid); err != nil {
			return nil, err
		}
		open[job] = rowid
	}
	return open, rows.Err()
}
