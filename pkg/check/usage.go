package check

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// usages counts the values of GPUsAverageUsage in some days of a month.
type usages struct{ values, zeros, wholes int }

// fewUsages are too few to expect one that is not a whole number.
const fewUsages = 50

// Begin implements snapshots.Visitor.
func (*usages) Begin(bool) {}

// Distinct implements snapshots.Visitor.
func (*usages) Distinct(snapshots.Row) {}

// Snapshot implements snapshots.Visitor.
func (u *usages) Snapshot(s snapshots.Snapshot) error {
	for _, usage := range s.Usage {
		switch {
		case math.IsNaN(usage):
			continue
		case usage == 0:
			u.zeros++
		}
		if u.values++; usage == math.Trunc(usage) {
			u.wholes++
		}
	}
	return nil
}

// readUsages reads the first, the middle and the last whole day of a month.
func readUsages(ctx context.Context, state snapshots.State, m *month) error {
	first, last := pool.DayOf(m.Window.From)+1, pool.DayOf(m.Window.To)-1
	if first > last {
		first, last = pool.DayOf(m.Window.From), pool.DayOf(m.Window.To)
	}
	read := map[int32]bool{}
	for _, date := range []int32{first, first + (last-first)/2, last} {
		if read[date] {
			continue
		}
		read[date] = true
		if _, err := state.Rows(ctx, date, snapshots.Known{}, true, &m.usages); err != nil {
			return fmt.Errorf("read GPUsAverageUsage: %w", err)
		}
	}
	return nil
}

// suspicion describes an implausible pattern of the usages; "" if there is none.
func (u *usages) suspicion() string {
	switch {
	case u.values < fewUsages:
		return ""
	case u.zeros == u.values:
		return "all 0"
	case u.wholes == u.values:
		return "whole numbers only"
	}
	return ""
}

// usageFindings names the months in which GPUsAverageUsage cannot be as the startds reported it. A collector that takes
// a column's type from its first value makes whole numbers of all when that one is 0 or 1.
func usageFindings(all []month) []Finding {
	var texts []string
	var details []map[string]any
	for i := range all {
		m := &all[i]
		if odd := m.usages.suspicion(); odd != "" {
			texts = append(texts, m.Month+" ("+odd+")")
			details = append(details, map[string]any{
				"file": m.Name, "month": m.Month, "values": m.usages.values, "zeros": m.usages.zeros,
				"wholeNumbers": m.usages.wholes,
			})
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return []Finding{{
		Store: "usage", Severity: Warning, Details: map[string]any{"months": details},
		Text: fmt.Sprintf("GPUsAverageUsage cannot be right in %s: averages have fractions. The collector lost them, as "+
			"when it takes "+
			"a column's type from its first values: utilization of these months is too low", strings.Join(texts, ", ")),
	}}
}
