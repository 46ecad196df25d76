package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// warm asks every panel over the month again and again.
func (b *bench) warm(ctx context.Context) error {
	for _, of := range []struct {
		what, jobs string
		bound      float64
		panels     []panel
	}{
		{"a warm panel over 30 d", "none", 25, panels}, {"a warm panel over 30 d with job ads", "sqlite", 50, withAds},
	} {
		source, err := b.open(b.month(), "", of.jobs, atEnd)
		if err != nil {
			return err
		}
		err = b.slowest(of.what, of.bound, of.panels, func(p panel) (timing, error) {
			return moving(ctx, source, p.json, b.monthDays(), b.Runs)
		})
		source.Dispose()
		if err != nil {
			return err
		}
	}
	return nil
}

// newSnapshot asks the kinds that are about runs each time that a snapshot has been appended to a copy of the month.
func (b *bench) newSnapshot(ctx context.Context) error {
	dir, err := b.copyMonth("growing")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	newest := now
	for _, of := range []struct {
		what, jobs string
		bound      float64
	}{
		{"after a new snapshot, 30 d", "none", 100}, {"after a new snapshot, 30 d with job ads", "sqlite", 200},
	} {
		source, err := b.open(dir, "", of.jobs, func() time.Time { return newest })
		if err != nil {
			return err
		}
		err = b.slowest(of.what, of.bound, withAds[:2], func(p panel) (timing, error) {
			again := func(end time.Time) error { return ask(ctx, source, p.json, b.monthDays(), end) }
			return growing(ctx, dir, &newest, max(2, b.Runs/5), again)
		})
		source.Dispose()
		if err != nil {
			return err
		}
	}
	return nil
}

// growing appends a snapshot to the newest file of a directory, and asks, again and again.
func growing(ctx context.Context, dir string, newest *time.Time, runs int, ask func(end time.Time) error) (t timing,
	err error) {
	db, err := sql.Open("sqlite", filepath.Join(dir, snapshots.MonthFile(now.Format("2006-01"), "db")))
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := ask(*newest); err != nil {
		return t, err
	}
	grow := func() error {
		*newest = newest.Add(samplepool.Default().Cadence)
		runtime.GC() // as in the minutes between two snapshots: Go collects garbage every two
		return repeatLast(ctx, db, *newest)
	}
	return prepared(runs, grow, func() error { return ask(*newest) })
}

// restart asks data sources that find the cache directory of an earlier one, with the same snapshots, then each with one
// more.
func (b *bench) restart(ctx context.Context) error {
	for _, of := range []struct {
		what, jobs, query string
		bound, oneMore    float64
	}{
		{"after a restart, 30 d", "none", byCategory, 50, 100},
		{"after a restart, 30 d with job ads", "sqlite", evictionsByDevice.json, 1000, 1000},
	} {
		cache := b.path("cache-" + of.jobs)
		if err := os.RemoveAll(cache); err != nil {
			return err
		}
		first := func(int) error { return b.firstOf(ctx, b.month(), cache, of.jobs, of.query, b.monthDays()) }
		if err := first(0); err != nil { // the earlier one
			return err
		}
		t, err := timed(5, first)
		if err != nil {
			return err
		}
		b.add(t.milliseconds(of.what, of.bound, "with the cache directory"))
		if t, err = b.restartWithOneMore(ctx, of.jobs, of.query); err != nil {
			return err
		}
		b.add(t.milliseconds(of.what+" and one more snapshot", of.oneMore, "with the cache directory"))
	}
	return nil
}

func (b *bench) restartWithOneMore(ctx context.Context, jobs, query string) (t timing, err error) {
	dir, err := b.copyMonth("growing")
	if err != nil {
		return t, err
	}
	cache := filepath.Join(dir, "cache")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	newest := now
	return growing(ctx, dir, &newest, 5, func(end time.Time) error {
		source, err := b.open(dir, cache, jobs, func() time.Time { return end })
		if err != nil {
			return err
		}
		defer source.Dispose()
		return ask(ctx, source, query, b.monthDays(), windowEnd) // of finished days, as without the snapshot
	})
}

// nothingCached asks new data sources: about snapshots, then about a job file, with the snapshots in memory.
func (b *bench) nothingCached(ctx context.Context) error {
	parquet, err := b.makeFiles(ctx, "parquet")
	if err != nil {
		return err
	}
	for _, of := range []struct {
		what, dir string
		bound     float64
	}{
		{"nothing cached, 30 d of SQLite", b.month(), 5000}, {"nothing cached, 30 d of Parquet", parquet, 1500},
	} {
		t, err := timed(3, func(int) error { return b.firstOf(ctx, of.dir, "", "none", byCategory, b.monthDays()) })
		if err != nil {
			return err
		}
		b.add(t.milliseconds(of.what, of.bound, ""))
	}
	var source *plugin.Datasource
	dispose := func() {
		if source != nil {
			source.Dispose()
		}
	}
	defer func() { dispose() }()
	readSnapshots := func() (err error) {
		dispose()
		if source, err = b.open(b.month(), "", "sqlite", atEnd); err != nil {
			return err
		}
		return ask(ctx, source, byCategory, b.monthDays()+7, now)
	}
	t, err := prepared(3, readSnapshots, func() error {
		return ask(ctx, source, evictionsByDevice.json, b.monthDays(), windowEnd)
	})
	if err == nil {
		b.add(t.milliseconds("no job ads cached, 30 d with the job file", 4000, "with the snapshots in memory"))
	}
	return err
}

// plainSQL runs what a user would write for the allocation by category in a generic SQLite data source.
func (b *bench) plainSQL(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(b.month(), "gpu_state_*.db"))
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	var parts []string
	for i, file := range files {
		if _, err := db.ExecContext(ctx, fmt.Sprintf("ATTACH ? AS m%d", i), "file:"+file+"?mode=ro"); err != nil {
			return err
		}
		parts = append(parts, fmt.Sprintf("SELECT timestamp, Name, State, Machine, AssignedGPUs, PrioritizedProjects FROM "+
			"m%d.gpu_state WHERE timestamp BETWEEN $1 AND $2", i))
	}
	query := `SELECT count(*) FROM (SELECT substr(timestamp, 1, 13), instr(lower(Name), 'backfill') > 0,
		PrioritizedProjects <> '', 100.0 * count(DISTINCT CASE WHEN State = 'Claimed' THEN timestamp || Machine ||
			AssignedGPUs END) / count(DISTINCT timestamp || Machine || AssignedGPUs) AS percent
		FROM (` + strings.Join(parts, " UNION ALL ") + `) GROUP BY 1, 2, 3) WHERE percent >= 0`
	from := windowEnd.AddDate(0, 0, -b.monthDays())
	plain, err := timed(1, func(int) error {
		var rows int
		return db.QueryRowContext(ctx, query, from.Format(time.DateTime), windowEnd.Format(time.DateTime)).Scan(&rows)
	})
	if err != nil {
		return err
	}
	source, err := b.open(b.month(), "", "none", atEnd)
	if err != nil {
		return err
	}
	defer source.Dispose()
	ours, err := moving(ctx, source, byCategory, b.monthDays(), b.Runs)
	if err != nil {
		return err
	}
	b.add(Figure{What: "the same panel by plain SQL, 30 d", Value: plain.median / ours.median, Unit: "times as long",
		CPU: plain.cpu, Bound: 1000, AtLeast: true, Note: fmt.Sprintf("%s ms", digits(plain.median))})
	return nil
}
