package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// viewers is how many people open a dashboard at the same moment.
const viewers = 10

// atOnce lets them open a dashboard of 20 panels: 200 requests, over 24 hours and 30 days. The days of the windows, and
// those around them, are in memory: the plugin reads them ahead.
func (b *bench) atOnce(ctx context.Context) {
	var p99s, cpus, heaps []float64
	for range 5 {
		runtime.GC() // a new process has no garbage of the one before
		source := b.open(b.month(), "", "none", atEnd)
		t := b.burst(ctx, source)
		source.Dispose()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		p99s, cpus, heaps = append(p99s, t.p99), append(cpus, t.cpu), append(heaps, float64(memory.HeapAlloc)/1e6)
	}
	what := fmt.Sprintf("%d panels at once, 24 h and 30 d", viewers*len(panels))
	b.add(Figure{What: what + ": 99th percentile", Value: pool.Median(p99s), Unit: "ms", CPU: pool.Median(cpus),
		Bound: 500})
	b.add(Figure{What: what + ": heap after it", Value: pool.Median(heaps), Unit: "MB", Bound: 250})
}

func (b *bench) burst(ctx context.Context, source *plugin.Datasource) (t timing) {
	ask(ctx, source, byCategory, b.monthDays()+7, now)
	group, ctx := parallel.WithContext(ctx)
	took := make([]float64, viewers*len(panels))
	before := processorTime()
	for n := range took {
		group.Go(func() error {
			days, end := []int{1, b.monthDays()}[rand.IntN(2)], windowEnd.Add(time.Duration(n/len(panels))*time.Second)
			begin := time.Now()
			err := answer(ctx, source, panels[n%len(panels)].json, days, end)
			took[n] = time.Since(begin).Seconds() * 1000
			return err
		})
	}
	check(group.Wait())
	t.cpu = (processorTime() - before).Seconds() * 1000
	t.median = pool.Median(took)
	t.p99 = took[len(took)*99/100]
	return t
}

// clients are viewers who ask the built binary without a pause, each one question after the other, for a minute.
const clients = 50

// clients lets clients ask all panels, in any order, over a day, a week and a month that end when they ask, to the
// second. The data source has as much memory as one whose settings say nothing. The clients receive the answers and do
// not decode them: they share the plugin's cores, as Grafana does not need to.
func (b *bench) clients(ctx context.Context) {
	likeNone := map[string]any{"cacheMaxMB": 512}
	b.built(b.month(), "", likeNone, func(process *host.Process, source *host.Source) {
		for _, p := range panels { // many clients are measured, not a first query
			ask(ctx, source, p.json, b.monthDays(), windowEnd)
		}
		took := must(b.askFor(ctx, source.Undecoded(), time.Minute))
		bytes := residentBytes(process.PID())
		what := fmt.Sprintf("%d clients, mixed queries", clients)
		median := pool.Median(took) // sorts them
		b.add(Figure{What: what, Value: float64(len(took)) / 60, Unit: "a second", Bound: 400, AtLeast: true})
		b.add(Figure{What: what + ": 99th percentile", Value: took[len(took)*99/100], Unit: "ms", Bound: 800,
			Note: fmt.Sprintf("median %s ms", digits(median))})
		b.add(Figure{What: what + ": resident memory", Value: float64(bytes) / 1e6, Unit: "MB", Bound: 400})
	})
}

