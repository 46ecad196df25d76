package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// gpuFindings reports what only the site can mend of how its machines name their GPUs, in a window up to the newest
// snapshot.
func gpuFindings(ctx context.Context, in Installation, w pool.Window) []Finding {
	v, err := in.Timeline.Load(ctx, w.From, w.To)
	if err != nil || len(v.Days) == 0 {
		return nil // reported with the month files
	}
	if gone := goneFindings(v); gone != nil {
		return gone
	}
	return devicesFindings(v)
}

// goneFindings reports that the newest snapshot has rows, and none of them a GPU: the attribute has another name.
func goneFindings(v *timeline.View) []Finding {
	newest := v.Days[len(v.Days)-1]
	rows := newest.RowsWithoutGPU[len(newest.Times)-1]
	seen := ""
	for _, d := range slices.Backward(v.Days) {
		if last := lastWithGPU(d); last >= 0 {
			if d == newest && last == len(d.Times)-1 {
				return nil
			}
			seen = " since " + minute(d.Times[last]) + " UTC"
			break
		}
	}
	if rows == 0 {
		return nil
	}
	return []Finding{{Store: "gpus", Severity: Warning, Details: map[string]any{"rowsWithoutGPU": rows},
		Text: fmt.Sprintf("gpus: no row names a GPU in AssignedGPUs%s, and the newest snapshot has %s. An upgrade may have "+
			"renamed the attribute: compare `condor_status -long` with what the collector asks for", seen,
			count(int(rows), "row"))}}
}

// lastWithGPU is the number of the last snapshot of a day in which a GPU has a row, −1 without any.
func lastWithGPU(d *timeline.Day) int {
	last := -1
	for i := range d.GPUs() {
		first, status := d.Spans(i)
		for n := len(first) - 1; n >= 0; n-- {
			if status[n] == timeline.Silent || status[n] == timeline.Absent {
				continue
			}
			end := len(d.Times)
			if n+1 < len(first) {
				end = int(first[n+1])
			}
			last = max(last, end-1)
			break
		}
	}
	return last
}

// devicesFindings reports machines with GPUs of no known device on the newest day.
func devicesFindings(v *timeline.View) []Finding {
	d := v.Days[len(v.Days)-1]
	without, known := map[timeline.Symbol]bool{}, false
	for i := range d.GPUs() {
		if d.Model(i).Device == 0 {
			without[d.Machines()[d.MachineOf(i)].Name] = true
		} else {
			known = true
		}
	}
	if len(without) == 0 {
		return nil
	}
	machines := names(v.Names, without)
	found := Finding{Store: "devices", Severity: Warning, Details: map[string]any{"machines": machines}}
	if !known {
		found.Text = "devices: no GPU has a GPUs_DeviceName. An upgrade may have renamed the attribute, or the collector " +
			"does not ask for it: compare `condor_status -long` with what it asks for"
		return []Finding{found}
	}
	found.Text = fmt.Sprintf("devices: %s without a GPUs_DeviceName: %s. HTCondor has none for a machine with GPUs of "+
		"several models, or MIG devices of several sizes: collect with `gpureports collect`, which asks for those of each "+
		"GPU", count(len(machines), "machine"), some(machines))
	return []Finding{found}
}

// caseFindings reports machines whose names differ only in case: they count as different ones (methodology section 2).
func caseFindings(machines []string) []Finding {
	by := map[string][]string{}
	for _, m := range machines {
		by[strings.ToLower(m)] = append(by[strings.ToLower(m)], m)
	}
	var alike []string
	for _, m := range machines {
		if same := by[strings.ToLower(m)]; len(same) > 1 && same[0] == m {
			alike = append(alike, strings.Join(same, " and "))
		}
	}
	if len(alike) == 0 {
		return nil
	}
	return []Finding{{Store: "machine names", Severity: Warning, Details: map[string]any{"alike": alike},
		Text: fmt.Sprintf("machine names: %s differ only in case, and count as different machines. Give each machine one "+
			"name in its configuration (NETWORK_HOSTNAME)", some(alike))}}
}

// listsFindings reports entries in the lists that mean nothing, such as misspelled keys.
func listsFindings(notices []string) []Finding {
	if len(notices) == 0 {
		return nil
	}
	return []Finding{{Store: "lists", Severity: Warning, Text: "lists: " + strings.Join(notices, ". ")}}
}

