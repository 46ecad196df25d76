package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// year measures a pool of a year, made as segments.
func (b *bench) year(ctx context.Context) error {
	dir, err := b.synthesize(ctx, b.Machines, b.GPUs, b.Days)
	if err != nil {
		return err
	}
	cache := filepath.Join(dir, "cache")
	if err := b.firstPanel(ctx, "a year: first panel", dir, 300); err != nil {
		return err
	}
	source, err := b.open(dir, cache, "none", atEnd)
	if err != nil {
		return err
	}
	defer source.Dispose()
	t, err := moving(ctx, source, byCategory, b.Days, b.Runs)
	if err != nil {
		return err
	}
	b.add(t.milliseconds("a year: warm panel", 15, ""))
	if err := b.built(dir, cache, nil, func(process *host.Process, source *host.Source) error {
		if err := ask(ctx, source, byCategory, b.Days, windowEnd); err != nil {
			return err
		}
		bytes, err := atRest(ctx, process.PID())
		if err != nil {
			return err
		}
		b.add(Figure{What: "a year: resident memory", Value: float64(bytes) / 1e6, Unit: "MB", Bound: 150,
			Note: "with all days read ahead"})
		return nil
	}); err != nil {
		return err
	}
	if err := b.size(ctx, dir, cache); err != nil {
		return err
	}
	return b.manyAds(ctx, manyAds{what: "a year", machines: b.Machines, gpus: b.GPUs, made: b.Days, days: b.Days,
		warm: 300, grown: 3000})
}

// large measures 10,000 GPUs.
func (b *bench) large(ctx context.Context) error {
	if !b.Large {
		return nil
	}
	const machines, gpus = 1250, 10_000
	dir, err := b.synthesize(ctx, machines, gpus, b.Days)
	if err != nil {
		return err
	}
	if err := b.firstPanel(ctx, "10,000 GPUs, a year: first panel", dir, 2000); err != nil {
		return err
	}
	// 40 days hold the window and the week before it
	return b.manyAds(ctx, manyAds{what: "10,000 GPUs, 30 d", machines: machines, gpus: gpus, made: 40, days: 30,
		warm: 1000, grown: 3000})
}

func (b *bench) firstPanel(ctx context.Context, what, dir string, bound float64) error {
	t, err := timed(5, func(int) error {
		return b.firstOf(ctx, dir, filepath.Join(dir, "cache"), "none", byCategory, b.Days)
	})
	if err == nil {
		b.add(t.milliseconds(what, bound, "after a restart"))
	}
	return err
}

// size adds what a GPU and day take in memory and on disk.
func (b *bench) size(ctx context.Context, dir, cache string) (err error) {
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	tl := timeline.New(timelineOptions(registry.OpenDir(d, localtime.UTC), d, cache, 4<<30))
	defer func() { err = errors.Join(err, tl.Close()) }()
	v, err := tl.Load(ctx, now.AddDate(0, 0, -b.Days).UnixMicro(), windowEnd.UnixMicro())
	if err != nil {
		return err
	}
	gpuDays, bytes := 0, 0
	for _, day := range v.Days {
		gpuDays, bytes = gpuDays+day.GPUs(), bytes+day.Bytes()
	}
	disk, files := int64(0), 0
	if err := filepath.Walk(cache, func(_ string, info os.FileInfo, err error) error {
		if err == nil && filepath.Ext(info.Name()) == ".segment" {
			disk, files = disk+info.Size(), files+1
		}
		return err
	}); err != nil {
		return err
	}
	b.add(Figure{What: "memory of a GPU and day", Value: float64(bytes) / float64(gpuDays), Unit: "B", Bound: 200})
	b.add(Figure{What: "disk of a GPU and day", Value: float64(disk) / float64(files) / (float64(gpuDays) /
		float64(len(v.Days))), Unit: "B", Bound: 80, Note: fmt.Sprintf("%d days, %s MB", files, digits(float64(disk)/1e6))})
	return nil
}

// manyAds is a pool of segments with an ad of each of its runs, which a source of the benchmark's own holds in memory:
// as a job file they would take longer to write than to measure.
type manyAds struct {
	what           string
	machines, gpus int
	made, days     int // of the pool, of the window
	warm, grown    float64
}

// manyAds asks for evictions again and again, then after new snapshots, and gives the newest file back as it was.
func (b *bench) manyAds(ctx context.Context, m manyAds) (err error) {
	dir, err := b.synthesize(ctx, m.machines, m.gpus, m.made)
	if err != nil {
		return err
	}
	s, env, err := m.open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	model, err := query.Parse([]byte(evictionsByDevice.json))
	if err != nil {
		return err
	}
	ask := func(end time.Time) error {
		_, err := kinds.Answer(ctx, s, env, query.Request{Model: model, Now: end.UnixMicro(),
			Window: pool.NewWindow(end.AddDate(0, 0, -m.days), end), IntervalMs: pool.Day / 1e6 * int64(m.days)})
		return err
	}
	if err := ask(windowEnd); err != nil {
		return err
	}
	t, err := timed(b.Runs, func(i int) error { return ask(windowEnd.Add(time.Duration(i+1) * time.Second)) })
	if err != nil {
		return err
	}
	if lack := s.Lack(); lack > 0 {
		return fmt.Errorf("there is no room for the runs of %d days: %d MB are needed", m.days, lack)
	}
	b.add(t.milliseconds(m.what+": evictions with job ads", m.warm, "ads in memory"))
	file := filepath.Join(dir, snapshots.MonthFile(now.Format("2006-01"), "db"))
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.WriteFile(file, before, 0o600)) }()
	newest := now
	if t, err = growing(ctx, dir, &newest, 5, ask); err != nil {
		return err
	}
	b.add(t.milliseconds(m.what+": the same after a new snapshot", m.grown, "ads in memory"))
	return nil
}

// open opens the pool with its ads. The stores must be closed.
func (m manyAds) open(ctx context.Context, dir string) (*stores.Stores, query.Env, error) {
	env := query.Env{Zone: localtime.UTC, SliceMinutes: 15}
	made, err := samplepool.New(options(m.machines, m.gpus, m.made))
	if err != nil {
		return nil, env, err
	}
	ads, err := made.AdSource(ctx, func(*samplepool.Ad) bool { return true })
	if err != nil {
		return nil, env, err
	}
	d, err := openDir(dir)
	if err != nil {
		return nil, env, err
	}
	if env.Lists, err = d.Lists(snapshots.ListFiles{}); err != nil {
		return nil, env, errors.Join(err, d.Close())
	}
	budget := stores.Divide(32 << 30) // the default is too small for the runs of a year and for their ads
	s := stores.New(timeline.New(timelineOptions(registry.OpenDir(d, localtime.UTC), d, filepath.Join(dir, "cache"),
		int64(budget.Days))), budget)
	s.Ads = jobs.NewCache(budget.Ads, time.Now).Source(ads, "bench", nil)
	return s, env, nil
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