// askFor lets the clients ask for so long, and returns what their answers took in milliseconds.
func (b *bench) askFor(ctx context.Context, source backend.QueryDataHandler, long time.Duration) (took []float64,
	err error) {
	group, ctx := parallel.WithContext(ctx)
	begin := time.Now()
	var mu sync.Mutex
	for range clients {
		group.Go(func() error {
			var own []float64
			for time.Since(begin) < long {
				asked := time.Now()
				days := []int{1, 7, b.monthDays()}[rand.IntN(3)]
				if err := answer(ctx, source, panels[rand.IntN(len(panels))].json, days,
					windowEnd.Add(asked.Sub(begin).Truncate(time.Second))); err != nil {
					return err
				}
				own = append(own, time.Since(asked).Seconds()*1000)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
			return nil
		})
	}
	err = group.Wait()
	return took, err
}

// openDashboards takes the processor time of a data source whose dashboards stay open: every 30 s each panel is queried
// over a day, a week and a month, and every 5 minutes a snapshot comes.
func (b *bench) openDashboards(ctx context.Context) {
	dir := b.copyMonth("open")
	defer os.RemoveAll(dir)
	const every, refresh, rounds = 5 * time.Minute, 30 * time.Second, 3
	newest, at := now, now
	source := b.open(dir, "", "sqlite", func() time.Time { return at })
	defer source.Dispose()
	refreshes := func(until time.Time) {
		for at = until; at.Before(until.Add(every)); at = at.Add(refresh) {
			for _, days := range []int{1, 7, b.monthDays()} {
				for _, p := range panels {
					ask(ctx, source, p.json, days, at)
				}
			}
		}
	}
	refreshes(newest)
	t := growing(ctx, dir, &newest, rounds, refreshes)
	b.add(Figure{What: "dashboards that stay open, with job ads", Value: t.cpu / 10 / every.Seconds(), Unit: "% of a core",
		CPU: t.cpu, Bound: 10, Note: fmt.Sprintf("%d panels every 30 s, a snapshot every 5 min", 3*len(panels))})
}

// built starts the plugin's binary and lets do ask its data source over a directory. Without a binary it does nothing.
func (b *bench) built(dir, cache string, more map[string]any, do func(*host.Process, *host.Source)) {
	if b.Binary == "" {
		return
	}
	process := must(host.Start(b.Binary, io.Discard))
	defer process.Close()
	do(process, process.Source(settings(dir, cache, "none", more)))
}

// residentBytes returns the size of a process's resident set, 0 on systems other than Linux.
func residentBytes(pid int) (bytes int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0 // only Linux has it
	}
	var size, resident int64
	must(fmt.Sscan(string(text), &size, &resident))
	return resident * int64(os.Getpagesize())
}

// year measures a pool of a year.
func (b *bench) year(ctx context.Context) {
	dir := b.synthesize(ctx, b.Machines, b.GPUs, b.Days)
	cache := filepath.Join(dir, "cache")
	b.firstPanel(ctx, "a year: first panel", dir, 300)
	source := b.open(dir, cache, "none", atEnd)
	defer source.Dispose()
	b.add(moving(ctx, source, byCategory, b.Days, b.Runs).milliseconds("a year: warm panel", 15, ""))
	b.built(dir, cache, nil, func(process *host.Process, source *host.Source) {
		ask(ctx, source, byCategory, b.Days, windowEnd)
		bytes := atRest(ctx, process.PID())
		b.add(Figure{What: "a year: resident memory", Value: float64(bytes) / 1e6, Unit: "MB", Bound: 150,
			Note: "with all days read ahead"})
	})
	b.size(ctx, dir, cache)
	b.manyAds(ctx, manyAds{what: "a year", machines: b.Machines, gpus: b.GPUs, made: b.Days, days: b.Days,
		warm: 300, grown: 3000})
}

// large measures 10,000 GPUs.
func (b *bench) large(ctx context.Context) {
	if !b.Large {
		return
	}
	const machines, gpus = 1250, 10_000
	dir := b.synthesize(ctx, machines, gpus, b.Days)
	b.firstPanel(ctx, "10,000 GPUs, a year: first panel", dir, 2000)
	// 40 days hold the window and the week before it
	b.manyAds(ctx, manyAds{what: "10,000 GPUs, 30 d", machines: machines, gpus: gpus, made: 40, days: 30,
		warm: 1000, grown: 3000})
}

func (b *bench) firstPanel(ctx context.Context, what, dir string, bound float64) {
	t := timed(5, func(int) { b.firstOf(ctx, dir, filepath.Join(dir, "cache"), "none", byCategory, b.Days) })
	b.add(t.milliseconds(what, bound, "after a restart"))
}

