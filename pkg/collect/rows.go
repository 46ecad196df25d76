package collect

import (
	"cmp"
	"maps"
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

// row is a row of a table: values by column. Those that are missing are NULL.
type row map[string]any

// in returns the row's values in the order of columns.
func (r row) in(columns []string) []any {
	values := make([]any, len(columns))
	for i, name := range columns {
		values[i] = r[name]
	}
	return values
}

// claimed reports whether a slot is claimed.
func (a *ad) claimed() bool { return pool.ParseState(a.text("State")) == pool.Claimed }

// gpuIDs are the GPUs of a slot, each of which has a row. A claimed slot's GPUs are the ones assigned to it,
// also one that was taken offline under its job. Another slot may use the GPUs that AvailableGPUs lists: a GPU that an
// owner takes vanishes from a backfill slot's list, one that is taken offline from each. If a startd does not have one
// of the attributes, the other counts.
func (a *ad) gpuIDs() []string {
	ids, listed := a.values["AvailableGPUs"].([]string)
	if assigned := a.ids("AssignedGPUs"); a.claimed() && len(assigned) > 0 || !listed {
		ids = assigned
	}
	if a.claimed() {
		return ids
	}
	offline := a.ids("OfflineGPUs")
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(offline, id) })
}

// ids are the GPUs that an attribute lists.
func (a *ad) ids(name string) []string {
	return strings.FieldsFunc(a.text(name), func(r rune) bool { return r == ',' || r == ' ' })
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
func nameGPUs(slots []ad) {
	ids := map[gpuAttribute]string{}
	for _, slot := range slots {
		for _, id := range slot.ids("AssignedGPUs") {
			ids[gpuAttribute{slot.text("Machine"), attributeName(id)}] = id
		}
	}
	for _, slot := range slots {
		available, _ := slot.values["AvailableGPUs"].([]string)
		for k, id := range available {
			if assigned, known := ids[gpuAttribute{slot.text("Machine"), attributeName(id)}]; known {
				available[k] = assigned
			}
		}
	}
}

// slotRows are a slot's rows. One without GPUs has a row without an id, which shows that the machine reports.
func (a *ad) slotRows(timestamp string, models map[gpuAttribute]ad) []row {
	common := row(maps.Clone(a.values))
	common["timestamp"], common["AssignedGPUs"] = timestamp, nil
	if available, listed := a.values["AvailableGPUs"].([]string); listed {
		common["AvailableGPUs"] = strings.Join(available, ",")
	}
	ids := a.gpuIDs()
	if len(ids) == 0 {
		return []row{common}
	}
	rows := make([]row, len(ids))
	for i, id := range ids {
		r := maps.Clone(common)
		r["AssignedGPUs"] = id
		if own, known := models[gpuAttribute{a.text("Machine"), attributeName(id)}]; known {
			r["GPUs_DeviceName"] = cmp.Or(r["GPUs_DeviceName"], own.values["DeviceName"])
			r["GPUs_GlobalMemoryMb"] = cmp.Or(r["GPUs_GlobalMemoryMb"], own.values["GlobalMemoryMb"])
		}
		rows[i] = r
	}
	return rows
}
