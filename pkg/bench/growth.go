package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/plugin/host"
	"github.com/chtc/gpureports/pkg/samplepool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/sqlite"
)

// newSnapshot appends snapshots to a copy of the newest month file and measures each one's way into an answer.
func (b *bench) newSnapshot(ctx context.Context) error {
	dir := b.path("growing")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	o := options(b.Machines, b.GPUs, 1)
	o.Start = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	o.End = o.Start.AddDate(0, 0, 2)
	o.MissedSnapshots, o.DoubledSnapshots, o.LateSnapshots, o.Outages = 0, 0, 0, 0
	made, err := samplepool.New(o)
	if err != nil {
		return err
	}
	if err := made.WriteSnapshots(ctx, dir); err != nil {
		return err
	}
	file := filepath.Join(dir, snapshots.MonthFile(o.Start.Format("2006-01"), "db"))
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "PRAGMA journal_mode=WAL"); err != nil {
		return err
	}
	source, err := b.source(dir, "")
	if err != nil {
		return err
	}
	defer source.Dispose()
	last := o.End.Add(-o.Cadence)
	ask := func(to time.Time) error { return answer(ctx, source, byCategory, to.AddDate(0, 0, -1), to) }
	if err := ask(last); err != nil {
		return err
	}
	took := make([]float64, runs)
	for i := range took {
		at := last.Add(time.Duration(i+1) * o.Cadence)
		if err := repeatLast(ctx, db, at); err != nil {
			return err
		}
		begin := time.Now()
		if err := ask(at); err != nil {
			return err
		}
		took[i] = time.Since(begin).Seconds() * 1000
	}
	median, p99 := percentiles(took)
	b.add(Figure{Area: "new snapshot", What: "its way into a panel over 24 h", Value: median, P99: p99, Unit: "ms",
		Target: 10})
	return nil
}

// runsAfterSnapshot asks the kinds that are about runs over the month each time a snapshot has been appended to a copy
// of its newest file, and read.
func (b *bench) runsAfterSnapshot(ctx context.Context) error {
	dir := b.path("growing-month")
	if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(b.month()))); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", filepath.Join(dir, snapshots.MonthFile(now.Format("2006-01"), "db")))
	if err != nil {
		return err
	}
	defer db.Close()
	newest, days, cadence := now, min(30, b.Days-2), options(b.Machines, b.GPUs, 1).Cadence
	for _, jobs := range []string{"none", "sqlite"} {
		settings, err := b.settings(dir, "", jobs)
		if err != nil {
			return err
		}
		for _, p := range withAds {
			source := plugin.Open(settings, func() time.Time { return newest })
			ask := func() error { return answer(ctx, source, p.json, newest.AddDate(0, 0, -days), newest) }
			err := ask()
			took := make([]float64, runs)
			for i := 0; i < len(took) && err == nil; i++ {
				newest = newest.Add(cadence)
				if err = repeatLast(ctx, db, newest); err != nil {
					break
				}
				if err = answer(ctx, source, byCategory, newest.AddDate(0, 0, -1), newest); err != nil { // reads it
					break
				}
				begin := time.Now()
				err = ask()
				took[i] = time.Since(begin).Seconds() * 1000
			}
			source.Dispose()
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			median, p99 := percentiles(took)
			b.add(Figure{Area: fmt.Sprintf("job ads, %d d", days), What: p.name + map[string]string{"none": " without job ads",
				"sqlite": " with the job file"}[jobs] + ", after a new snapshot", Value: median, P99: p99, Unit: "ms",
				Target: 20})
		}
	}
	return nil
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
	query := `SELECT substr(timestamp, 1, 13), instr(lower(Name), 'backfill') > 0, PrioritizedProjects <> '',
		100.0 * count(DISTINCT CASE WHEN State = 'Claimed' THEN timestamp || Machine || AssignedGPUs END) /
			count(DISTINCT timestamp || Machine || AssignedGPUs)
		FROM (` + strings.Join(parts, " UNION ALL ") + `) GROUP BY 1, 2, 3`
	source, err := b.source(b.month(), "")
	if err != nil {
		return err
	}
	defer source.Dispose()
	to := windowEnd
	for _, days := range []int{1, 7, min(30, b.Days-2)} {
		from := to.AddDate(0, 0, -days)
		begin := time.Now()
		if err := drain(ctx, db, query, from.Format(time.DateTime), to.Format(time.DateTime)); err != nil {
			return err
		}
		plain := time.Since(begin).Seconds() * 1000
		if err := answer(ctx, source, byCategory, from, to); err != nil {
			return err
		}
		ours, _, err := timed(50, moving(ctx, source, byCategory, days))
		if err != nil {
			return err
		}
		b.add(Figure{Area: "plain SQL", What: fmt.Sprintf("the same panel over %d d", days), Value: plain, Unit: "ms",
			Note: fmt.Sprintf("%.0f times as long", plain/ours)})
	}
	return nil
}

