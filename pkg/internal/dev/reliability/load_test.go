package reliability

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/bench"
	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// quiet waits until the process is at rest: what ended requests and replaced data sources held is given back.
func quiet(t *testing.T, process *host.Process, enough func(gauges) bool) (g gauges) {
	t.Helper()
	require.Eventually(t, func() bool { g = measure(t, process); return enough(g) }, 60*time.Second, 200*time.Millisecond,
		"last seen: %+v", &g)
	return g
}

// requireFlat compares a process at rest with how it was after it had warmed up. It may grow by the size of its caches,
// and by as much again that waits for the garbage collector.
func requireFlat(t *testing.T, process *host.Process, warm gauges) gauges {
	t.Helper()
	const fewGoroutines, fewHandles = 10, 4 // of connections that are being closed, and of the database pools
	g := quiet(t, process, func(g gauges) bool {
		return g.goroutines <= warm.goroutines+fewGoroutines && g.handles <= warm.handles+fewHandles
	})
	const countsMB = 64 // of pkg/allocation
	require.Less(t, g.residentMB, 1.3*warm.residentMB+2*countsMB, "memory: %+v after %+v", g, warm)
	return g
}

// percentile of times, in milliseconds.
func percentile(took []time.Duration, p int) float64 {
	slices.Sort(took)
	return float64(took[min(len(took)-1, len(took)*p/100)].Microseconds()) / 1000
}

// mixed is a question that some panel, variable or alert rule might ask: any view, over hours to all of the pool's
// days.
func mixed(ctx context.Context, random *rand.Rand, source *host.Source, o samplepool.Options, queries []string) error {
	switch random.IntN(40) {
	case 0:
		_, err := source.CheckHealth(ctx)
		return err
	case 1:
		response, err := source.Resource(ctx, "values/"+[]string{"device", "machine", "user", "project"}[random.IntN(4)], "")
		if err == nil && response.Status != 200 {
			err = fmt.Errorf("status %d: %s", response.Status, response.Body)
		}
		return err
	}
	to := o.End.Add(-time.Duration(random.IntN(600)) * time.Minute)
	window := []time.Duration{6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, o.End.Sub(o.Start)}[random.IntN(4)]
	var asked []string
	for range 1 + random.IntN(3) {
		asked = append(asked, queries[random.IntN(len(queries))])
	}
	response, err := source.QueryData(ctx, request(to.Add(-window), to, asked...))
	if err != nil {
		return err
	}
	for refID, answer := range response.Responses {
		if answer.Error != nil {
			return fmt.Errorf("%s: %w", asked[refID[0]-'0'], answer.Error)
		}
	}
	return nil
}

// Fifty clients send every kind of request: no error, and no growth.
func TestFiftyClients(t *testing.T) {
	const clients = 50
	o, span := small(), 5*time.Second
	if *long {
		span = 10 * time.Minute
		o = small(func(o *samplepool.Options) {
			o.Machines, o.GPUs, o.Start = 40, 240, o.End.AddDate(0, 0, -30)
		})
	}
	process := start(t)
	source := process.Source(saved(t, 1, map[string]any{"snapshotDir": write(t, o), "cacheDir": t.TempDir(),
		"jobs": "sqlite"}))
	queries := append(views(), `{"queryType": "allocation", "view": "health"}`)
	load := func(span time.Duration) (took []time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), span)
		defer cancel()
		var lock sync.Mutex
		var wait sync.WaitGroup
		for client := range clients {
			wait.Go(func() {
				random := rand.New(rand.NewPCG(uint64(client), 11))
				for ctx.Err() == nil {
					begun := time.Now()
					err := mixed(t.Context(), random, source, o, queries)
					lock.Lock()
					took = append(took, time.Since(begun))
					lock.Unlock()
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wait.Wait()
		return took
	}
	load(span / 5)
	warm := quiet(t, process, func(g gauges) bool { return g.handles > 0 })
	took := load(span)
	require.False(t, t.Failed())
	g := requireFlat(t, process, warm)
	figure("50 clients, mixed queries, the built binary", "%.0f s, %d requests of 1–3 queries, no error; median %.0f "+
		"ms, p99 %.0f ms; after warm-up and at the end: %d and %d goroutines, %d and %d file handles, %.0f and %.0f MB "+
		"resident",
		span.Seconds(), len(took), percentile(took, 50), percentile(took, 99), warm.goroutines, g.goroutines, warm.handles,
		g.handles, warm.residentMB, g.residentMB)
}

// Settings are saved again and again while clients send queries: none sees an error, and replaced instances are closed.
func TestSettingsSavedUnderLoad(t *testing.T) {
	o, saves := small(), 20
	if *long {
		saves = 100
	}
	process := start(t)
	jsonData := map[string]any{"snapshotDir": write(t, o), "cacheDir": t.TempDir(), "jobs": "sqlite"}
	var save, asked atomic.Int64
	var current atomic.Pointer[host.Source]
	use := func(n int64) {
		s := saved(t, 1, jsonData)
		s.Updated = time.Unix(n, 0)
		current.Store(process.Source(s))
	}
	use(0)
	random := rand.New(rand.NewPCG(0, 13))
	for range 20 {
		require.NoError(t, mixed(t.Context(), random, current.Load(), o, views()))
	}
	warm := quiet(t, process, func(g gauges) bool { return g.handles > 0 })
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for client := range 8 {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), 13))
			for ctx.Err() == nil {
				if err := mixed(t.Context(), random, current.Load(), o, views()); err != nil {
					t.Error(err)
					return
				}
				asked.Add(1)
			}
		})
	}
	reach := func(n int64) {
		require.Eventually(t, func() bool { return asked.Load() >= n || t.Failed() }, time.Minute, time.Millisecond)
	}
	reach(20)
	for range saves {
		use(save.Add(1))
		reach(asked.Load() + 8)
	}
	cancel()
	wait.Wait()
	require.False(t, t.Failed())
	g := requireFlat(t, process, warm)
	figure("Settings saved under load", "%d times, %d requests, no error; before and at the end: %d and %d goroutines, "+
		"%d and %d file handles, %.0f and %.0f MB resident",
		saves, asked.Load(), warm.goroutines, g.goroutines, warm.handles, g.handles, warm.residentMB, g.residentMB)
}

