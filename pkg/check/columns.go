package check

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// knownColumns are the collector's columns (methodology section 1); for columns that are read, with the loss if one is
// missing. A file without Name, AssignedGPUs, State, Machine or timestamp is not read at all.
var knownColumns = []struct{ name, lost string }{
	{"Name", ""}, {"AssignedGPUs", ""}, {"AvailableGPUs", ""}, {"State", ""}, {"Machine", ""}, {"timestamp", ""},
	{"GPUsAverageUsage", ""}, {"Disk", ""}, {"BackfillSlot", ""}, {"SlotType", ""}, {"Memory", ""},
	{"GPUs_DeviceName", "devices are unknown"},
	{"GPUs_GlobalMemoryMb", "memory categories are unknown"},
	{"PrioritizedProjects", "machines outside chtc_owned count as Open Capacity"},
	{"RemoteOwner", "users are unknown"},
	{"GlobalJobId", "runs are distinguished by user and GPU only, and job ads are linked by machine and time"},
	{"PreventJobsReason", "GPUs on which no job may start count as free"},
	{"SlotBrokenReason", "GPUs of broken slots count as free"},
	{"Cpus", "it is not known whether jobs wait for CPUs or memory"},
}

// newer are columns that older collectors do not write.
var newer = []string{"PreventJobsReason", "SlotBrokenReason", "Cpus"}

// columnsFindings reports columns that files lack, and those that are never read.
func columnsFindings(all []month) (findings []Finding) {
	newest := all[len(all)-1].Month
	var missing []map[string]any
	var texts []string
	severity := Note
	for _, column := range knownColumns {
		if column.lost == "" {
			continue
		}
		var in []string
		for _, m := range all {
			if !named(m.Columns, column.name) {
				in = append(in, m.Month)
			}
		}
		if len(in) == 0 {
			continue
		}
		missing = append(missing, map[string]any{"column": column.name, "months": in})
		texts = append(texts, fmt.Sprintf("no column %s in %s: %s", column.name, some(in), column.lost))
		if slices.Contains(in, newest) && !slices.Contains(newer, column.name) {
			severity = Warning
		}
	}
	var known, unknown []string
	for _, column := range knownColumns {
		known = append(known, column.name)
	}
	for _, m := range all {
		for _, c := range m.Columns {
			if !named(known, c) && !slices.Contains(unknown, c) {
				unknown = append(unknown, c)
			}
		}
	}
	if len(missing) > 0 {
		text := "columns: " + strings.Join(texts, "; ")
		if severity == Warning {
			text += ". Have the collector ask condor_status for these attributes (`gpureports collect` does)"
		}
		findings = append(findings, Finding{Store: "columns", Severity: severity, Text: text,
			Details: map[string]any{"missing": missing}})
	}
	if len(unknown) > 0 {
		findings = append(findings, Finding{Store: "unknown columns", Severity: Note,
			Text: "columns: " + are(unknown) + " not known, and not read", Details: map[string]any{"unknown": unknown}})
	}
	if len(findings) == 0 {
		findings = append(findings, Finding{Store: "columns", Severity: OK, Text: "columns: all there in each month file"})
	}
	return findings
}

// named reports whether a column is among others, in any case.
func named(columns []string, name string) bool {
	return slices.ContainsFunc(columns, func(c string) bool { return strings.EqualFold(c, name) })
}

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
