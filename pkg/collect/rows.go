package collect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
)

// columns of gpu_state in their order (methodology section 1, the newer layout).
var columns = []column{
	{"Name", "TEXT"}, {"AssignedGPUs", "TEXT"}, {"AvailableGPUs", "TEXT"}, {"State", "TEXT"}, {"GPUs_DeviceName", "TEXT"},
	{"GPUs_GlobalMemoryMb", "BIGINT"}, {"PrioritizedProjects", "TEXT"}, {"GPUsAverageUsage", "FLOAT"}, {"Machine", "TEXT"},
	{"PreventJobsReason", "TEXT"}, {"RemoteOwner", "TEXT"}, {"GlobalJobId", "TEXT"}, {"timestamp", "DATETIME"},
	{"Disk", "INTEGER"}, {"Cpus", "INTEGER"}, {"Memory", "INTEGER"}, {"SlotType", "TEXT"}, {"SlotBrokenReason", "TEXT"},
	{"BackfillSlot", "INTEGER"},
}

type column struct{ name, affinity string }

// gpuIDs are the GPUs of a slot, each of which has a row. A claimed slot's GPUs are the ones assigned to it,
// also one that was taken offline under its job. Another slot may use the GPUs that AvailableGPUs lists: a GPU that an
// owner takes vanishes from a backfill slot's list, one that is taken offline from each. If a startd does not have one
// of the attributes, the other counts. A slot without any has one row without an id, which shows that the machine
// reports.
func (ad *slotAd) gpuIDs() []any {
	claimed := pool.ParseState(ad.State.Value) == pool.Claimed
	ids := ad.AvailableGPUs.Value
	if assigned := idsOf(ad.AssignedGPUs); claimed && len(assigned) > 0 || !ad.AvailableGPUs.Valid {
		ids = assigned
	}
	if !claimed {
		offline := idsOf(ad.OfflineGPUs)
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(offline, id) })
	}
	if len(ids) == 0 {
		return []any{nil}
	}
	list := make([]any, len(ids))
	for i, id := range ids {
		list[i] = id
	}
	return list
}

func idsOf(list text) []string {
	return strings.FieldsFunc(list.Value, func(r rune) bool { return r == ',' || r == ' ' })
}

// attributeName is an id as the startd writes it into attribute names, which hold letters, digits and "_" only.
func attributeName(id string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, id)
}

// nameGPUs gives the GPUs of AvailableGPUs the ids that the machine's slots are assigned: the names of attributes do
// not hold all of an id such as MIG-GPU-…/7/0, and the same GPU must have one id on its primary and its backfill slot.
func nameGPUs(ads []slotAd) {
	type place struct{ machine, attribute string }
	ids := map[place]string{}
	for i := range ads {
		for _, id := range idsOf(ads[i].AssignedGPUs) {
			ids[place{ads[i].Machine.Value, attributeName(id)}] = id
		}
	}
	for i := range ads {
		available := ads[i].AvailableGPUs.Value
		for k, id := range available {
			if assigned, known := ids[place{ads[i].Machine.Value, attributeName(id)}]; known {
				available[k] = assigned
			}
		}
	}
}

// rows are the values of the ad's rows, in the order of columns.
func (ad *slotAd) rows(timestamp string, models map[gpuAttribute]model) [][]any {
	row := []any{
		ad.Name.column(), nil, ad.AvailableGPUs.column(), ad.State.column(), ad.GPUsDeviceName.column(),
		ad.GPUsGlobalMemoryMb.column(), ad.PrioritizedProjects.column(), ad.GPUsAverageUsage.column(), ad.Machine.column(),
		ad.PreventJobsReason.column(), ad.RemoteOwner.column(), ad.GlobalJobID.column(), timestamp, ad.Disk.column(),
		ad.Cpus.column(), ad.Memory.column(), ad.SlotType.column(), ad.SlotBrokenReason.column(), ad.BackfillSlot.column(),
	}
	ids := ad.gpuIDs()
	rows := make([][]any, len(ids))
	for i, id := range ids {
		rows[i] = append([]any(nil), row...)
		rows[i][1] = id
		if own, known := models[gpuAttribute{ad.Machine.Value, attributeName(fmt.Sprint(id))}]; known && id != nil {
			rows[i][4], rows[i][5] = cmp.Or(rows[i][4], own.DeviceName.column()), cmp.Or(rows[i][5],
				own.GlobalMemoryMb.column())
		}
	}
	return rows
}
