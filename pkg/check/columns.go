package check

import (
	"fmt"
	"slices"
	"strings"
)

// knownColumns are those of the collector (methodology section 1), with what is lost without one of those that are
// read. A file without Name, AssignedGPUs, State, Machine or timestamp is not read at all.
var knownColumns = []struct{ name, lost string }{
	{"Name", ""}, {"AssignedGPUs", ""}, {"AvailableGPUs", ""}, {"State", ""}, {"Machine", ""}, {"timestamp", ""},
	{"GPUsAverageUsage", ""}, {"Disk", ""},
	{"GPUs_DeviceName", "devices are unknown"},
	{"GPUs_GlobalMemoryMb", "memory categories are unknown"},
	{"PrioritizedProjects", "machines outside chtc_owned count as Open Capacity"},
	{"RemoteOwner", "users are unknown"},
	{"GlobalJobId", "runs are told apart by user and GPU only, and job ads are linked by machine and time"},
	{"PreventJobsReason", "GPUs on which no job may start count as free"},
}

// columnsFindings reports columns that files lack, and those that nobody reads.
func columnsFindings(all []month) (findings []Finding) {
	newest := all[len(all)-1].name
	var missing []map[string]any
	var texts []string
	severity := Note
	for _, column := range knownColumns {
		if column.lost == "" {
			continue
		}
		var in []string
		for _, m := range all {
			if !slices.ContainsFunc(m.columns, func(c string) bool { return strings.EqualFold(c, column.name) }) {
				in = append(in, m.name)
			}
		}
		if len(in) == 0 {
			continue
		}
		missing = append(missing, map[string]any{"column": column.name, "months": in})
		texts = append(texts, fmt.Sprintf("no column %s in %s: %s", column.name, some(in), column.lost))
		if slices.Contains(in, newest) && column.name != "PreventJobsReason" {
			severity = Warning
		}
	}
	var unknown []string
	for _, m := range all {
		for _, c := range m.columns {
			if !slices.ContainsFunc(knownColumns, func(k struct{ name, lost string }) bool {
				return strings.EqualFold(k.name,
					c)
			}) && !slices.Contains(unknown, c) {
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
