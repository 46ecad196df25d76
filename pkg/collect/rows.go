package collect

import (
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
)

// columns of gpu_state in their order (methodology section 1, the newer layout).
var columns = []column{
	{"Name", "TEXT"}, {"AssignedGPUs", "TEXT"}, {"AvailableGPUs", "TEXT"}, {"State", "TEXT"}, {"GPUs_DeviceName", "TEXT"},
	{"GPUs_GlobalMemoryMb", "BIGINT"}, {"PrioritizedProjects", "TEXT"}, {"GPUsAverageUsage", "FLOAT"}, {"Machine", "TEXT"},
	{"PreventJobsReason", "TEXT"}, {"RemoteOwner", "TEXT"}, {"GlobalJobId", "TEXT"}, {"timestamp", "DATETIME"},
	{"Disk", "INTEGER"},
}

type column struct{ name, affinity string }

// gpuIDs are the GPUs of a slot, for each of which it has a row. A primary slot's are those that it holds: all of the
// machine's for the partitionable one, the job's for a dynamic one. A backfill slot holds none of its own: it
// may use what AvailableGPUs lists, and a GPU that its owner takes vanishes from there. A slot without any has one
// row without an id, which shows that the machine reports.
func (ad *slotAd) gpuIDs() []any {
	var ids []string
	if pool.SideOf(ad.Name.Text) == pool.Backfill {
		ids = ad.AvailableGPUs.IDs
	} else {
		ids = ad.assigned()
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

func (ad *slotAd) assigned() []string {
	return strings.FieldsFunc(ad.AssignedGPUs.Text, func(r rune) bool { return r == ',' || r == ' ' })
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
		for _, id := range ads[i].assigned() {
			ids[place{ads[i].Machine.Text, attributeName(id)}] = id
		}
	}
	for i := range ads {
		available := ads[i].AvailableGPUs.IDs
		for k, id := range available {
			if assigned, known := ids[place{ads[i].Machine.Text, attributeName(id)}]; known {
				available[k] = assigned
			}
		}
	}
}

// rows are the values of the ad's rows, in the order of columns.
func (ad *slotAd) rows(timestamp string) [][]any {
	row := []any{
		ad.Name.column(), nil, ad.AvailableGPUs.column(), ad.State.column(), ad.GPUsDeviceName.column(),
		ad.GPUsGlobalMemoryMb.column(), ad.PrioritizedProjects.column(), ad.GPUsAverageUsage.column(), ad.Machine.column(),
		ad.PreventJobsReason.column(), ad.RemoteOwner.column(), ad.GlobalJobID.column(), timestamp, ad.Disk.column(),
	}
	ids := ad.gpuIDs()
	rows := make([][]any, len(ids))
	for i, id := range ids {
		rows[i] = append([]any(nil), row...)
		rows[i][1] = id
	}
	return rows
}
