package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/chtc/gpureports/pkg/samplepool"
	"github.com/chtc/gpureports/pkg/snapshots/sqlite"
)

// held are the panels of kinds that read more than segments: usage, and queues.
var held = []struct {
	name, json  string
	first, warm float64 // wanted, ms
}{
	{"utilisation by user", `{"queryType":"utilization","view":"summary","groupBy":["user"]}`, 500, 60},
	{"utilisation series by device", `{"queryType":"utilization","groupBy":["device"],"metrics":["busy","idle"]}`, 500,
		60},
	{"runs idle now", `{"queryType":"utilization","view":"idle"}`, 500, 10},
	{"waits by user", `{"queryType":"demand","view":"summary","groupBy":["user"],"metrics":["waits","medianWaitHours"]}`,
		1000, 20},
	{"waiting GPUs", `{"queryType":"demand","metrics":["waitingGpus"]}`, 1000, 20},
}

// heldAndWaiting asks them over the month: first of a data source that finds its cache directory, then again and again
// with a window that moves on.
func (b *bench) heldAndWaiting(ctx context.Context) error {
	queues, err := filepath.Glob(filepath.Join(b.month(), "job_pressure_*.db"))
	if err != nil {
		return err
	}
	if len(queues) == 0 { // a month that an earlier version made
		made, err := samplepool.New(options(b.Machines, b.GPUs, min(b.Days, 32)))
		if err != nil {
			return err
		}
		if err := made.WriteQueues(ctx, b.month()); err != nil {
			return err
		}
	}
	cache, days := b.path("cache-held"), min(30, b.Days-2)
	if err := os.RemoveAll(cache); err != nil {
		return err
	}
	for _, p := range held {
		if err := b.firstOf(ctx, cache, p.json, days, nil); err != nil { // fills the cache directory
			return fmt.Errorf("%s: %w", p.name, err)
		}
		first, _, err := timed(3, func(int) error { return b.firstOf(ctx, cache, p.json, days, nil) })
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		b.add(Figure{Area: "held and waiting, 30 d", What: p.name + ", after a restart", Value: first, Unit: "ms",
			Target: p.first})
		var moved, p99 float64
		err = b.firstOf(ctx, cache, p.json, days, func(ask func(int) error) (err error) {
			moved, p99, err = timed(runs, func(i int) error { return ask(i + 1) })
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		b.add(Figure{Area: "held and waiting, 30 d", What: p.name, Value: moved, P99: p99, Unit: "ms", Target: p.warm})
	}
	return b.usageOnDisk(ctx, cache)
}

// firstOf opens a data source and asks it, and does with it what comes then.
func (b *bench) firstOf(ctx context.Context, cache, query string, days int,
	then func(ask func(int) error) error) error {
	source, err := b.source(b.month(), cache)
	if err != nil {
		return err
	}
	defer source.Dispose()
	ask := moving(ctx, source, query, days)
	if err := ask(0); err != nil || then == nil {
		return err
	}
	return then(ask)
}

// usageOnDisk returns what usage takes in the cache directory.
func (b *bench) usageOnDisk(ctx context.Context, cache string) (err error) {
	files, err := filepath.Glob(filepath.Join(cache, "*", "*.usage"))
	if err != nil {
		return err
	}
	more, err := filepath.Glob(filepath.Join(cache, "*.usage"))
	if err != nil {
		return err
	}
	if files = append(files, more...); len(files) == 0 {
		return errors.New("no usage in the cache directory")
	}
	bytes := int64(0)
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return err
		}
		bytes += info.Size()
	}
	tl, err := open(b.month(), "", sqlite.Format)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tl.Close()) }()
	v, err := tl.Load(ctx, windowEnd.AddDate(0, 0, -1).UnixMicro(), windowEnd.UnixMicro())
	if err != nil {
		return err
	}
	gpuDays, _ := size(v)
	b.add(Figure{Area: "held and waiting, 30 d", What: "usage of a GPU and day on disk",
		Value: float64(bytes) / float64(len(files)) / float64(gpuDays) * float64(len(v.Days)), Unit: "B", Target: 150})
	return nil
}
