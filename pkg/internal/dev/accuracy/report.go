package accuracy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// Causes says for each measurement by what evidence evictions are reported, and what became of those that are missed or
// wrong.
func Causes(all []Measurement) string {
	var b strings.Builder
	for i := range all {
		m := &all[i]
		fmt.Fprintf(&b, "\n%s, %s, %s\n", m.Kind, minutes(m.Cadence), m.Source)
		for _, evidence := range slices.Sorted(maps.Keys(m.ByEvidence)) {
			s := m.ByEvidence[evidence]
			fmt.Fprintf(&b, "  reported by %s: %d, right %d, precision %.4f, recall of all %.4f\n", evidence, s.All, s.Some,
				s.Of(), float64(s.Some)/float64(m.True))
		}
		fmt.Fprintf(&b, "  missed: %s\n", kindsOf(m.Missed, m.True-m.TrueSeen))
		fmt.Fprintf(&b, "  wrong: %s\n", kindsOf(m.Wrong, 0))
	}
	return b.String()
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
