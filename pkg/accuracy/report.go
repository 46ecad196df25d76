package accuracy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

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

// Text is the measurements as tables for people.
func Text(all []Measurement) string {
	var b strings.Builder
	textTable(&b, "evictions\tof seen runs\treported\tprecision\trecall\trecall of seen\tevent error min (p95)\t"+
		"duration error min (p95)\tmean vacancy error min\tperiods matched\tGPU-hours error", all,
		func(m *Measurement) string {
			return fmt.Sprintf("%d\t%d\t%d\t%.4f\t%.4f\t%.4f\t%.2f (%.1f)\t%.2f (%.1f)\t%.2f\t%.4f\t%+.2f %%",
				m.True, m.TrueSeen, m.Told, m.Precision(), m.RecallOfAll(), m.Recall(),
				m.EventError.Median, m.EventError.P95, m.DurationError.Median, m.DurationError.P95, m.Vacancies.Median,
				m.Periods.Of(), m.GPUHoursError)
		})
	b.WriteByte('\n')
	usageText(&b, all)
	b.WriteByte('\n')
	demandText(&b, all)
	for i := range all {
		m := &all[i]
		fmt.Fprintf(&b, "\n%s, %s, %s\n", m.Kind, minutes(m.Cadence), m.Source)
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, evidence := range slices.Sorted(maps.Keys(m.ByEvidence)) {
			s := m.ByEvidence[evidence]
			fmt.Fprintf(w, "  reported by %s\t%d\tright %d\tprecision %.4f\trecall of all %.4f\n", evidence, s.All, s.Some,
				s.Of(), float64(s.Some)/float64(m.True))
		}
		w.Flush()
		fmt.Fprintf(&b, "  missed: %s\n", kindsOf(m.Missed, m.True-m.TrueSeen))
		fmt.Fprintf(&b, "  wrong: %s\n", kindsOf(m.Wrong, 0))
	}
	return b.String()
}

// textTable writes a table with a line for each measurement. Its first columns are the measurement's pools, their
// cadence, and what is known of jobs; row returns the others, which heading names, separated by tabs.
func textTable(b *strings.Builder, heading string, all []Measurement, row func(*Measurement) string) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "pools\tcadence\tknown\t"+heading)
	for i := range all {
		m := &all[i]
		fmt.Fprintf(w, "%d %s\t%s\t%s\t%s\n", m.Pools, m.Kind, minutes(m.Cadence), m.Source, row(m))
	}
	w.Flush()
}

func minutes(d time.Duration) string { return fmt.Sprintf("%g min", d.Minutes()) }

// kindsOf lists counts, largest first.
func kindsOf(counts map[string]int, unseen int) string {
	var parts []string
	if unseen > 0 {
		parts = append(parts, fmt.Sprintf("%d of runs that no snapshot shows", unseen))
	}
	for _, k := range slices.SortedFunc(maps.Keys(counts),
		func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[k], k))
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, "; ")
}
