// Package accuracy measures backfillAvailability, evictions, utilization and demand against made-up pools whose truth
// is known: how many evictions are found, how many of those found are real, how far times, hours and utilization are
// off, which idle runs are found, what evictions cost, and whether jobs waited as long as is reported.
package accuracy

import (
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

// Options define the measurement. The zero value is the complete one.
type Options struct {
	Seeds    int             // pools of each kind; 0 = 10
	Cadences []time.Duration // nil = 15 and 5 minutes
	Machines int             // of each pool; 0 = as the kinds of pools have it
	Days     int             // of each pool; 0 = as the kinds of pools have it
	// Done, if set, is called after each pool, one call at a time.
	Done func(done, all int)
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

const defaultSeeds = 10

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
	if o.Seeds == 0 {
		o.Seeds = defaultSeeds
	}
	if o.Cadences == nil {
		o.Cadences = []time.Duration{15 * time.Minute, 5 * time.Minute}
	}
	all, pools, at := o.pools()
	var mu sync.Mutex
	done := 0
	group, ctx := parallel.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, options := range pools {
		group.Go(func() error {
			measured, err := measurePool(ctx, options)
			if err != nil {
				return fmt.Errorf("measuring the pool of seed %d at %v: %w", options.Seed, options.Cadence, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for k := range measured {
				all[at[i]+k].add(&measured[k])
			}
			if done++; o.Done != nil {
				o.Done(done, len(pools))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i := range all {
		all[i].finish()
	}
	return all, nil
}

// pools are the measurements to make, the pools, and the index of each pool's measurements.
func (o *Options) pools() (all []Measurement, pools []samplepool.Options, at []int) {
	for _, kind := range poolKinds {
		for _, cadence := range o.Cadences {
			first := len(all)
			for _, source := range sources {
				all = append(all, Measurement{Kind: kind.name, Cadence: cadence, Source: source})
			}
			for seed := range o.Seeds {
				options := kind.options()
				options.Seed, options.Cadence = uint64(seed+1), cadence
				if o.Machines != 0 {
					options.Machines = o.Machines
				}
				if o.Days != 0 {
					options.End = options.Start.AddDate(0, 0, o.Days)
				}
				pools, at = append(pools, options), append(at, first)
			}
		}
	}
	return all, pools, at
}

// measurePool measures one pool with each source.
func measurePool(ctx context.Context, options samplepool.Options) ([]Measurement, error) {
	made, err := samplepool.New(options)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gpureports-accuracy-")
	if err != nil {
		return nil, fmt.Errorf("making room for a sample pool: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := made.WriteSnapshots(ctx, dir); err != nil {
		return nil, err
	}
	if err := made.WriteQueues(ctx, dir); err != nil {
		return nil, err
	}
	truth, err := made.Truth(ctx)
	if err != nil {
		return nil, err
	}
	pool, err := openPool(dir, options)
	if err != nil {
		return nil, err
	}
	defer pool.close()
	seen := pool.judge(truth)
	measured := make([]Measurement, len(sources))
	for i := range measured {
		measured[i] = Measurement{ByEvidence: map[string]Share{}, Missed: map[string]int{}, Wrong: map[string]int{}}
		var source jobs.Source
		switch sources[i] {
		case epochAds:
			source, err = made.AdSource(ctx, func(a *samplepool.Ad) bool { return a.Epoch })
		case historyAds:
			source, err = made.AdSource(ctx, func(a *samplepool.Ad) bool { return !a.Epoch })
		}
		if err != nil {
			return nil, err
		}
		if err := pool.measure(ctx, source, truth, seen, &measured[i]); err != nil {
			return nil, err
		}
		if err := pool.measureUsage(ctx, source, truth, &measured[i].Usage); err != nil {
			return nil, err
		}
		if err := pool.measureCost(ctx, source, seen, &measured[i].Cost); err != nil {
			return nil, err
		}
		if err := pool.measureDemand(ctx, source, truth, &measured[i].Demand); err != nil {
			return nil, err
		}
	}
	return measured, nil
}

// add adds another pool's counts.
func (m *Measurement) add(o *Measurement) {
	m.Pools += o.Pools
	m.True += o.True
	m.TrueSeen += o.TrueSeen
	m.Told += o.Told
	m.Right += o.Right
	m.Found += o.Found
	m.FoundSeen += o.FoundSeen
	m.Periods.Some += o.Periods.Some
	m.Periods.All += o.Periods.All
	if m.Missed == nil {
		m.ByEvidence, m.Missed, m.Wrong = map[string]Share{}, map[string]int{}, map[string]int{}
	}
	for k, v := range o.ByEvidence {
		m.ByEvidence[k] = Share{m.ByEvidence[k].Some + v.Some, m.ByEvidence[k].All + v.All}
	}
	for k, v := range o.Missed {
		m.Missed[k] += v
	}
	for k, v := range o.Wrong {
		m.Wrong[k] += v
	}
	m.EventError.values = append(m.EventError.values, o.EventError.values...)
	m.DurationError.values = append(m.DurationError.values, o.DurationError.values...)
	m.Vacancies.values = append(m.Vacancies.values, o.Vacancies.values...)
	m.Usage.add(&o.Usage)
	m.Demand.add(&o.Demand)
	m.Cost.add(&o.Cost)
	m.toldHours += o.toldHours
	m.trueHours += o.trueHours
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
