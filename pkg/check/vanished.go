package check

import (
	"fmt"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

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
