// Package runlog reads the collector's log of its runs. It is separate from the collector, because the collector starts
// programs and locks files, and readers of the log must do neither.
package runlog

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// Name of the file in the snapshot directory that records what each run of the collector did. Its table runs:
//
//	started   TEXT    when it began, UTC, YYYY-MM-DD HH:MM:SS.ffffff
//	seconds   REAL    how long it took; NULL: it runs, or was killed
//	timestamp TEXT    the snapshot that it wrote, as gpu_state has it (collector's local time); NULL: none
//	rows      INTEGER the rows of that snapshot
//	notes     TEXT    what could not be stored as it was; NULL: nothing
//	error     TEXT    why it wrote none; NULL: it did
//
// A gap without a run in it means that the collector was not started.
const Name = "collector_runs.db"

// TimeFormat is how a run's beginning is written.
const TimeFormat = "2006-01-02 15:04:05.000000"

// Log has the run log's rows of a window for runs that wrote no snapshot.
type Log struct {
	Began  pool.Micros // when the first run of all began
	Failed []Failed    // in the order of time
}

// Failed is a run without a snapshot.
type Failed struct {
	Started pool.Micros
	Reason  string
}

// Read reads the run log of a snapshot directory; nil if there is none, or no run in it. Errors are pool.SourceError.
func Read(ctx context.Context, dir *snapshots.Dir, w pool.Window) (*Log, error) {
	_, err := dir.Stat(Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var log *Log
	if err == nil {
		log, err = read(ctx, dir.Join(Name), w)
	}
	if err != nil {
		return nil, pool.SourceError("run log: %s cannot be read, so gaps are not explained: %w", Name, err)
	}
	return log, nil
}

func read(ctx context.Context, path string, w pool.Window) (*Log, error) {
	db, err := sql.Open("sqlite", sqlitefile.URI(path, "mode=ro", sqlitefile.Wait()))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var began sql.NullString
	if err := db.QueryRowContext(ctx, "SELECT min(started) FROM runs").Scan(&began); err != nil || !began.Valid {
		return nil, err
	}
	log := &Log{}
	if log.Began, err = parse(began.String); err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SELECT started, coalesce(error, 'it did not end') FROM runs WHERE rows IS NULL "+
		"AND started BETWEEN ? AND ? ORDER BY started",
		pool.Time(w.From).Format(TimeFormat), pool.Time(w.To).Format(TimeFormat))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var started string
		var run Failed
		if err := rows.Scan(&started, &run.Reason); err != nil {
			return nil, err
		}
		if run.Started, err = parse(started); err != nil {
			return nil, err
		}
		log.Failed = append(log.Failed, run)
	}
	return log, rows.Err()
}

func parse(text string) (pool.Micros, error) {
	t, err := time.Parse(TimeFormat, text)
	return t.UnixMicro(), err
}
