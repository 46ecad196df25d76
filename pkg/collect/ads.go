package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/chtc/gpureports/pkg/pool"
)

// slotAd is the part of a slot's ad that a snapshot keeps. JSON names are matched in any case, as ClassAds do.
type slotAd struct {
	Name                text
	Machine             text
	State               text
	AssignedGPUs        text
	AvailableGPUs       idList
	GPUsDeviceName      text    `json:"GPUs_DeviceName"`
	GPUsGlobalMemoryMb  integer `json:"GPUs_GlobalMemoryMb"`
	PrioritizedProjects text
	GPUsAverageUsage    number
	RemoteOwner         text
	GlobalJobID         text `json:"GlobalJobId"`
	PreventJobsReason   text
	Disk                integer
	Cpus                integer
	Memory              integer
	SlotType            text
	SlotBrokenReason    text
	BackfillSlot        flag
	OfflineGPUs         text
	Offline             flag // the machine sleeps
}

// attributes are requested from condor_status.
var attributes = []string{
	"Name", "Machine", "State", "AssignedGPUs", "AvailableGPUs", "GPUs_DeviceName", "GPUs_GlobalMemoryMb",
	"PrioritizedProjects",
	"GPUsAverageUsage", "RemoteOwner", "GlobalJobId", "PreventJobsReason", "Disk", "Cpus", "Memory", "SlotType",
	"SlotBrokenReason", "BackfillSlot", "OfflineGPUs", "Offline",
}

// answer is the output of condor_status.
type answer struct {
	ads    []slotAd
	models map[gpuAttribute]model
	asleep int // ads of machines that sleep, which are left out
	notes  notes
}

// gpuAttribute is a GPU by its id as attribute names have it.
type gpuAttribute struct{ machine, id string }

// model is a GPU's nested ad, GPUs_<id>. A machine whose GPUs differ has no common GPUs_DeviceName.
type model struct {
	DeviceName     text
	GlobalMemoryMb integer
}

// decode reads the JSON array that condor_status -json prints; it prints nothing when no slot fits. Name, Machine and
// State are texts in every ad of a slot, so anything else is not condor_status's output and an error. Another attribute
// that cannot be read (an expression, which only HTCondor can evaluate; a wrong type) is stored as NULL and noted.
func decode(r io.Reader) (answer, error) {
	a := answer{notes: notes{attributes: attributes, things: "slots", missing: "stored as NULL"}}
	err := eachAd(r, "condor_status", "slots", func(raw json.RawMessage) error {
		var ad slotAd
		if err := json.Unmarshal(raw, &ad); err != nil {
			return err
		}
		if err := ad.check(); err != nil {
			return err
		}
		if ad.Offline.Value {
			a.asleep++
			return nil
		}
		a.notes.of(ad.Name.Value, utf8.Valid(raw), ad.unread())
		a.ads = append(a.ads, ad)
		return nil
	})
	nameGPUs(a.ads)
	return a, err
}

// lacksModels reports whether a slot with GPUs has no common device or memory.
func (a *answer) lacksModels() bool {
	return slices.ContainsFunc(a.ads, func(ad slotAd) bool {
		return ad.gpuIDs()[0] != nil && (!ad.GPUsDeviceName.Valid || !ad.GPUsGlobalMemoryMb.Valid)
	})
}

// decodeModels reads the nested ads of GPUs.
func decodeModels(r io.Reader) (map[gpuAttribute]model, error) {
	models := map[gpuAttribute]model{}
	err := eachAd(r, "condor_status", "slots", func(raw json.RawMessage) error {
		var ad map[string]json.RawMessage
		var of struct{ Machine text }
		if err := errors.Join(json.Unmarshal(raw, &ad), json.Unmarshal(raw, &of)); err != nil {
			return err
		}
		for name, value := range ad {
			id, nested := strings.CutPrefix(name, "GPUs_")
			if nested && len(value) > 0 && value[0] == '{' {
				var m model
				if err := json.Unmarshal(value, &m); err != nil {
					return err
				}
				models[gpuAttribute{of.Machine.Value, id}] = m
			}
		}
		return nil
	})
	return models, err
}

// leftOut says which GPUs and ads have no row.
func (a *answer) leftOut() string {
	offline := map[[2]string]bool{}
	for i := range a.ads {
		for _, id := range idsOf(a.ads[i].OfflineGPUs) {
			offline[[2]string{a.ads[i].Machine.Value, id}] = true
		}
	}
	for i := range a.ads {
		if ad := &a.ads[i]; pool.ParseState(ad.State.Value) == pool.Claimed {
			for _, id := range idsOf(ad.AssignedGPUs) {
				delete(offline, [2]string{ad.Machine.Value, id})
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

func (ad *slotAd) check() error {
	for _, a := range []struct {
		name  string
		value text
	}{{"Name", ad.Name}, {"Machine", ad.Machine}, {"State", ad.State}} {
		if a.value.bad || a.value.Value == "" {
			return fmt.Errorf("%s of slot %q is not a text", a.name, ad.Name.Value)
		}
	}
	return nil
}

// unread returns the attributes that cannot be read.
func (ad *slotAd) unread() map[string]bool {
	return map[string]bool{
		"AssignedGPUs": ad.AssignedGPUs.bad, "AvailableGPUs": ad.AvailableGPUs.bad,
		"GPUs_DeviceName": ad.GPUsDeviceName.bad, "GPUs_GlobalMemoryMb": ad.GPUsGlobalMemoryMb.bad,
		"PrioritizedProjects": ad.PrioritizedProjects.bad, "GPUsAverageUsage": ad.GPUsAverageUsage.bad,
		"RemoteOwner": ad.RemoteOwner.bad, "GlobalJobId": ad.GlobalJobID.bad,
		"PreventJobsReason": ad.PreventJobsReason.bad, "Disk": ad.Disk.bad, "Cpus": ad.Cpus.bad, "Memory": ad.Memory.bad,
		"SlotType": ad.SlotType.bad, "SlotBrokenReason": ad.SlotBrokenReason.bad, "BackfillSlot": ad.BackfillSlot.bad,
		"OfflineGPUs": ad.OfflineGPUs.bad, "Offline": ad.Offline.bad,
	}
}
