package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/chtc/gpureports/pkg/convert"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/timeline"
)

// now is the end of every pool. The month before it is one file, as large as such files are.
var now = time.Date(2025, 10, 5, 0, 0, 0, 0, time.UTC)

// End is the end of every pool.
var End = now

// Segments makes a pool in a directory below dir, with segments of its days in the subdirectory cache, and returns its
// path.
func Segments(ctx context.Context, dir string, machines, gpus, days int) (path string, err error) {
	b := &bench{Options: Options{Dir: dir}}
	err = attempt(func() { path = b.synthesize(ctx, machines, gpus, days) })
	return path, err
}

func options(machines, gpus, days int) samplepool.Options {
	o := samplepool.Default()
	o.Machines, o.GPUs, o.Timezone = machines, gpus, "UTC"
	o.OddMachines, o.ExcludedMachines = machines > 50, min(1, machines/50)
	o.End, o.Start = now, now.AddDate(0, 0, -days)
	return o
}

// makeMonth makes a month of real files, with job ads and queues.
func (b *bench) makeMonth(ctx context.Context) { b.makeFiles(ctx, "sqlite") }

func (b *bench) month() string { return b.files("sqlite") }

// copyMonth makes a copy of the month that may grow.
func (b *bench) copyMonth(name string) (dir string) {
	dir = b.path(name)
	check(errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(b.month()))))
	// A month that has ended was written long ago. One that seems to be written just now is compared row by row.
	for _, file := range must(filepath.Glob(filepath.Join(dir, "*"))) {
		check(os.Chtimes(file, now, now))
	}
	return dir
}

func (b *bench) files(format string) string {
	return b.path(fmt.Sprintf("%s-%d-%d-%d", format, b.Machines, b.GPUs, min(b.Days, 32)))
}

// makeFiles writes real files in a format, unless they are there from an earlier run.
func (b *bench) makeFiles(ctx context.Context, format string) (dir string) {
	dir = b.files(format)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		check(err)
		return dir
	}
	partial := dir + ".part"
	check(errors.Join(os.RemoveAll(partial), os.MkdirAll(partial, 0o700)))
	o := options(b.Machines, b.GPUs, min(b.Days, 32))
	o.Format = format
	made := must(samplepool.New(o))
	check(made.WriteSnapshots(ctx, partial))
	if format == "sqlite" {
		check(errors.Join(made.WriteAds(ctx, partial), made.WriteQueues(ctx, partial)))
	}
	check(os.Rename(partial, dir))
	return dir
}

func openDir(dir string) *snapshots.Dir { return must(snapshots.OpenDir(must(filepath.Abs(dir)))) }

func timelineOptions(source snapshots.Source, dir *snapshots.Dir, cache string, memory int64) timeline.Options {
	return timeline.Options{
		Source: source, MaxBytes: memory,
		CacheDir: cache, CacheName: registry.CacheName(dir, localtime.UTC), MaxDiskBytes: 16 << 30,
	}
}

// synthesize makes a pool of Parquet files, of which the newest is SQLite because it grows, and lets a data source keep
// their days as segments in dir/cache.
func (b *bench) synthesize(ctx context.Context, machines, gpus, days int) (dir string) {
	dir = b.path(fmt.Sprintf("segments-%d-%d-%d", machines, gpus, days))
	// exists once everything is made; because segments depend on the path, they are made in place
	whole := filepath.Join(dir, "whole")
	if _, err := os.Stat(whole); err == nil {
		return dir
	}
	check(errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)))
	o := options(machines, gpus, days)
	o.Format = "parquet"
	made := must(samplepool.New(o))
	check(made.WriteSnapshots(ctx, dir))
	newest := filepath.Join(dir, snapshots.MonthFile(now.Format("2006-01"), "parquet"))
	must(convert.File(ctx, newest, dir, nil))
	check(os.Remove(newest))
	b.firstOf(ctx, dir, filepath.Join(dir, "cache"), "none", byCategory, days)
	check(os.WriteFile(whole, nil, 0o600))
	return dir
}

