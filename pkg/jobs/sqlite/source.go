// Package sqlite looks job ads up in a job file: a small SQLite file for pools without Elasticsearch.
//
// The file has one table, ads(kind TEXT, GlobalJobId TEXT, RecordTime INTEGER, ad TEXT), ad being the JSON document,
// with an index on GlobalJobId. [Import] makes and extends it.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

const (
	batch       = 1000 // jobs, or rows, of one statement
	concurrency = 4    // statements at a time
	busyTimeout = 2 * time.Second
)

// Source is a job file. It is opened read only for each lookup, so that a replaced or extended file is seen
// immediately, and nothing stays open.
type Source struct{ path string }

// Open returns the job file at path, an absolute path that the caller has checked. Only lookups open the file.
func Open(path string) *Source { return &Source{path: path} }

// Close does nothing: no file stays open.
func (*Source) Close() error { return nil }

// Revision changes when the file does.
func (s *Source) Revision() string {
	var revision strings.Builder
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(s.path + suffix); err == nil {
			fmt.Fprintf(&revision, "%d %d;", info.Size(), info.ModTime().UnixNano())
		}
	}
	return revision.String()
}

// Ads implements [jobs.Source].
func (s *Source) Ads(ctx context.Context, wanted []jobs.Wanted) (jobs.Result, error) {
	ids := jobs.JobIDs(wanted)
	return s.lookup(ctx, len(ids), jobs.NewCollector(ids, jobs.ByJob), func(f *file) ([]int64, error) {
		return f.rowsOf(ctx, slices.Sorted(slices.Values(ids)))
	})
}

// AdsOnMachines implements [jobs.Source]. The job file does not index machines: all ads are parsed that were final
// after the first day began.
func (s *Source) AdsOnMachines(ctx context.Context, days []jobs.MachineDay) (jobs.Result, error) {
	found := jobs.NewCollector(jobs.MachineDayKeys(days), jobs.ByMachineDay)
	return s.lookup(ctx, len(days), found, func(f *file) ([]int64, error) {
		first := slices.MinFunc(days, func(a, b jobs.MachineDay) int { return cmp.Compare(a.Day, b.Day) })
		return f.rowsSince(ctx, first.Start())
	})
}

// Epochs implements [jobs.Source], as AdsOnMachines.
func (s *Source) Epochs(ctx context.Context, days []jobs.EpochDay) (jobs.Result, error) {
	return s.lookup(ctx, len(days), jobs.NewEpochCollector(days, jobs.MaxEpochs), func(f *file) ([]int64, error) {
		first := slices.MinFunc(days, func(a, b jobs.EpochDay) int { return cmp.Compare(a.Day, b.Day) })
		return f.rowsSince(ctx, first.Start())
	})
}

// lookup collects the ads of rows, unless none are requested.
func (s *Source) lookup(ctx context.Context, asked int, found *jobs.Collector, rowsOf func(*file) ([]int64, error)) (
	jobs.Result, error) {
	if asked == 0 {
		return found.Result(), nil
	}
	file, err := s.open(ctx)
	if err != nil {
		return jobs.Result{}, err
	}
	defer file.Close()
	rows, err := rowsOf(file)
	if err == nil {
		err = file.collect(ctx, found, rows)
	}
	if err != nil {
		return jobs.Result{}, err
	}
	return found.Result(), nil
}

// Newest implements [jobs.Source].
func (s *Source) Newest(ctx context.Context) (time.Time, error) {
	health, err := s.health(ctx, "SELECT 0, coalesce(max(RecordTime), 0) FROM ads")
	return health.Newest, err
}

// Health implements [jobs.Source].
func (s *Source) Health(ctx context.Context) (jobs.Health, error) {
	health, err := s.health(ctx, "SELECT count(*), coalesce(max(RecordTime), 0) FROM ads")
	if err != nil {
		return health, err
	}
	file, err := s.open(ctx)
	if err != nil {
		return health, err
	}
	defer file.Close()
	var without int
	if err := file.QueryRowContext(ctx, epochs).Scan(&without, &health.Saves); err != nil {
		return health, s.failed(ctx, err)
	}
	if without > 0 {
		health.Notices = append(health.Notices, fmt.Sprintf("%d epoch ads have neither RemoteHost nor StartdName, so they "+
			"count on the machine of the run before: delete the job file and import everything that condor_history prints "+
			"again", without))
	}
	return health, nil
}

func (s *Source) health(ctx context.Context, query string) (jobs.Health, error) {
	file, err := s.open(ctx)
	if err != nil {
		return jobs.Health{}, err
	}
	defer file.Close()
	health, newest := jobs.Health{Store: "job file " + filepath.Base(s.path)}, int64(0)
	if err := file.QueryRowContext(ctx, query).Scan(&health.Ads, &newest); err != nil {
		return jobs.Health{}, s.failed(ctx, err)
	}
	if newest > 0 {
		health.Newest = time.Unix(newest, 0).UTC()
	}
	return health, nil
}

// epochs counts the epoch ads that do not say where their run was (LastRemoteHost is the host of the previous run), and
// reports whether one says what its run has saved.
const epochs = `SELECT count(*) FILTER (WHERE ad NOT LIKE '%"StartdName"%' AND ad NOT LIKE '%"RemoteHost"%'),
	coalesce(max(ad LIKE '%"JobLastCheckpointTime"%'), 0) FROM ads WHERE kind = 'epoch'`

