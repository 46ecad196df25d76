package accuracy

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/samplepool"
	"github.com/chtc/gpureports/pkg/survival"
)

// Demand is how near the kind demand comes to what jobs really waited (methodology section 14), at polled access
// points.
type Demand struct {
	Seen     int    // waits that a poll saw and that ended in the window
	Right    int    // of those, reported with their outcome, starts within one poll distance
	Starts   int    // reported
	NeverWas int    // of those, without a run that began within one poll distance
	Median   Spread // hours between reported and true median wait, a pool each

	really Spread // the true medians
	polls  time.Duration
}

// OutcomesRight is the share of the waits that a poll saw whose outcome is reported.
func (d *Demand) OutcomesRight() float64 { return Share{d.Right, d.Seen}.Of() }

func (d *Demand) add(o *Demand) {
	d.Seen += o.Seen
	d.Right += o.Right
	d.Starts += o.Starts
	d.NeverWas += o.NeverWas
	d.Median.values = append(d.Median.values, o.Median.values...)
	d.really.values = append(d.really.values, o.really.values...)
	d.polls = o.polls
}

func (d *Demand) finish() {
	d.Median.finish()
	d.really.finish()
}

// measureDemand asks how long jobs waited and compares it with how long they really did.
func (p *opened) measureDemand(ctx context.Context, source jobs.Source, truth *samplepool.Truth, d *Demand) error {
	with := *p.stores
	with.Ads = source
	plan := &query.Plan{Window: p.window, Env: p.env}
	waits, polls, err := demand.WaitsOf(ctx, &with, plan)
	if err != nil {
		return err
	}
	told := map[string][]*demand.Wait{}
	for i := range waits {
		job := p.stores.Timeline.Names().JobText(waits[i].Job)
		told[job] = append(told[job], &waits[i])
	}
	d.polls = p.polls
	items := p.compareWaits(told, truth, polls.Times, d)
	p.checkStarts(told, truth, d)
	really, known := survival.KaplanMeier(items).Median()
	found, drawn := survival.KaplanMeier(demand.Items(waits, plan)).Median()
	if known && drawn {
		d.Median.add(pool.Hours(found - really))
		d.really.add(pool.Hours(really))
	}
	return nil
}

// compareWaits judges the waits that a poll saw, and returns the true ones as a survival curve takes them.
func (p *opened) compareWaits(told map[string][]*demand.Wait, truth *samplepool.Truth, polls []pool.Micros,
	d *Demand) (items []survival.Item) {
	w := p.window
	for _, i := range truth.Queues {
		begin, end := i.Begin.UnixMicro(), i.End.UnixMicro()
		if !i.Polled || end < w.From || begin > w.To {
			continue
		}
		fate := survival.Censored
		if i.How == samplepool.IdleStarted && end <= w.To {
			fate = survival.Event
		}
		items = append(items, survival.Item{Entry: max(0, w.From-begin), Exit: min(end, w.To) - begin, Fate: fate})
		for _, poll := range polls {
			if begin <= poll && poll < end && w.Contains(end) {
				d.Seen++
				if tells(told[i.Job], poll, end, i.How == samplepool.IdleStarted, p.polls.Microseconds()) {
					d.Right++
				}
				break
			}
		}
	}
	return items
}

// tells reports whether the wait that a poll saw is reported with its outcome, and a start at about its time.
func tells(list []*demand.Wait, poll, end pool.Micros, started bool, near pool.Micros) bool {
	for _, w := range list {
		if w.First <= poll && poll <= w.Last {
			if started {
				return w.Outcome == demand.Started && max(w.End-end, end-w.End) <= near
			}
			return w.Outcome == demand.Left
		}
	}
	return false
}

// checkStarts counts the starts that are reported, and those of them that never were.
func (p *opened) checkStarts(told map[string][]*demand.Wait, truth *samplepool.Truth, d *Demand) {
	starts := map[string][]pool.Micros{}
	for i := range truth.Runs {
		starts[truth.Runs[i].Job] = append(starts[truth.Runs[i].Job], truth.Runs[i].Start.UnixMicro())
	}
	for job, list := range told {
		for _, one := range list {
			if one.Outcome != demand.Started || !p.window.Contains(one.End) {
				continue
			}
			d.Starts++
			was := false
			for _, start := range starts[job] {
				was = was || max(start-one.End, one.End-start) <= p.polls.Microseconds()
			}
			if !was {
				d.NeverWas++
			}
		}
	}
}

// judge fails figures that are not reached.
func (d *Demand) judge(kind, source string, fail func(what string, is, must float64, bad bool)) {
	outcomes := 0.95
	if kind == hard && source != epochAds {
		outcomes = 0.92 // one run in seven begins and ends between two snapshots there: only its epoch ad shows it
	}
	fail("outcomes of waits that are right", d.OutcomesRight(), outcomes, !(d.OutcomesRight() >= outcomes))
	fail("starts that never were", float64(d.NeverWas), 0, d.NeverWas > 0)
	hours := max(0.1*d.really.Median, d.polls.Hours())
	fail("median error of the median wait in hours", d.Median.Median, hours, !(d.Median.Median <= hours))
}

// demandText writes the figures of demand as a table for people.
func demandText(b *strings.Builder, all []Measurement) {
	fmt.Fprintln(b)
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "pools\tcadence\tknown\twaits seen\toutcomes right\tstarts told\tnever were\ttrue median h\t"+
		"its error h (p95)")
	for i := range all {
		m, d := &all[i], &all[i].Demand
		fmt.Fprintf(w, "%d %s\t%s\t%s\t%d\t%.4f\t%d\t%d\t%.2f\t%.2f (%.2f)\n", m.Pools, m.Kind, minutes(m.Cadence),
			m.Source, d.Seen, d.OutcomesRight(), d.Starts, d.NeverWas, d.really.Median, d.Median.Median, d.Median.P95)
	}
	w.Flush()
}