// A pool of thousands of GPUs is read while others continue with a small one; and abandoned queries stop.
func TestLargePoolBesideOthers(t *testing.T) {
	machines, gpus, days := 60, 300, 40
	if *long {
		machines, gpus, days = 2000, 10_000, 365
	}
	large, err := bench.Segments(t.Context(), scratch, machines, gpus, days)
	require.NoError(t, err)
	end := bench.End.Add(-36 * time.Hour)
	process := start(t)
	big := process.Source(saved(t, 1, map[string]any{"snapshotDir": large, "cacheDir": large + "/cache",
		"cacheMaxMB": 4096, "cacheDiskMB": 16384}))
	o := small()
	other := process.Source(saved(t, 2, map[string]any{"snapshotDir": write(t, o)}))
	others := func(during func()) (p50, p99 float64, n int) {
		ctx, cancel := context.WithCancel(t.Context())
		var took []time.Duration
		var wait sync.WaitGroup
		wait.Go(func() {
			random := rand.New(rand.NewPCG(3, 17))
			for ctx.Err() == nil {
				begun := time.Now()
				if err := mixed(t.Context(), random, other, o, views()); err != nil {
					t.Error(err)
					return
				}
				took = append(took, time.Since(begun))
			}
		})
		during()
		cancel()
		wait.Wait()
		return percentile(took, 50), percentile(took, 99), len(took)
	}
	p50, p99, _ := others(func() { time.Sleep(time.Second) })
	whole := func(ctx context.Context, i int) (backend.DataResponse, error) {
		to := end.Add(-time.Duration(i) * time.Minute)
		response, err := big.QueryData(ctx, request(to.AddDate(0, 0, -days), to,
			`{"queryType": "allocation", "bucket": "1d"}`))
		if err != nil {
			return backend.DataResponse{}, err
		}
		return response.Responses["0"], nil
	}
	var first, again time.Duration
	const panels = 10
	busy50, busy99, n := others(func() {
		begun := time.Now()
		answer, err := whole(t.Context(), 0)
		require.NoError(t, err)
		require.NoError(t, answer.Error)
		require.NotContains(t, notices(answer), "cannot")
		known := 0
		series := answer.Frames[0].Fields[1]
		for day := range series.Len() {
			if value, err := series.NullableFloatAt(day); err == nil && value != nil {
				known++
			}
		}
		require.GreaterOrEqual(t, known, days-1, "the days of the segments too")
		first = time.Since(begun)
		begun = time.Now()
		var wait sync.WaitGroup
		for i := range panels {
			wait.Go(func() {
				answer, err := whole(t.Context(), i+1)
				require.NoError(t, err)
				require.NoError(t, answer.Error)
			})
		}
		wait.Wait()
		again = time.Since(begun)
	})
	require.False(t, t.Failed())
	require.NotZero(t, n)
	g := measure(t, process)
	figure("A large pool next to others", "%d machines with %d GPUs over %d d: first answer %.1f s after the start, %d "+
		"panels at once %.1f s, %.0f MB resident; meanwhile the others' queries: median %.0f ms (alone %.0f), p99 %.0f ms "+
		"(alone %.0f)",
		machines, gpus, days, first.Seconds(), panels, again.Seconds(), g.residentMB, busy50, p50, busy99, p99)

	// cancelled while it reads the days, which its memory does not hold, or computes: the work ends, as the goroutines
	// tell
	fresh := process.Source(saved(t, 3, map[string]any{"snapshotDir": large, "cacheDir": large + "/cache",
		"cacheMaxMB": 16, "cacheDiskMB": 16384}))
	response, err := fresh.QueryData(t.Context(), request(end.AddDate(0, 0, -2), end,
		`{"queryType": "evictions", "view": "summary"}`))
	require.NoError(t, err)
	require.NoError(t, response.Responses["0"].Error)
	rest := measure(t, process)
	require.Eventually(t, func() bool { // it reads ahead no more
		before := rest
		rest = measure(t, process)
		return rest.goroutines == before.goroutines
	}, time.Minute, time.Second)
	var latest, slowest time.Duration
	cancelled := 0
	for i := range 10 {
		after := 5 * time.Millisecond << i
		ctx, cancel := context.WithTimeout(t.Context(), after)
		_, err := fresh.QueryData(ctx, request(end.AddDate(0, 0, -days), end,
			`{"queryType": "evictions", "view": "summary"}`))
		cancel()
		begun := time.Now()
		if err == nil {
			continue // it was faster
		}
		require.Contains(t, strings.ToLower(err.Error()), "deadline")
		cancelled++
		latest = after
		const few = 4 // of connections, and files that were opened
		require.Eventually(t, func() bool { return measure(t, process).goroutines <= rest.goroutines+few }, time.Minute,
			time.Millisecond)
		slowest = max(slowest, time.Since(begun))
	}
	require.NotZero(t, cancelled)
	figure("Canceled queries over all of it", "%d, 5 to %d ms after they were asked; their goroutines are gone %d ms "+
		"after the cancel at most", cancelled, latest.Milliseconds(), slowest.Milliseconds())
}
