package check

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

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