// repeatLast appends the newest snapshot's rows once more, with a later time.
func repeatLast(ctx context.Context, db *sql.DB, later time.Time) {
	db.SetMaxOpenConns(1)
	// a snapshot has fewer rows than that: the whole file need not be read for it
	must(db.ExecContext(ctx, "CREATE TEMP TABLE again AS SELECT * FROM gpu_state WHERE rowid > (SELECT max(rowid) "+
		"FROM gpu_state) - 100000 AND timestamp = (SELECT timestamp FROM gpu_state ORDER BY rowid DESC LIMIT 1); UPDATE "+
		"again SET timestamp = ?; INSERT INTO gpu_state SELECT * FROM again; DROP TABLE again",
		later.Format("2006-01-02 15:04:05.000000")))
}

// warm asks every panel over the month again and again.
func (b *bench) warm(ctx context.Context) {
	for _, of := range []struct {
		what, jobs string
		bound      float64
		panels     []panel
	}{
		{"a warm panel over 30 d", "none", 25, panels}, {"a warm panel over 30 d with job ads", "sqlite", 50, withAds},
	} {
		source := b.open(b.month(), "", of.jobs, atEnd)
		b.slowest(of.what, of.bound, of.panels, func(p panel) timing {
			return moving(ctx, source, p.json, b.monthDays(), b.Runs)
		})
		source.Dispose()
	}
}

// newSnapshot asks the kinds that are about runs each time that a snapshot has been appended to a copy of the month.
func (b *bench) newSnapshot(ctx context.Context) {
	dir := b.copyMonth("growing")
	defer os.RemoveAll(dir)
	newest := now
	for _, of := range []struct {
		what, jobs string
		bound      float64
	}{
		{"after a new snapshot, 30 d", "none", 100}, {"after a new snapshot, 30 d with job ads", "sqlite", 200},
	} {
		source := b.open(dir, "", of.jobs, func() time.Time { return newest })
		b.slowest(of.what, of.bound, withAds[:2], func(p panel) timing {
			again := func(end time.Time) { ask(ctx, source, p.json, b.monthDays(), end) }
			return growing(ctx, dir, &newest, max(2, b.Runs/5), again)
		})
		source.Dispose()
	}
}

// growing appends a snapshot to the newest file of a directory, and asks, again and again.
func growing(ctx context.Context, dir string, newest *time.Time, runs int, ask func(end time.Time)) timing {
	file := filepath.Join(dir, snapshots.MonthFile(now.Format("2006-01"), "db"))
	db := must(sql.Open("sqlite", file+"?_pragma=busy_timeout(60000)")) // while the data source reads
	defer db.Close()
	ask(*newest)
	grow := func() {
		*newest = newest.Add(samplepool.Default().Cadence)
		runtime.GC() // as in the minutes between two snapshots: Go collects garbage every two
		repeatLast(ctx, db, *newest)
	}
	return prepared(runs, grow, func() { ask(*newest) })
}

// restart asks data sources that find the cache directory of an earlier one, with the same snapshots, then each with
// one more.
func (b *bench) restart(ctx context.Context) {
	for _, of := range []struct {
		what, jobs, query string
		bound, oneMore    float64
	}{
		{"after a restart, 30 d", "none", byCategory, 50, 100},
		{"after a restart, 30 d with job ads", "sqlite", evictionsByDevice.json, 1000, 1000},
	} {
		cache := b.path("cache-" + of.jobs)
		check(os.RemoveAll(cache))
		first := func(int) { b.firstOf(ctx, b.month(), cache, of.jobs, of.query, b.monthDays()) }
		first(0) // the earlier one
		b.add(timed(5, first).milliseconds(of.what, of.bound, "with the cache directory"))
		t := b.restartWithOneMore(ctx, of.jobs, of.query)
		b.add(t.milliseconds(of.what+" and one more snapshot", of.oneMore, "with the cache directory"))
	}
}

