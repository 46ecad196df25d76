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
