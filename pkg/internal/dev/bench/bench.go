// Package bench measures, on made-up pools, the times that a user notices, next to the required bounds. Its figures are
// medians on the machine that it runs on; it asserts nothing.
package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// Options choose the pool: they are the flags of the command.
type Options struct {
	Machines int  `help:"Machines of the pool." default:"170"`
	GPUs     int  `help:"GPUs of the pool." default:"900" name:"gpus"`
	Days     int  `help:"Days of the longest window." default:"365"` // made as segments; up to 32 also as real files
	Large    bool `help:"Also measure 10,000 GPUs."`

	Dir    string `type:"path" placeholder:"DIR" help:"Where the pools are made, and found again the next time. Default: a temporary directory."`
	Binary string `name:"plugin" type:"existingfile" placeholder:"FILE" help:"The plugin's binary. Default: built from this checkout into dist/."`
	// an index of its own is made in it, and removed
	Elasticsearch string `name:"elasticsearch" env:"ELASTICSEARCH_URL" placeholder:"URL" help:"An Elasticsearch to measure with: its URL, or 'start' for that of this checkout's tests. Default: left out."`

	Only     string    `help:"Measure only the steps that have this in their name." placeholder:"TEXT"`
	Runs     int       `help:"How often a warm panel is asked." default:"50"`
	Progress io.Writer `kong:"-"`
}

// Figure is one line of the table.
type Figure struct {
	What    string
	Value   float64 // a median where there are several runs
	Unit    string
	CPU     float64 // the processor time of one run in milliseconds, on all cores
	Bound   float64
	AtLeast bool // the bound is the least, not the most
	Note    string
}

// Missed reports whether the figure is outside its bound.
func (f Figure) Missed() bool { return f.AtLeast != (f.Value > f.Bound) && f.Value != f.Bound }

// Run makes the pools and measures. A figure that cannot be taken is an error.
func Run(ctx context.Context, o Options) ([]Figure, error) {
	if o.Days < 32 {
		return nil, pool.BadQuery("bench: %d days; 32 are the least: a month of files, and days before it", o.Days)
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
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{files, b.makeMonth},
		{"warm panels", b.warm},
		{"after a new snapshot", b.newSnapshot},
		{"owners and failing machines", b.questions},
		{"after a restart", b.restart},
		{"nothing cached", b.nothingCached},
		{"job ads in Elasticsearch", b.elasticsearch},
		{"plain SQL", b.plainSQL},
		{"many clients", b.clients},
		{"panels at once", b.atOnce},
		{"open dashboards", b.openDashboards},
		{"a year", b.year},
		{"10,000 GPUs", b.large},
	} {
		if step.name != files && !strings.Contains(step.name, o.Only) {
			continue
		}
		fmt.Fprintf(o.Progress, "%s …\n", step.name)
		if err := step.run(ctx); err != nil {
			return b.figures, fmt.Errorf("measuring %s: %w", step.name, err)
		}
		runtime.GC()
	}
	return b.figures, nil
}

// files is the step that the others need.
const files = "making a month of files"

type bench struct {
	Options
	figures []Figure
}

func (b *bench) add(f Figure) { b.figures = append(b.figures, f) }

func (b *bench) path(parts ...string) string {
	return filepath.Join(append([]string{b.Dir}, parts...)...)
}

// monthDays is the window over the month of files.
func (b *bench) monthDays() int { return min(30, b.Days-2) }

// timing is what runs of the same work take, in milliseconds.
type timing struct{ median, p99, cpu float64 }

// timed runs f the given number of times. Its processor time is the average of all runs.
func timed(runs int, f func(i int) error) (t timing, err error) {
	took := make([]float64, runs)
	before := processorTime()
	for i := range took {
		begin := time.Now()
		if err := f(i); err != nil {
			return t, err
		}
		took[i] = time.Since(begin).Seconds() * 1000
	}
	t.cpu = (processorTime() - before).Seconds() * 1000 / float64(runs)
	t.median = pool.Median(took) // sorts them
	t.p99 = took[min(runs-1, runs*99/100)]
	return t, nil
}

// prepared runs f the given number of times, each time after a preparation that does not count. Its processor time is
// the median.
func prepared(runs int, prepare, f func() error) (t timing, err error) {
	took, cpu := make([]float64, runs), make([]float64, runs)
	for i := range took {
		if err := prepare(); err != nil {
			return t, err
		}
		once, err := timed(1, func(int) error { return f() })
		if err != nil {
			return t, err
		}
		took[i], cpu[i] = once.median, once.cpu
	}
	return timing{median: pool.Median(took), cpu: pool.Median(cpu)}, nil
}

// milliseconds is a timing as a figure.
func (t timing) milliseconds(what string, bound float64, note string) Figure {
	return Figure{What: what, Value: t.median, Unit: "ms", CPU: t.cpu, Bound: bound, Note: note}
}

// slowest measures several panels and adds the one that takes longest.
func (b *bench) slowest(what string, bound float64, panels []panel, measure func(panel) (timing, error)) error {
	var worst timing
	var name string
	for _, p := range panels {
		t, err := measure(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if t.median >= worst.median {
			worst, name = t, p.name
		}
	}
	b.add(worst.milliseconds(what, bound, "the slowest: "+name))
	return nil
}
