package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/chtc/gpureports/pkg/samplepool"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
	"github.com/chtc/gpureports/pkg/snapshots/sqlite"
	"github.com/chtc/gpureports/pkg/timeline"
)

// reading compares ingestion with stepping the ten columns of the same rows.
func (b *bench) reading(ctx context.Context) error {
	rows, took, err := b.stepColumns(ctx)
	if err != nil {
		return err
	}
	b.step = took / float64(rows)
	b.add(Figure{Area: "reading", What: "stepping the ten columns, one core", Value: float64(rows) / took / 1e6,
		Unit: "M rows/s", Note: fmt.Sprintf("%d rows", rows)})
	for n, way := range []struct {
		what   string
		cores  int
		format months.Format
		target float64
	}{
		{"by pages, 1 core", 1, sqlite.Format, 0.5}, {"by pages, 2 cores", 2, sqlite.Format, 0.4},
		{"by SQL, 1 core", 1, sqlite.PlainSQL, 1.3}, {"by SQL, 2 cores", 2, sqlite.PlainSQL, 0.8},
	} {
		took, gpuDays, bytes, err := b.ingest(ctx, b.month(), way.cores, way.format)
		if err != nil {
			return err
		}
		b.add(Figure{Area: "reading", What: "ingestion " + way.what, Value: took / (b.step * float64(rows)),
			Unit: "× stepping", Target: way.target, Note: fmt.Sprintf("%.2f M rows/s", float64(rows)/took/1e6)})
		if n == 0 {
			b.add(Figure{Area: "memory", What: "live bytes per GPU and day", Value: float64(bytes) / float64(gpuDays),
				Unit: "B", Target: 350})
		}
	}
	return b.readingParquet(ctx)
}

// readingParquet measures months in Parquet, snapshots every 15 and every 5 minutes.
func (b *bench) readingParquet(ctx context.Context) error {
	for _, c := range []struct {
		cadence    time.Duration
		day, month float64 // wanted, ms
	}{
		{15 * time.Minute, 30, 700}, {5 * time.Minute, 200, 2000},
	} {
		dir, err := b.makeParquet(ctx, c.cadence)
		if err != nil {
			return err
		}
		for _, cores := range []int{1, 2} {
			took, gpuDays, bytes, err := b.ingest(ctx, dir, cores, parquet.Format)
			if err != nil {
				return err
			}
			figure := Figure{
				Area: "reading", What: fmt.Sprintf("30 days of Parquet, every %d min, 2 cores", int(c.cadence.Minutes())),
				Value: 1000 * took / float64(b.parquetDays()) * 30, Unit: "ms", Target: c.month,
			}
			if cores == 1 {
				figure.What = fmt.Sprintf("a day of Parquet, every %d min, 1 core", int(c.cadence.Minutes()))
				figure.Value, figure.Target = 1000*took/float64(b.parquetDays()), c.day
			}
			b.add(figure)
			if cores == 1 && c.cadence == 5*time.Minute {
				b.add(Figure{Area: "memory", What: "live bytes per GPU and day, every 5 min",
					Value: float64(bytes) / float64(gpuDays), Unit: "B", Target: 260})
			}
		}
	}
	return nil
}

// parquetDays is how many days the Parquet months hold.
func (b *bench) parquetDays() int { return min(b.Days, 10) }

// makeParquet writes month files in Parquet, unless they are there from an earlier run.
func (b *bench) makeParquet(ctx context.Context, cadence time.Duration) (dir string, err error) {
	dir = b.path(fmt.Sprintf("parquet-%d-%d-%d-%d", b.Machines, b.GPUs, b.parquetDays(), int(cadence.Minutes())))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	partial := dir + ".part"
	if err := errors.Join(os.RemoveAll(partial), os.MkdirAll(partial, 0o700)); err != nil {
		return "", err
	}
	o := options(b.Machines, b.GPUs, b.parquetDays())
	o.Format, o.Cadence = "parquet", cadence
	made, err := samplepool.New(o)
	if err != nil {
		return "", err
	}
	if err := made.WriteSnapshots(ctx, partial); err != nil {
		return "", err
	}
	return dir, os.Rename(partial, dir)
}

// stepColumns reads all files as a plain program would.
func (b *bench) stepColumns(ctx context.Context) (rows int, seconds float64, err error) {
	files, err := filepath.Glob(filepath.Join(b.month(), "gpu_state_*.db"))
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	for _, file := range files {
		n, err := stepFile(ctx, file)
		if err != nil {
			return 0, 0, err
		}
		rows += n
	}
	return rows, time.Since(begin).Seconds(), nil
}

func stepFile(ctx context.Context, file string) (n int, err error) {
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, "SELECT Name, AssignedGPUs, State, GPUs_DeviceName, GPUs_GlobalMemoryMb, "+
		"PrioritizedProjects, Machine, RemoteOwner, GlobalJobId, CAST(timestamp AS TEXT) FROM gpu_state")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var texts [10]sql.RawBytes
	var targets [10]any
	for i := range texts {
		targets[i] = &texts[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets[:]...); err != nil {
			return n, err
		}
		n++
	}
	return n, rows.Err()
}

// ingest loads all days of a directory with nothing cached.
func (b *bench) ingest(ctx context.Context, dir string, cores int, format months.Format) (seconds float64, gpuDays,
	bytes int, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	tl, err := open(dir, "", format)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, tl.Close()) }()
	begin := time.Now()
	v, err := tl.Load(ctx, now.AddDate(0, 0, -40).UnixMicro(), now.UnixMicro())
	if err != nil {
		return 0, 0, 0, err
	}
	seconds = time.Since(begin).Seconds()
	gpuDays, bytes = size(v)
	return seconds, gpuDays, bytes, nil
}

func size(v *timeline.View) (gpuDays, bytes int) {
	for _, d := range v.Days {
		gpuDays, bytes = gpuDays+d.GPUs(), bytes+d.Bytes()
	}
	return gpuDays, bytes
}

// cold measures the first panel of a fresh data source: with nothing cached, and with the disk cache of an earlier one.
func (b *bench) cold(ctx context.Context) error {
	cache := b.path("cache-month")
	for _, c := range []struct {
		what   string
		days   int
		cache  string
		target float64
	}{
		{"24 hours, nothing cached", 1, "", 200}, {"30 days, nothing cached", 30, "", 3000},
		{"30 days, after a restart", 30, cache, 50},
	} {
		if c.cache != "" { // the earlier data source
			if err := errors.Join(os.RemoveAll(cache), b.firstPanel(ctx, b.month(), c.cache, c.days)); err != nil {
				return err
			}
		}
		median, _, err := timed(5, func(int) error { return b.firstPanel(ctx, b.month(), c.cache, c.days) })
		if err != nil {
			return err
		}
		b.add(Figure{Area: "first panel", What: c.what, Value: median, Unit: "ms", Target: c.target})
	}
	return nil
}

// firstPanel opens a data source and asks it for one panel that ends in the middle of the last day.
func (b *bench) firstPanel(ctx context.Context, dir, cache string, days int) error {
	source, err := b.source(dir, cache)
	if err != nil {
		return err
	}
	defer source.Dispose()
	to := now.Add(-12 * time.Hour)
	return answer(ctx, source, byCategory, to.AddDate(0, 0, -days), to)
}

// diskBytes returns what a cache directory holds.
func diskBytes(dir string) (bytes int64, err error) {
	err = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}
