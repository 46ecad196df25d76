// Package accuracy measures backfillAvailability, evictions, utilization and demand against made-up pools whose truth
// is known: how many evictions are found, how many of those found are real, how far times, hours and utilization are
// off, which idle runs are found, what evictions cost, and whether jobs waited as long as is reported.
package accuracy

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
)

// Options define the measurement: they are flags of the command.
type Options struct {
	Seeds    int             `help:"Pools of each kind." default:"10"`
	Troubled int             `help:"Pools of each kind for the questions about owners and failing machines." default:"10"`
	Machines int             `help:"Machines of each pool. Default: as the kinds of pools have them."`
	Days     int             `help:"Days of each pool. Default: as the kinds of pools have them."`
	Cadences []time.Duration `kong:"-"` // nil = 15 and 5 minutes
	// Done, if set, is called after each pool, one call at a time.
	Done func(done, all int) `kong:"-"`
}

// poolKinds are the kinds of pools that are measured. All but the first are samplepool.Hard, made harder.
var poolKinds = []struct {
	name    string
	options func() samplepool.Options
}{
	{ordinary, samplepool.RightClocks},
	{hard, samplepool.Hard},
	{clocksOff, harder(func(o *samplepool.Options) { o.ClockSkew = 10 * time.Minute })},
	{adsMissing, harder(func(o *samplepool.Options) { o.MissingAds = 0.3 })},
	{runsMissed, harder(func(o *samplepool.Options) { o.MissedSnapshots, o.Outages = 0.2, 3 })},
}

const (
	ordinary   = "right clocks"
	hard       = "hard"
	clocksOff  = "clocks 10 min off"
	adsMissing = "30 % of ads missing"
	runsMissed = "20 % of snapshots missed, outages"
)

func harder(change func(*samplepool.Options)) func() samplepool.Options {
	return func() samplepool.Options {
		o := samplepool.Hard()
		change(&o)
		return o
	}
}

const (
	epochAds       = "epoch ads"
	historyAds     = "history ads"
	snapshotsAlone = "snapshots alone"
)

// sources are the job ads that are known in turn.
var sources = []string{epochAds, historyAds, snapshotsAlone}

// Measurement is the result for all pools of one kind, with one cadence and one source of job ads.
type Measurement struct {
	Kind    string // right clocks, hard, …
	Cadence time.Duration
	Source  string // epoch ads, history ads, snapshots only
	Pools   int

	True      int // evictions that happened
	TrueSeen  int // of runs that at least one snapshot shows
	Told      int // evictions that the product reports
	Right     int // of those, that happened: same job and machine, end within one cadence
	Found     int // evictions that happened and are reported
	FoundSeen int

	ByEvidence map[string]Share // evictions reported, by evidence: how many are right
	Missed     map[string]int   // evictions of seen runs that are not reported, by why
	Wrong      map[string]int   // evictions reported that did not happen, by what did

	EventError    Spread  // minutes between reported and true end of matched evictions
	DurationError Spread  // minutes between reported and true length of matched availability periods
	Periods       Share   // complete availability periods: how many match a true stretch
	Vacancies     Spread  // minutes between reported and true mean of a device's periods that a snapshot shows
	GPUHoursError float64 // reported − true backfill GPU-hours, in percent of the true ones
	Usage         Usage
	Demand        Demand
	Cost          Cost

	toldHours, trueHours float64
}

// Share is how many of all.
type Share struct{ Some, All int }

// Of is the share; NaN if there are none.
func (s Share) Of() float64 { return float64(s.Some) / float64(s.All) }

// Spread are absolute errors.
type Spread struct {
	Median float64
	values []float64
}

func (s *Spread) add(minutes float64) { s.values = append(s.values, math.Abs(minutes)) }

func (s *Spread) finish() {
	slices.Sort(s.values)
	if n := len(s.values); n > 0 {
		s.Median = s.values[n/2]
	} else {
		s.Median = math.NaN()
	}
}

// Precision is the share of reported evictions that are right.
func (m *Measurement) Precision() float64 { return Share{m.Right, m.Told}.Of() }

