package accuracy

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

const preface = `# Accuracy

How accurate the figures are, measured on made-up pools whose truth is known (%d of each kind and cadence, %d machines
over %d days; pkg/internal/dev/samplepool draws their jobs, owners and faults).
Made by ` + "`gpudev accuracy --markdown docs/accuracy.md`" + `; methodology.md says how the figures are computed.
"Right clocks" are ordinary pools. "Hard" pools have clocks that are off by up to 2 minutes, 15%% of their runs are
shorter than a cadence, and an owner follows one completion in ten immediately. The others are hard pools with one more
fault.

- **Precision** is the share of the reported evictions that really happened there within one cadence; **recall** is the
  share of all evictions that are reported, including those of runs that no snapshot shows.
- Errors are medians of absolute errors: of the end of evicted runs, of the length of availability periods, and of the
  mean length of a device's availability periods.
- **Lost** GPU hours are those of evicted runs since their jobs' last checkpoints; **evicted** GPU hours are those of
  the whole runs. Errors are reported − true. Only epoch ads say when jobs saved: without them, everything that evicted
  runs held counts as lost.
`

const limits = `
## Limits of the data

- Without epoch ads a run between two snapshots cannot be seen, so the recall of all evictions and the outcomes of waits
  cannot exceed the share of runs that a snapshot shows. For hard pools, 0.92 of the outcomes of waits are then required
  instead of 0.95.
- Without job ads, a completion that an owner's job follows within one cadence looks like an eviction.
- An access point's clock is known only to within the interval that the day's snapshots leave open: a few seconds at a
  15-minute cadence. If it is minutes off, availability periods, which lie between the clocks of two access points, are
  off by as much.
- A job that still runs has no ad yet, so a wait of it that no poll saw is not known; nor are the jobs of access points
  that are not polled. Both lower withinPercent, and jobs that are not known stand in no line.
- A poll seldom sees a job that starts at once. If a user's other jobs all have one project, so is it taken to have.
- Availability periods that a gap cuts are censored, so with outages the mean over complete periods leaves out the
  longest ones. Survival curves count them.
`

const againstReal = `
## Against a real pool

A real HTCondor 25.14 pool was recorded for 24 minutes, with a snapshot every 75 s (testdata/golden/README.md): jobs
that save, owners that take GPUs back, a machine that is drained. Its jobs' event logs say what really happened to its
backfill runs. The ads are those that condor_history prints. What adstash stores gives the same figures if it uses two
indices; with one index, what the jobs' last runs had saved is missing.

| Job ads | Runs found | Outcomes right | Spurious | Evictions | Yields | Starts, s | Ends, s | Lost GPU hours |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
`

func (m *RealRuns) row() string {
	invented := 0
	for _, wrong := range m.Wrong {
		if strings.HasPrefix(wrong, "never was") {
			invented++
		}
	}
	return fmt.Sprintf("| %s | %d of %d | %d | %d | %d of %d | %d of %d | %s | %s | %.2f of %.2f |\n", m.Source, m.Found,
		m.Runs, m.Right, invented, m.Evicted, m.TrueEvicted, m.Yielded, m.TrueYielded, figure(m.Starts.Median, 0),
		figure(m.Ends.Median, 0), m.Lost, m.TrueLost)
}

