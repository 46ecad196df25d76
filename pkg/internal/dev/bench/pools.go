package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/timeline"
)

// now is the end of every pool. The month before it is one file, as large as such files are.
var now = time.Date(2025, 10, 5, 0, 0, 0, 0, time.UTC)

// End is the end of every pool.
var End = now

// Segments makes a pool in a directory below dir, most of it as segments in its subdirectory cache, and returns its
// path.
func Segments(ctx context.Context, dir string, machines, gpus, days int) (path string, err error) {
	b := &bench{Options: Options{Dir: dir}}
	return b.synthesize(ctx, machines, gpus, days)
}

func options(machines, gpus, days int) samplepool.Options {
	o := samplepool.Default()
	o.Machines, o.GPUs, o.Timezone = machines, gpus, "UTC"
	o.OddMachines, o.ExcludedMachines = machines > 50, min(1, machines/50)
	o.End, o.Start = now, now.AddDate(0, 0, -days)
	return o
}

// makeMonth makes a month of real files, with job ads and queues.
func (b *bench) makeMonth(ctx context.Context) error {
	_, err := b.makeFiles(ctx, "sqlite")
	return err
}

func (b *bench) month() string { return b.files("sqlite") }

// copyMonth makes a copy of the month that may grow.
func (b *bench) copyMonth(name string) (dir string, err error) {
	dir = b.path(name)
	if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(b.month()))); err != nil {
		return "", err
	}
	// A month that has ended was written long ago. One that seems to be written just now is compared row by row.
	ended, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, file := range ended {
		err = errors.Join(err, os.Chtimes(file, now, now))
	}
	return dir, err
}

func (b *bench) files(format string) string {
	return b.path(fmt.Sprintf("%s-%d-%d-%d", format, b.Machines, b.GPUs, min(b.Days, 32)))
}

// makeFiles writes real files in a format, unless they are there from an earlier run.
func (b *bench) makeFiles(ctx context.Context, format string) (dir string, err error) {
	dir = b.files(format)
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	partial := dir + ".part"
	if err := errors.Join(os.RemoveAll(partial), os.MkdirAll(partial, 0o700)); err != nil {
		return "", err
	}
	o := options(b.Machines, b.GPUs, min(b.Days, 32))
	o.Format = format
	made, err := samplepool.New(o)
	if err != nil {
		return "", err
	}
	if err := made.WriteSnapshots(ctx, partial); err != nil {
		return "", err
	}
	if format == "sqlite" {
		if err := errors.Join(made.WriteAds(ctx, partial), made.WriteQueues(ctx, partial)); err != nil {
			return "", err
		}
	}
	return dir, os.Rename(partial, dir)
}

func openDir(dir string) (*snapshots.Dir, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return snapshots.OpenDir(absolute)
}

func timelineOptions(source snapshots.Source, dir *snapshots.Dir, cache string, memory int64) timeline.Options {
	return timeline.Options{
		Source: source, MaxBytes: memory,
		CacheDir: cache, CacheName: registry.CacheName(dir, localtime.UTC), MaxDiskBytes: 16 << 30,
	}
}

// synthesize makes a pool as segments in dir/cache. Its last two days are a real file; the months before have files of
// two snapshots each, their first and their last, which reach over the days that are made as segments.
func (b *bench) synthesize(ctx context.Context, machines, gpus, days int) (dir string, err error) {
	dir = b.path(fmt.Sprintf("segments-%d-%d-%d", machines, gpus, days))
	// exists once everything is made; because segments depend on the path, they are made in place
	whole := filepath.Join(dir, "whole")
	if _, err := os.Stat(whole); err == nil {
		return dir, nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return "", err
	}
	last, err := samplepool.New(options(machines, gpus, 2))
	if err != nil {
		return "", err
	}
	if err := last.WriteSnapshots(ctx, dir); err != nil {
		return "", err
	}
	end := now.AddDate(0, 0, -2).Add(-time.Minute)
	// the end's own is the real file's
	month := time.Date(end.Year(), end.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, -1, 0)
	for first := now.AddDate(0, 0, -days-2); month.AddDate(0, 1, 0).After(first); month = month.AddDate(0, -1, 0) {
		if err := reach(ctx, dir, month, end); err != nil {
			return "", err
		}
		end = month.Add(-time.Minute)
	}
	made, err := samplepool.New(options(machines, gpus, days))
	if err != nil {
		return "", err
	}
	if err := keepDays(ctx, dir, made.Snapshots(ctx), now.AddDate(0, 0, -days-1)); err != nil {
		return "", err
	}
	return dir, os.WriteFile(whole, nil, 0o600)
}

// keepDays keeps the days of a made-up pool as segments in dir/cache, but the last two, which are files.
func keepDays(ctx context.Context, dir string, made iter.Seq2[samplepool.Snapshot, error], first time.Time) error {
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	source, stop := newMadeUp(registry.OpenDir(d, localtime.UTC), made)
	defer stop()
	tl := timeline.New(timelineOptions(source, d, dir+"/cache", 64<<20))
	defer tl.Close()
	for date := pool.DayOf(first.UnixMicro()); date < pool.DayOf(now.UnixMicro())-2; date++ {
		noon := pool.Micros(date)*pool.Day + pool.Day/2
		if _, err := tl.Load(ctx, noon, noon); err != nil {
			return err
		}
	}
	return tl.CacheError()
}

// reach makes a month's file of two snapshots, one at its beginning and one at the given end.
func reach(ctx context.Context, dir string, month, end time.Time) error {
	newest, err := filepath.Glob(filepath.Join(dir, snapshots.MonthFile(now.Format("2006-01"), "db")))
	if err != nil || len(newest) != 1 {
		return errors.Join(err, fmt.Errorf("no file of %s", now.Format("2006-01")))
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, snapshots.MonthFile(month.Format("2006-01"), "db")))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, "ATTACH ?1 AS newest; CREATE TABLE gpu_state AS SELECT * FROM newest.gpu_state WHERE "+
		"timestamp = (SELECT timestamp FROM newest.gpu_state LIMIT 1); UPDATE gpu_state SET timestamp = ?2; DETACH newest",
		newest[0], month.Format("2006-01-02 15:04:05.000000"))
	if err == nil {
		err = repeatLast(ctx, db, end)
	}
	return errors.Join(err, db.Close())
}

// repeatLast appends the newest snapshot's rows once more, with a later time.
func repeatLast(ctx context.Context, db *sql.DB, later time.Time) error {
	db.SetMaxOpenConns(1)
	// a snapshot has fewer rows than that: the whole file need not be read for it
	_, err := db.ExecContext(ctx, "CREATE TEMP TABLE again AS SELECT * FROM gpu_state WHERE rowid > (SELECT max(rowid) "+
		"FROM gpu_state) - 100000 AND timestamp = (SELECT timestamp FROM gpu_state ORDER BY rowid DESC LIMIT 1); UPDATE "+
		"again SET timestamp = ?; INSERT INTO gpu_state SELECT * FROM again; DROP TABLE again",
		later.Format("2006-01-02 15:04:05.000000"))
	return err
}
