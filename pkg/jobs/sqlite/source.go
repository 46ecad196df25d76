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
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// Source is a job file. It is opened read only for each lookup, so that a replaced or extended file is seen
// immediately, and nothing stays open.
type Source struct{ path string }

// Open returns the job file at path, an absolute path that the caller has checked. Only lookups open the file.
func Open(path string) *Source { return &Source{path: path} }

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

func (s *Source) Ads(ctx context.Context, wanted []jobs.Wanted) (jobs.Result, error) {
	ids := jobs.Keys(wanted)
	var lists []any
	const together = 300 // mostly a page has all their ads: another page looks the same jobs up again
	for some := range slices.Chunk(ids, together) {
		list, _ := json.Marshal(some) // never fails for texts
		lists = append(lists, string(list))
	}
	return s.lookup(ctx, jobs.NewCollector(ids, jobs.ByJob),
		"rowid IN (SELECT rowid FROM ads WHERE GlobalJobId IN (SELECT value FROM json_each(?)))", lists)
}

// AdsOnMachines implements [jobs.Source]. The job file does not index machines: all ads are parsed that were final
// after the first day began.
func (s *Source) AdsOnMachines(ctx context.Context, days []jobs.MachineDay) (jobs.Result, error) {
	var begin []any
	if len(days) > 0 {
		first := slices.MinFunc(days, func(a, b jobs.MachineDay) int { return cmp.Compare(a.Day, b.Day) })
		begin = []any{first.Start().Unix()}
	}
	return s.lookup(ctx, jobs.NewDayCollector(days), "RecordTime >= ? OR RecordTime = 0 OR RecordTime IS NULL", begin)
}

// lookup collects the ads under a condition, for each of its parameters in the order of their rows.
func (s *Source) lookup(ctx context.Context, found *jobs.Collector, condition string, parameters []any) (jobs.Result,
	error) {
	if len(parameters) == 0 {
		return found.Result(), nil
	}
	file, err := s.open(ctx)
	if err != nil {
		return jobs.Result{}, err
	}
	defer file.Close()
	// Read the pages of several parameters side by side, and parse the ads of each page meanwhile.
	parsing, ctx := parallel.WithContext(ctx)
	parsing.SetLimit(runtime.GOMAXPROCS(0))
	reading, inner := parallel.WithContext(ctx)
	reading.SetLimit(runtime.GOMAXPROCS(0))
	for _, parameter := range parameters {
		reading.Go(func() error {
			for after, more := int64(math.MinInt64), true; more; {
				ads, last, full, err := file.page(inner, condition, parameter, after)
				if err != nil {
					return s.failed(inner, err)
				}
				parsing.Go(func() error {
					for _, ad := range ads {
						found.Add(ad)
					}
					return ctx.Err()
				})
				after, more = last, full
			}
			return nil
		})
	}
	// Wait for both: parsing that fails cancels reading.
	failed := reading.Wait()
	if err := cmp.Or(parsing.Wait(), failed); err != nil {
		return jobs.Result{}, err
	}
	return found.Result(), nil
}

// page returns the next ads behind a row, and the last of their rows; full: there may be more. An ad of more than
// maxObject bytes is not one. No other program can write the file meanwhile, so that ads are parsed after it, while the
// next statement runs.
func (f *file) page(ctx context.Context, condition string, parameter any, after int64) (ads [][]byte, last int64,
	full bool, err error) {
	// only rowids are sorted
	rows, err := f.QueryContext(ctx, f.ads.SQL("SELECT rowid, iif(octet_length(ad) > ?, NULL, ad) FROM ads "+
		"WHERE rowid IN (SELECT rowid FROM ads WHERE ("+condition+") AND rowid > ? ORDER BY rowid LIMIT ?) ORDER BY rowid"),
		maxObject, parameter, after, pool.MostPageAds)
	if err != nil {
		return nil, 0, false, err
	}
	defer rows.Close()
	for bytes := 0; !full && rows.Next(); {
		var ad []byte
		if err := rows.Scan(&last, &ad); err != nil {
			return nil, 0, false, err
		}
		ads = append(ads, ad)
		bytes += len(ad)
		full = len(ads) == pool.MostPageAds || bytes > pool.MostPage
	}
	return ads, last, full, rows.Err()
}

func (s *Source) Newest(ctx context.Context) (time.Time, error) {
	health, _, err := s.health(ctx, "SELECT 0, coalesce(max(RecordTime), 0), 0, 0 FROM ads")
	return health.Newest, err
}

func (s *Source) Health(ctx context.Context) (jobs.Health, error) {
	health, without, err := s.health(ctx, contents)
	if without > 0 {
		health.Notices = append(health.Notices, fmt.Sprintf("%d epoch ads have neither RemoteHost nor StartdName, so they "+
			"count on the machine of the run before: delete the job file and import everything that condor_history prints "+
			"again", without))
	}
	return health, err
}

func (s *Source) health(ctx context.Context, query string) (health jobs.Health, without int, err error) {
	file, err := s.open(ctx)
	if err != nil {
		return health, 0, err
	}
	defer file.Close()
	newest := int64(0)
	if err := file.QueryRowContext(ctx, query).Scan(&health.Ads, &newest, &without, &health.Saves); err != nil {
		return jobs.Health{}, 0, s.failed(ctx, err)
	}
	health.Store = "job file " + filepath.Base(s.path)
	if newest > 0 {
		health.Newest = time.Unix(newest, 0).UTC()
	}
	return health, without, nil
}

// contents counts the ads, and the epoch ads that do not say where their run was (LastRemoteHost is the host of the
// previous run), and reports whether one says what its run has saved.
const contents = `SELECT count(*), coalesce(max(RecordTime), 0), count(*) FILTER (WHERE kind = 'epoch' AND
	ad NOT LIKE '%"StartdName"%' AND ad NOT LIKE '%"RemoteHost"%'),
	coalesce(max(kind = 'epoch' AND ad LIKE '%"JobLastCheckpointTime"%'), 0) FROM ads`

// file is the job file, open for one lookup.
type file struct {
	*sql.DB
	ads *sqlitefile.Table
}

func (s *Source) open(ctx context.Context) (*file, error) {
	if err := s.stat(); err != nil {
		return nil, s.failed(ctx, err)
	}
	db, err := sql.Open("sqlite", dsn(s.path, "ro"))
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	ads, err := sqlitefile.FindTable(ctx, db, "ads")
	if errors.Is(err, sqlitefile.ErrNoTable) {
		err = fmt.Errorf("%w: ads", err)
	}
	if err != nil {
		return nil, errors.Join(s.failed(ctx, err), db.Close())
	}
	return &file{db, ads}, nil
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
	return sqlitefile.URI(path, "mode="+mode, sqlitefile.Pragma("busy_timeout", 2000)) // milliseconds
}

// failed turns an error of the file into one for the user, with the file's base name only.
func (s *Source) failed(ctx context.Context, err error) error {
	return fileError(ctx, "reading", s.path, err)
}

func fileError(ctx context.Context, doing, file string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s job ads: %w", doing, ctx.Err())
	}
	name := filepath.Base(file)
	var noRowid *sqlitefile.NoRowid
	if errors.As(err, &noRowid) {
		return pool.SourceError("job file %s: %w", name, err)
	}
	err = files.Bare(err)
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
