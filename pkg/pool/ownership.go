package pool

import "slices"

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
