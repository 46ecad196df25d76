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
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

const (
	batch       = 1000 // jobs, or rows, of one statement
	concurrency = 4    // statements at a time
	busyTimeout = 2 * time.Second
)

// Source is a job file. It is opened anew, read only, for each lookup: a file that is replaced or extended is seen at
// once, and nothing stays open.
type Source struct {
	path string
	seen seen
}

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
	found := jobs.NewCollector(ids, jobs.ByJob)
	if len(ids) == 0 {
		return found.Result(), nil
	}
	file, err := s.open(ctx)
	if err != nil {
		return jobs.Result{}, err
	}
	defer file.Close()

	rows, err := file.rowsOf(ctx, slices.Sorted(slices.Values(ids)))
	if err != nil {
		return jobs.Result{}, err
	}
	return file.collect(ctx, found, "TRUE", rows)
}

// AdsOnMachines implements [jobs.Source]. The job file does not index machines: of the ads that were final after
// the first day began, all are parsed that have not been seen.
func (s *Source) AdsOnMachines(ctx context.Context, days []jobs.MachineDay) (jobs.Result, error) {
	found := jobs.NewCollector(jobs.MachineDayKeys(days), jobs.ByMachineDay)
	if len(days) == 0 {
		return found.Result(), nil
	}
	first := slices.MinFunc(days, func(a, b jobs.MachineDay) int { return cmp.Compare(a.Day, b.Day) })
	file, err := s.open(ctx)
	if err != nil {
		return jobs.Result{}, err
	}
	defer file.Close()

	return file.scan(ctx, found, first.Start(), "TRUE")
}

// Epochs implements [jobs.Source], as AdsOnMachines.
func (s *Source) Epochs(ctx context.Context, days []jobs.EpochDay) (jobs.Result, error) {
	found := jobs.NewEpochCollector(days, jobs.MaxEpochs)
	if len(days) == 0 {
		return found.Result(), nil
	}
	first := slices.MinFunc(days, func(a, b jobs.EpochDay) int { return cmp.Compare(a.Day, b.Day) })
	file, err := s.open(ctx)
	if err != nil {
		return jobs.Result{}, err
	}
	defer file.Close()

	return file.scan(ctx, found, first.Start(), "kind = 'epoch'")
}

// Newest implements [jobs.Source].
func (s *Source) Newest(ctx context.Context) (time.Time, error) {
	health, err := s.health(ctx, "SELECT 0, coalesce(max(RecordTime), 0) FROM ads")
	return health.Newest, err
}

// Health implements [jobs.Source].
func (s *Source) Health(ctx context.Context) (jobs.Health, error) {
	return s.health(ctx, "SELECT count(*), coalesce(max(RecordTime), 0) FROM ads")
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

// file is the job file, open for one lookup.
type file struct {
	*sql.DB
	source   *Source
	revision string // before it was opened
}

func (s *Source) open(ctx context.Context) (*file, error) {
	revision := s.Revision()
	if info, err := os.Stat(s.path); err != nil {
		return nil, s.failed(ctx, err)
	} else if !info.Mode().IsRegular() {
		return nil, s.failed(ctx, errors.New("not a regular file"))
	}
	db, err := sql.Open("sqlite", dsn(s.path, "ro"))
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	db.SetMaxOpenConns(concurrency)
	return &file{db, s, revision}, nil
}

// dsn opens the file at path in one of SQLite's modes: ro, rwc.
func dsn(path, mode string) string {
	query := url.Values{"mode": {mode}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds())}}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}

// scan adds the ads that fulfil a condition and were final after a moment, or nobody knows when.
func (f *file) scan(ctx context.Context, found *jobs.Collector, since time.Time, condition string) (jobs.Result,
	error) {
	var list []byte
	if err := f.QueryRowContext(ctx, "SELECT json_group_array(rowid) FROM ads WHERE RecordTime >= ? OR "+
		"RecordTime = 0 OR RecordTime IS NULL", since.Unix()).Scan(&list); err != nil {
		return jobs.Result{}, f.source.failed(ctx, err)
	}
	var rows []int64
	if err := json.Unmarshal(list, &rows); err != nil {
		return jobs.Result{}, fmt.Errorf("list of job ads: %w", err)
	}
	rows = slices.DeleteFunc(rows, func(row int64) bool {
		label, seen := f.source.seen.label(f.revision, row)
		return seen && !found.Asked(label)
	})
	return f.collect(ctx, found, condition, rows)
}

// rowsOf returns the rows of jobs.
func (f *file) rowsOf(ctx context.Context, ids []string) (rows []int64, err error) {
	var mu sync.Mutex
	err = each(ctx, f, "SELECT rowid FROM ads WHERE GlobalJobId IN (SELECT value FROM json_each(?))", ids,
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

// collect adds the ads of rows that fulfil a condition, in their order: rows that stand together are read together.
func (f *file) collect(ctx context.Context, found *jobs.Collector, condition string, rows []int64) (jobs.Result,
	error) {
	slices.Sort(rows)
	// ads as bytes, which the driver copies once
	err := each(ctx, f, "SELECT rowid, CAST(ad AS BLOB) FROM ads WHERE rowid IN (SELECT value FROM json_each(?)) AND "+
		condition, rows, func(ads *sql.Rows) error {
		var row int64
		var stored sql.RawBytes
		if err := ads.Scan(&row, &stored); err != nil {
			return err
		}
		if label, ok := found.Add(stored); ok {
			f.source.seen.note(f.revision, row, label)
		}
		return nil
	})
	if err != nil {
		return jobs.Result{}, err
	}
	return found.Result(), nil
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
		remedy = "it is no job file: make one with `gpureports import-jobs`"
	case strings.Contains(text, "locked") || strings.Contains(text, "busy"):
		remedy = "another program is writing it: try again when that is done"
	case strings.Contains(text, "malformed"):
		remedy = "it is damaged: make it anew with `gpureports import-jobs`"
	}
	return pool.SourceError("job file %s: %w: %s", name, err, remedy)
}