// file is the job file, open for one lookup.
type file struct {
	*sql.DB
	source *Source
	ads    *sqlitefile.Table
}

func (s *Source) open(ctx context.Context) (*file, error) {
	if err := s.stat(); err != nil {
		return nil, s.failed(ctx, err)
	}
	db, err := sql.Open("sqlite", dsn(s.path, "ro"))
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	db.SetMaxOpenConns(concurrency)
	ads, err := sqlitefile.FindTable(ctx, db, "ads")
	if errors.Is(err, sqlitefile.ErrNoTable) {
		err = fmt.Errorf("%w: ads", err)
	}
	if err != nil {
		return nil, errors.Join(s.failed(ctx, err), db.Close())
	}
	return &file{DB: db, source: s, ads: ads}, nil
}

// stat reports whether a regular file is under the path: a link must not lead out of its directory, not even one that
// was put there since.
func (s *Source) stat() error {
	dir := filepath.Dir(s.path)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	_, err = sqlitefile.File{Root: root, Dir: dir, Name: filepath.Base(s.path)}.Stat()
	return err
}

// dsn opens the file at path in one of SQLite's modes: ro, rwc.
func dsn(path, mode string) string {
	return sqlitefile.URI(path, "mode="+mode, sqlitefile.Pragma("busy_timeout", busyTimeout.Milliseconds()))
}

// rowsSince returns the rows of ads that were final after a moment, or at an unknown time.
func (f *file) rowsSince(ctx context.Context, since time.Time) (rows []int64, err error) {
	var list []byte
	if err := f.QueryRowContext(ctx, f.ads.SQL("SELECT json_group_array(rowid) FROM ads WHERE RecordTime >= ? OR "+
		"RecordTime = 0 OR RecordTime IS NULL"), since.Unix()).Scan(&list); err != nil {
		return nil, f.source.failed(ctx, err)
	}
	if err := json.Unmarshal(list, &rows); err != nil {
		return nil, fmt.Errorf("list of job ads: %w", err)
	}
	return rows, nil
}

// rowsOf returns the rows of jobs.
func (f *file) rowsOf(ctx context.Context, ids []string) (rows []int64, err error) {
	var mu sync.Mutex
	err = each(ctx, f, f.ads.SQL("SELECT rowid FROM ads WHERE GlobalJobId IN (SELECT value FROM json_each(?))"), ids,
		func(found *sql.Rows) error {
			var row int64
			if err := found.Scan(&row); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			rows = append(rows, row)
			return nil
		})
	return rows, err
}

// collect adds the ads of rows, in their order. Adjacent rows are read together.
func (f *file) collect(ctx context.Context, found *jobs.Collector, rows []int64) error {
	slices.Sort(rows)
	// ads as bytes, which the driver copies once
	query := f.ads.SQL("SELECT CAST(ad AS BLOB) FROM ads WHERE rowid IN (SELECT value FROM json_each(?))")
	return each(ctx, f, query, rows, func(ads *sql.Rows) error {
		var stored sql.RawBytes
		if err := ads.Scan(&stored); err != nil {
			return err
		}
		found.Add(stored)
		return nil
	})
}

// each asks about some keys at a time, in the place of the query's parameter, and calls do for each row of the answers.
func each[K any](ctx context.Context, f *file, query string, keys []K, do func(*sql.Rows) error) error {
	group, groupCtx := parallel.WithContext(ctx)
	group.SetLimit(concurrency)
	for part := range slices.Chunk(keys, batch) {
		group.Go(func() error {
			list, err := json.Marshal(part)
			if err != nil {
				return fmt.Errorf("list of job ads: %w", err)
			}
			rows, err := f.QueryContext(groupCtx, query, string(list))
			if err != nil {
				return f.source.failed(groupCtx, err)
			}
			defer rows.Close()
			for rows.Next() {
				if err := do(rows); err != nil {
					return f.source.failed(groupCtx, err)
				}
			}
			if err := rows.Err(); err != nil {
				return f.source.failed(groupCtx, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// failed turns an error of the file into one for the user, with the file's base name only.
func (s *Source) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("reading job ads: %w", ctx.Err())
	}
	return fileError(filepath.Base(s.path), err)
}

func fileError(name string, err error) error {
	var noRowid *sqlitefile.NoRowid
	if errors.As(err, &noRowid) {
		return pool.SourceError("job file %s: %w", name, err)
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // without the full path
	}
	remedy := "check that it is a job file and that the plugin may read it"
	switch text := err.Error(); {
	case errors.Is(err, fs.ErrNotExist):
		remedy = "make it with `gpureports import-jobs`, or correct jobsPath"
	case strings.Contains(text, "no such table") || strings.Contains(text, "no such column") ||
		strings.Contains(text, "not a database"):
		remedy = "it is not a job file: create one with `gpureports import-jobs`"
	case strings.Contains(text, "locked") || strings.Contains(text, "busy"):
		remedy = "another program is writing it: try again when that is done"
	case strings.Contains(text, "malformed"):
		remedy = "it is damaged: create it again with `gpureports import-jobs`"
	}
	return pool.SourceError("job file %s: %w: %s", name, err, remedy)
}
