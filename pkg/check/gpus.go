package check

import (
	"maps"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// gpus reports what only the site can mend of how its machines name their GPUs, in the newest data.
func (c *checking) gpus(v *timeline.View) {
	newest, seen := v.Days[len(v.Days)-1], ""
	end := len(newest.Times) - 1
	for _, d := range v.Days {
		if last := lastWithGPU(d); last >= 0 {
			seen = " since " + minute(d.Times[last]) + " UTC"
		}
	}
	rows := newest.RowsWithoutGPU[end] // if no row of the newest snapshot has a GPU, the attribute has another name
	if lastWithGPU(newest) == end || rows == 0 {
		c.nameless(v, newest)
		return
	}
	c.Add("gpus", Warning, Details{"rowsWithoutGPU": rows}, "gpus: no row names a GPU in AssignedGPUs%s, and the newest "+
		"snapshot has %s. An upgrade may have renamed the attribute: compare `condor_status -long` with what the "+
		"collector asks for", seen, count(int(rows), "row"))
}

// lastWithGPU is the number of the last snapshot of a day in which a GPU has a row, −1 without any.
func lastWithGPU(d *timeline.Day) int {
	last := -1
	for i := range d.GPUs() {
		for span := range d.SpansIn(i, 0, len(d.Times)) {
			if span.Status != timeline.Silent && span.Status != timeline.Absent {
				last = max(last, span.End-1)
			}
		}
	}
	return last
}

// nameless reports machines with GPUs of no known device on the newest day.
func (c *checking) nameless(v *timeline.View, d *timeline.Day) {
	without, known := map[string]bool{}, false
	for i := range d.GPUs() {
		if d.Model(i).Device == 0 {
			without[v.Names.Text(d.Machines[d.MachineOf(i)].Name)] = true
		} else {
			known = true
		}
	}
	machines := slices.Sorted(maps.Keys(without))
	details := Details{"machines": machines}
	switch {
	case len(without) == 0:
	case known:
		c.Add("devices", Warning, details, "devices: %s without a GPUs_DeviceName: %s. HTCondor has none for a machine with "+
			"GPUs of several models, or MIG devices of several sizes: collect with `gpureports collect`, which asks for those "+
			"of each GPU", count(len(machines), "machine"), some(machines))
	default:
		c.Add("devices", Warning, details, "devices: no GPU has a GPUs_DeviceName. An upgrade may have renamed the "+
			"attribute, or the collector does not ask for it: compare `condor_status -long` with what it asks for")
	}
}

// alike reports machines whose names differ only in case: they count as different ones (methodology section 2).
func (c *checking) alike(machines []string) {
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
	if len(alike) > 0 {
		c.Add("machine names", Warning, Details{"alike": alike}, "machine names: %s differ only in case, and count as "+
			"different machines. Give each machine one name in its configuration (NETWORK_HOSTNAME)", some(alike))
	}
}

// broken names the machines with broken slots (SlotBrokenReason) in the newest snapshot.
func (c *checking) broken(v *timeline.View) {
	day := v.Days[len(v.Days)-1]
	gpus, reasons := 0, map[string]string{}
	for i := range day.GPUs() {
		machine := v.Names.Text(day.Machines[day.MachineOf(i)].Name)
		if c.Lists.ExclusionOf(machine) != nil {
			continue
		}
		_, spans := day.Spans(i)
		for _, row := range day.StatusRows(spans[len(spans)-1]) {
			if row.State == pool.Other && row.Reason != 0 && !row.Prevented {
				gpus++
				reasons[machine] = v.Names.Text(row.Reason)
				break
			}
		}
	}
	machines := slices.Sorted(maps.Keys(reasons))
	var texts []string
	for _, machine := range machines {
		texts = append(texts, machine+": "+reasons[machine])
	}
	if gpus > 0 {
		c.Add("broken slots", Warning, Details{"gpus": gpus, "machines": machines}, "broken slots: %s of %s (%s) in the "+
			"newest snapshot. They are Other and not free until their startd has whole slots again: see its log",
			count(gpus, "GPU"), count(len(machines), "machine"), some(texts))
	}
}

// vanishing is a moment at which all backfill GPUs of a machine vanished, though no owner took one of them.
type vanishing struct {
	machine string
	at      pool.Micros
	gpus    int
}

// vanishingsOf returns those of a day. For example, a machine has backfill rows for four GPUs at 12:00, and at 12:15
// and 12:30 only rows of primary slots, of which none became Claimed at 12:15. A machine that stops reporting is
// another matter, and so is a gap of the collector.
func vanishingsOf(v *timeline.View, day int) (found []vanishing) {
	const leastVanished = 2 // one GPU alone is absent when its slot is made again
	d, snapshots := v.Days[day], len(v.Days[day].Times)
	backfill, taken := make([][]int, len(d.Machines)), make([][]int, len(d.Machines))
	for m := range backfill {
		backfill[m], taken[m] = make([]int, snapshots), make([]int, snapshots)
	}
	for i := range d.GPUs() {
		m := d.MachineOf(i)
		claimed := true // before the day: not known
		for span := range d.SpansIn(i, 0, snapshots) {
			rows := d.StatusRows(span.Status)
			if rows[pool.Backfill].State != pool.None {
				for s := span.First; s < span.End; s++ {
					backfill[m][s]++
				}
			}
			before := claimed
			if claimed = rows[pool.Primary].State == pool.Claimed; claimed && !before {
				taken[m][span.First]++
			}
		}
	}
	for m, machine := range d.Machines {
		for s := 1; s+1 < snapshots; s++ {
			if backfill[m][s-1] >= leastVanished && backfill[m][s] == 0 && backfill[m][s+1] == 0 && taken[m][s] == 0 &&
				d.Reports(m, s) && d.Reports(m, s+1) && !v.GapAfter(v.Base[day]+s-1) {
				found = append(found, vanishing{v.Names.Text(machine.Name), d.Times[s], backfill[m][s-1]})
			}
		}
	}
	return found
}

// vanishings names the machines whose backfill GPUs vanished together in the newest data.
func (c *checking) vanishings() {
	var machines []string
	var times []Details
	var last vanishing
	for _, one := range c.vanished {
		if !c.recent.Contains(one.at) {
			continue
		}
		times = append(times, Details{"machine": one.machine, "time": pool.Time(one.at), "gpus": one.gpus})
		if machines = append(machines, one.machine); one.at >= last.at {
			last = one
		}
	}
	slices.Sort(machines)
	if len(times) > 0 {
		c.Add("backfill", Warning, Details{"vanished": times}, "backfill: all backfill GPUs of a machine vanished together, "+
			"and no owner took one: %s of %s, the last time %d GPUs of %s at %s UTC. It shows as tenures that end `left`. "+
			"HTCondor can lose a backfill slot's GPUs (HTCONDOR-3072): look into the StartLog of these machines, restart "+
			"their startd, and upgrade HTCondor",
			count(len(times), "time"), some(slices.Compact(machines)), last.gpus, last.machine, minute(last.at))
	}
}
