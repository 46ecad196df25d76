package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/samplepool"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// manyAds is a pool of segments with an ad of each of its runs, which a source of the benchmark's own holds in memory:
// as a job file they would take longer to write than to measure.
type manyAds struct {
	machines, gpus int
	made, days     int // of the pool, of the window
	cacheMaxMB     int // the default has no room for what is observed of so many runs
	target         float64
	panels         []panel
}

// measure asks each panel again and again, with the window moved by a second each time.
func (m manyAds) measure(ctx context.Context, b *bench) (err error) {
	s, env, err := m.open(ctx, b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, panel := range m.panels {
		model, err := query.Parse([]byte(panel.json))
		if err != nil {
			return err
		}
		ask := func(i int) error {
			end := windowEnd.Add(time.Duration(i) * time.Second)
			_, err := kinds.Answer(ctx, s, env, query.Request{Model: model, MaxDataPoints: 1000, Now: now.UnixMicro(),
				Window: pool.NewWindow(end.AddDate(0, 0, -m.days), end), IntervalMs: pool.Day / 1e6 * int64(m.days)})
			return err
		}
		if err := ask(0); err != nil {
			return err
		}
		median, p99, err := timed(runs, func(i int) error { return ask(i + 1) })
		if err != nil {
			return err
		}
		if lack := s.Lack(); lack > 0 {
			return fmt.Errorf("%d MB of cacheMaxMB have no room for the runs of %d d: %d have", m.cacheMaxMB, m.days, lack)
		}
		b.add(Figure{Area: fmt.Sprintf("%d GPUs, %d d", m.gpus, m.days), What: panel.name + " with job ads, warm",
			Value: median, P99: p99, Unit: "ms", Target: m.target,
			Note: fmt.Sprintf("made as segments, ads in memory, a cacheMaxMB of %d", m.cacheMaxMB)})
	}
	return nil
}

// open makes the pool and its ads. The stores must be closed.
func (m manyAds) open(ctx context.Context, b *bench) (*stores.Stores, query.Env, error) {
	env := query.Env{Zone: localtime.UTC, SliceMinutes: 15}
	dir, err := b.synthesize(ctx, m.machines, m.gpus, m.made)
	if err != nil {
		return nil, env, err
	}
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
	if env.Lists, err = d.Lists("chtc_owned", "masked_hosts.yaml"); err != nil {
		return nil, env, errors.Join(err, d.Close())
	}
	budget := stores.Divide(uint64(m.cacheMaxMB) << 20)
	s := stores.New(timeline.New(timelineOptions(registry.OpenDir(d, localtime.UTC), d, filepath.Join(dir, "cache"),
		int64(budget.Days))), budget)
	s.Ads = jobs.NewCache(budget.Ads, time.Now).Source(ads, "bench", nil)
	return s, env, nil
}