// brokenFindings names the machines with broken slots (SlotBrokenReason) in the newest snapshot.
func brokenFindings(ctx context.Context, in Installation, newest pool.Micros) []Finding {
	v, err := in.Timeline.Load(ctx, newest, newest)
	if err != nil {
		return nil // the month's finding says why
	}
	_, end := v.Snapshots(pool.Window{From: newest, To: newest})
	day := v.Days[v.DayAt(end-1)]
	gpus, reasons := 0, map[string]string{}
	for i := range day.GPUs() {
		machine := v.Names.Text(day.Machines()[day.MachineOf(i)].Name)
		if in.Lists.ExclusionOf(machine) != nil {
			continue
		}
		_, spans := day.Spans(i)
		status := day.Status(spans[len(spans)-1])
		for _, row := range []*timeline.Row{&status.Primary, &status.Backfill} {
			if row.State == pool.Other && row.Reason != 0 && !row.Prevented {
				gpus++
				reasons[machine] = v.Names.Text(row.Reason)
				break
			}
		}
	}
	if gpus == 0 {
		return nil
	}
	machines := slices.Sorted(maps.Keys(reasons))
	texts := make([]string, len(machines))
	for i, machine := range machines {
		texts[i] = machine + ": " + reasons[machine]
	}
	return []Finding{{Store: "broken slots", Severity: Warning,
		Details: map[string]any{"gpus": gpus, "machines": machines},
		Text: fmt.Sprintf("broken slots: %s of %s (%s) in the newest snapshot. They are Other and not free until their "+
			"startd has whole slots again: see its log", count(gpus, "GPU"), count(len(machines), "machine"),
			some(texts))}}
}

// vanishing is a moment at which all backfill GPUs of a machine vanished, though no owner took one of them.
type vanishing struct {
	machine string
	at      pool.Micros
	gpus    int
}

// leastVanished is the least number of GPUs that vanish together: one alone is absent when its slot is made again.
const leastVanished = 2

// vanishings returns those of a day. For example, a machine has backfill rows for four GPUs at 12:00, and at 12:15 and
// 12:30 only rows of primary slots, of which none became Claimed at 12:15. A machine that stops reporting is another
// matter, and so is a gap of the collector.
func vanishings(v *timeline.View, day int) (found []vanishing) {
	d, snapshots := v.Days[day], len(v.Days[day].Times)
	backfill, taken := make([][]int, len(d.Machines())), make([][]int, len(d.Machines()))
	for m := range backfill {
		backfill[m], taken[m] = make([]int, snapshots), make([]int, snapshots)
	}
	for i := range d.GPUs() {
		m := d.MachineOf(i)
		first, statuses := d.Spans(i)
		claimed := true // before the day: not known
		for k := range first {
			end := snapshots
			if k+1 < len(first) {
				end = int(first[k+1])
			}
			status := d.Status(statuses[k])
			if status.Backfill.State != pool.None {
				for s := int(first[k]); s < end; s++ {
					backfill[m][s]++
				}
			}
			before := claimed
			if claimed = status.Primary.State == pool.Claimed; claimed && !before {
				taken[m][first[k]]++
			}
		}
	}
	for m, machine := range d.Machines() {
		for s := 1; s+1 < snapshots; s++ {
			if backfill[m][s-1] >= leastVanished && backfill[m][s] == 0 && backfill[m][s+1] == 0 && taken[m][s] == 0 &&
				d.Reports(m, s) && d.Reports(m, s+1) && !v.GapAfter(v.Base[day]+s-1) {
				found = append(found, vanishing{v.Names.Text(machine.Name), d.Times[s], backfill[m][s-1]})
			}
		}
	}
	return found
}

// vanishedFindings names the machines whose backfill GPUs vanished together in the newest data.
func vanishedFindings(all []month, w pool.Window) []Finding {
	var machines []string
	var times []map[string]any
	var last vanishing
	for i := range all {
		for _, one := range all[i].vanished {
			if !w.Contains(one.at) {
				continue
			}
			times = append(times, map[string]any{"machine": one.machine, "time": pool.Time(one.at), "gpus": one.gpus})
			if machines = append(machines, one.machine); one.at >= last.at {
				last = one
			}
		}
	}
	if len(times) == 0 {
		return nil
	}
	slices.Sort(machines)
	machines = slices.Compact(machines)
	return []Finding{{Store: "backfill", Severity: Warning, Details: map[string]any{"vanished": times},
		Text: fmt.Sprintf("backfill: all backfill GPUs of a machine vanished together, and no owner took one: %s of %s, the "+
			"last time %d GPUs of %s at %s UTC. It shows as tenures that end `left`. HTCondor can lose a backfill slot's GPUs "+
			"(HTCONDOR-3072): look into the StartLog of these machines, restart their startd, and upgrade HTCondor",
			count(len(times), "time"), some(machines), last.gpus, last.machine, minute(last.at))}}
}