// Recall is the share of evictions that are reported; of seen runs only.
func (m *Measurement) Recall() float64 { return Share{m.FoundSeen, m.TrueSeen}.Of() }

// RecallOfAll is the share of evictions that are reported, including those of runs that no snapshot shows.
func (m *Measurement) RecallOfAll() float64 { return Share{m.Found, m.True}.Of() }

// Measure makes the pools up and measures. It needs some hundred megabytes of room for temporary files. Errors: ctx's,
// those of the file system, and bugs.
func Measure(ctx context.Context, o Options) ([]Measurement, error) {
	if o.Cadences == nil {
		o.Cadences = []time.Duration{15 * time.Minute, 5 * time.Minute}
	}
	all := make([]Measurement, 0, len(poolKinds)*len(o.Cadences)*len(sources))
	var mu sync.Mutex
	done := 0
	group, ctx := parallel.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, kind := range poolKinds {
		for _, cadence := range o.Cadences {
			for _, source := range sources {
				all = append(all, Measurement{Kind: kind.name, Cadence: cadence, Source: source,
					ByEvidence: map[string]Share{}, Missed: map[string]int{}, Wrong: map[string]int{}})
			}
			measured := all[len(all)-len(sources):]
			group.Go(func() error {
				for seed := range o.Seeds {
					if err := measurePool(ctx, o.pool(kind.options(), seed+1, cadence), measured); err != nil {
						return fmt.Errorf("measuring the pool of seed %d at %v: %w", seed+1, cadence, err)
					}
					mu.Lock()
					if done++; o.Done != nil {
						o.Done(done, len(poolKinds)*len(o.Cadences)*o.Seeds)
					}
					mu.Unlock()
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i := range all {
		all[i].finish()
	}
	return all, nil
}

// pool is one pool of a kind.
func (o *Options) pool(kind samplepool.Options, seed int, cadence time.Duration) samplepool.Options {
	kind.Seed, kind.Cadence = uint64(seed), cadence
	kind.Machines = cmp.Or(o.Machines, kind.Machines)
	if o.Days != 0 {
		kind.End = kind.Start.AddDate(0, 0, o.Days)
	}
	return kind
}

// inPool makes a pool up in a directory of its own, and calls do with it and its truth.
func inPool(ctx context.Context, options samplepool.Options,
	do func(*samplepool.Pool, *opened, *samplepool.Truth) error) error {
	made, err := samplepool.New(options)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gpureports-accuracy-")
	if err != nil {
		return fmt.Errorf("making room for a sample pool: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := cmp.Or(made.WriteSnapshots(ctx, dir), made.WriteQueues(ctx, dir)); err != nil {
		return err
	}
	truth, err := made.Truth(ctx)
	if err != nil {
		return err
	}
	pool, err := openPool(dir, options)
	if err != nil {
		return err
	}
	defer pool.close()
	return do(made, pool, truth)
}

// measurePool measures one pool with each source, and adds the result to the measurement of the source.
func measurePool(ctx context.Context, options samplepool.Options, measured []Measurement) error {
	return inPool(ctx, options, func(made *samplepool.Pool, pool *opened, truth *samplepool.Truth) (err error) {
		truly := pool.judge(truth)
		for i := range measured {
			m := &measured[i]
			var source jobs.Source
			if m.Source != snapshotsAlone {
				source, err = made.AdSource(ctx, func(a *samplepool.Ad) bool { return a.Epoch == (m.Source == epochAds) })
				if err != nil {
					return err
				}
			}
			m.Pools++
			if err := cmp.Or(
				pool.measure(ctx, source, truth, truly, m),
				pool.measureUsage(ctx, source, truth, &m.Usage),
				pool.measureCost(ctx, source, truly, &m.Cost),
				pool.measureDemand(ctx, source, truth, &m.Demand),
			); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *Measurement) finish() {
	m.EventError.finish()
	m.DurationError.finish()
	m.Vacancies.finish()
	m.Usage.finish()
	m.Demand.finish()
	m.Cost.Interval.finish()
	m.GPUHoursError = 100 * (m.toldHours - m.trueHours) / m.trueHours
}