// Markdown writes the measurements as a document, with the required figures that are not reached.
func Markdown(all []Measurement, asked []Questions, recorded []RealRuns, o Options) string {
	var b strings.Builder
	size := samplepool.Hard()
	days := int(size.End.Sub(size.Start).Hours() / 24)
	fmt.Fprintf(&b, preface, o.Seeds, cmp.Or(o.Machines, size.Machines), cmp.Or(o.Days, days))
	table := func(title, head string, row func(m *Measurement) string) {
		fmt.Fprintf(&b, "\n## %s\n\n| Pools | Cadence | Job ads | %s |\n|---|---|---|%s\n", title, head,
			strings.Repeat("---:|", strings.Count(head, "|")+1))
		for i := range all {
			m := &all[i]
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.Kind, minutes(m.Cadence), m.Source, row(m))
		}
	}
	table("Evictions and durations", "Evictions | Precision | Recall | Ends, s | Durations, s | Mean vacancy, min | "+
		"GPU hours", func(m *Measurement) string {
		return fmt.Sprintf("%d | %s | %s | %s | %s | %s | %+.2f %%", m.True, figure(m.Precision(), 3),
			figure(m.RecallOfAll(), 3), figure(60*m.EventError.Median, 0), figure(60*m.DurationError.Median, 0),
			figure(m.Vacancies.Median, 2), m.GPUHoursError)
	})
	table("What evictions cost", "Lost, GPU h | Error | Evicted, GPU h | Error | Interval of checkpoints, error",
		func(m *Measurement) string {
			c := &m.Cost
			interval := "–"
			if !math.IsNaN(c.Interval.Median) {
				interval = figure(c.Interval.Median, 2) + " %"
			}
			return fmt.Sprintf("%.0f | %+.2f %% | %.0f | %+.2f %% | %s", c.Lost.really, c.Lost.Error(), c.Evicted.really,
				c.Evicted.Error(), interval)
		})
	table("Utilization", "Runs | Error, points | Idle time error, min | Idle 2 h or more | Precision | Recall",
		func(m *Measurement) string {
			u := &m.Usage
			return fmt.Sprintf("%d | %s | %s | %d | %s | %s", len(u.Utilization.values), figure(u.Utilization.Median, 2),
				figure(u.IdleMinutes.Median, 1), u.LongIdle, figure(u.Precision(), 3), figure(u.Recall(), 3))
		})
	table("Demand", "Waits seen | Outcomes right | Starts reported | Spurious | True median, h | Error, h",
		func(m *Measurement) string {
			d := &m.Demand
			return fmt.Sprintf("%d | %s | %d | %d | %s | %s", d.Seen, figure(d.OutcomesRight(), 3), d.Starts, d.NeverWas,
				figure(d.really.Median, 2), figure(d.Median.Median, 2))
		})
	b.WriteString(questionTables(asked, o))
	b.WriteString(againstReal)
	for i := range recorded {
		b.WriteString(recorded[i].row())
	}
	b.WriteString(limits)
	b.WriteString("\n## Required figures\n\n")
	failures := append(Failures(all), QuestionFailures(asked)...)
	if len(failures) == 0 {
		b.WriteString("All are met.\n")
	} else {
		b.WriteString("All are met except:\n\n")
	}
	for _, f := range failures {
		fmt.Fprintf(&b, "- %s\n", f)
	}
	return b.String()
}

// figure formats a number; a dash if there is none.
func figure(x float64, decimals int) string {
	if math.IsNaN(x) {
		return "–"
	}
	return fmt.Sprintf("%.*f", decimals, x)
}

// requirement is what a kind of pool with a source of job ads must reach; 0: nothing is required.
type requirement struct {
	precision, seen, all float64 // least precision, recall of seen runs and of all
	ends, durations      float64 // largest median errors in minutes
	vacancies            float64 // largest median error of mean vacancies in minutes
}

const (
	threeSeconds = 3.0 / 60
	tenSeconds   = 10.0 / 60
)

var required = map[[2]string]requirement{
	{ordinary, epochAds}:     {0.995, 0.99, 0.98, threeSeconds, tenSeconds, 0.3},
	{hard, epochAds}:         {0.97, 0.95, 0.95, threeSeconds, tenSeconds, 0},
	{clocksOff, epochAds}:    {0.96, 0, 0, threeSeconds, tenSeconds, 0},
	{hard, historyAds}:       {0.92, 0.89, 0, 0, 4, 0},
	{runsMissed, historyAds}: {0.85, 0, 0, 0, 0, 0},
	{hard, snapshotsAlone}:   {0.82, 0.85, 0, 0, 15, 0},
}

// Failures lists the required figures that are not reached. What utilization and demand must reach is required of the
// first two kinds of pools.
func Failures(all []Measurement) (failures []string) {
	for i := range all {
		m := &all[i]
		fail := func(what string, is, must float64, bad bool) {
			if bad {
				failures = append(failures, fmt.Sprintf("%s, %s, %s: %s is %.4g, required is %.4g", m.Kind,
					minutes(m.Cadence), m.Source, what, is, must))
			}
		}
		r := required[[2]string{m.Kind, m.Source}]
		least := func(what string, is, must float64) { fail(what, is, must, must > 0 && !(is >= must)) }
		most := func(what string, is, must float64) { fail(what, is, must, must > 0 && !(is <= must)) }
		least("precision", m.Precision(), r.precision)
		least("recall of seen runs", m.Recall(), r.seen)
		least("recall of all evictions", m.RecallOfAll(), r.all)
		most("median error of ends in minutes", m.EventError.Median, r.ends)
		most("median error of durations in minutes", m.DurationError.Median, min(r.durations, m.Cadence.Minutes()))
		most("median error of mean vacancies in minutes", m.Vacancies.Median, r.vacancies)
		if m.Source == epochAds && (m.Kind == ordinary || m.Kind == hard || m.Kind == clocksOff) {
			m.Cost.judge(m.Kind, fail)
		}
		if m.Kind != ordinary && m.Kind != hard {
			continue
		}
		if m.Source != snapshotsAlone {
			m.Usage.judge(m.Cadence, fail)
		}
		m.Demand.judge(m.Kind, m.Source, fail)
	}
	return failures
}

func minutes(d time.Duration) string { return fmt.Sprintf("%g min", d.Minutes()) }
