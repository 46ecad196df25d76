package check

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/timeline"
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
	// Find the known columns that months lack.
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
	// Find the columns that are not known.
	for _, m := range c.months {
		for _, name := range m.Columns {
			if !named(known, name) && !slices.Contains(unknown, name) {
				unknown = append(unknown, name)
			}
		}
	}
	// Report both.
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

func named(columns []string, name string) bool {
	return slices.ContainsFunc(columns, func(c string) bool { return strings.EqualFold(c, name) })
}

// usages counts the values of GPUsAverageUsage in some days of a month.
type usages struct{ values, zeros, wholes int }

// Begin and the next two methods implement snapshots.Visitor.
func (*usages) Begin(bool)             {}
func (*usages) Distinct(snapshots.Row) {}
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
	const fewUsages = 50 // too few to expect one that is not a whole number
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

// oddValues reports texts that mean no value, and values that are not known, in a store (methodology section 1).
func (c *checking) oddValues(store, has string, odd *pool.Values, remedy string) {
	text := odd.String()
	if text == "" {
		return
	}
	severity := Note
	if odd.Unknown() {
		severity = Warning
	}
	c.Add(store, severity, nil, "values: %s %s. %s", has, text, remedy)
}

// queueValues reports the same of all queue files, and files that cannot be read, or not as a whole.
func (c *checking) queueValues(ctx context.Context) {
	if c.Queues == nil {
		return
	}
	odd, notices, err := c.Queues.Review(ctx)
	if err != nil {
		notices = append(notices, timeline.Notice{Warning: true, Text: err.Error()})
	}
	var texts []string
	for _, n := range notices {
		texts = append(texts, n.Text)
	}
	if len(texts) > 0 {
		c.Add("queues", Warning, nil, "queues: %s", strings.Join(texts, ". "))
	}
	c.oddValues("queue values", "queue files have", &odd, "Let the poller write NULL for attributes that a job lacks, "+
		"and idle or running in JobState (`gpureports collect --jobs` does)")
}

// incomplete reports snapshots that a collector took before it knew all machines again (methodology section 1).
func (c *checking) incomplete() {
	if n := len(c.left); n > 0 {
		last := c.left[n-1]
		c.Add("incomplete snapshots", Note, Details{"snapshots": n, "last": pool.Time(last.Time),
			"machines": last.Machines, "of": last.Of}, "incomplete snapshots: %s with less than half of the machines, "+
			"which came back with their jobs. They count nowhere. The last: %s. HTCondor's collector was probably "+
			"restarted then: nothing needs to be done, unless it happens often", count(n, "snapshot"), last)
	}
	if n := len(c.waiting); n > 0 {
		last := c.waiting[n-1]
		c.Add("missing machines", Warning, Details{"machines": last.Machines, "of": last.Of}, "missing machines: %s. If "+
			"HTCondor's collector was restarted, wait until the others have reported again; otherwise see whether these "+
			"machines are down", last)
	}
}

// shared reports GPUs that several jobs hold at once, in the newest data.
func (c *checking) shared(v *timeline.View) {
	if n := v.SharedGPUs(c.recent); n > 0 {
		c.Add("shared GPUs", Note, Details{"gpus": n}, "shared GPUs: several jobs at once hold %s, as with "+
			"GPU_DISCOVERY_EXTRA = -divide or -repeat. Allocation and user hours count such a GPU once, evictions and "+
			"utilization once for each job: their hours can be more than the pool has", count(n, "GPU"))
	}
}

// Cadence compares the collector's cadence with the length of a slice, 0 for each snapshot its own (methodology
// section 4). Nothing is said of a cadence that fits.
func (f *Findings) Cadence(cadence pool.Micros, sliceMinutes int) {
	details := Details{"cadenceSeconds": seconds(cadence), "sliceMinutes": sliceMinutes}
	switch slice := pool.Micros(sliceMinutes) * pool.Minute; {
	case 3*cadence < 2*slice:
		f.Add("cadence", Note, details, "cadence: snapshots come every %s, but slices last %d min: a GPU that any snapshot "+
			"of a slice shows claimed counts as claimed for all of it, so averages and hours come out too high. Set "+
			"sliceMinutes to 0, or to the cadence", ShortLength(cadence), sliceMinutes)
	case cadence > 31*pool.Minute:
		f.Add("cadence", Note, details, "cadence: there is only one snapshot every %s, and shorter events are not seen. "+
			"Take one every 15 min", ShortLength(cadence))
	}
}

// why explains a gap as the run log does; "" when there is none.
func why(l *runlog.Log, gap timeline.Gap) string {
	if l == nil || l.Began >= gap.To {
		return ""
	}
	failed, reason := 0, ""
	for _, run := range l.Failed {
		if gap.From < run.Started && run.Started < gap.To {
			failed, reason = failed+1, run.Reason
		}
	}
	if failed == 0 {
		return "the collector was not started"
	}
	return fmt.Sprintf("%s of the collector failed, the last one: %s", count(failed, "run"), reason)
}

// gaps reports the gaps in the newest data.
func (c *checking) gaps(log *runlog.Log) {
	const patience = 0.05 // share of the newest data that gaps may take before they are more than a note
	w, missing, severity, remedy := c.recent, pool.Micros(0), Note, ""
	var texts []string
	var list []Details
	for _, m := range c.months {
		for _, gap := range m.gaps {
			if gap.To < w.From || gap.From > w.To {
				continue
			}
			missing += min(gap.To, w.To) - max(gap.From, w.From)
			entry := Details{"from": pool.Time(gap.From), "to": pool.Time(gap.To)}
			text := fmt.Sprintf("%s to %s UTC", minute(gap.From), minute(gap.To))
			if reason := why(log, gap); reason != "" {
				entry["why"] = reason
				text += " (" + reason + ")"
			}
			list, texts = append(list, entry), append(texts, text)
		}
	}
	details := Details{"from": pool.Time(w.From), "to": pool.Time(w.To), "gapSeconds": seconds(missing), "gaps": list}
	if len(list) == 0 {
		c.Add("gaps", OK, details, "gaps: none in the newest %s", length(w.To-w.From))
		return
	}
	if float64(missing) > patience*float64(w.To-w.From) {
		severity = Warning
	}
	if most := 5; len(texts) > most {
		texts = append(texts[:most], fmt.Sprintf("and %d more", len(texts)-most))
	}
	if log == nil {
		remedy = ". Look into the log of the collector's cron job or service; `gpureports collect` keeps one of its own"
	}
	c.Add("gaps", severity, details, "gaps: %s in the newest %s, %s or %.1f %% of it: %s%s", count(len(list), "gap"),
		length(w.To-w.From), length(missing), 100*float64(missing)/float64(w.To-w.From), strings.Join(texts, "; "), remedy)
}
