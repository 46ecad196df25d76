package check

import (
	"context"
	"fmt"
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
