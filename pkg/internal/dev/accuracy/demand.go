package accuracy

import (
	"context"
	"time"

	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/survival"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Demand is how close the kind demand comes to what jobs really waited (methodology section 14), at polled access
// points.
type Demand struct {
	Seen     int    // waits that a poll saw and that ended in the window
	Right    int    // of those, reported with their outcome, starts within one poll distance
	Starts   int    // reported
	NeverWas int    // of those, without a run that began within one poll distance
	Median   Spread // hours between reported and true median wait, one pool each

	really Spread        // the true medians
	Polls  time.Duration // between polls
}

// OutcomesRight is the share of the waits that a poll saw whose outcome is reported.
func (d *Demand) OutcomesRight() float64 { return Share{d.Right, d.Seen}.Of() }

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
	d.Polls = p.polls
	items := d.Compare(waits, p.stores.Timeline.Names().JobText, polls.Times, truth, p.window)
	really, known := survival.CohortOf(items).KaplanMeier().AtMost(0.5)
	all := make([]*demand.Wait, len(waits))
	for i := range waits {
		all[i] = &waits[i]
	}
	found, drawn := demand.CohortOf(all, p.window).KaplanMeier().AtMost(0.5)
	if known && drawn {
		d.Median.add(pool.Hours(found - really))
		d.really.add(pool.Hours(really))
	}
	return nil
}

// Compare counts, of the waits of a window, those that a poll saw and those of them whose outcome is right, the starts
// that are reported and those of them that never were. It returns the true waits as a survival curve takes them.
func (d *Demand) Compare(waits []demand.Wait, textOf func(timeline.Job) string, polls []pool.Micros,
	truth *samplepool.Truth, w pool.Window) []survival.Item {
	found := map[string][]*demand.Wait{}
	for i := range waits {
		job := textOf(waits[i].Job)
		found[job] = append(found[job], &waits[i])
	}
	d.compareStarts(found, truth, w)
	return d.compareWaits(found, polls, truth, w)
}

func (d *Demand) compareWaits(found map[string][]*demand.Wait, polls []pool.Micros, truth *samplepool.Truth,
	w pool.Window) (items []survival.Item) {
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
				if isRight(found[i.Job], poll, end, i.How == samplepool.IdleStarted, d.Polls.Microseconds()) {
					d.Right++
				}
				break
			}
		}
	}
	return items
}

// isRight reports whether the wait that a poll saw has its outcome, and a start at about its time.
func isRight(list []*demand.Wait, poll, end pool.Micros, started bool, near pool.Micros) bool {
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

func (d *Demand) compareStarts(found map[string][]*demand.Wait, truth *samplepool.Truth, w pool.Window) {
	starts := map[string][]pool.Micros{}
	for i := range truth.Runs {
		starts[truth.Runs[i].Job] = append(starts[truth.Runs[i].Job], truth.Runs[i].Start.UnixMicro())
	}
	for job, list := range found {
		for _, one := range list {
			if one.Outcome != demand.Started || !w.Contains(one.End) {
				continue
			}
			d.Starts++
			was := false
			for _, start := range starts[job] {
				was = was || max(start-one.End, one.End-start) <= d.Polls.Microseconds()
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
	hours := max(0.1*d.really.Median, d.Polls.Hours())
	fail("median error of the median wait in hours", d.Median.Median, hours, !(d.Median.Median <= hours))
}
