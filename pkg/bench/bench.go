// Package bench measures the product on made-up pools: reading, memory, answers, many viewers at once, growth.
// Its figures are medians on the machine that it runs on; it asserts nothing.
package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// Options choose the pool.
type Options struct {
	Machines int    // of the pool whose month is made as real files
	GPUs     int    // of the same
	Days     int    // of the longest window, made as segments; up to 32 of them also as real files
	Large    bool   // also measure 10,000 GPUs
	Dir      string // where pools are made, or found from an earlier run; "" = a temporary directory
	Binary   string // the plugin's binary, to measure the plugin protocol; "" = left out
	// Elasticsearch is a server's URL, or StartElasticsearch; "" = left out. An index of its own is made in it, and
	// removed.
	Elasticsearch string
	Bucket        bool      // measure what a bucket is for, and nothing else
	Fleet         bool      // measure facts of many pools in Elasticsearch, which is started if none is given
	Pools         int       // of Fleet
	Shards        int       // of an index of Fleet
	Progress      io.Writer // what is being done
}

// Figure is one line of the table.
type Figure struct {
	Area   string  `json:"area"`
	What   string  `json:"what"`
	Value  float64 `json:"value"` // a median where there are several runs
	P99    float64 `json:"p99,omitempty"`
	Unit   string  `json:"unit"`
	Target float64 `json:"target,omitempty"` // at most; 0 = none
	Note   string  `json:"note,omitempty"`
}

// Run makes the pools and measures. A figure that cannot be taken is an error.
func Run(ctx context.Context, o Options) ([]Figure, error) {
	if o.Days < 32 {
		return nil, pool.BadQuery("bench: %d days; 32 are the least: a month of files, and days before it", o.Days)
	}
	if o.Fleet && o.Pools < 1 {
		return nil, pool.BadQuery("bench: %d pools; one is the least", o.Pools)
	}
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "gpureports-bench-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		o.Dir = dir
	}
	b := &bench{Options: o}
	for _, step := range b.steps() {
		fmt.Fprintf(o.Progress, "%s …\n", step.name)
		if err := step.run(ctx); err != nil {
			return b.figures, fmt.Errorf("measuring %s: %w", step.name, err)
		}
		runtime.GC()
	}
	return b.figures, nil
}

// step is a part of what is measured.
type step struct {
	name string
	run  func(context.Context) error
}

func (b *bench) steps() []step {
	if b.Bucket {
		return []step{{"making a month of files", b.makeMonth}, {"with a bucket", b.inBucket}}
	}
	if b.Fleet {
		return []step{{"making a month of files", b.makeMonth}, {"many pools", b.fleet}}
	}
	return []step{
		{"making a month of files", b.makeMonth},
		{"reading", b.reading},
		{"first panels", b.cold},
		{"answers over the month", b.warmMonth},
		{"utilization and demand", b.heldAndWaiting},
		{"job ads", b.jobAds},
		{"a new snapshot", b.newSnapshot},
		{"runs after a new snapshot", b.runsAfterSnapshot},
		{"many viewers", b.manyViewers},
		{"many clients", b.clients},
		{"plain SQL", b.plainSQL},
		{"the plugin protocol", b.protocol},
		{"a year", b.year},
		{"growth", b.growth},
		{"10,000 GPUs", b.large},
	}
}

type bench struct {
	Options
	figures []Figure
	step    float64 // seconds to step the ten columns of a row
}

func (b *bench) add(f Figure) { b.figures = append(b.figures, f) }

func (b *bench) path(parts ...string) string {
	return filepath.Join(append([]string{b.Dir}, parts...)...)
}

// timed runs f so many times and returns the median and the 99th percentile in milliseconds.
func timed(runs int, f func(i int) error) (median, p99 float64, err error) {
	took := make([]float64, runs)
	for i := range took {
		begin := time.Now()
		if err := f(i); err != nil {
			return 0, 0, err
		}
		took[i] = time.Since(begin).Seconds() * 1000
	}
	median, p99 = percentiles(took)
	return median, p99, nil
}

// percentiles sorts the values.
func percentiles(values []float64) (median, p99 float64) {
	median = pool.Median(values)
	return median, values[min(len(values)-1, len(values)*99/100)]
}
