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

	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
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
				all = append(all, Measurement{Kind: kind.name, Cadence: cadence, Source: source})
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
				source, err = jobstest.OfPool(ctx, made, func(a *samplepool.Ad) bool { return a.Epoch == (m.Source == epochAds) })
				if err != nil {
					return err
				}
			}
			m.Pools++
			pool.measure(ctx, source, truth, truly, m)
			pool.measureUsage(ctx, source, truth, &m.Usage)
			pool.measureCost(ctx, source, truly, &m.Cost)
			pool.measureDemand(ctx, source, truth, &m.Demand)
		}
		return pool.err
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

// opened is a sample pool's files and the window that is judged: an hour less than what the snapshots show at either
// side, so that what lies at its edges is known.
type opened struct {
	stores  *stores.Stores
	env     query.Env
	window  pool.Window
	cadence time.Duration
	polls   time.Duration // between polls of the queues
	end     time.Time
	root    *os.Root
	err     error // of the first question that failed, after which none is asked
}

const edge = time.Hour

func openPool(dir string, o samplepool.Options) (*opened, error) {
	d, err := snapshots.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	lists, err := d.Lists(snapshots.ListFiles{})
	if err != nil {
		return nil, err
	}
	zone, err := localtime.Parse([]byte(fmt.Sprintf("%q", o.Timezone)))
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening a sample pool: %w", err)
	}
	s := stores.New(timeline.New(timeline.Options{Source: registry.OpenDir(d, zone), MaxBytes: 1 << 30}),
		stores.Divide(1<<30))
	s.Queues = queues.NewStore(queues.Options{Root: root, Path: dir, Names: s.Timeline.Names, MaxBytes: 1 << 26,
		Parquet: registry.QueueRows})
	return &opened{
		stores:  s,
		env:     query.Env{Zone: zone, SliceMinutes: 15, Lists: lists},
		window:  pool.Window{From: o.Start.Add(edge).UnixMicro(), To: o.End.Add(-edge).UnixMicro()},
		cadence: o.Cadence, polls: o.Polls, end: o.End, root: root,
	}, nil
}

func (p *opened) close() {
	_ = p.stores.Close()
	_ = p.root.Close()
}

// reality is a true run on backfill.
type reality struct {
	*samplepool.Run
	seen  bool // a snapshot shows it
	found bool // its eviction is reported
}

func (r *reality) evicted() bool {
	return r.Reason == samplepool.EvictedByPrimary || r.Reason == samplepool.DrainedReason ||
		r.Reason == samplepool.HostDown
}

// judge returns the true backfill runs.
func (p *opened) judge(truth *samplepool.Truth) []reality {
	var all []reality
	for i := range truth.Runs {
		r := &truth.Runs[i]
		if !r.Backfill || r.Excluded {
			continue
		}
		n, _ := slices.BinarySearchFunc(truth.Snapshots, r.Start, time.Time.Compare)
		all = append(all, reality{Run: r, seen: n < len(truth.Snapshots) && truth.Snapshots[n].Before(r.End)})
	}
	return all
}

func (p *opened) inside(t time.Time) bool { return p.window.Contains(t.UnixMicro()) }

// measure queries the product and adds the answers to m.
func (p *opened) measure(ctx context.Context, source jobs.Source, truth *samplepool.Truth, truly []reality,
	m *Measurement) {
	all := slices.Clone(truly)
	byPlace := map[string][]*reality{} // by job and machine
	for i := range all {
		r := &all[i]
		byPlace[r.Job+" "+r.Machine] = append(byPlace[r.Job+" "+r.Machine], r)
		from, to := max(r.Start.UnixMicro(), p.window.From), min(r.End.UnixMicro(), p.window.To)
		if to > from {
			m.trueHours += pool.Hours(to-from) * float64(len(r.GPUs))
		}
	}
	wide := pool.Window{From: p.window.From - p.cadence.Microseconds(), To: p.window.To + p.cadence.Microseconds()}
	p.matchRuns(p.ask(ctx, source, wide, `{"queryType": "evictions", "view": "runs", "limit": 50000}`), byPlace, m)
	p.countFound(all, m)
	p.periods(ctx, source, truth, wide, m)
}

// matchRuns matches the evictions that are reported with true ones.
func (p *opened) matchRuns(answer []map[string]any, byPlace map[string][]*reality, m *Measurement) {
	for _, row := range answer {
		start, end := row["start"].(time.Time), row["end"].(time.Time)
		from, to := max(start.UnixMicro(), p.window.From), min(end.UnixMicro(), p.window.To)
		if to > from {
			m.toldHours += pool.Hours(to-from) * float64(row["gpus"].(int64))
		}
		if row["outcome"] != "evicted" {
			continue
		}
		match := p.nearest(byPlace[row["job"].(string)+" "+row["machine"].(string)], end)
		if match != nil {
			match.found = true
		}
		if !p.inside(end) {
			continue
		}
		m.Told++
		if match != nil {
			m.Right++
			m.EventError.add(end.Sub(match.End).Minutes())
		}
	}
}

