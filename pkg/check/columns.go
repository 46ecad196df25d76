package check

import (
	"fmt"
	"slices"
	"strings"
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