func (b *bench) restartWithOneMore(ctx context.Context, jobs, query string) timing {
	dir := b.copyMonth("growing")
	defer os.RemoveAll(dir)
	newest := now
	return growing(ctx, dir, &newest, 5, func(end time.Time) {
		source := b.open(dir, filepath.Join(dir, "cache"), jobs, func() time.Time { return end })
		defer source.Dispose()
		ask(ctx, source, query, b.monthDays(), windowEnd) // of finished days, as without the snapshot
	})
}

// nothingCached asks new data sources: about snapshots, then about a job file, with the snapshots in memory.
func (b *bench) nothingCached(ctx context.Context) {
	parquet := b.makeFiles(ctx, "parquet")
	for _, of := range []struct {
		what, dir string
		bound     float64
	}{
		{"nothing cached, 30 d of SQLite", b.month(), 5000}, {"nothing cached, 30 d of Parquet", parquet, 1500},
	} {
		t := timed(3, func(int) { b.firstOf(ctx, of.dir, "", "none", byCategory, b.monthDays()) })
		b.add(t.milliseconds(of.what, of.bound, ""))
	}
	var source *plugin.Datasource
	dispose := func() {
		if source != nil {
			source.Dispose()
		}
	}
	defer func() { dispose() }()
	readSnapshots := func() {
		dispose()
		source = b.open(b.month(), "", "sqlite", atEnd)
		ask(ctx, source, byCategory, b.monthDays()+7, now)
	}
	t := prepared(3, readSnapshots, func() { ask(ctx, source, evictionsByDevice.json, b.monthDays(), windowEnd) })
	b.add(t.milliseconds("no job ads cached, 30 d with the job file", 4000, "with the snapshots in memory"))
}

// plainSQL runs what a user would write for the allocation by category in a generic SQLite data source.
func (b *bench) plainSQL(ctx context.Context) {
	files := must(filepath.Glob(filepath.Join(b.month(), "gpu_state_*.db")))
	db := must(sql.Open("sqlite", ":memory:"))
	defer db.Close()
	db.SetMaxOpenConns(1)
	var parts []string
	for i, file := range files {
		must(db.ExecContext(ctx, fmt.Sprintf("ATTACH ? AS m%d", i), "file:"+file+"?mode=ro"))
		parts = append(parts, fmt.Sprintf("SELECT timestamp, Name, State, Machine, AssignedGPUs, PrioritizedProjects FROM "+
			"m%d.gpu_state WHERE timestamp BETWEEN $1 AND $2", i))
	}
	query := `SELECT count(*) FROM (SELECT substr(timestamp, 1, 13), instr(lower(Name), 'backfill') > 0,
		PrioritizedProjects <> '', 100.0 * count(DISTINCT CASE WHEN State = 'Claimed' THEN timestamp || Machine ||
			AssignedGPUs END) / count(DISTINCT timestamp || Machine || AssignedGPUs) AS percent
		FROM (` + strings.Join(parts, " UNION ALL ") + `) GROUP BY 1, 2, 3) WHERE percent >= 0`
	from := windowEnd.AddDate(0, 0, -b.monthDays())
	plain := timed(1, func(int) {
		var rows int
		check(db.QueryRowContext(ctx, query, from.Format(time.DateTime), windowEnd.Format(time.DateTime)).Scan(&rows))
	})
	source := b.open(b.month(), "", "none", atEnd)
	defer source.Dispose()
	ours := moving(ctx, source, byCategory, b.monthDays(), b.Runs)
	b.add(Figure{What: "the same panel by plain SQL, 30 d", Value: plain.median / ours.median, Unit: "times as long",
		CPU: plain.cpu, Bound: 1000, AtLeast: true, Note: fmt.Sprintf("%s ms", digits(plain.median))})
}