// countFound counts the true evictions, and those of them that are reported.
func (p *opened) countFound(all []reality, m *Measurement) {
	for i := range all {
		t := &all[i]
		if !t.evicted() || !p.inside(t.End) {
			continue
		}
		m.True++
		if t.found {
			m.Found++
		}
		if !t.seen {
			continue
		}
		m.TrueSeen++
		if t.found {
			m.FoundSeen++
		}
	}
}

// nearest returns the eviction that is nearest to a time, within one cadence, and not found yet.
func (p *opened) nearest(runs []*reality, end time.Time) (best *reality) {
	for _, r := range runs {
		d := r.End.Sub(end).Abs()
		if d <= p.cadence && r.evicted() && !r.found && (best == nil || d < best.End.Sub(end).Abs()) {
			best = r
		}
	}
	return best
}

// periods compares complete availability periods with the true stretches of the same GPU: both ends within one cadence.
func (p *opened) periods(ctx context.Context, source jobs.Source, truth *samplepool.Truth, w pool.Window,
	m *Measurement) {
	answer := p.ask(ctx, source, w, `{"queryType": "backfillAvailability", "view": "periods", "limit": 50000}`)
	stretches := map[string][]samplepool.Stretch{}
	really, found := map[string]*mean{}, map[string]*mean{} // by device
	devices := map[string]string{}
	for _, s := range truth.Available {
		stretches[s.Machine+" "+s.GPU] = append(stretches[s.Machine+" "+s.GPU], s)
	}
	for _, row := range answer {
		start, end := row["start"].(time.Time), row["end"].(time.Time)
		if row["censored"].(bool) || row["unknownStart"].(bool) || row["leftTruncated"].(bool) || !p.inside(end) {
			continue
		}
		m.Periods.All++
		device := row["device"].(string)
		devices[row["machine"].(string)] = device
		add(found, device, start, end, truth.Snapshots)
		if length, ok := p.meant(stretches[row["machine"].(string)+" "+row["gpu"].(string)], start, end); ok {
			m.Periods.Some++
			m.DurationError.add((end.Sub(start) - length).Minutes())
		}
	}
	for _, s := range truth.Available {
		complete := s.Reason != "window" && s.Reason != "down" && s.Start.After(truth.Snapshots[0]) && p.inside(s.End)
		if complete && devices[s.Machine] != "" {
			add(really, devices[s.Machine], s.Start, s.End, truth.Snapshots)
		}
	}
	for device, is := range found {
		if must := really[device]; must != nil && is.n >= enoughPeriods && must.n >= enoughPeriods {
			m.Vacancies.add((is.sum/time.Duration(is.n) - must.sum/time.Duration(must.n)).Minutes())
		}
	}
}

// meant returns the length of the stretch that a period is of: its ends lie nearest, each within a cadence.
func (p *opened) meant(stretches []samplepool.Stretch, start, end time.Time) (length time.Duration, ok bool) {
	best := math.Inf(1)
	for _, s := range stretches {
		a, b := s.Start.Sub(start).Abs(), s.End.Sub(end).Abs()
		if a <= p.cadence && b <= p.cadence && (a+b).Seconds() < best {
			best, length = (a + b).Seconds(), s.End.Sub(s.Start)
		}
	}
	return length, !math.IsInf(best, 1)
}

// enoughPeriods of a device make a mean.
const enoughPeriods = 30

type mean struct {
	n   int
	sum time.Duration
}

// add adds a period to its device's mean, if a snapshot lies in it: others do not count as periods (methodology
// section 7).
func add(to map[string]*mean, device string, start, end time.Time, snapshots []time.Time) {
	n, _ := slices.BinarySearchFunc(snapshots, start, time.Time.Compare)
	if n == len(snapshots) || !snapshots[n].Before(end) {
		return
	}
	if to[device] == nil {
		to[device] = &mean{}
	}
	to[device].n++
	to[device].sum += end.Sub(start)
}

// ask returns an answer's rows by field name, none after an error.
func (p *opened) ask(ctx context.Context, source jobs.Source, w pool.Window, text string) (rows []map[string]any) {
	if p.err == nil {
		rows, p.err = p.rows(ctx, source, w, text)
	}
	return rows
}

func (p *opened) rows(ctx context.Context, source jobs.Source, w pool.Window, text string) ([]map[string]any, error) {
	model, err := query.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	with := *p.stores
	with.Ads = source
	frames, err := kinds.Answer(ctx, &with, p.env, query.Request{Model: model, Window: w, IntervalMs: 60_000,
		Now: p.end.UnixMicro()})
	if err != nil {
		return nil, err
	}
	var rows []map[string]any
	for _, f := range frames {
		n, err := f.RowLen()
		if err != nil {
			return nil, fmt.Errorf("reading an answer: %w", err)
		}
		for i := range n {
			row := map[string]any{}
			for _, field := range f.Fields {
				if value, there := field.ConcreteAt(i); there {
					row[field.Name] = value
				}
			}
			rows = append(rows, row)
		}
		if n >= 50_000 {
			return nil, fmt.Errorf("the pool has more rows than one answer holds")
		}
	}
	return rows, nil
}
