package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
)

// viewers is how many people open a dashboard at the same moment.
const viewers = 10

// atOnce lets them open a dashboard of 20 panels: 200 requests, over 24 hours and 30 days. The days of the windows, and
// those around them, are in memory: the plugin reads them ahead.
func (b *bench) atOnce(ctx context.Context) error {
	var p99s, cpus, heaps []float64
	for range 5 {
		runtime.GC() // a new process has no garbage of the one before
		source, err := b.open(b.month(), "", "none", atEnd)
		if err != nil {
			return err
		}
		t, err := b.burst(ctx, source)
		source.Dispose()
		if err != nil {
			return err
		}
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		p99s, cpus, heaps = append(p99s, t.p99), append(cpus, t.cpu), append(heaps, float64(memory.HeapAlloc)/1e6)
	}
	what := fmt.Sprintf("%d panels at once, 24 h and 30 d", viewers*len(panels))
	b.add(Figure{What: what + ": 99th percentile", Value: pool.Median(p99s), Unit: "ms", CPU: pool.Median(cpus),
		Bound: 500})
	b.add(Figure{What: what + ": heap after it", Value: pool.Median(heaps), Unit: "MB", Bound: 250})
	return nil
}

func (b *bench) burst(ctx context.Context, source *plugin.Datasource) (t timing, err error) {
	if err := ask(ctx, source, byCategory, b.monthDays()+7, now); err != nil {
		return t, err
	}
	group, ctx := parallel.WithContext(ctx)
	took := make([]float64, viewers*len(panels))
	errs := make([]error, len(took))
	before := processorTime()
	for n := range took {
		group.Go(func() error {
			days, end := []int{1, b.monthDays()}[rand.IntN(2)], windowEnd.Add(time.Duration(n/len(panels))*time.Second)
			begin := time.Now()
			errs[n] = ask(ctx, source, panels[n%len(panels)].json, days, end)
			took[n] = time.Since(begin).Seconds() * 1000
			return nil
		})
	}
	err = errors.Join(group.Wait(), errors.Join(errs...))
	t.cpu = (processorTime() - before).Seconds() * 1000
	t.median = pool.Median(took)
	t.p99 = took[len(took)*99/100]
	return t, err
}

// clients are viewers who ask the built binary without a pause, each one question after the other, for a minute.
const clients = 50

// clients lets clients ask all panels, in any order, over a day, a week and a month that end when they ask, to the
// second. The data source has as much memory as one whose settings say nothing. The clients receive the answers and do
// not decode them: they share the plugin's cores, as Grafana does not need to.
func (b *bench) clients(ctx context.Context) error {
	likeNone := map[string]any{"cacheMaxMB": 512}
	return b.built(b.month(), "", likeNone, func(process *host.Process, source *host.Source) error {
		for _, p := range panels { // many clients are measured, not a first query
			if err := ask(ctx, source, p.json, b.monthDays(), windowEnd); err != nil {
				return err
			}
		}
		took, err := b.askFor(ctx, source.Undecoded(), time.Minute)
		if err != nil {
			return err
		}
		bytes, err := residentBytes(process.PID())
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%d clients, mixed queries", clients)
		median := pool.Median(took) // sorts them
		b.add(Figure{What: what, Value: float64(len(took)) / 60, Unit: "a second", Bound: 400, AtLeast: true})
		b.add(Figure{What: what + ": 99th percentile", Value: took[len(took)*99/100], Unit: "ms", Bound: 800,
			Note: fmt.Sprintf("median %s ms", digits(median))})
		b.add(Figure{What: what + ": resident memory", Value: float64(bytes) / 1e6, Unit: "MB", Bound: 400})
		return nil
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
				if err := ask(ctx, source, panels[rand.IntN(len(panels))].json, days,
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
func (b *bench) openDashboards(ctx context.Context) error {
	dir, err := b.copyMonth("open")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	const every, refresh, rounds = 5 * time.Minute, 30 * time.Second, 3
	newest, at := now, now
	source, err := b.open(dir, "", "sqlite", func() time.Time { return at })
	if err != nil {
		return err
	}
	defer source.Dispose()
	refreshes := func(until time.Time) error {
		for at = until; at.Before(until.Add(every)); at = at.Add(refresh) {
			for _, days := range []int{1, 7, b.monthDays()} {
				for _, p := range panels {
					if err := ask(ctx, source, p.json, days, at); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	if err := refreshes(newest); err != nil {
		return err
	}
	t, err := growing(ctx, dir, &newest, rounds, refreshes)
	if err != nil {
		return err
	}
	b.add(Figure{What: "dashboards that stay open, with job ads", Value: t.cpu / 10 / every.Seconds(), Unit: "% of a core",
		CPU: t.cpu, Bound: 10, Note: fmt.Sprintf("%d panels every 30 s, a snapshot every 5 min", 3*len(panels))})
	return nil
}

// built starts the plugin's binary and lets do ask its data source over a directory. Without a binary it does nothing.
func (b *bench) built(dir, cache string, more map[string]any, do func(*host.Process, *host.Source) error) error {
	if b.Binary == "" {
		return nil
	}
	s, err := settings(dir, cache, "none", more)
	if err != nil {
		return err
	}
	process, err := host.Start(b.Binary, io.Discard)
	if err != nil {
		return err
	}
	defer process.Close()
	return do(process, process.Source(s))
}

// residentBytes returns the size of a process's resident set, 0 on systems other than Linux.
func residentBytes(pid int) (bytes int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, nil //nolint:nilerr // only Linux has it
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0, err
	}
	return resident * int64(os.Getpagesize()), nil
}
