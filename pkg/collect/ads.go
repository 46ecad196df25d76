package collect

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// slotAttributes are requested from condor_status for each slot. Those of columns have their names.
var slotAttributes = []attribute{
	{"Name", text}, {"Machine", text}, {"State", text}, {"AssignedGPUs", text}, {"AvailableGPUs", idList},
	{"GPUs_DeviceName", text}, {"GPUs_GlobalMemoryMb", integer}, {"PrioritizedProjects", text},
	{"GPUsAverageUsage", literal[float64]}, {"RemoteOwner", text}, {"GlobalJobId", text}, {"PreventJobsReason", text},
	{"Disk", integer}, {"Cpus", integer}, {"Memory", integer}, {"SlotType", text}, {"SlotBrokenReason", text},
	{"BackfillSlot", flag}, {"OfflineGPUs", text},
	{"Offline", flag}, // the machine sleeps
}

// modelAttributes describe a GPU in its nested ad, GPUs_<id>. If a machine's GPUs differ, it has no GPUs_DeviceName.
var modelAttributes = []attribute{{"DeviceName", text}, {"GlobalMemoryMb", integer}}

// slotList is the output of condor_status.
type slotList struct {
	slots  []ad
	models map[gpuAttribute]ad
	asleep int // slots of machines that sleep, which are left out
}

// gpuAttribute is a GPU by its id as attribute names have it.
type gpuAttribute struct{ machine, id string }

// decode reads the JSON array that condor_status -json prints; it prints nothing when no slot fits. Name, Machine and
// State are texts in every ad of a slot, so anything else is not condor_status's output and an error. Another attribute
// that cannot be read (an expression, which only HTCondor can evaluate; a wrong type) is stored as NULL and noted.
func decode(r io.Reader) (a slotList, err error) {
	err = eachAd(r, "condor_status", "slots", slotAttributes, func(slot ad, _ json.RawMessage) error {
		for _, name := range []string{"Name", "Machine", "State"} {
			if slot.text(name) == "" {
				return fmt.Errorf("%s of slot %q is not a text", name, slot.text("Name"))
			}
		}
		if slot.values["Offline"] == int64(1) {
			a.asleep++
		} else {
			a.slots = append(a.slots, slot)
		}
		return nil
	})
	nameGPUs(a.slots)
	return a, err
}

// notes says which values were not stored unchanged.
func (a *slotList) notes() string {
	return notesOn(a.slots, slotAttributes, "slots", "Name", func(string) string { return "stored as NULL" })
}

// lacksModels reports whether a slot with GPUs has no common device or memory.
func (a *slotList) lacksModels() bool {
	return slices.ContainsFunc(a.slots, func(slot ad) bool {
		return len(slot.gpuIDs()) > 0 &&
			(slot.values["GPUs_DeviceName"] == nil || slot.values["GPUs_GlobalMemoryMb"] == nil)
	})
}

// decodeModels reads the nested ads of GPUs.
func decodeModels(r io.Reader) (map[gpuAttribute]ad, error) {
	models := map[gpuAttribute]ad{}
	err := eachAd(r, "condor_status", "slots", slotAttributes[:2], func(slot ad, raw json.RawMessage) error {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(raw, &all); err != nil {
			return err
		}
		for name, value := range all {
			if id, nested := strings.CutPrefix(name, "GPUs_"); nested && len(value) > 0 && value[0] == '{' {
				of := gpuAttribute{slot.text("Machine"), id}
				model, err := readAd(value, modelAttributes)
				if err != nil {
					return err
				}
				models[of] = model
			}
		}
		return nil
	})
	return models, err
}

// leftOut says which GPUs and ads have no row.
func (a *slotList) leftOut() string {
	offline := map[[2]string]bool{}
	for _, slot := range a.slots {
		for _, id := range slot.ids("OfflineGPUs") {
			offline[[2]string{slot.text("Machine"), id}] = true
		}
	}
	for _, slot := range a.slots {
		if slot.claimed() {
			for _, id := range slot.ids("AssignedGPUs") {
				delete(offline, [2]string{slot.text("Machine"), id})
			}
		}
	}
	var parts []string
	if n := len(offline); n > 0 {
		parts = append(parts, fmt.Sprintf("GPUs left out because they are offline (OfflineGPUs) and no job holds them: %d",
			n))
	}
	if a.asleep > 0 {
		parts = append(parts, fmt.Sprintf("slots left out because their machine sleeps (Offline): %d", a.asleep))
	}
	return strings.Join(parts, "; ")
}
