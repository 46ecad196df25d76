package accuracy

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

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
	s.Queues = queues.NewStore(queues.Options{Root: root, Path: dir, Names: s.Timeline.Names(), MaxBytes: 1 << 26,
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
	m *Measurement) error {
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
	answer, err := p.ask(ctx, source, wide, `{"queryType": "evictions", "view": "runs", "limit": 50000}`)
	if err != nil {
		return err
	}
	told := p.tellRuns(answer, byPlace, m)
	p.countFound(all, told, m)
	return p.periods(ctx, source, truth, wide, m)
}

// tellRuns matches the evictions that are reported with true ones, and returns the runs by job and machine.
func (p *opened) tellRuns(answer []map[string]any, byPlace map[string][]*reality, m *Measurement) map[string][]toldRun {
	told := map[string][]toldRun{}
	for _, row := range answer {
		r := toldRun{row["outcome"].(string), row["start"].(time.Time), row["end"].(time.Time)}
		key := row["job"].(string) + " " + row["machine"].(string)
		told[key] = append(told[key], r)
		from, to := max(r.start.UnixMicro(), p.window.From), min(r.end.UnixMicro(), p.window.To)
		if to > from {
			m.toldHours += pool.Hours(to-from) * float64(row["gpus"].(int64))
		}
		if r.outcome != "evicted" {
			continue
		}
		match := p.nearest(byPlace[key], r.end, func(t *reality) bool { return t.evicted() && !t.found })
		if match != nil {
			match.found = true
		}
		if !p.inside(r.end) {
			continue
		}
		evidence := row["evidence"].(string)
		share := m.ByEvidence[evidence]
		share.All++
		m.Told++
		if match != nil {
			m.Right++
			share.Some++
			m.EventError.add(r.end.Sub(match.End).Minutes())
		} else {
			m.Wrong[evidence+": "+p.whatHappened(byPlace[key], r.end)]++
		}
		m.ByEvidence[evidence] = share
	}
	return told
}

// countFound counts the true evictions, and says how those that are missing are reported instead.
func (p *opened) countFound(all []reality, told map[string][]toldRun, m *Measurement) {
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
		} else {
			m.Missed[p.whyMissed(told[t.Job+" "+t.Machine], t)]++
		}
	}
}

// toldRun is a run as the product reports it.
type toldRun struct {
	outcome    string
	start, end time.Time
}

// nearest returns the run whose end is nearest, within one cadence.
func (p *opened) nearest(runs []*reality, end time.Time, fits func(*reality) bool) (best *reality) {
	for _, r := range runs {
		if d := r.End.Sub(end).Abs(); d <= p.cadence && fits(r) && (best == nil || d < best.End.Sub(end).Abs()) {
			best = r
		}
	}
	return best
}

// whatHappened returns the truth about a reported eviction that did not happen.
func (p *opened) whatHappened(runs []*reality, end time.Time) string {
	if r := p.nearest(runs, end, func(*reality) bool { return true }); r != nil {
		if r.evicted() {
			return "told twice"
		}
		return "the run " + strings.ReplaceAll(string(r.Reason), "_", " ")
	}
	for _, r := range runs {
		if !end.Before(r.Start) && !end.After(r.End) {
			return "the run went on"
		}
		if r.evicted() && end.Sub(r.End).Abs() <= 4*p.cadence {
			return "evicted, more than a cadence off"
		}
	}
	return "no such run"
}

// whyMissed says how a seen run that was evicted is reported instead.
func (p *opened) whyMissed(told []toldRun, t *reality) string {
	why := ""
	for _, r := range told {
		if r.start.After(t.End.Add(p.cadence)) || r.end.Before(t.Start.Add(-p.cadence)) {
			continue
		}
		switch off := r.end.Sub(t.End); {
		case off.Abs() <= p.cadence && r.outcome != "evicted":
			return "told as " + r.outcome
		case r.outcome == "evicted" && off.Abs() > p.cadence:
			why = "told as evicted, more than a cadence off"
		case off > p.cadence:
			why = "told as one run with the next"
		case why == "":
			why = "told as " + r.outcome + ", more than a cadence off"
		}
	}
	if why == "" {
		why = "not told"
		if t.End.Sub(t.Start) < p.cadence {
			why += ", shorter than the cadence"
		}
	}
	return why
}

// periods compares complete availability periods with the true stretches of the same GPU: both ends within one cadence.
func (p *opened) periods(ctx context.Context, source jobs.Source, truth *samplepool.Truth, w pool.Window,
	m *Measurement) error {
	answer, err := p.ask(ctx, source, w, `{"queryType": "backfillAvailability", "view": "periods", "limit": 50000}`)
	if err != nil {
		return err
	}
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
	return nil
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
