// Package pool defines the terms of the domain (methodology sections 2, 3 and 5), by the standard library only.
package pool

import (
	"math"
	"regexp"
	"slices"
	"strings"
)

// Category is one of the six categories of methodology section 3, in their order.
type Category uint8

const (
	PriorityResearcher Category = iota
	PriorityCHTC
	Shared
	BackfillResearcher
	BackfillCHTC
	BackfillOpen
	Categories int = iota // their number
)

var categoryNames = [Categories]struct{ key, name string }{
	{"Priority-ResearcherOwned", "Prioritized (Researcher Owned)"},
	{"Priority-CHTCOwned", "Prioritized (CHTC Owned)"},
	{"Shared", "Open Capacity"},
	{"Backfill-ResearcherOwned", "Backfill (Researcher Owned)"},
	{"Backfill-CHTCOwned", "Backfill (CHTC Owned)"},
	{"Backfill-OpenCapacity", "Backfill (Open Capacity)"},
}

// Key is the category's key in filters and field configuration.
func (c Category) Key() string { return categoryNames[c].key }

// String is the category's display name.
func (c Category) String() string { return categoryNames[c].name }

// Side is the side whose rows the category counts.
func (c Category) Side() Side {
	if c >= BackfillResearcher {
		return Backfill
	}
	return Primary
}

// ParseCategory finds a category by key or display name.
func ParseCategory(text string) (Category, bool) {
	for i, n := range categoryNames {
		if text == n.key || text == n.name {
			return Category(i), true
		}
	}
	return 0, false
}

// CategoryOf classifies a row of a machine's side: a primary one by the machine's entry in chtc_owned, otherwise by the
// row's own projects; a backfill one by the machine's ownership.
func CategoryOf(side Side, o Ownership, hasProject bool) Category {
	switch {
	case side == Backfill:
		return [...]Category{ResearcherOwned: BackfillResearcher, CHTCOwned: BackfillCHTC, OpenCapacity: BackfillOpen}[o]
	case o == CHTCOwned:
		return PriorityCHTC
	case hasProject:
		return PriorityResearcher
	}
	return Shared
}

// Ownership says who owns a machine on one UTC day (methodology section 2).
type Ownership uint8

const (
	ResearcherOwned Ownership = iota
	CHTCOwned
	OpenCapacity
	Ownerships int = iota // their number
)

var ownershipNames = [Ownerships]string{"Researcher Owned", "CHTC Owned", "Open Capacity"}

func (o Ownership) String() string { return ownershipNames[o] }

// ParseOwnership finds an ownership by its name.
func ParseOwnership(text string) (Ownership, bool) {
	i := slices.Index(ownershipNames[:], text)
	return Ownership(max(i, 0)), i >= 0
}

// MachineType is the coarser split of backfill statistics: Priority (owned by anybody) or Shared.
func (o Ownership) MachineType() string {
	if o == OpenCapacity {
		return "Shared"
	}
	return "Priority"
}

// Side is one of the two kinds of slot that a GPU can be in (methodology section 2).
type Side uint8

const (
	Primary  Side = iota // the owner's slots: slot1, slot1_3
	Backfill             // slots that use what the owner leaves: backfill2, backfill2_1
)

// SideOf returns the side that a slot's Name denotes. A machine's name after the @ says nothing about its slots.
func SideOf(slotName string) Side {
	slot, _, _ := strings.Cut(slotName, "@")
	if strings.Contains(strings.ToLower(slot), "backfill") {
		return Backfill
	}
	return Primary
}

var dataSlot = regexp.MustCompile(`^data\d+(_\d+)?(@|$)`)

// IsDataSlot reports whether a slot's Name is that of a slot for data transfers, which holds no GPU (HTCondor ≥ 25.11).
func IsDataSlot(slotName string) bool {
	return strings.HasPrefix(slotName, "data") && dataSlot.MatchString(slotName)
}

// String is the side as the `slots` grouping and filter name it: Real or Backfill.
func (s Side) String() string { return [...]string{"Real", "Backfill"}[s] }

// Total is the name of the side's total row in tables of allocation.
func (s Side) Total() string { return s.String() + " Slots (total)" }

var oldDevice = regexp.MustCompile(`\b(GTX 1080|P100|Quadro|A30|A40)\b`)

// IsOldDevice reports whether `includeOldDevices: false` leaves a device out (methodology section 5): whole words only.
func IsOldDevice(device string) bool { return oldDevice.MatchString(device) }

// Memory classes of methodology section 5, in their order.
var MemoryClasses = []string{"<48GB", "48GB", "80GB", ">80GB", "Other", "Unknown"}

// MemoryClass sorts a GPU by its memory in MiB. NaN is a memory without a (readable) value.
func MemoryClass(mib float64) string {
	switch gb := mib / 1024; {
	case math.IsNaN(gb):
		return "Unknown"
	case gb < 44:
		return "<48GB"
	case gb <= 50:
		return "48GB"
	case gb >= 75 && gb <= 85:
		return "80GB"
	case gb > 85:
		return ">80GB"
	}
	return "Other"
}

var migProfile = regexp.MustCompile(`\bMIG (\S+)$`)

// MIGProfile distinguishes parts of a GPU (Multi-Instance GPU) from whole ones, by the GPU's id and device, and returns
// a part's profile ("1g.10gb"), "" if the device does not name it.
func MIGProfile(id, device string) (profile string, part bool) {
	if strings.Contains(device, "MIG ") { // it is read of each GPU, and few have one
		if m := migProfile.FindStringSubmatch(device); m != nil {
			return m[1], true
		}
	}
	return "", strings.HasPrefix(id, "MIG-")
}

// State is a slot's state, as far as allocation distinguishes states (methodology section 2).
// The order is the rank of section 4: of several rows in a slice the highest state counts.
type State uint8

const (
	None      State = iota // no row
	Other                  // Owner and everything unknown
	Drained                // no job may start
	Unclaimed              // free; also Matched
	Claimed                // held by a job; also Preempting
)

// ParseState reads HTCondor's State attribute. Anything unknown, blank or NULL is Other.
func ParseState(text string) State {
	switch text {
	case "Claimed", "Preempting":
		return Claimed
	case "Unclaimed", "Matched":
		return Unclaimed
	case "Drained":
		return Drained
	}
	return Other
}

// Why runs were evicted, and what their outcome is based on, weakest first (methodology section 8).
var (
	Causes = []string{"", "owner preemption", "user or rank preemption", "drain or maintenance", "fault", "access point",
		"unknown"}
	Evidences = []string{"none", "reappeared", "takeover", "job ad"}
)