func drain(ctx context.Context, db *sql.DB, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

// year measures a pool of a year, made as segments.
func (b *bench) year(ctx context.Context) error {
	dir, err := b.synthesize(ctx, b.Machines, b.GPUs, b.Days)
	if err != nil {
		return err
	}
	if err := b.segments(ctx, dir, fmt.Sprintf("%d GPUs, %d d", b.GPUs, b.Days), b.Days,
		limits{restart: 150, series: 50, disk: 35, memory: 120}); err != nil {
		return err
	}
	return manyAds{machines: b.Machines, gpus: b.GPUs, made: b.Days, days: b.Days, cacheMaxMB: 4096, target: 150,
		panels: withAds}.measure(ctx, b)
}

// large measures 10,000 GPUs.
func (b *bench) large(ctx context.Context) error {
	if !b.Large {
		return nil
	}
	dir, err := b.synthesize(ctx, 1250, 10_000, b.Days)
	if err != nil {
		return err
	}
	if err := b.segments(ctx, dir, fmt.Sprintf("10,000 GPUs, %d d", b.Days), b.Days,
		limits{restart: 1000, memory: 1500, month: 40, evictions: 200}); err != nil {
		return err
	}
	// 40 days hold the window, which ends 36 hours before the pool does, and the week before it
	return manyAds{machines: 1250, gpus: 10_000, made: 40, days: 30, cacheMaxMB: 4096, target: 200,
		panels: []panel{{"evictions", evictionsByDevice}}}.measure(ctx, b)
}

// limits are the targets of a pool of segments: milliseconds and megabytes, 0 = none.
type limits struct{ restart, series, disk, memory, month, evictions float64 }

func (b *bench) segments(ctx context.Context, dir, name string, days int, l limits) error {
	cache := filepath.Join(dir, "cache")
	note := "made as segments"
	to := windowEnd
	bytes, err := diskBytes(cache)
	if err != nil {
		return err
	}
	b.add(Figure{Area: name, What: "on disk", Value: float64(bytes) / 1e6, Unit: "MB", Target: l.disk, Note: note})
	restart, _, err := timed(5, func(int) error {
		source, err := b.source(dir, cache)
		if err != nil {
			return err
		}
		defer source.Dispose()
		return answer(ctx, source, byCategory, to.AddDate(0, 0, -days), to)
	})
	if err != nil {
		return err
	}
	b.add(Figure{Area: name, What: "first panel over all of it, after a restart", Value: restart, Unit: "ms",
		Target: l.restart, Note: note})
	source, err := b.source(dir, cache)
	if err != nil {
		return err
	}
	defer source.Dispose()
	month := min(30, days)
	for _, w := range []struct {
		what, query  string
		days         int
		target       float64
		onlyIfWanted bool
	}{
		{"allocation series over %d d", byCategory, month, l.month, false},
		{"allocation series over %d d", byCategory, days, l.series, false},
		{"evictions over %d d without job ads", evictionsByDevice, month, l.evictions, true},
	} {
		if w.onlyIfWanted && w.target == 0 {
			continue
		}
		ask := moving(ctx, source, w.query, w.days)
		if err := ask(0); err != nil {
			return err
		}
		median, p99, err := timed(runs, func(i int) error { return ask(i + 1) })
		if err != nil {
			return err
		}
		b.add(Figure{Area: name, What: fmt.Sprintf(w.what, w.days), Value: median, P99: p99, Unit: "ms", Target: w.target,
			Note: note})
	}
	return b.resident(ctx, dir, name, days, l.memory)
}

// resident measures the memory that the plugin's binary holds after a panel over all days.
func (b *bench) resident(ctx context.Context, dir, name string, days int, target float64) error {
	ask := func(process *host.Process, source *host.Source) error {
		if err := answer(ctx, source, byCategory, windowEnd.AddDate(0, 0, -days), windowEnd); err != nil {
			return err
		}
		bytes, err := atRest(ctx, process.PID())
		if err != nil {
			return err
		}
		b.add(Figure{Area: name, What: "resident memory of the plugin after it, with all days read ahead",
			Value: float64(bytes) / 1e6, Unit: "MB", Target: target, Note: "made as segments"})
		return nil
	}
	return b.built(dir, filepath.Join(dir, "cache"), ask)
}

// atRest waits until a process's resident set has stayed the same for a second, and returns it: half a minute at most.
func atRest(ctx context.Context, pid int) (bytes int64, err error) {
	const often, long = 100 * time.Millisecond, 300
	for i, same := 0, 0; i < long && same < 10; i++ {
		if err := parallel.Wait(ctx, often); err != nil {
			return 0, err
		}
		now, err := residentBytes(pid)
		if err != nil {
			return 0, err
		}
		if same++; max(now-bytes, bytes-now) > 1<<20 {
			bytes, same = now, 0
		}
	}
	return bytes, nil
}

// residentBytes returns the size of a process's resident set, 0 on systems other than Linux.
func residentBytes(pid int) (bytes int64, err error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, nil //nolint:nilerr // only Linux has it
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0, err
	}
	return resident * int64(os.Getpagesize()), nil
}