// size adds what a GPU and day take in memory and on disk.
func (b *bench) size(ctx context.Context, dir, cache string) {
	d := openDir(dir)
	tl := timeline.New(timelineOptions(registry.OpenDir(d, localtime.UTC), d, cache, 4<<30))
	defer tl.Close()
	v := must(tl.Load(ctx, now.AddDate(0, 0, -b.Days).UnixMicro(), windowEnd.UnixMicro()))
	gpuDays, bytes := 0, 0
	for _, day := range v.Days {
		gpuDays, bytes = gpuDays+day.GPUs(), bytes+day.Bytes()
	}
	disk, files := int64(0), 0
	check(filepath.Walk(cache, func(_ string, info os.FileInfo, err error) error {
		if err == nil && filepath.Ext(info.Name()) == ".segment" {
			disk, files = disk+info.Size(), files+1
		}
		return err
	}))
	b.add(Figure{What: "memory of a GPU and day", Value: float64(bytes) / float64(gpuDays), Unit: "B", Bound: 200})
	b.add(Figure{What: "disk of a GPU and day", Value: float64(disk) / float64(files) / (float64(gpuDays) /
		float64(len(v.Days))), Unit: "B", Bound: 80, Note: fmt.Sprintf("%d days, %s MB", files, digits(float64(disk)/1e6))})
}

// manyAds is such a pool with an ad of each of its runs, which a source of the benchmark's own holds in memory:
// as a job file they would take longer to write than to measure.
type manyAds struct {
	what           string
	machines, gpus int
	made, days     int // of the pool, of the window
	warm, grown    float64
}

// manyAds asks for evictions again and again, then after new snapshots, and gives the newest file back as it was.
func (b *bench) manyAds(ctx context.Context, m manyAds) {
	dir := b.synthesize(ctx, m.machines, m.gpus, m.made)
	s, env := m.open(ctx, dir)
	defer s.Close()
	model := must(query.Parse([]byte(evictionsByDevice.json)))
	ask := func(end time.Time) {
		must(kinds.Answer(ctx, s, env, query.Request{Model: model, Now: end.UnixMicro(),
			Window: pool.NewWindow(end.AddDate(0, 0, -m.days), end), IntervalMs: pool.Day / 1e6 * int64(m.days)}))
	}
	ask(windowEnd)
	t := timed(b.Runs, func(i int) { ask(windowEnd.Add(time.Duration(i+1) * time.Second)) })
	if lack := s.Lack(); lack > 0 {
		check(fmt.Errorf("there is no room for the runs of %d days: %d MB are needed", m.days, lack))
	}
	b.add(t.milliseconds(m.what+": evictions with job ads", m.warm, "ads in memory"))
	file := filepath.Join(dir, snapshots.MonthFile(now.Format("2006-01"), "db"))
	before := must(os.ReadFile(file))
	newest := now
	t = growing(ctx, dir, &newest, 5, ask)
	b.add(t.milliseconds(m.what+": the same after a new snapshot", m.grown, "ads in memory"))
	check(os.WriteFile(file, before, 0o600))
}

// open opens the pool with its ads. The stores must be closed.
func (m manyAds) open(ctx context.Context, dir string) (*stores.Stores, query.Env) {
	made := must(samplepool.New(options(m.machines, m.gpus, m.made)))
	ads := must(jobstest.OfPool(ctx, made, func(*samplepool.Ad) bool { return true }))
	d := openDir(dir)
	budget := stores.Divide(32 << 30) // the default is too small for the runs of a year and for their ads
	s := stores.New(timeline.New(timelineOptions(registry.OpenDir(d, localtime.UTC), d, filepath.Join(dir, "cache"),
		int64(budget.Days))), budget)
	s.Ads = jobs.NewCache(budget.Ads, time.Now).Source(ads, "bench", nil)
	return s, query.Env{Zone: localtime.UTC, SliceMinutes: 15, Lists: must(d.Lists(snapshots.ListFiles{}))}
}

// atRest waits until a process's resident set has stayed the same for a second, and returns it: half a minute at most.
func atRest(ctx context.Context, pid int) (bytes int64) {
	const often, long = 100 * time.Millisecond, 300
	for i, same := 0, 0; i < long && same < 10; i++ {
		check(parallel.Wait(ctx, often))
		now := residentBytes(pid)
		if same++; max(now-bytes, bytes-now) > 1<<20 {
			bytes, same = now, 0
		}
	}
	return bytes
}
