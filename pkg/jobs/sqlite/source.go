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
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

const (
	batch       = 1000 // jobs of one statement
	concurrency = 4    // statements at a time
	busyTimeout = 2 * time.Second
)

// Source is a job file. It is opened anew, read only, for each lookup: a file that is replaced or extended is seen at
// once, and nothing stays open.
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
	found := jobs.NewCollector(ids, jobs.ByJob)
	if len(ids) == 0 {
		return found.Result(), nil
	}
	db, err := s.open(ctx)
	if err != nil {
		return jobs.Result{}, err
	}
	defer db.Close()

	group, groupCtx := parallel.WithContext(ctx)
	group.SetLimit(concurrency)
	for part := range slices.Chunk(ids, batch) {
		group.Go(func() error {
			list, err := json.Marshal(part)
			if err != nil {
				return fmt.Errorf("list of jobs: %w", err)
			}
			return s.collect(groupCtx, db, found, "SELECT ad FROM ads WHERE GlobalJobId IN (SELECT value FROM json_each(?))",
				string(list))
		})
	}
	if err := group.Wait(); err != nil {
		return jobs.Result{}, err
	}
	return found.Result(), nil
}

// AdsOnMachines implements [jobs.Source]. The job file does not index machines: every ad that was final after the
// first day began is parsed.
func (s *Source) AdsOnMachines(ctx context.Context, days []jobs.MachineDay) (jobs.Result, error) {
	found := jobs.NewCollector(jobs.MachineDayKeys(days), jobs.ByMachineDay)
	if len(days) == 0 {
		return found.Result(), nil
	}
	first := slices.MinFunc(days, func(a, b jobs.MachineDay) int { return cmp.Compare(a.Day, b.Day) })
	db, err := s.open(ctx)
	if err != nil {
		return jobs.Result{}, err
	}
	defer db.Close()

	return s.scan(ctx, db, found, "(RecordTime >= ? OR coalesce(RecordTime, 0) = 0)", first.Start().Unix())
}

// Epochs implements [jobs.Source]. Every epoch ad that was final after the first day began is parsed.
func (s *Source) Epochs(ctx context.Context, days []jobs.EpochDay) (jobs.Result, error) {
	found := jobs.NewEpochCollector(days, jobs.MaxEpochs)
	if len(days) == 0 {
		return found.Result(), nil
	}
	first := slices.MinFunc(days, func(a, b jobs.EpochDay) int { return cmp.Compare(a.Day, b.Day) })
	db, err := s.open(ctx)
	if err != nil {
		return jobs.Result{}, err
	}
	defer db.Close()

	return s.scan(ctx, db, found, "kind = 'epoch' AND (RecordTime >= ? OR coalesce(RecordTime, 0) = 0)",
		first.Start().Unix())
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
	db, err := s.open(ctx)
	if err != nil {
		return jobs.Health{}, err
	}
	defer db.Close()
	health, newest := jobs.Health{Store: "job file " + filepath.Base(s.path)}, int64(0)
	if err := db.QueryRowContext(ctx, query).Scan(&health.Ads, &newest); err != nil {
		return jobs.Health{}, s.failed(ctx, err)
	}
	if newest > 0 {
		health.Newest = time.Unix(newest, 0).UTC()
	}
	return health, nil
}

func (s *Source) open(ctx context.Context) (*sql.DB, error) {
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
	return db, nil
}

// dsn opens the file at path in one of SQLite's modes: ro, rwc.
func dsn(path, mode string) string {
	query := url.Values{"mode": {mode}, "_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds())}}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}

// scan adds the ads that fulfil a condition on a second: parts of the file are read at the same time.
func (s *Source) scan(ctx context.Context, db *sql.DB, found *jobs.Collector, condition string, second int64) (
	jobs.Result, error) {
	var first, last int64
	if err := db.QueryRowContext(ctx, "SELECT coalesce(min(rowid), 0), coalesce(max(rowid), -1) FROM ads").Scan(&first,
		&last); err != nil {
		return jobs.Result{}, s.failed(ctx, err)
	}
	group, groupCtx := parallel.WithContext(ctx)
	group.SetLimit(concurrency)
	part := (last-first)/concurrency + 1
	for from := first; from <= last; from += part {
		group.Go(func() error {
			return s.collect(groupCtx, db, found, "SELECT ad FROM ads WHERE rowid BETWEEN ? AND ? AND "+condition, from,
				from+part-1, second)
		})
	}
	if err := group.Wait(); err != nil {
		return jobs.Result{}, err
	}
	return found.Result(), nil
}

// collect adds the ads that a query selects.
func (s *Source) collect(ctx context.Context, db *sql.DB, found *jobs.Collector, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return s.failed(ctx, err)
	}
	defer rows.Close()
	var ad sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&ad); err != nil {
			return s.failed(ctx, err)
		}
		found.Add(ad)
	}
	if err := rows.Err(); err != nil {
		return s.failed(ctx, err)
	}
	return nil
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
