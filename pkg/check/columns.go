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
// missing, and whether older collectors do not write it. A file without Name, AssignedGPUs, State, Machine or timestamp
// is not read at all.
var knownColumns = []struct {
	name, lost string
	newer      bool
}{
	{name: "Name"}, {name: "AssignedGPUs"}, {name: "AvailableGPUs"}, {name: "State"}, {name: "Machine"},
	{name: "timestamp"}, {name: "GPUsAverageUsage"}, {name: "Disk"}, {name: "BackfillSlot"}, {name: "SlotType"},
	{name: "Memory"},
	{"GPUs_DeviceName", "devices are unknown", false},
	{"GPUs_GlobalMemoryMb", "memory categories are unknown", false},
	{"PrioritizedProjects", "machines outside chtc_owned count as Open Capacity", false},
	{"RemoteOwner", "users are unknown", false},
	{"GlobalJobId", "runs are distinguished by user and GPU only, and job ads are linked by machine and time", false},
	{"PreventJobsReason", "GPUs on which no job may start count as free", true},
	{"SlotBrokenReason", "GPUs of broken slots count as free", true},
	{"Cpus", "it is not known whether jobs wait for CPUs or memory", true},
}

// columns reports columns that files lack, and those that are never read.
func (c *checking) columns() {
	var missing []Details
	var texts, known, unknown []string
	severity, remedy := Note, ""
	for _, column := range knownColumns {
		known = append(known, column.name)
		var in []string
		for _, m := range c.months {
			if column.lost != "" && !named(m.Columns, column.name) {
				in = append(in, m.Month)
			}
		}
		if len(in) == 0 {
			continue
		}
		missing = append(missing, Details{"column": column.name, "months": in})
		texts = append(texts, fmt.Sprintf("no column %s in %s: %s", column.name, some(in), column.lost))
		if slices.Contains(in, c.months[len(c.months)-1].Month) && !column.newer {
			severity, remedy = Warning, ". Have the collector ask condor_status for these attributes (`gpureports collect` does)"
		}
	}
	for _, m := range c.months {
		for _, name := range m.Columns {
			if !named(known, name) && !slices.Contains(unknown, name) {
				unknown = append(unknown, name)
			}
		}
	}
	if len(missing) > 0 {
		c.Add("columns", severity, Details{"missing": missing}, "columns: %s%s", strings.Join(texts, "; "), remedy)
	}
	if len(unknown) > 0 {
		c.Add("unknown columns", Note, Details{"unknown": unknown}, "columns: %s not known, and not read", are(unknown))
	}
	if len(missing)+len(unknown) == 0 {
		c.Add("columns", OK, nil, "columns: all there in each month file")
	}
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
func (c *checking) readUsages(ctx context.Context, m *month) error {
	m.usages = usages{}
	state, err := c.Timeline.Source.Look(ctx)
	if err != nil {
		return err
	}
	first, last := pool.DayOf(m.Window.From)+1, pool.DayOf(m.Window.To)-1
	if first > last {
		first, last = pool.DayOf(m.Window.From), pool.DayOf(m.Window.To)
	}
	for _, date := range slices.Compact([]int32{first, first + (last-first)/2, last}) {
		if _, err := state.Rows(ctx, date, snapshots.Known{}, &m.usages); err != nil {
			return fmt.Errorf("read GPUsAverageUsage: %w", err)
		}
	}
	return nil
}

// usages names the months in which GPUsAverageUsage cannot be as the startds reported it. A collector that takes a
// column's type from its first value makes whole numbers of all when that one is 0 or 1.
func (c *checking) usages() {
	var texts []string
	var details []Details
	for i := range c.months {
		m := &c.months[i]
		u, odd := &m.usages, "whole numbers only"
		if u.values < fewUsages || u.wholes < u.values {
			continue
		}
		if u.zeros == u.values {
			odd = "all 0"
		}
		texts = append(texts, m.Month+" ("+odd+")")
		details = append(details, Details{"file": m.Name, "month": m.Month, "values": u.values, "zeros": u.zeros,
			"wholeNumbers": u.wholes})
	}
	if len(texts) > 0 {
		c.Add("usage", Warning, Details{"months": details}, "GPUsAverageUsage cannot be right in %s: averages have "+
			"fractions. The collector lost them, as when it takes a column's type from its first values: utilization of "+
			"these months is too low", strings.Join(texts, ", "))
	}
}
