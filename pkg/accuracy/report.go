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

// required are the least precision and recall (of seen runs), and the largest median error of durations in minutes. By
// job ads a duration lies between two access points' clocks, each off by up to two minutes; by snapshots between two of
// them.
var required = map[[2]string]struct{ precision, recall, minutes float64 }{
	{"right clocks", "epoch ads"}: {0.99, 0.99, 0.1},
	{"hard", "epoch ads"}:         {0.96, 0.95, 4},
	{"hard", "history ads"}:       {0.92, 0.89, 4},
	{"hard", "snapshots alone"}:   {0.82, 0.85, 15},
}

// Failures lists the required figures that are not reached.
func Failures(all []Measurement) (failures []string) {
	for i := range all {
		m := &all[i]
		r, known := required[[2]string{m.Kind, m.Source}]
		if !known {
			continue
		}
		fail := func(what string, is, must float64, bad bool) {
			if bad {
				failures = append(failures, fmt.Sprintf("%s, %v, %s: %s is %.4f, required is %g", m.Kind, m.Cadence, m.Source,
					what, is, must))
			}
		}
		fail("precision", m.Precision(), r.precision, !(m.Precision() >= r.precision))
		fail("recall of seen runs", m.Recall(), r.recall, !(m.Recall() >= r.recall))
		minutes := min(r.minutes, m.Cadence.Minutes())
		fail("median error of durations in minutes", m.DurationError.Median, minutes, !(m.DurationError.Median <= minutes))
		if m.Source != "snapshots alone" {
			m.Usage.judge(m.Cadence, fail)
		}
	}
	return failures
}

// Text is the measurements as tables for people.
func Text(all []Measurement) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "pools\tcadence\tknown\tevictions\tof seen runs\ttold\tprecision\trecall\trecall of seen\tevent "+
		"error min (p95)\tduration error min (p95)\tperiods matched\tGPU-hours error")
	for i := range all {
		m := &all[i]
		fmt.Fprintf(w, "%d %s\t%s\t%s\t%d\t%d\t%d\t%.4f\t%.4f\t%.4f\t%.2f (%.1f)\t%.2f (%.1f)\t%.4f\t%+.2f %%\n", m.Pools,
			m.Kind, minutes(m.Cadence), m.Source, m.True, m.TrueSeen, m.Told, m.Precision(), m.RecallOfAll(), m.Recall(),
			m.EventError.Median, m.EventError.P95, m.DurationError.Median, m.DurationError.P95, m.Periods.Of(), m.GPUHoursError)
	}
	w.Flush()
	usageText(&b, all)
	for i := range all {
		m := &all[i]
		fmt.Fprintf(&b, "\n%s, %s, %s\n", m.Kind, minutes(m.Cadence), m.Source)
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, evidence := range slices.Sorted(maps.Keys(m.ByEvidence)) {
			s := m.ByEvidence[evidence]
			fmt.Fprintf(w, "  told by %s\t%d\tright %d\tprecision %.4f\trecall of all %.4f\n", evidence, s.All, s.Some, s.Of(),
				float64(s.Some)/float64(m.True))
		}
		w.Flush()
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