// growth shows that cost grows with the spans of the window, not with rows or files.
func (b *bench) growth(ctx context.Context) error {
	to := windowEnd
	for _, times := range []int{1, 10, 100} { // 10, 100 and 1,000 machines beside a pool of 170
		machines := max(5, b.Machines*times/17)
		dir, err := b.synthesize(ctx, machines, 0, min(30, b.Days))
		if err != nil {
			return err
		}
		if err := b.grown(ctx, dir, fmt.Sprintf("%d machines", machines), min(28, b.Days), to); err != nil {
			return err
		}
	}
	dir, err := b.synthesize(ctx, b.Machines, b.GPUs, b.Days)
	if err != nil {
		return err
	}
	for _, days := range []int{1, 10, 100, 365} {
		if days <= b.Days {
			if err := b.grown(ctx, dir, fmt.Sprintf("%d GPUs", b.GPUs), days, to); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) grown(ctx context.Context, dir, what string, days int, to time.Time) error {
	cache := filepath.Join(dir, "cache")
	source, err := b.source(dir, cache)
	if err != nil {
		return err
	}
	defer source.Dispose()
	ask := moving(ctx, source, byCategory, days)
	if err := ask(0); err != nil {
		return err
	}
	median, p99, err := timed(runs, func(i int) error { return ask(i + 1) })
	if err != nil {
		return err
	}
	tl, err := open(dir, cache, sqlite.Format)
	if err != nil {
		return err
	}
	defer tl.Close()
	v, err := tl.Load(ctx, to.AddDate(0, 0, -days).UnixMicro(), to.UnixMicro())
	if err != nil {
		return err
	}
	spans := 0
	for _, d := range v.Days {
		spans += d.SpanCount()
	}
	b.add(Figure{Area: "growth", What: fmt.Sprintf("%s, %d d", what, days), Value: median, P99: p99, Unit: "ms",
		Note: fmt.Sprintf("%d spans, made as segments", spans)})
	return nil
}
