package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/plugin/host"
)

// clients are viewers who ask the built binary without a pause, each one question after the other, for clientsAsk.
const (
	clients    = 50
	clientsAsk = time.Minute
)

// clients lets clients ask all panels, in any order, over a day, a week and a month that end when they ask, to the
// second, as a dashboard's do that is refreshed. The data source has as much memory as one whose settings say nothing.
// The clients receive the answers and do not decode them: they share the plugin's cores, as Grafana does not need to.
func (b *bench) clients(ctx context.Context) error {
	if b.Binary == "" {
		return nil
	}
	absolute, err := filepath.Abs(b.month())
	if err != nil {
		return err
	}
	settings, err := instance(map[string]any{"snapshotDir": absolute, "cacheMaxMB": 512}, nil)
	if err != nil {
		return err
	}
	return b.start(settings, func(process *host.Process, source *host.Source) error {
		return b.askBuilt(ctx, process, source)
	})
}

func (b *bench) askBuilt(ctx context.Context, process *host.Process, source *host.Source) error {
	for _, p := range panels { // what is measured is many clients, not a first look
		if err := moving(ctx, source, p.json, min(30, b.Days-2))(0); err != nil {
			return err
		}
	}
	took, err := askFor(ctx, source.Undecoded(), clientsAsk, min(30, b.Days-2))
	if err != nil {
		return err
	}
	bytes, err := residentBytes(process.PID())
	if err != nil {
		return err
	}
	perSecond := float64(len(took)) / clientsAsk.Seconds()
	median, p99 := percentiles(took)
	what := fmt.Sprintf("%d clients, mixed queries, built binary", clients)
	b.add(Figure{Area: "many viewers", What: what + ": the 99th percentile", Value: p99, Unit: "ms", Target: 400,
		Note: fmt.Sprintf("median %.3g ms, %.0f requests/s (wanted: 500), for %v", median, perSecond, clientsAsk)})
	b.add(Figure{Area: "many viewers", What: what + ": resident memory after it", Value: float64(bytes) / 1e6, Unit: "MB",
		Target: 350})
	return nil
}

// askFor lets the clients ask for so long, and returns what their answers took in milliseconds.
func askFor(ctx context.Context, source backend.QueryDataHandler, long time.Duration, days int) (took []float64,
	err error) {
	group, ctx := parallel.WithContext(ctx)
	begin := time.Now()
	var mu sync.Mutex
	for range clients {
		group.Go(func() error {
			var own []float64
			for time.Since(begin) < long {
				end := windowEnd.Add(time.Since(begin).Truncate(time.Second))
				from := end.AddDate(0, 0, -[]int{1, 7, days}[rand.IntN(3)])
				asked := time.Now()
				if err := answer(ctx, source, panels[rand.IntN(len(panels))].json, from, end); err != nil {
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
